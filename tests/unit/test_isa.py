"""Instruction sets and threads as a user sets them: equal bits down to the NaN, and settings end with their block."""
import ml_dtypes
import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim import _core

SPECIAL = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -3e38, 3e38, 65504, 1.5], np.float32)


def special(rng, shape, dtype):
    x = rng.standard_normal(shape).astype(np.float32)
    return np.where(rng.random(shape) < 0.05, rng.choice(SPECIAL, shape), x).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("sizes", [(13, 17, 1), (100, 1, 129), (129, 65, 100), (5, 130, 65)], ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_same_nan_on_every_level(dtype, sizes):
    @pypto.frontend.jit
    def k(a: pypto.Tensor, b: pypto.Tensor, x: pypto.Tensor, product: pypto.Tensor, total: pypto.Tensor):
        pypto.set_vec_tile_shapes(8, 64)
        pypto.set_cube_tile_shapes([16, 16], [32, 32], [32, 32])
        product[:] = pypto.matmul(a, b, pypto.DT_FP32)
        total[:] = pypto.sum(x, -1, True)
    m, depth, n = sizes
    rng = np.random.default_rng(m)
    a, b, x = special(rng, (m, depth), dtype), special(rng, (depth, n), dtype), special(rng, (64, 200), np.float32)
    found = set()
    for level in _core.available_isas():
        for threads in (1, 2):
            product, total = np.zeros((m, n), np.float32), np.zeros((64, 1), np.float32)
            with pypto.config(isa=level, threads=threads):
                k(a, b, x, product, total)
            found.add(product.tobytes() + total.tobytes())
    assert np.isnan(total).any() and len(found) == 1


def test_settings_end_with_their_block():
    @pypto.frontend.jit
    def k(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        out[:] = a * 2.0
    a, out = np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32)
    k(a, out)
    before = _core.isa(), _core.threads()
    with pypto.config(isa="baseline", threads=3):
        k(a, out)
        assert (_core.isa(), _core.threads()) == ("baseline", 3)
    k(a, out)
    assert (_core.isa(), _core.threads()) == before
