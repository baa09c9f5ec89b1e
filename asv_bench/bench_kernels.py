"""Row kernels and matrix products of the core, one call on one thread; the same work by numpy beside them."""
import ml_dtypes
import numpy as np

from pypto_sim import _core

UNARY = {"exp": 0, "log": 1, "sqrt": 2, "tanh": 5, "erf": 6}
CAST = {"f32_to_bf16": (0, 2), "bf16_to_f32": (2, 0), "f32_to_f16": (0, 1), "f16_to_f32": (1, 0)}
DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16)


def _raw(x):
    return x.view(np.uint8).reshape(-1)


class Isa:
    """Selects the instruction set of the first parameter; one this machine lacks is skipped."""

    def setup(self, isa, *_):
        if isa not in _core.available_isas():
            raise NotImplementedError(isa)
        self.before = _core.isa()
        _core.select_isa(isa)

    def teardown(self, *_):
        _core.select_isa(self.before)


ISAS = ["baseline", "avx2", "avx512"]


class Unary(Isa):
    """4096 elements, in the first-level cache."""

    params = [ISAS, list(UNARY)]
    param_names = ["isa", "function"]

    def setup(self, isa, function):
        super().setup(isa)
        x = np.abs(np.random.default_rng(0).standard_normal(4096)).astype(np.float32)
        self.args = UNARY[function], _raw(x), _raw(np.empty_like(x))

    def time_call(self, *_):
        _core.kernel_unary(*self.args)


class Cast(Isa):
    """4096 elements, in the first-level cache."""

    params = [ISAS, list(CAST)]
    param_names = ["isa", "cast"]

    def setup(self, isa, cast):
        super().setup(isa)
        source, target = CAST[cast]
        x = np.random.default_rng(0).standard_normal(4096).astype(DTYPES[source])
        self.args = source, target, _raw(x), _raw(np.empty(4096, DTYPES[target]))

    def time_call(self, *_):
        _core.kernel_cast(*self.args)


PRODUCTS = {          # m, n, k, k_block, right operand transposed
    "decode_scores": (4, 512, 128, 128, True),
    "decode_values": (4, 128, 512, 128, False),
    "gemv_4096": (1, 4096, 4096, 512, False),
    "cube_128": (128, 128, 128, 128, False),
    "cube_1024": (1024, 1024, 1024, 128, False),
}


def _operands(shape):
    m, n, k, _, transposed = PRODUCTS[shape]
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((m, k), (k, n)))
    return a, np.asfortranarray(b) if transposed else b


class Product(Isa):
    """bf16 operands, fp32 result."""

    params = [ISAS, list(PRODUCTS)]
    param_names = ["isa", "shape"]

    def setup(self, isa, shape):
        super().setup(isa)
        m, n, k, k_block, transposed = PRODUCTS[shape]
        a, b = _operands(shape)
        self.args = (_raw(a), 2, (k, 1), _raw(b.T if transposed else b), 2, (1, k) if transposed else (n, 1), None,
                     _raw(np.empty((m, n), np.float32)), (m, n, k, k_block), (0, m, 0, n))

    def time_call(self, *_):
        _core.kernel_gemm(*self.args)


class NumpyProduct:
    """np.matmul on fp32 operands of the same shapes (set OPENBLAS_NUM_THREADS=1)."""

    params = list(PRODUCTS)
    param_names = ["shape"]

    def setup(self, shape):
        a, b = _operands(shape)
        self.a, self.b = a.astype(np.float32), b.astype(np.float32)
        self.c = np.empty((a.shape[0], b.shape[1]), np.float32)

    def time_call(self, _):
        np.matmul(self.a, self.b, out=self.c)
