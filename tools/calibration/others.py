"""Kernels of the operators outside the scored families: transposes, gathers, sorting, transforms, convolution."""
from __future__ import annotations

import math
import re

import pypto_sim as pypto

from .launches import Chip, Launch, by_hand
from .products import APART, rule
from .reductions import kind
from .streaming import first, unary
from .table import BYTES, Row, Unpredictable, elements
from .tiles import UB_SHARE, ceil, flat, merged, rows, up

FP32 = pypto.DT_FP32
BLOCK_BYTES = 32
SCATTERED = 1 << 22      # single reads that one kernel still lists


def transpose(row: Row, chip: Chip) -> list[Launch]:
    shape = list(first(row))
    return [transposed(shape, [int(p) for p in row.attrs.get("perm", range(len(shape))[::-1])], row.dtype_of(0), chip)]


def transposed(shape: list[int], perm: list[int], dtype: str, chip: Chip) -> Launch:
    """Axes reordered; neighbours that stay together are one axis. int64 moves as pairs of int32."""
    runs: list[list[int]] = []
    for p in perm:
        if runs and runs[-1][-1] + 1 == p:
            runs[-1].append(p)
        else:
            runs.append([p])
    order = sorted(range(len(runs)), key=lambda i: runs[i][0])
    merged_shape = [math.prod(shape[p] for p in runs[i]) for i in order]
    merged_perm = [order.index(i) for i in range(len(runs))]
    if dtype == "int64":
        merged_shape, merged_perm, dtype = [*merged_shape, 2], [*merged_perm, len(merged_shape)], "int32"
    size = BYTES[dtype]
    tile = [1] * len(merged_shape)
    room = chip.ub // 6 // size
    ends = [len(merged_shape) - 1, merged_perm[-1]]       # the axes contiguous before and after
    if ends[0] == ends[1]:
        tile[-1] = min(merged_shape[-1], room)
        ends = [len(merged_shape) - 1, len(merged_shape) - 2]
        tile[-2] = min(merged_shape[-2], max(1, room // tile[-1]))
    else:
        side = 1 << (int(math.isqrt(room)).bit_length() - 1)
        tile[ends[0]], tile[ends[1]] = min(merged_shape[ends[0]], side), min(merged_shape[ends[1]], side)
    tiles = math.prod(ceil(s, t) for s, t in zip(merged_shape, tile, strict=True))
    out = [merged_shape[p] for p in merged_perm]

    @pypto.frontend.jit(pass_options=merged(tiles, chip.aiv))
    def kernel(x: pypto.Tensor(), y: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*tile)
        y[:] = pypto.permute(x, merged_perm)
    return by_hand(kernel, [pypto.Spec(tuple(merged_shape), dtype), pypto.Spec(tuple(out), dtype)])


def gather_elements(row: Row, chip: Chip) -> list[Launch]:
    """out[i, j] = x[index[i, j], j]. Rows of four kernels and more whose axis fills a block: both operands are turned
    so that it is the last, and the result back. A fifth kernel, or a second one without transposes, casts the index;
    the 950 does so on the way."""
    x, index = first(row), first(row, 1)
    dtype, at_dtype = row.dtype_of(0), row.dtype_of(1)
    dim = int(row.attrs.get("dim", 0)) % len(x)
    outer, axis, taken, inner = math.prod(index[:dim]), x[dim], index[dim], math.prod(index[dim + 1:])
    made: list[Launch] = []
    if row.n_kernels >= 4 and inner > 1 and axis * BYTES[dtype] >= BLOCK_BYTES:
        whole = [math.prod(x[:dim]), axis, math.prod(x[dim + 1:])]
        made += [transposed(s, [0, 2, 1], t, chip) for s, t in ((whole, dtype), ([outer, taken, inner], at_dtype))]
        made.append(transposed([outer, inner, taken], [0, 2, 1], dtype, chip))
        outer, inner = outer * inner, 1
    if row.n_kernels in (2, 5) and row.counts_hold:
        made.append(unary(elements(index), "int32", lambda i: pypto.add(i, 0), 0, chip))
    return [*made, gathered(outer, axis, taken, inner, dtype, chip)]


def gathered(outer: int, axis: int, taken: int, inner: int, dtype: str, chip: Chip) -> Launch:
    """A tile holds the whole gathered axis, and as many rows, or columns beside it, as there is room for; indices are
    cut where they do not fit beside it. An axis that does not fit: every element is a read of its own."""
    if BYTES[dtype] == 8:                        # both halves, column by column
        dtype, inner = "int32", 2 * inner
    elif BYTES[dtype] == 1:
        dtype = "int16"
    size, room = BYTES[dtype], int(UB_SHARE * chip.ub)
    piece, least = taken, 1 if inner == 1 else 8

    def needed(units: int) -> int:
        return units * (size * (up(axis, 8) + up(piece, 8)) + 4 * up(piece, 8))
    while needed(least) > room and piece > 64:
        piece = ceil(piece, 2)
    if needed(least) > room:
        count = outer * taken * inner
        if count > SCATTERED:
            raise Unpredictable(f"{count} single reads of an axis that does not fit UB")
        one = flat(count, 2 * size, 4, chip.aiv, chip.ub)

        @pypto.frontend.jit(pass_options=one.options)
        def scattered(table: pypto.Tensor(), at: pypto.Tensor(), out: pypto.Tensor()):
            pypto.set_vec_tile_shapes(max(1, one.tile[0] // 64), 8)
            out[:] = pypto.index_select(table, 0, at)
        return by_hand(scattered, [pypto.Spec((outer * axis * inner, 1), dtype), pypto.Spec((count,), "int32"),
                                   pypto.Spec((count, 1), dtype)])
    units = max(1, room // 3 // needed(1))
    if inner == 1:
        tall = min(outer, units, ceil(outer, chip.aiv))
        tile, tiles = (tall, piece), ceil(outer, tall)
        table_shape, shape = (outer, axis), (outer, taken)
    else:
        strip = max(8, min(inner, units // 8 * 8))
        tile, tiles = (1, piece, strip), outer * ceil(inner, strip)
        table_shape, shape = (outer, axis, inner), (outer, taken, inner)

    @pypto.frontend.jit(pass_options=merged(tiles * ceil(taken, piece), chip.aiv))
    def kernel(table: pypto.Tensor(), at: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*tile)
        out[:] = pypto.gather(table, 1, at)
    return by_hand(kernel, [pypto.Spec(table_shape, dtype), pypto.Spec(shape, "int32"), pypto.Spec(shape, dtype)])


def top_rows(height: int, width: int, top: int, dtype: str, chip: Chip, softmax: bool) -> Launch:
    cut = rows(height, up(width, 32), BYTES[dtype], 36, chip.aiv, chip.ub)
    columns = up(width, 32)

    @pypto.frontend.jit(pass_options=cut.options)
    def kernel(x: pypto.Tensor(), values: pypto.Tensor(), at: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*cut.tile)
        wide = x if dtype == "fp32" else pypto.cast(x, FP32)
        if softmax:
            p = pypto.exp(pypto.sub(wide, pypto.amax(wide, dim=-1, keepdim=True)))
            wide = pypto.div(p, pypto.sum(p, dim=-1, keepdim=True))
        best, where = pypto.topk(wide, top)
        values[:] = best if dtype == "fp32" else pypto.cast(best, kind(dtype))
        at[:] = where
    return by_hand(kernel, [pypto.Spec((height, columns), dtype), pypto.Spec((height, top), dtype),
                           pypto.Spec((height, top), "int32")])


def moe_gating(row: Row, chip: Chip) -> list[Launch]:
    shape = first(row)
    return [top_rows(elements(shape) // shape[-1], shape[-1], int(row.attrs.get("k", 1)), row.dtype_of(0), chip, True)]


def topk(row: Row, chip: Chip) -> list[Launch]:
    s = row.sizes
    if not {"rows", "cols", "k"} <= s.keys():
        raise Unpredictable(f"shape {row.shape!r} names no rows, cols, k")
    return [top_rows(s["rows"], s["cols"], s["k"], row.dtype_of(0), chip, False)]


def hadamard(row: Row, chip: Chip) -> list[Launch]:
    """log2(N) butterfly passes over tiles that stay in UB."""
    s = row.sizes
    stated = re.search(r"([\d.]+) M elements", row.shape), re.search(r"batch (\d+)", row.shape)
    if stated[1]:
        count = int(stated[1].group(1)) * s["N"]
    else:
        count = int(float(stated[0].group(1)) * 1e6) if stated[0] else 1 << 24
    passes = int(math.log2(s["N"]))

    def compute(x):
        for _ in range(passes):
            x = pypto.add(x, x)
        return x
    tile = 8192

    @pypto.frontend.jit(pass_options=merged(ceil(count, tile), chip.aiv))
    def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(tile)
        out[:] = compute(x)
    return [by_hand(kernel, [pypto.Spec((count,), "fp16")] * 2)]


def conv2d(row: Row, chip: Chip) -> list[Launch]:
    """As the product of unfolded pixels [N H W, C k k] with the filter [C k k, Cout]."""
    lists = row.lists
    if not {"X", "K"} <= lists.keys() or len(lists["X"]) != 5 or len(lists["K"]) != 4:
        raise Unpredictable(f"shape {row.shape!r} names no X and K in fractals")
    x, w = lists["X"], lists["K"]
    m, k, n = x[0] * x[2] * x[3], w[0] * w[3], w[1] * w[2]
    tiles = rule(m, k, n, 2, chip)
    out = row.out_dtype or row.dtype_of(0)

    @pypto.frontend.jit(pass_options=APART)
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
        tiles.set()
        c[:] = pypto.matmul(a, b, kind(out))
    dtype = row.dtype_of(0)
    return [by_hand(kernel, [pypto.Spec((m, k), dtype), pypto.Spec((k, n), dtype), pypto.Spec((m, n), out)])]


OPERATORS = {
    "transpose": transpose, "gather_elements": gather_elements, "moe_gating_softmax_topk": moe_gating, "topk": topk,
    "hadamard_transform": hadamard, "conv2d": conv2d,
}
