"""Kernels of the reductions and norms: one row in, its statistics, one row out."""
from __future__ import annotations

import math
from typing import Any

import pypto_sim as pypto

from .launches import Chip, Launch, by_hand
from .streaming import first, unary
from .table import BYTES, Row, Unpredictable, elements
from .tiles import TASK_TILES, Cut, merged, rows

FP32 = pypto.DT_FP32
EPSILON = 1e-6


def kind(dtype: str) -> Any:
    return getattr(pypto, f"DT_{dtype.upper()}")


def fp32(x, dtype: str):
    return x if dtype == "fp32" else pypto.cast(x, FP32)


def back(x, dtype: str):
    return x if dtype == "fp32" else pypto.cast(x, kind(dtype))


def norm_of(x, width: int, gamma):
    """x / sqrt(mean(x^2) + epsilon) * gamma on fp32 rows."""
    mean = pypto.mul(pypto.sum(pypto.mul(x, x), dim=-1, keepdim=True), 1.0 / width)
    scale = pypto.sqrt(pypto.add(mean, EPSILON))
    return pypto.mul(pypto.div(x, scale), gamma)


def rms_norm(row: Row, chip: Chip) -> list[Launch]:
    shape, dtype = first(row), row.dtype_of(0)
    width = shape[-1]
    height = elements(shape) // width
    size = BYTES[dtype]
    to = "fp32" if row.operator == "rms_norm_cast" else dtype
    cut = rows(height, width, size + BYTES[to], 12, chip.aiv, chip.ub, not chip.is_950)

    @pypto.frontend.jit(pass_options=cut.options)
    def kernel(x: pypto.Tensor(), gamma: pypto.Tensor(), out: pypto.Tensor()):
        for i in cut.loop():
            pypto.set_vec_tile_shapes(*cut.tile)
            cut.put(back(norm_of(fp32(cut.part(x, i), dtype), width, gamma), to), i, out)
    height = cut.extent
    made = [by_hand(kernel, [pypto.Spec((height, width), dtype), pypto.Spec((1, width), "fp32"),
                            pypto.Spec((height, width), to)])]
    if row.n_kernels > 1 and row.counts_hold:
        made += [unary(height * width, dtype, lambda x: pypto.mul(x, 1.0), 1, chip)] * (row.n_kernels - 1)
    return made


def softmax(row: Row, chip: Chip) -> list[Launch]:
    """exp(x - max) / sum along `dim`; an inner axis is reduced column-wise."""
    shape, dtype = first(row), row.dtype_of(0)
    dim = int(row.attrs.get("dim", -1)) % len(shape)
    outer, length, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1:])
    size = BYTES[dtype]
    if inner == 1:
        cut = rows(outer, length, 2 * size, 12, chip.aiv, chip.ub, not chip.is_950)
        spec = pypto.Spec((cut.extent, length), dtype)
        axis = -1
    else:
        cut = columns(outer, length, inner, 2 * size + 12, chip)
        spec = pypto.Spec((cut.extent, length, inner), dtype)
        axis = 1

    @pypto.frontend.jit(pass_options=cut.options)
    def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
        for i in cut.loop():
            pypto.set_vec_tile_shapes(*cut.tile)
            wide = fp32(cut.part(x, i), dtype)
            p = pypto.exp(pypto.sub(wide, pypto.amax(wide, dim=axis, keepdim=True)))
            cut.put(back(pypto.div(p, pypto.sum(p, dim=axis, keepdim=True)), dtype), i, out)
    return [by_hand(kernel, [spec, spec])]


def columns(outer: int, length: int, inner: int, live_bytes: int, chip: Chip) -> Cut:
    """Tiles [1, length, columns] for a reduction along the middle axis; at least 64 columns."""
    room = chip.ub // 2 // live_bytes
    width = min(inner, max(64, room // length // 16 * 16))
    tall = min(length, max(1, room // width))
    strips = -(-inner // width)
    trips = -(-outer // max(1, chip.aiv * TASK_TILES // strips))
    each = -(-outer // trips)
    return Cut((1, tall, width), each, trips, merged(each * strips, chip.aiv))


def quantised(y, width_tile: Any = None):
    """(int8 rows, fp32 scale of each row) of fp32 rows."""
    scale = pypto.mul(pypto.amax(pypto.abs(y), dim=-1, keepdim=True), 1.0 / 127.0)
    return pypto.cast(pypto.cast(pypto.div(y, scale), pypto.DT_FP16), pypto.DT_INT8), scale


def dynamic_quant(row: Row, chip: Chip) -> list[Launch]:
    shape, dtype = first(row), row.dtype_of(0)
    width = shape[-1]
    height, size = elements(shape) // width, BYTES[dtype]
    cut = rows(height, width, size + 1, 14, chip.aiv, chip.ub, not chip.is_950)

    @pypto.frontend.jit(pass_options=cut.options)
    def kernel(x: pypto.Tensor(), out: pypto.Tensor(), scales: pypto.Tensor()):
        for i in cut.loop():
            pypto.set_vec_tile_shapes(*cut.tile)
            q, scale = quantised(fp32(cut.part(x, i), dtype))
            cut.put(q, i, out)
            cut.put(scale, i, scales)
    height = cut.extent
    return [by_hand(kernel, [pypto.Spec((height, width), dtype), pypto.Spec((height, width), "int8"),
                            pypto.Spec((height, 1), "fp32")])]


def add_norm_quant(row: Row, chip: Chip) -> list[Launch]:
    """x1 + x2 kept, normalised, quantised: three results."""
    shape, dtype = first(row), row.dtype_of(0)
    width = shape[-1]
    height, size = elements(shape) // width, BYTES[dtype]
    cut = rows(height, width, 3 * size + 1, 14, chip.aiv, chip.ub, not chip.is_950)

    @pypto.frontend.jit(pass_options=cut.options)
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), gamma: pypto.Tensor(), kept: pypto.Tensor(), out: pypto.Tensor(),
               scales: pypto.Tensor()):
        for i in cut.loop():
            pypto.set_vec_tile_shapes(*cut.tile)
            total = pypto.add(fp32(cut.part(a, i), dtype), fp32(cut.part(b, i), dtype))
            cut.put(back(total, dtype), i, kept)
            q, scale = quantised(norm_of(total, width, gamma))
            cut.put(q, i, out)
            cut.put(scale, i, scales)
    height = cut.extent
    x = pypto.Spec((height, width), dtype)
    return [by_hand(kernel, [x, x, pypto.Spec((1, width), "fp32"), x, pypto.Spec((height, width), "int8"),
                            pypto.Spec((height, 1), "fp32")])]


def mean_all(row: Row, chip: Chip) -> list[Launch]:
    """Sum of everything: rows of a matrix, then its column."""
    count, dtype = elements(first(row)), row.dtype_of(0)
    width = min(count, 8192)
    cut = rows(-(-count // width), width, BYTES[dtype], 8, chip.aiv, chip.ub, not chip.is_950)
    height = cut.extent

    @pypto.frontend.jit(pass_options=cut.options)
    def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
        for i in cut.loop():
            pypto.set_vec_tile_shapes(*cut.tile)
            cut.put(pypto.sum(fp32(cut.part(x, i), dtype), dim=-1, keepdim=True), i, out)
    if height == 1:
        return [by_hand(kernel, [pypto.Spec((1, width), "fp32"), pypto.Spec((1, 1), "fp32")])]
    if height > 1 << 20:
        raise Unpredictable("more partial sums than one kernel holds")
    small = unary(height, "fp32", lambda x: pypto.mul(x, 1.0), 1, chip)
    return [by_hand(kernel, [pypto.Spec((height, width), dtype), pypto.Spec((height, 1), "fp32")]),
            by_hand(small.kernel, small.specs)]


OPERATORS = {
    "rms_norm": rms_norm, "rms_norm_cast": rms_norm, "gemma_rms_norm": rms_norm, "softmax": softmax,
    "dynamic_quant": dynamic_quant, "add_rms_norm_dynamic_quant": add_norm_quant, "mean_all": mean_all,
}
