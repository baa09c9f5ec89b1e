"""One call of every operation that has no sample in samples.py, with operands that grow with `n`."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import pypto_sim as pypto
from pypto_sim.dtypes import DataType

D = {d.short: d for d in DataType}
F32 = D["fp32"]


@dataclass(frozen=True)
class Call:
    """arrays(n): operands with n times the work. call(f, *tensors): `f` is the public function."""

    arrays: Callable[[int], list[np.ndarray]]
    call: Callable[..., Any]
    device: str = "910b1"
    tile: tuple[int, ...] = (8, 64)


def floats(*shape: int) -> np.ndarray:
    """Small fp32 numbers."""
    return np.random.default_rng(shape[0]).uniform(-1, 1, shape).astype(np.float32)


def indices(count: int, *shape: int) -> np.ndarray:
    """INT32 numbers below `count`, different where there are enough."""
    size = int(np.prod(shape))
    return (np.arange(size) % count).reshape(shape).astype(np.int32)


def bytes_(*shape: int) -> np.ndarray:
    """Every byte value."""
    return (np.arange(int(np.prod(shape))) % 256).astype(np.uint8).reshape(shape)


def updated(f: Any, t: Any, *more: Any, **named: Any) -> Any:
    """Copy of `t` after an operation in place."""
    copy = pypto.clone(t)
    f(copy, *more, **named)
    return copy


def fp8(*shape: int) -> np.ndarray:
    """FP8 E4M3 numbers."""
    return floats(*shape).astype(ml_dtypes.float8_e4m3fn)


def ones8(*shape: int) -> np.ndarray:
    """FP8 E8M0 ones."""
    return np.full(shape, 127, np.uint8).view(ml_dtypes.float8_e8m0fnu)


def _cube(call: Any) -> Any:
    def with_tile(f: Any, *t: Any) -> Any:
        pypto.set_cube_tile_shapes([32, 32], [64, 64], [32, 32])
        return call(f, *t)
    return with_tile


def _conv(f: Any, x: Any, w: Any) -> Any:
    pypto.set_conv_tile_shapes(pypto.TileL1Info(8, 8, 8, 8, 16, 16, 16))
    return f(x, w, F32, [1, 1], [1, 1], [1, 1])


one = lambda n: [floats(16 * n, 64)]
two = lambda n: [floats(16 * n, 64), floats(16 * n, 64)]
CACHE = lambda n: [floats(64 * n, 64), indices(64 * n, 2, 8 * n), floats(16 * n, 64)]
ROWS = lambda n: [floats(64, 64), indices(64, 16 * n), floats(16 * n, 64)]
TABLE = lambda n: [floats(64, 64), indices(64, 16 * n)]
SHAPE = lambda t: list(t.shape)
RANDOM = [7], [0, 1], [1]


def _sized(make: Any) -> Any:
    """A creation has no operand: the size is that of a tensor which is added to the result."""
    return lambda f, t: pypto.add(t, make(f, t))


CALLS: dict[str, Call] = {
    "arange": Call(lambda n: [floats(512 * n)], _sized(lambda f, t: f(0.0, float(t.shape[0]), 1.0)), tile=(64,)),
    "full": Call(one, _sized(lambda f, t: f(SHAPE(t), 1.0, F32))),
    "zeros": Call(one, _sized(lambda f, t: f(SHAPE(t)))), "ones": Call(one, _sized(lambda f, t: f(SHAPE(t)))),
    "uniform": Call(one, _sized(lambda f, t: f(SHAPE(t), *RANDOM, F32)), "950pr"),
    "normal": Call(one, _sized(lambda f, t: f(SHAPE(t), *RANDOM, F32)), "950pr"),
    "uniform_impl": Call(lambda n: [floats(512 * n)], _sized(lambda f, t: f(7, 0, 1, SHAPE(t), 10, F32)), "950pr",
                         (64,)),
    "assemble": Call(one, lambda f, t: updated(lambda c: f(pypto.exp(t), [0, 0], c), t)),
    "atomic_add": Call(one, lambda f, t: updated(lambda c: f(t, [0, 0], c), t), "950pr"),
    "clone": Call(one, lambda f, t: f(t)), "concat": Call(two, lambda f, a, b: f([a, b], 0)),
    "conv": Call(lambda n: [floats(n, 16, 16, 16), floats(32, 16, 3, 3)], _conv, tile=(1, 1, 8, 16)),
    "deinterleave": Call(one, lambda f, t: f(t), "950pr"), "interleave": Call(two, lambda f, a, b: f(a, b), "950pr"),
    "expand_clone": Call(lambda n: [floats(16 * n, 1)], lambda f, t: f(t, [t.shape[0], 64])),
    "experimental.gather_in_l1": Call(
        lambda n: [floats(64, 64), indices(64, 1, 16 * n), indices(4, 1, 4)],
        lambda f, s, i, b: f(s, i, b, 16, 64, False, False)),
    "experimental.gather_in_ub": Call(
        lambda n: [floats(64, 64), indices(64, 1, 16 * n), indices(4, 1, 4)], lambda f, p, i, b: f(p, i, b, 16, -2)),
    "experimental.nop": Call(one, lambda f, t: f([pypto.exp(t)])),
    "experimental.transposed_batchmatmul": Call(
        lambda n: [floats(16 * n, 2, 64).astype(np.float16), floats(2, 64, 32).astype(np.float16)],
        _cube(lambda f, a, b: f(a, b, D["fp16"])), tile=(16, 1, 64)),
    "fillpad": Call(one, lambda f, t: f(pypto.view(t, SHAPE(t), [0, 0], valid_shape=[t.shape[0], 40]))),
    "gather": Call(lambda n: [floats(64, 64), indices(64, 16 * n, 64)], lambda f, t, i: f(t, 0, i)),
    "gathermask": Call(one, lambda f, t: f(t, 1)),
    "index_add": Call(ROWS, lambda f, t, i, s: f(t, 0, i, s)),
    "index_add_": Call(ROWS, lambda f, t, i, s: updated(f, t, 0, i, s)),
    "index_add_ub": Call(ROWS, lambda f, t, i, s: f(t, 0, i, s)),
    "index_add__ub": Call(ROWS, lambda f, t, i, s: updated(f, t, 0, i, s)),
    "index_put_": Call(ROWS, lambda f, t, i, s: updated(f, t, (i,), s)),
    "index_select": Call(TABLE, lambda f, t, i: f(t, 0, i)),
    "matmul": Call(lambda n: [floats(32 * n, 64), floats(64, 32)], _cube(lambda f, a, b: f(a, b, F32))),
    "scaled_mm": Call(lambda n: [fp8(32 * n, 64), fp8(64, 32), ones8(32 * n, 1, 2), ones8(1, 32, 2)],
                      _cube(lambda f, a, b, p, q: f(a, b, F32, p, q)), "950pr"),
    "sort32": Call(one, lambda f, t: f(t)), "mrgsort": Call(lambda n: [floats(16 * n, 128)], lambda f, t: f(t, 32)),
    "one_hot": Call(lambda n: [indices(64, 16 * n)], lambda f, t: f(t, 64)),
    "pack": Call(one, lambda f, t: f(pypto.exp(t))),
    "unpack": Call(lambda n: [bytes_(1024 * n)], lambda f, t: f(pypto.bitwise_not(t), D["int32"]), tile=(256,)),
    "pad": Call(one, lambda f, t: f(t, [0, 8, 0, 8])),
    "permute": Call(lambda n: [floats(4 * n, 8, 64)], lambda f, t: f(t, [1, 0, 2]), tile=(2, 8, 64)),
    "quant_mx": Call(one, lambda f, t: f(t), "950pr"),
    "reshape": Call(one, lambda f, t: f(pypto.exp(t), [t.shape[0] * 2, 32])),
    "scatter": Call(lambda n: [floats(16 * n, 64), indices(16, 8, 64), floats(8, 64)],
                    lambda f, t, i, s: f(t, 0, i, s)),
    "scatter_": Call(lambda n: [floats(16 * n, 64), indices(16, 8, 64), floats(8, 64)],
                     lambda f, t, i, s: updated(f, t, 0, i, s)),
    "scatter_update": Call(CACHE, lambda f, t, i, s: updated(f, t, -2, i, s)),
    "squeeze": Call(lambda n: [floats(16 * n, 1, 64)], lambda f, t: f(pypto.exp(t), 1), tile=(8, 1, 64)),
    "transpose": Call(one, lambda f, t: f(t, 0, 1)), "tril": Call(one, lambda f, t: f(t)),
    "triu": Call(one, lambda f, t: f(t)), "unsqueeze": Call(one, lambda f, t: f(pypto.exp(t), 1)),
    "where": Call(two, lambda f, a, b: f(pypto.gt(a, b), a, b)),
    "quantize": Call(lambda n: [floats(16 * n, 64), floats(16 * n)], lambda f, t, s: f(t, s, D["int8"], -1)),
    "dequantize": Call(lambda n: [indices(100, 16 * n, 64).astype(np.int8), floats(16 * n)],
                       lambda f, t, s: f(t, s, F32, -1)),
    "view": Call(one, lambda f, t: f(t, SHAPE(t), [0, 0])),
}
