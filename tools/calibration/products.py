"""Matrix products: plain, quantised, grouped and block-scaled.

Tile rule where a row names no tile: of the output tiles up to 256 x 256 that fit L0C, the one with the fewest rounds
over the cores times its longer half, cube or loads; k of 512 bytes in L1, and of what half of L0 holds in L0.
"""
from __future__ import annotations

import re
from math import ceil
from typing import Any

import pypto_sim as pypto

from .launches import Chip, Launch
from .table import Row, Unpredictable

TYPES = {"fp32": pypto.DT_FP32, "fp16": pypto.DT_FP16, "bf16": pypto.DT_BF16, "int8": pypto.DT_INT8}
F16, F32, BF16, I8, I32 = pypto.DT_FP16, pypto.DT_FP32, pypto.DT_BF16, pypto.DT_INT8, pypto.DT_INT32
APART = {"cube_l1_reuse_setting": {-1: 1}}        # one task an output tile, as a block loop has it
Spec = pypto.Spec

_TRIPLE = re.compile(r"L([01])\s+(\d+)x(\d+)x(\d+)")
_PYPTO = re.compile(r"set_cube_tile_shapes\(\[(\d+),\s*(\d+)\],\s*\[(\d+),\s*(\d+)\],\s*\[(\d+),\s*(\d+)\]\)")
_BASE = re.compile(r"base M(\d+) K(\d+) N(\d+)")
_STEP = re.compile(r"stepKa=(?:stepKb=)?(\d+)")
_BLOCKS = re.compile(r"tiles (\d+)x(\d+)")


def align(value: int, unit: int) -> int:
    return -(-value // unit) * unit


class Tile:
    """Cube tile of one product: m, n in L0; k in L0 and L1."""

    def __init__(self, m: int, n: int, k0: int, k1: int, m1: int = 0, n1: int = 0) -> None:
        self.m, self.n, self.k0, self.k1, self.m1, self.n1 = m, n, k0, k1, m1 or m, n1 or n

    def set(self) -> None:
        pypto.set_cube_tile_shapes([self.m, self.m1], [self.k0, self.k1], [self.n, self.n1])


def written_tile(text: str) -> Tile | None:
    """The tile that a row's tile_config names."""
    if found := _PYPTO.search(text):
        m0, m1, k0, k1, n0, n1 = map(int, found.groups())
        return Tile(m0, n0, k0, k1, m1, n1)
    levels = {int(level): tuple(map(int, sizes)) for level, *sizes in _TRIPLE.findall(text)}
    if 1 in levels:
        m1, n1, k1 = levels[1]
        m0, n0, k0 = levels.get(0, (m1, n1, min(k1, 64)))
        return Tile(m0, n0, k0, k1)
    if found := _BASE.search(text):
        m, k, n = map(int, found.groups())
        step = _STEP.search(text)
        return Tile(m, n, k, k * int(step.group(1) if step else 1))
    if found := _BLOCKS.search(text):
        m, n = map(int, found.groups())
        return Tile(m, n, 64, 256)
    return None


def rule(m: int, k: int, n: int, size: int, chip: Chip, batch: int = 1, k_last: bool = False) -> Tile:
    """Output tile with the fewest rounds over the cores times its longer half, cube or loads; the largest such.

    k_last: the second operand is stored [N, K]. Rates are rough: 85 bytes a cycle into L1, 5 cycles a short row.
    """
    unit = max(16, 32 // size)
    best, best_cost = (16, unit), float("inf")
    rows, columns = align(m, 16), align(n, unit)
    sizes = [(min(tm, rows), min(tn, columns)) for tm in (256, 128, 64, 32, 16) for tn in (256, 128, 64, 32, 16)
             if tm // 2 < rows and tn // 2 < columns]
    sizes = [(tm, tn) for tm, tn in sizes if tm * tn * 4 <= chip.l0c and tn % unit == 0]
    for tm, tn in sorted(sizes, key=lambda s: (-s[0] * s[1], -s[1])):
        rounds = ceil(batch * ceil(m / tm) * ceil(n / tn) / chip.aic)
        cube = tm * tn / (8192 / size)
        row = tn * size / 85 if k_last else max(tn * size / 85, 5)
        cost = rounds * max(cube, tm * size / 85 + row)
        if cost < best_cost * 0.999:
            best, best_cost = (tm, tn), cost
    tm, tn = best
    half = 32768                                  # of L0A or L0B: two buffers
    k0 = max(unit, min(half // (tm * size), half // (tn * size), 512 // size, align(k, unit)) // unit * unit)
    k1 = max(k0, min(align(k, k0), 512 // size, chip.l1 // 2 // ((tm + tn) * size)) // k0 * k0)
    return Tile(tm, tn, k0, k1)


def tile_of(row: Row, m: int, k: int, n: int, size: int, chip: Chip, batch: int = 1, k_last: bool = False) -> Tile:
    tile = written_tile(row.tile_config)
    if tile is None:
        return rule(m, k, n, size, chip, batch, k_last)
    unit = max(16, 32 // size)
    tile.k0 = min(tile.k0, align(k, unit))
    tile.k1 = max(tile.k0, min(tile.k1, align(k, tile.k0)))
    return tile


def size_of(row: Row, name: str) -> int:
    if name in row.sizes:
        return row.sizes[name]
    raise Unpredictable(f"no {name} in {row.shape!r}")


def options(row: Row) -> dict[str, Any]:
    return {} if re.search(r"pypto|L1Reuse", row.tile_config) else APART


def product(m: int, k: int, n: int, dtype: Any, out: Any, tile: Tile, pass_options: dict[str, Any],
            b_trans: bool = False, blocked: bool = False, cores: int = 0) -> Launch:
    """c = a b. blocked: b is stored by column blocks of the tile (zN). cores: they share the last round of tiles."""
    columns = align(n, tile.n) if blocked else n
    whole = n
    if cores and (tiles := ceil(m / tile.m) * ceil(n / tile.n)) > cores and tiles % cores:
        whole = tiles // cores * cores // ceil(m / tile.m) * tile.n
    rest = n - whole

    @pypto.frontend.jit(pass_options=pass_options)
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
        tile.set()
        if blocked:
            for j in range(columns // tile.n):
                y = pypto.matmul(a, pypto.view(b, [k, tile.n], [j * k, 0]), out)
                pypto.assemble(y, [0, j * tile.n], c)
            return
        if not rest:
            c[:] = pypto.matmul(a, b, out, b_trans=b_trans)
            return
        first = pypto.view(b, [whole, k] if b_trans else [k, whole], [0, 0])
        pypto.assemble(pypto.matmul(a, first, out, b_trans=b_trans), [0, 0], c)
        tm, tn = tile.m, min(tile.n, align(rest, 16))
        while ceil(m / tm) * ceil(rest / tn) < cores and tm > 32:
            tm, tn = (tm // 2, tn) if tm >= tn else (tm, align(ceil(tn / 2), 16))
        Tile(tm, tn, tile.k0, tile.k1).set()
        last = pypto.view(b, [rest, k] if b_trans else [k, rest], [whole, 0] if b_trans else [0, whole])
        pypto.assemble(pypto.matmul(a, last, out, b_trans=b_trans), [0, whole], c)

    shape_b = (columns // tile.n * k, tile.n) if blocked else (n, k) if b_trans else (k, n)
    return Launch(kernel, [Spec((m, k), dtype), Spec(shape_b, dtype), Spec((m, columns), out)],
                  static=pass_options is APART)


def matmul(row: Row, chip: Chip) -> list[Launch]:
    m, k, n = (size_of(row, x) for x in "MKN")
    padded = re.search(r"padded (\d+)x(\d+)", row.shape)
    if padded:
        m, n = map(int, padded.groups())
    if re.search(r"fp8|e4m3|e5m2", row.dtype):
        dtype = pypto.DT_FP8E5M2 if "e5m2" in row.dtype else pypto.DT_FP8E4M3
        out = TYPES.get(row.out_dtype or "bf16", BF16)
    else:
        dtype = TYPES[row.dtype_of(0)]
        out = I32 if dtype is I8 else TYPES.get(row.out_dtype or row.dtype_of(0), dtype)
    tile = tile_of(row, m, k, n, dtype.size_bytes, chip)
    trans = bool(re.search(r"B stored NxK|B ColumnMajor|B DN", row.attrs_text + " " + row.dtype))
    blocked = bool(re.search(r"\bB (zN|nZ|NZ)\b", row.attrs_text + " " + row.dtype))
    cores = chip.aic if "tail split" in row.tile_config else 0
    return [product(m, k, n, dtype, out, tile, options(row), trans, blocked, cores)]


def quant_matmul(row: Row, chip: Chip) -> list[Launch]:
    shapes = row.shapes
    a, b = shapes[0], shapes[1]
    batch = a[0] if len(a) == 3 else 1
    m, k, n = a[-2], a[-1], b[-1]
    bf16 = row.out_dtype == "bf16"
    per_token = len(row.dtypes) > 3 and len(shapes) > 4 and shapes[4] is not None
    tile = tile_of(row, m, k, n, 1, chip, batch)
    rows = max(1, min(16, 16384 // (tile.n * 4)))
    out = BF16 if bf16 else F16
    fixpipe = not (per_token or bf16)

    @pypto.frontend.jit(pass_options=APART)
    def kernel(x: pypto.Tensor(), w: pypto.Tensor(), scale: pypto.Tensor(), token: pypto.Tensor(), c: pypto.Tensor()):
        tile.set()
        pypto.set_vec_tile_shapes(rows, tile.n)
        for i in range(batch):
            xi = pypto.view(x, [m, k], [i * m, 0])
            wi = pypto.view(w, [k, n], [i * k, 0])
            if fixpipe:
                y = pypto.matmul(xi, wi, F16, extend_params={"scale": 0.01})
            else:
                y = pypto.matmul(xi, wi, I32)
                y = pypto.mul(pypto.cast(y, F32), scale)
                if per_token:
                    y = pypto.mul(y, token)
                y = pypto.cast(y, out)
            pypto.assemble(y, [i * m, 0], c)

    return [Launch(kernel, [Spec((batch * m, k), I8), Spec((batch * k, n), I8), Spec((1, n), F32), Spec((m, 1), F32),
                            Spec((batch * m, n), out)], static=True)]


def weight_quant_batch_matmul(row: Row, chip: Chip) -> list[Launch]:
    """Equal column strips over the clusters: weights are cast on the way into the product, whose columns are scaled; an
    offset adds the rows' sums times it."""
    a, b = row.shapes[0], row.shapes[1]
    m, k, n = a[-2], a[-1], b[-1]
    dtype = TYPES[row.dtype_of(0)]
    offset = len(row.shapes) > 3 and row.shapes[3] is not None
    rounds = ceil(n / (chip.aic * 128))
    strip = min(128, align(ceil(n / (chip.aic * rounds)), 32))
    tm = min(128, align(m, 16))
    k0 = max(16, 32768 // (2 * max(tm, strip)) // 16 * 16)
    tile = Tile(tm, strip, k0, max(k0, chip.l1 // 2 // (2 * (tm + strip)) // k0 * k0))
    rows = max(8, (16384 if dtype is F16 else 8192) // strip // 8 * 8)
    if chip.is_950:                               # a tile of weights goes from UB straight to its place in L1
        rows = k0 = min(128, k0)
        tile = Tile(tm, strip, k0, k0)
    strips = ceil(n / strip)
    # the 950 hands weights from UB to L1, as much of K at a time as half of L1 holds; A2/A3 goes by way of GM
    part = chip.l1 // 2 // (2 * strip) // rows * rows if chip.is_950 else k

    @pypto.frontend.jit(pass_options=APART)
    def kernel(x: pypto.Tensor(), w: pypto.Tensor(), scale: pypto.Tensor(), sums: pypto.Tensor(), c: pypto.Tensor()):
        pypto.experimental.set_operation_options(combine_axis=True)
        for j in pypto.loop(strips, name="strips", idx_name="j"):
            tile.set()
            y = None
            for at in range(0, k, part):
                deep = min(part, k - at)
                pypto.set_vec_tile_shapes(rows, strip)
                pypto.set_pass_options(sg_set_scope=1)
                wide = pypto.cast(pypto.view(w, [deep, strip], [at, j * strip]), F16)
                if dtype is not F16:
                    wide = pypto.cast(pypto.cast(wide, F32), dtype)
                pypto.set_pass_options(sg_set_scope=-1)
                more = pypto.matmul(pypto.view(x, [m, deep], [0, at]), wide, F32)
                pypto.set_pass_options(sg_set_scope=2)
                pypto.set_vec_tile_shapes(min(tm, rows), strip)
                y = more if y is None else pypto.add(y, more)
            if offset:
                y = pypto.add(y, pypto.view(sums, [m, strip], [0, j * strip]))
            y = pypto.mul(y, pypto.view(scale, [1, strip], [0, j * strip]))
            pypto.assemble(pypto.cast(y, dtype), [0, j * strip], c)

    whole = strips * strip
    return [Launch(kernel, [Spec((m, k), dtype), Spec((k, whole), I8), Spec((1, whole), F32), Spec((m, whole), F32),
                            Spec((m, whole), dtype)], static=True)]


def groups_of(row: Row) -> list[int]:
    """Rows of each group: `group_list` holds ends, or counts that add up to the rows; without one, equal parts."""
    rows, count = row.shapes[0][0], row.shapes[1][0]
    ends = row.attrs.get("group_list") or [rows * (g + 1) // count for g in range(count)]
    if sum(ends) == rows and ends[-1] != rows:
        return ends
    groups = [b - a for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    if min(groups) < 0 or max(groups) == 0 or len(groups) > count:
        raise Unpredictable(f"group_list {ends} does not divide the {rows} rows among {count} groups")
    return groups


def grouped_matmul(row: Row, chip: Chip) -> list[Launch]:
    x, w = row.shapes[0], row.shapes[1]
    groups = groups_of(row)
    trans = bool(row.attrs.get("transpose_weight"))
    k, n = x[1], w[1] if trans else w[2]
    dtype = TYPES[row.dtype_of(0)]
    out = I32 if dtype is I8 else dtype
    tile = tile_of(row, max(groups), k, n, dtype.size_bytes, chip, sum(1 for g in groups if g), trans)

    @pypto.frontend.jit(pass_options=APART)
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
        tile.set()
        start = 0
        for g, count in enumerate(groups):
            if count:
                wg = pypto.view(b, [n, k] if trans else [k, n], [g * (n if trans else k), 0])
                y = pypto.matmul(pypto.view(a, [count, k], [start, 0]), wg, out, b_trans=trans)
                pypto.assemble(y, [start, 0], c)
            start += count

    total = sum(groups)
    weights = (len(groups) * n, k) if trans else (len(groups) * k, n)
    return [Launch(kernel, [Spec((total, k), dtype), Spec(weights, dtype), Spec((total, n), out)], static=True)]


def scaled(m: int, k: int, n: int, groups: int, a_type: Any, b_type: Any, tile: Tile) -> Launch:
    """Block-scaled product of `groups` equal groups, second operand [N, K]; FP4 holds two elements a byte."""
    k = align(k, 64)
    pairs = k // 64
    fa, fb = (2 if t is pypto.DT_FP4_E2M1X2 else 1 for t in (a_type, b_type))

    @pypto.frontend.jit(pass_options=APART)
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), sa: pypto.Tensor(), sb: pypto.Tensor(), c: pypto.Tensor()):
        tile.set()
        for g in range(groups):
            y = pypto.scaled_mm(
                pypto.view(a, [m, k // fa], [g * m, 0]),
                pypto.view(b, [n, k // fb], [g * n, 0]), BF16, pypto.view(sa, [m, pairs, 2], [g * m, 0, 0]),
                pypto.view(sb, [n, pairs, 2], [g * n, 0, 0]), b_trans=True, scale_b_trans=True)
            pypto.assemble(y, [g * m, 0], c)

    e8 = pypto.DT_FP8E8M0
    return Launch(kernel, [Spec((groups * m, k // fa), a_type), Spec((groups * n, k // fb), b_type),
                           Spec((groups * m, pairs, 2), e8), Spec((groups * n, pairs, 2), e8),
                           Spec((groups * m, n), BF16)], static=True)


def mx_matmul(row: Row, chip: Chip) -> list[Launch]:
    m, k, n = (size_of(row, x) for x in "MKN")
    dtype = pypto.DT_FP4_E2M1X2 if "fp4" in row.dtype else pypto.DT_FP8E5M2
    tile = tile_of(row, m, k, n, 1, chip)
    return [scaled(m, k, n, 1, dtype, dtype, tile)]


def grouped_mx_matmul(row: Row, chip: Chip) -> list[Launch]:
    """FP8 rows by FP4 weights. The product takes one type: that of the weights, which are most of the bytes."""
    g, k, n = (size_of(row, x) for x in ("G", "K", "N"))
    m = size_of(row, "M/expert")
    tile = tile_of(row, m, k, n, 1, chip, g)
    dtype = pypto.DT_FP4_E2M1X2 if "fp4" in row.dtype else pypto.DT_FP8E4M3
    return [scaled(m, k, n, g, dtype, dtype, tile)]


OPERATORS = {"matmul": matmul, "quant_matmul": quant_matmul, "grouped_matmul": grouped_matmul,
             "weight_quant_batch_matmul": weight_quant_batch_matmul, "mx_matmul": mx_matmul,
             "grouped_mx_matmul": grouped_mx_matmul}
