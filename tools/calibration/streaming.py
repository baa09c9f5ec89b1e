"""Kernels of the streaming operators: every element once in, once out.

exp, sigmoid, mish and GELU in fp32 with a cast on each side of 16-bit types; maximum; swiglu; rope; copies.
"""
from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pypto_sim as pypto

from .launches import Chip, Launch, by_hand
from .table import BYTES, Row, Unpredictable, elements
from .tiles import flat, merged, rows

FP32 = pypto.DT_FP32
GELU_CUBIC = 0.044715
GELU_SLOPE = 1.5957691216057308     # 2 sqrt(2 / pi)


def in_fp32(compute: Callable[[Any], Any], dtype: str) -> Callable[[Any], Any]:
    """`compute` on fp32, cast on the way in and out of a 16-bit type."""
    if dtype == "fp32":
        return compute
    kind = getattr(pypto, f"DT_{dtype.upper()}")
    return lambda x: pypto.cast(compute(pypto.cast(x, FP32)), kind)


def unary(count: int, dtype: str, compute: Callable[[Any], Any], temporaries: int, chip: Chip) -> Launch:
    """One pass over `count` elements; `temporaries` fp32 tensors live beside the operands."""
    size = BYTES[dtype]
    cut = flat(count, 2 * size, 4 * temporaries, chip.aiv, chip.ub)
    whole = in_fp32(compute, dtype)

    @pypto.frontend.jit(pass_options=cut.options)
    def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
        for i in cut.loop():
            pypto.set_vec_tile_shapes(*cut.tile)
            cut.put(whole(cut.part(x, i)), i, out)
    return by_hand(kernel, [pypto.Spec((cut.extent,), dtype)] * 2)


def mish(x):
    """x tanh(ln(1 + exp x))."""
    return pypto.mul(x, pypto.tanh(pypto.log(pypto.add(pypto.exp(x), 1.0))))


def gelu(x):
    """x / (1 + exp(-2 sqrt(2/pi) (x + 0.044715 x^3))): one exp and one division for both published forms."""
    inner = pypto.add(x, pypto.mul(pypto.mul(pypto.mul(x, x), x), GELU_CUBIC))
    return pypto.div(x, pypto.add(pypto.exp(pypto.mul(inner, -GELU_SLOPE)), 1.0))


def single(compute: Callable[[Any], Any], temporaries: int) -> Callable[[Row, Chip], list[Launch]]:
    def build(row: Row, chip: Chip) -> list[Launch]:
        return [unary(elements(first(row)), row.dtype_of(0), compute, temporaries, chip)]
    return build


def first(row: Row, i: int = 0) -> list[int]:
    if len(row.shapes) <= i or row.shapes[i] is None:
        raise Unpredictable(f"shape {row.shape!r} names no operand {i}")
    return row.shapes[i]


def exp(row: Row, chip: Chip) -> list[Launch]:
    """base ** (scale x + shift); one kernel, or its steps one by one where the row counts several kernels."""
    base = float(row.attrs.get("base", -1.0))
    scale, shift = float(row.attrs.get("scale", 1.0)), float(row.attrs.get("shift", 0.0))
    logarithm = math.log(base) if base > 0 else 1.0
    steps: list[Callable[[Any], Any]] = [lambda x: pypto.mul(x, scale), lambda x: pypto.add(x, shift),
                                         lambda x: pypto.mul(x, logarithm), pypto.exp]
    count, dtype = elements(first(row)), row.dtype_of(0)
    if row.n_kernels > 1 and row.counts_hold:
        chosen = steps[:2] + steps[2:3] * (row.n_kernels > 3) + steps[3:]
        return [unary(count, dtype, step, 1, chip) for step in chosen]

    def fused(x):
        if scale * logarithm != 1.0:
            x = pypto.mul(x, scale * logarithm)
        if shift:
            x = pypto.add(x, shift * logarithm)
        return pypto.exp(x)
    return [unary(count, dtype, fused, 1, chip)]


def maximum(row: Row, chip: Chip) -> list[Launch]:
    """Larger of two tensors, the second broadcast. int8 goes through fp16, int64 through its two halves."""
    a, b = sorted((first(row), first(row, 1)), key=elements, reverse=True)
    rank = max(len(a), len(b))
    a = [max(x, y) for x, y in zip([1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b, strict=True)]
    dtype = row.dtype_of(0)
    size, compute = BYTES[dtype], pypto.maximum
    temporaries = 0 if dtype in ("fp32", "fp16", "int32", "int16") else 4
    if dtype == "int8":
        temporaries = 6
        def compute(x, y):
            return pypto.cast(pypto.maximum(pypto.cast(x, pypto.DT_FP16), pypto.cast(y, pypto.DT_FP16)), pypto.DT_INT8)
    if dtype == "int64":        # compared half by half: four passes over twice the words
        def compute(x, y):
            for _ in range(3):
                x = pypto.maximum(x, y)
            return x
        a, b, dtype, size, temporaries = [*a[:-1], 2 * a[-1]], [*b[:-1], 2 * b[-1]], "int32", 4, 8
    if elements(a) == elements(b):
        cut = flat(elements(a), 3 * size, temporaries, chip.aiv, chip.ub)

        @pypto.frontend.jit(pass_options=cut.options)
        def kernel(x: pypto.Tensor(), y: pypto.Tensor(), out: pypto.Tensor()):
            for i in cut.loop():
                pypto.set_vec_tile_shapes(*cut.tile)
                cut.put(compute(cut.part(x, i), cut.part(y, i)), i, out)
        return [by_hand(kernel, [pypto.Spec((cut.extent,), dtype)] * 3)]
    left, right = paired(a, b)
    tile, options = broadcast_tile(left, 2 * size, size + temporaries, chip)

    @pypto.frontend.jit(pass_options=options)
    def spread(x: pypto.Tensor(), y: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*tile)
        out[:] = compute(x, y)
    return [by_hand(spread, [pypto.Spec(left, dtype), pypto.Spec(right, dtype), pypto.Spec(left, dtype)])]


def paired(a: list[int], b: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes with the fewest axes that still broadcast: neighbouring axes of the same kind are merged."""
    b = [1] * (len(a) - len(b)) + list(b)
    left: list[int] = []
    right: list[int] = []
    kinds: list[bool] = []
    for x, y in zip(a, b, strict=True):
        kind = y == 1
        if kinds and kinds[-1] == kind and x != 1:
            left[-1] *= x
            right[-1] *= y
        else:
            left.append(x)
            right.append(y)
            kinds.append(kind)
    if len(left) == 1:
        left, right = [1, *left], [1, *right]
    return tuple(left), tuple(right)


def broadcast_tile(shape: tuple[int, ...], moved_bytes: int, kept_bytes: int,
                   chip: Chip) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Tile of rows of the last axis, and its pass options; tiles do not cross the axes before the last two."""
    height, width = shape[-2], shape[-1]
    outer = math.prod(shape[:-2])
    cut = rows(outer * height, width, moved_bytes, kept_bytes, chip.aiv, chip.ub)
    tall = min(cut.tile[0], height)
    tiles = outer * -(-height // tall) * -(-width // cut.tile[1])
    return (1,) * (len(shape) - 2) + (tall, cut.tile[1]), merged(tiles, chip.aiv)


def swiglu(row: Row, chip: Chip) -> list[Launch]:
    """silu(a) b of the two halves along `dim`; a slice kernel before it where the row counts one."""
    shape, dtype = first(row), row.dtype_of(0)
    size = BYTES[dtype]
    dim = int(row.attrs.get("dim", -1)) % len(shape)
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1:]) * (shape[dim] // 2)
    half = inner
    temporaries = 0 if dtype == "fp32" else 8
    flat_halves = outer == 1
    compute = _swiglu(dtype)
    if flat_halves:
        cut = flat(inner, 3 * size, 8 + temporaries, chip.aiv, chip.ub)
        inner = cut.extent
        specs = [pypto.Spec((2 * inner,), dtype), pypto.Spec((inner,), dtype)]

        @pypto.frontend.jit(pass_options=cut.options)
        def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
            for i in cut.loop():
                pypto.set_vec_tile_shapes(*cut.tile)
                second = pypto.view(x, [cut.step], [inner + i * cut.step])
                cut.put(compute(cut.part(x, i), second), i, out)
    else:
        cut = rows(outer, half, 3 * size, 8 + temporaries, chip.aiv, chip.ub)
        outer = cut.extent
        specs = [pypto.Spec((outer, 2 * half), dtype), pypto.Spec((outer, half), dtype)]

        @pypto.frontend.jit(pass_options=cut.options)
        def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
            for i in cut.loop():
                pypto.set_vec_tile_shapes(*cut.tile)
                cut.put(compute(cut.part(x, i, 0, half), cut.part(x, i, half, half)), i, out)
    main = by_hand(kernel, specs)
    if row.n_kernels > 1 and row.counts_hold:       # the slice copies the input once
        copy = unary(elements(shape), dtype, _copy, 0, chip)
        return [copy, main]
    return [main]


def _swiglu(dtype: str) -> Callable[[Any, Any], Any]:
    def compute(a, b):
        if dtype != "fp32":
            a, b = pypto.cast(a, FP32), pypto.cast(b, FP32)
        gated = pypto.mul(pypto.div(a, pypto.add(pypto.exp(pypto.mul(a, -1.0)), 1.0)), b)
        return gated if dtype == "fp32" else pypto.cast(gated, getattr(pypto, f"DT_{dtype.upper()}"))
    return compute


def _copy(x):
    return pypto.mul(x, 1.0)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG])i?B\b")


def copy(row: Row, chip: Chip) -> list[Launch]:
    """One tensor copied; its size as a shape, or in bytes."""
    if row.shapes:
        return [unary(elements(first(row)), row.dtype_of(0), _copy, 0, chip)]
    if match := _SIZE.search(f"{row.shape} {row.attrs_text}"):
        count = int(float(match.group(1)) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[match.group(2)]) // 4
        return [unary(max(64, count), "fp32", _copy, 0, chip)]
    raise Unpredictable(f"shape {row.shape!r} names no size")


def rope(row: Row, chip: Chip) -> list[Launch]:
    """q and k rotated in one kernel. The row's other kernels: layout 1 is transposed before and after, the rest prepare
    the tables and cost a launch each."""
    q, k, table = first(row), first(row, 1), first(row, 2)
    dtype = row.dtype_of(0)
    size, width = BYTES[dtype], q[-1]
    half, positions = width // 2, elements(table) // table[-1]
    kind = getattr(pypto, f"DT_{dtype.upper()}")

    def rotate(x, cos, sin):
        at = [0] * len(x.shape)
        part = [*x.shape[:-1], half]
        a, b = _fp32(pypto.view(x, part, at), dtype), _fp32(pypto.view(x, part, [*at[:-1], half]), dtype)
        minus = pypto.mul(b, -1.0)       # tells the halves apart, so that a tile stays one task
        low = pypto.add(pypto.mul(a, cos), pypto.mul(minus, sin))
        high = pypto.sub(pypto.mul(a, sin), pypto.mul(minus, cos))
        return [y if dtype == "fp32" else pypto.cast(y, kind) for y in (low, high)]

    heads = q[2] if q[1] == positions else 1             # positions before heads, or next to the last axis
    batch = (elements(q) + elements(k)) // (positions * heads * width)
    turns = positions * heads                            # the tables are broadcast over the heads before
    cut = rows(batch * turns, width, 4 * size, 16, chip.aiv, chip.ub)
    tall = min(cut.tile[0], turns)
    pieces = -(-turns // tall)
    turns = pieces * tall

    @pypto.frontend.jit(pass_options=merged(batch * pieces, chip.aiv))
    def kernel(x: pypto.Tensor(), cos: pypto.Tensor(), sin: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(1, tall, half)
        low, high = rotate(x, cos, sin)
        pypto.assemble(low, [0, 0, 0], out)
        pypto.assemble(high, [0, 0, half], out)
    x = pypto.Spec((batch, turns, width), dtype)
    angles = pypto.Spec((1, turns, half), "fp32")
    made = [by_hand(kernel, [x, angles, angles, x])]
    extra = max(0, row.n_kernels - 1)
    moves = min(extra, 4) if str(row.attrs.get("layout", 0)) == "1" else 0
    if moves:
        made += [by_hand(u.kernel, u.specs, count=moves // 2)
                 for u in (unary(elements(t), dtype, _copy, 0, chip) for t in (q, k))]
    if extra > moves:
        small = unary(positions * width, dtype, _copy, 0, chip)
        made.append(by_hand(small.kernel, small.specs, count=extra - moves))
    return made


def _fp32(x, dtype: str):
    return x if dtype == "fp32" else pypto.cast(x, FP32)


OPERATORS = {
    "exp": exp, "sigmoid": single(pypto.sigmoid, 3), "mish": single(mish, 5), "gelu_erf": single(gelu, 4),
    "gelu_tanh": single(gelu, 4), "maximum": maximum, "swiglu": swiglu, "rope": rope, "copy_d2d": copy,
}
