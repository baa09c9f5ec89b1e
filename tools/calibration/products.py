"""Kernels of the matrix products: one task per output tile, tiles as the row names them or by one rule."""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pypto_sim as pypto

from .launches import Chip, Launch
from .table import Row, Unpredictable
from .tiles import ceil, merged, up

FP32 = pypto.DT_FP32
APART = {"cube_l1_reuse_setting": {-1: 1}}     # hand-written kernels do not pack output tiles
_TRIPLE = re.compile(r"\b(L1|L0)\s+(\d+)x(\d+)x(\d+)")
_BASE = re.compile(r"base\s+M(\d+)\s+K(\d+)\s+N(\d+)")
_STEP = re.compile(r"stepKa=stepKb=(\d+)")
_TILES = re.compile(r"\btiles\s+(\d+)x(\d+)")
_SETTER = re.compile(r"set_cube_tile_shapes\(\[(\d+),(\d+)\],\[(\d+),(\d+)\],\[(\d+),(\d+)\]\)")
_PADDED = re.compile(r"padded\s+(\d+)x(\d+)")


@dataclass(frozen=True, slots=True)
class Tiles:
    """Output tile m x n, contraction per L0 and per L1 tile; apart: output tiles stay tasks of their own."""
    m: int
    n: int
    k_l0: int
    k_l1: int
    apart: bool = True

    def set(self) -> None:
        pypto.set_cube_tile_shapes([self.m, self.m], [self.k_l0, self.k_l1], [self.n, self.n])


def tiles_of(row: Row, m: int, k: int, n: int, size: int, chip: Chip) -> Tiles:
    """The row's tiles, as far as its `tile_config` names them, else the rule's."""
    text = row.tile_config
    if match := _SETTER.search(text):
        tm, _, k_l0, k_l1, tn, _ = map(int, match.groups())
        return Tiles(tm, tn, k_l0, k_l1, apart=False)
    named = {level: tuple(map(int, (a, b, c))) for level, a, b, c in _TRIPLE.findall(text)}
    if named:
        l1 = named.get("L1", next(iter(named.values())))
        l0 = named.get("L0", (l1[0], l1[1], 0))
        k_l0 = l0[2] or max(32 // size, (32768 // size) // max(l1[0], l1[1]) // 16 * 16)
        return Tiles(l0[0], l0[1], min(k_l0, l1[2]), l1[2])
    if match := _BASE.search(text):
        tm, k_l0, tn = map(int, match.groups())
        step = _STEP.search(text)
        return Tiles(tm, tn, k_l0, k_l0 * (int(step.group(1)) if step else 4))
    if match := _TILES.search(text):
        return Tiles(int(match.group(1)), int(match.group(2)), 64, 256)
    return rule(m, k, n, size, chip)


def rule(m: int, k: int, n: int, size: int, chip: Chip) -> Tiles:
    """128 x 256 output tiles, smaller ones while cores are left without work; 32 KB of L0 per operand and buffer."""
    tm, tn = min(128, up(m, 16)), min(256, up(n, 16))
    while ceil(m, tm) * ceil(n, tn) < chip.aic and tm * tn > 128 * 32:
        if tn >= tm and tn > 64:
            tn = up(tn // 2, 16)
        elif tm > 32:
            tm = up(tm // 2, 16)
        else:
            break
    k_l0 = max(16, 32768 // size // max(tm, tn) // 16 * 16)
    k_l0 = min(k_l0, up(k, 32 if size == 1 else 16), 256)
    k_l1 = min(4 * k_l0, up(k, k_l0))
    return Tiles(tm, tn, k_l0, up(k_l1, k_l0))


def sizes(row: Row) -> tuple[int, int, int]:
    s = row.sizes
    if not {"M", "K", "N"} <= s.keys():
        raise Unpredictable(f"shape {row.shape!r} names no M, K, N")
    m, n = s["M"], s["N"]
    if match := _PADDED.search(row.shape):
        m, n = int(match.group(1)), int(match.group(2))
    return m, s["K"], n


def bytes_of(dtype: str) -> int:
    return {"fp32": 4, "int8": 1}.get(dtype, 2)


def kind(dtype: str) -> Any:
    return getattr(pypto, f"DT_{dtype.upper()}")


def options(tiles: Tiles) -> dict[str, Any]:
    return APART if tiles.apart else {}


def matmul(row: Row, chip: Chip) -> list[Launch]:
    m, k, n = sizes(row)
    dtype = row.dtype_of(0)
    out = row.out_dtype or dtype
    tiles = tiles_of(row, m, k, n, bytes_of(dtype), chip)
    b_trans = "ColumnMajor" in row.attrs_text.partition("B ")[2] or "NxK" in row.attrs_text

    @pypto.frontend.jit(pass_options=options(tiles))
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
        tiles.set()
        c[:] = pypto.matmul(a, b, kind(out), b_trans=b_trans)
    return [Launch(kernel, [pypto.Spec((m, k), dtype), pypto.Spec((n, k) if b_trans else (k, n), dtype),
                            pypto.Spec((m, n), out)])]


def mx_matmul(row: Row, chip: Chip) -> list[Launch]:
    """Operands of 4 or 8 bits with a scale per 32 elements. 4-bit operands: half the bytes, the 8-bit cube rate."""
    m, k, n = sizes(row)
    half = "fp4" in row.dtype
    tiles = tiles_of(row, m, k, n, 1, chip)
    columns = k // 2 if half else k
    if half:
        tiles = Tiles(tiles.m, tiles.n, tiles.k_l0, tiles.k_l1, tiles.apart)

    @pypto.frontend.jit(pass_options=options(tiles))
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), sa: pypto.Tensor(), sb: pypto.Tensor(), c: pypto.Tensor()):
        tiles.set()
        c[:] = pypto.scaled_mm(a, b, pypto.DT_BF16, sa, sb, b_trans=True, scale_b_trans=True)
    operand = "fp4_e2m1x2" if half else "fp8e5m2"
    return [Launch(kernel, [pypto.Spec((m, columns), operand), pypto.Spec((n, columns), operand),
                            pypto.Spec((m, ceil(k, 64), 2), "fp8e8m0"), pypto.Spec((n, ceil(k, 64), 2), "fp8e8m0"),
                            pypto.Spec((m, n), "bf16")])]


def grouped_mx_matmul(row: Row, chip: Chip) -> list[Launch]:
    """G products of one expert's rows; the 4-bit weight is priced as 8 bits."""
    s = row.sizes
    groups, m, n, k = s.get("G", 1), s.get("M/expert", s.get("M", 0)), s["N"], s["K"]
    tiles = rule(m, k, n, 1, chip)

    @pypto.frontend.jit(pass_options=APART)
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), sa: pypto.Tensor(), sb: pypto.Tensor(), c: pypto.Tensor()):
        tiles.set()
        for g in range(groups):
            x, w = pypto.view(a, [m, k], [g * m, 0]), pypto.view(b, [n, k], [g * n, 0])
            xs, ws = pypto.view(sa, [m, k // 64, 2], [g * m, 0, 0]), pypto.view(sb, [n, k // 64, 2], [g * n, 0, 0])
            y = pypto.scaled_mm(x, w, pypto.DT_BF16, xs, ws, b_trans=True, scale_b_trans=True)
            pypto.assemble(y, [g * m, 0], c)
    return [Launch(kernel, [pypto.Spec((groups * m, k), "fp8e4m3"), pypto.Spec((groups * n, k), "fp8e4m3"),
                            pypto.Spec((groups * m, k // 64, 2), "fp8e8m0"),
                            pypto.Spec((groups * n, k // 64, 2), "fp8e8m0"),
                            pypto.Spec((groups * m, n), "bf16")])]


def grouped_matmul(row: Row, chip: Chip) -> list[Launch]:
    """One product per group, rows between the ends of `group_list`."""
    x, w = row.shapes[0], row.shapes[1]
    dtype = row.dtype_of(0)
    trans = bool(row.attrs.get("transpose_weight", False))
    groups = w[0]
    k, n = (w[2], w[1]) if trans else (w[1], w[2])
    if x is None or x[-1] != k:
        raise Unpredictable(f"the operands {row.shape} do not contract")
    m = x[0]
    ends = [int(e) for e in row.attrs.get("group_list", [])] or [m * (g + 1) // groups for g in range(groups)]
    starts = [0, *ends[:-1]]
    biased = len(row.shapes) > 2 and row.shapes[2] is not None
    tiles = rule(max(1, ceil(m, groups)), k, n, bytes_of(dtype), Chip(chip.name, max(1, chip.aic // groups), chip.aiv,
                                                                   chip.ub, chip.l1, chip.l0c, chip.is_950))
    wide = pypto.Spec((groups, n), dtype)

    @pypto.frontend.jit(pass_options=APART)
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), bias: pypto.Tensor(), c: pypto.Tensor()):
        tiles.set()
        for g, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if end <= start:
                continue
            part = pypto.view(a, [end - start, k], [start, 0])
            weight = pypto.view(b, [n, k] if trans else [k, n], [g * (n if trans else k), 0])
            extra = {"bias_tensor": pypto.view(bias, [1, n], [g, 0])} if biased else None
            y = pypto.matmul(part, weight, kind(dtype), b_trans=trans, extend_params=extra)
            pypto.assemble(y, [start, 0], c)
    return [Launch(kernel, [pypto.Spec((m, k), dtype), pypto.Spec((groups * w[1], w[2]), dtype), wide,
                            pypto.Spec((m, n), dtype)])]


def quant_matmul(row: Row, chip: Chip) -> list[Launch]:
    """int8 product; a scale per column applied by the fixpipe. A scale per row, and a result that the fixpipe cannot
    write, take a vector pass over the int32 product."""
    a, b = row.shapes[0], row.shapes[1]
    batch = a[0] if len(a) == 3 else 1
    m, k, n = a[-2], a[-1], b[-1]
    out = row.out_dtype or "fp16"
    tokens = len(row.shapes) > 4 and row.shapes[4] is not None and out is not None
    tiles = rule(m, k, n, 1, Chip(chip.name, max(1, chip.aic // batch), chip.aiv, chip.ub, chip.l1, chip.l0c,
                                  chip.is_950))
    fused = out == "fp16" and not tokens
    vec = (max(1, min(16, 8192 // min(n, 2048))), min(up(n, 64), 2048))
    passes = APART | merged(batch * ceil(m, vec[0]) * ceil(n, vec[1]), chip.aiv)

    @pypto.frontend.jit(pass_options=passes)
    def kernel(x: pypto.Tensor(), w: pypto.Tensor(), scale: pypto.Tensor(), token: pypto.Tensor(), c: pypto.Tensor()):
        tiles.set()
        pypto.set_vec_tile_shapes(*vec)
        for i in range(batch):
            left = pypto.view(x, [m, k], [i * m, 0])
            right = pypto.view(w, [k, n], [i * k, 0])
            if fused:
                y = pypto.matmul(left, right, pypto.DT_FP16, extend_params={"scale_tensor": scale})
            else:
                y = pypto.mul(pypto.cast(pypto.matmul(left, right, pypto.DT_INT32), FP32), scale)
                if tokens:
                    y = pypto.mul(y, token)
                y = pypto.cast(y, kind(out))
            pypto.assemble(y, [i * m, 0], c)
    return [Launch(kernel, [pypto.Spec((batch * m, k), "int8"), pypto.Spec((batch * k, n), "int8"),
                            pypto.Spec((1, n), "fp32"), pypto.Spec((m, 1), "fp32"), pypto.Spec((batch * m, n), out)])]


def weight_quant_matmul(row: Row, chip: Chip) -> list[Launch]:
    """int8 weight dequantised by the vector cores, then one product in the type of the activations."""
    a, b = row.shapes[0], row.shapes[1]
    m, k, n = a[-2], a[-1], b[-1]
    dtype = row.dtype_of(0)
    tiles = rule(m, k, n, 2, chip)
    vec = (max(1, min(tiles.k_l1, 8192 // tiles.n)), tiles.n)      # the pieces that the products load
    passes = APART | merged(ceil(k, vec[0]) * ceil(n, vec[1]), chip.aiv)

    @pypto.frontend.jit(pass_options=passes)
    def kernel(x: pypto.Tensor(), w: pypto.Tensor(), scale: pypto.Tensor(), c: pypto.Tensor()):
        for j in pypto.loop(ceil(n, tiles.n), name="columns", idx_name="j"):
            tiles.set()
            pypto.set_vec_tile_shapes(*vec)
            weight = pypto.cast(pypto.view(w, [k, tiles.n], [0, j * tiles.n]), pypto.DT_FP16)
            if dtype != "fp16":
                weight = pypto.cast(pypto.cast(weight, FP32), kind(dtype))
            weight = pypto.mul(weight, pypto.view(scale, [1, tiles.n], [0, j * tiles.n]))
            pypto.assemble(pypto.matmul(x, weight, kind(dtype)), [0, j * tiles.n], c)
    return [Launch(kernel, [pypto.Spec((m, k), dtype), pypto.Spec((k, n), "int8"), pypto.Spec((1, n), dtype),
                            pypto.Spec((m, n), dtype)])]


OPERATORS = {
    "matmul": matmul, "mx_matmul": mx_matmul, "grouped_mx_matmul": grouped_mx_matmul,
    "grouped_matmul": grouped_matmul, "quant_matmul": quant_matmul, "weight_quant_batch_matmul": weight_quant_matmul,
}
