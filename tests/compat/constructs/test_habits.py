"""Habits of real code: asserts and imports in kernels, unpacked shapes, numpy scalars, classes, negative slices."""
import dataclasses
import enum
import functools
import math

import ml_dtypes
import numpy as np
import pytest
from support.both import both, close, rng

import pypto_sim as pypto

FP32, BF16, I32, DYN = pypto.DT_FP32, pypto.DT_BF16, pypto.DT_INT32, pypto.DYNAMIC
Rows = pypto.Tensor([DYN, 16], FP32)


def f32(*shape, seed=0):
    return rng(seed).standard_normal(shape).astype(np.float32)


def test_unpacked_shapes_asserts_and_imports_in_the_body():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, DYN, 16], FP32), out: pypto.Tensor([DYN, DYN, 16], FP32)):
        import math as m

        from support.helpers import SCALE
        batch, seq, dim = x.shape
        assert dim == 16 and len(x.shape) == 3 and x.dim == 3, "shape"
        assert batch > 0 and seq % 2 == 0
        rows, cols = x.shape[:2]
        try:
            scale = SCALE / m.sqrt(dim)
        finally:
            pypto.set_vec_tile_shapes(1, 2, 16)
        for b in pypto.loop(rows, name="B", idx_name="b"):
            for s in pypto.loop(0, cols, 2, name="S", idx_name="s"):
                t = pypto.view(x, [1, 2, dim], [b, s, 0])
                assert t.shape == [1, 2, 16]
                out[b:b + 1, s:s + 2, :] = t * scale
    x = f32(3, 4, 16)
    close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) * 0.5)


def test_sizes_drive_range_and_while():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 16], FP32), out: pypto.Tensor([DYN, 16], FP32)):
        pypto.set_vec_tile_shapes(1, 16)
        for i in range(x.shape[0]):
            out[i:i + 1] = x[i:i + 1] * float(i)
        width = 16
        while width > 4:
            width //= 2
        for i in range(0, int(x.shape[0]), width):
            out[i:i + 1, :] = x[i:i + 1, :] + 1.0
    for rows in (3, 6):
        x = f32(rows, 16)
        want = x.astype(np.float64) * np.arange(rows)[:, None]
        want[::4] = x[::4].astype(np.float64) + 1
        close(both(kernel, x, np.zeros_like(x), quiet=False)[1], want)


@pytest.mark.parametrize(("count", "factor", "flag"), [(np.int64(3), np.float32(2), np.bool_(True)), (3, 2.0, True),
                                                        (np.int32(3), np.float64(2), False)])
def test_numpy_scalars_as_parameters_and_bounds(count, factor, flag):
    @pypto.frontend.jit
    def kernel(x: Rows, out: Rows, count, factor, flag=False):
        for i in pypto.loop(count, name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(np.int64(1), 16)
            t = pypto.view(x, [np.int32(1), 16], [i * np.int64(1), 0])
            out[i:i + 1, :] = t * factor if flag else t * float(factor) + 0.0
    x = f32(5, 16)
    want = np.zeros((5, 16))
    want[:3] = x[:3].astype(np.float64) * 2
    close(both(kernel, x, np.zeros_like(x), count, factor, flag=flag)[1], want)


class Mode(enum.Enum):
    ADD = "add"
    MUL = "mul"


@dataclasses.dataclass
class Config:
    mode: Mode = Mode.ADD
    dtype: pypto.DataType = pypto.DT_BF16
    tiles: dict = dataclasses.field(default_factory=lambda: {"vec": (8, 16), "steps": [1, 2]})


@pytest.mark.parametrize("mode", list(Mode))
def test_enums_and_types_in_configurations(mode):
    @pypto.frontend.jit
    def kernel(x: Rows, out: Rows, cfg: Config = Config(), table=((1, 2.0), (3, 4.0))):  # noqa: B008
        pypto.set_vec_tile_shapes(*cfg.tiles["vec"])
        y = pypto.view(x, [8, 16], [0, 0])
        for n, factor in table:
            y = y * factor if cfg.mode is Mode.MUL else y + float(n)
        match cfg.mode:
            case Mode.ADD:
                y = y + 0.5
            case _:
                pass
        out[:] = pypto.cast(pypto.cast(y, cfg.dtype), FP32)
    x = f32(8, 16)
    y = x.astype(np.float64)
    want = y * 8 if mode is Mode.MUL else y + 4.5
    close(both(kernel, x, np.zeros_like(x), Config(mode))[1], want, rtol=2**-7)


class Operator:
    """Kernels as members of a class."""

    scale = 3.0

    @staticmethod
    @pypto.frontend.jit
    def kernel(x: Rows, out: Rows):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(x.shape[0]):
            out[i:i + 1, :] = x[i:i + 1, :] * Operator.scale

    def __init__(self, shift):
        @pypto.frontend.jit
        def shifted(x: Rows, out: Rows):
            pypto.set_vec_tile_shapes(1, 16)
            for i in pypto.loop(x.shape[0]):
                out[i:i + 1, :] = self.apply(x[i:i + 1, :])
        self.shift, self.shifted = shift, shifted

    def apply(self, t):
        return t + self.shift


def test_kernels_of_classes():
    x = f32(4, 16)
    close(both(Operator.kernel, x, np.zeros_like(x))[1], x.astype(np.float64) * 3)
    for shift in (1.0, -2.0):
        close(both(Operator(shift).shifted, x, np.zeros_like(x))[1], x.astype(np.float64) + shift)


def test_partial_functions_and_tables_of_functions():
    steps = {"scale": functools.partial(pypto.mul, other=2.0), "exp": pypto.exp}

    @pypto.frontend.jit
    def kernel(x: Rows, out: Rows, names=("scale", "exp")):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(x.shape[0]):
            out[i:i + 1, :] = functools.reduce(lambda t, n: steps[n](t), names, x[i:i + 1, :])
    x = f32(4, 16)
    close(both(kernel, x, np.zeros_like(x))[1], np.exp(2 * x.astype(np.float64)))
    close(both(kernel, x, np.zeros_like(x), ("exp", "scale"))[1], 2 * np.exp(x.astype(np.float64)))


def test_negative_slices_and_ellipsis():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4, 32], FP32), out: pypto.Tensor([4, 32], FP32)):
        pypto.set_vec_tile_shapes(4, 16)
        low, high = x[..., :-16], x[..., -16:]
        out[..., 16:] = low * 1.0
        out[:, :16] = -high
        last = x[-1:, 0:16]
        out[3:, :16] = last + 1.0
    x = f32(4, 32)
    want = np.concatenate([-x[:, 16:], x[:, :16]], -1)
    want[3, :16] = x[3, :16] + 1
    close(both(kernel, x, np.zeros_like(x), quiet=False)[1], want)


def test_globals_that_change_between_calls():
    @pypto.frontend.jit
    def kernel(x: Rows, out: Rows):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(x.shape[0]):
            out[i:i + 1, :] = x[i:i + 1, :] * FACTOR[0]
    x = f32(4, 16)
    for value in (2.0, 5.0):
        FACTOR[0] = value
        close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) * value)


FACTOR = [1.0]


def test_loop_in_a_helper_with_a_callback():
    def for_each_block(x, rows, size, body):
        for i in pypto.loop((rows + size - 1) // size, name="BLOCKS", idx_name="i"):
            n = pypto.min(size, rows - i * size)
            body(pypto.view(x, [size, 16], [i * size, 0], valid_shape=[n, 16]), i * size)

    @pypto.frontend.jit
    def kernel(x: Rows, out: Rows):
        pypto.set_vec_tile_shapes(4, 16)

        def body(tile, row):
            pypto.assemble(pypto.exp(tile), [row, 0], out)
        for_each_block(x, x.shape[0], 4, body)
    x = f32(10, 16)
    close(both(kernel, x, np.zeros_like(x))[1], np.exp(x.astype(np.float64)))


def test_infinities_elements_and_masks():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([8, 32], BF16), out: pypto.Tensor([8, 32], FP32)):
        pypto.set_vec_tile_shapes(8, 32)
        s = pypto.cast(x, FP32) * (1 / math.sqrt(32))
        low = pypto.full([8, 32], float("-inf"), FP32)
        s = pypto.where(pypto.ge(s, pypto.element(FP32, 0.0)), s, low)
        m = pypto.amax(s, -1, keepdim=True)
        e = pypto.exp(s - m)
        out[:] = e / pypto.sum(e, -1, keepdim=True)
    x = f32(8, 32).astype(ml_dtypes.bfloat16)
    s = x.astype(np.float64) / math.sqrt(32)
    e = np.where(s >= 0, np.exp(s), 0)
    close(both(kernel, x, np.zeros((8, 32), np.float32))[1], e / e.sum(-1, keepdims=True))


def test_four_dimensional_attention_with_permute_and_batches():
    @pypto.frontend.jit
    def kernel(q: pypto.Tensor([2, 8, 4, 32], BF16), k: pypto.Tensor([2, 16, 4, 32], BF16),
               out: pypto.Tensor([2, 4, 8, 16], FP32)):
        for b in pypto.loop(2, name="B", idx_name="b"):
            pypto.set_vec_tile_shapes(8, 4, 32)
            qb, kb = q[b], k[b]
            qh, kh = pypto.permute(qb, [1, 0, 2]), pypto.transpose(kb, 0, 1)
            pypto.set_cube_tile_shapes([16, 16], [32, 32], [16, 16])
            pypto.set_vec_tile_shapes(4, 8, 16)
            out[b] = pypto.matmul(qh, kh, FP32, b_trans=True) * 0.5
    q, k = f32(2, 8, 4, 32).astype(ml_dtypes.bfloat16), f32(2, 16, 4, 32, seed=1).astype(ml_dtypes.bfloat16)
    want = np.einsum("bqhd,bkhd->bhqk", q.astype(np.float64), k.astype(np.float64)) * 0.5
    close(both(kernel, q, k, np.zeros((2, 4, 8, 16), np.float32), quiet=False)[2], want, atol=1e-4)
