"""Kernels of attention: blocks of keys against a tile of queries, with the running maximum and sum in fp32.

The query rows of the heads that share keys are stacked in decode. Tile rule where a row names none: 128 query rows (all
there are, if fewer), 512 keys a step for 64 rows and more, 1,024 below; a softmax tile takes a sixth of UB. On the 950
256 keys for 64 rows and more: one output tile, so that scores go from L0C to UB without global memory.
"""
from __future__ import annotations

import re
from dataclasses import dataclass

import pypto_sim as pypto

from .launches import Chip, Launch
from .products import align
from .table import Row, Unpredictable

F32 = pypto.DT_FP32
MASKED = -1e30
Spec = pypto.Spec


@dataclass(frozen=True, slots=True)
class Problem:
    """batch sequences, `heads` query heads on `kv_heads` key heads; width: contracted size of q and k; value: of v;
    shared: v is part of the keys; interleaved: the key heads of one position lie side by side;
    scattered: the keys are picked one by one, no two of them are neighbours."""
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    width: int
    value: int
    causal: bool
    shared: bool
    interleaved: bool
    dtype: str
    scattered: bool = False


def problem(row: Row) -> Problem:
    causal = bool(row.attrs.get("is_causal", False))
    dtype = row.dtype_of(0)
    if row.shapes and row.shapes[0] is not None and len(row.shapes[0]) == 4:
        bnsd = row.attrs.get("inputLayout") == "BNSD"
        shapes = [s if s is None or not bnsd else [s[0], s[2], s[1], s[3]] for s in row.shapes]
        q = shapes[0]
        if len(shapes) >= 5:                       # q, q_rope, k, k_rope, v
            k, v = shapes[2], shapes[4]
            return Problem(q[0], q[2], k[2], q[1], k[1], q[3] + shapes[1][3], v[3], causal, False, not bnsd, dtype)
        k = shapes[1]
        return Problem(q[0], q[2], k[2], q[1], k[1], q[3], shapes[-1][3], causal, False, not bnsd, dtype)
    s = row.sizes
    if "D" not in s:
        raise Unpredictable(f"shape {row.shape!r} names no head size")
    heads = s.get("Nq", s.get("N", 1))
    if "sparse" in s:
        return Problem(s.get("T", 1) * s.get("B", 1), heads, s.get("Nkv", 1), 1, s["sparse"], s["D"], s["D"] - 64,
                       False, True, True, dtype, True)
    queries = row.query_length
    if queries is None and row.family == "decode_attention":
        queries = 1
    if queries is None:
        raise Unpredictable(f"shape {row.shape!r} names no query length")
    keys = s.get("S1", s.get("KV", s.get("S", queries)))
    return Problem(s.get("B", 1), heads, s.get("Nkv", heads), queries, keys, s["D"], s["D"], causal, False, True, dtype)


@dataclass(frozen=True, slots=True)
class Cut:
    rows: int          # query rows of a step
    block: int         # keys of a step
    vec: int           # rows of a softmax tile


def cut(p: Problem, text: str, chip: Chip) -> Cut:
    stacked = p.queries * (p.heads // p.kv_heads) if p.queries <= 8 else p.queries
    rows = min(128, align(stacked, 16))
    block = 1024 if rows < 64 else 256 if chip.is_950 else 512
    if found := re.search(r"(?:TILE_S1|S1_TILE)=(\d+)", text):
        block = int(found.group(1))
    elif found := re.search(r"CUBE_S1=(\d+)", text):
        block = 2 * int(found.group(1))
    if found := re.search(r"s2 split (\d+)", text):
        block = int(found.group(1))
    block = min(block, align(p.keys, 16))
    return Cut(rows, block, rows_of(rows, block, chip))


def rows_of(rows: int, width: int, chip: Chip) -> int:
    """Rows of a vector tile: a power of two, for both vector cores of a cluster at least, of a sixth of UB in fp32."""
    return 1 << max(0, min(rows // 2, chip.ub // 6 // (4 * width)).bit_length() - 1)


def step_of(value: int, most: int, unit: int = 16) -> int:
    """Step along an axis: its largest divisor up to `most` that is a multiple of `unit`; equal steps else."""
    exact = max((d for d in range(unit, most + 1, unit) if value % d == 0), default=unit)
    return exact if 2 * exact > min(most, value) else align(-(-value // -(-value // max(unit, most))), unit)


def attention(row: Row, chip: Chip) -> list[Launch]:
    p = problem(row)
    c = cut(p, row.tile_config, chip)
    dtype = getattr(pypto, f"DT_{p.dtype.upper()}")
    decode = p.queries <= 8
    group = p.heads // p.kv_heads
    heads, stacked = (p.kv_heads, group * p.queries) if decode else (p.heads, p.queries)
    tiles = -(-stacked // c.rows)
    scale = p.width ** -0.5
    stride = p.width if p.shared else p.value   # of the values of one head
    # L0 and L1 hold two buffers of both operands.
    wide, deep = align(p.width, 16), align(c.block, 16)

    def tiles_of(k: int, n: int) -> tuple[list[int], list[int], list[int]]:
        columns = min(256, n)
        k0 = step_of(k, 32768 // (2 * max(c.rows, columns)) // 16 * 16)
        k1 = step_of(k, max(k0, chip.l1 // 2 // (2 * (c.rows + columns)) // k0 * k0), k0)
        return [c.rows] * 2, [k0, k1], [columns] * 2

    qk, pv = tiles_of(wide, deep), tiles_of(deep, align(p.value, 16))
    options = {"cube_l1_reuse_setting": {-1: 8}}      # the output tiles of a step share their left operand

    @pypto.frontend.jit(pass_options=options)
    def kernel(q: pypto.Tensor(), k: pypto.Tensor(), v: pypto.Tensor(), mask: pypto.Tensor(), out: pypto.Tensor()):
        m = pypto.tensor([c.rows, 1], F32, "m")
        total = pypto.tensor([c.rows, 1], F32, "l")
        o = pypto.tensor([c.rows, p.value], F32, "o")

        def keys(t, b, h, j, width, whole):
            head = h if decode else h // group
            at = [b * p.keys, head * whole] if p.interleaved else [(b * p.kv_heads + head) * p.keys, 0]
            return pypto.view(t, [c.block, width], [at[0] + j * c.block, at[1]])

        pypto.experimental.set_operation_options(combine_axis=True)
        for b in pypto.loop(p.batch, name="batch", idx_name="b"):
            for h in pypto.loop(heads, name="heads", idx_name="h"):
                for i in pypto.loop(tiles, name="rows", idx_name="i"):
                    seen = p.keys
                    if p.causal and not decode:
                        seen = pypto.min((i + 1) * c.rows + (p.keys - p.queries), p.keys)
                    for j in pypto.loop((seen + c.block - 1) // c.block, name="keys", idx_name="j"):
                        at = ((b * heads + h) * tiles + i) * c.rows
                        pypto.set_cube_tile_shapes(*qk)
                        pypto.set_vec_tile_shapes(c.vec, c.block)
                        pypto.set_pass_options(sg_set_scope=-1)
                        query = pypto.view(q, [c.rows, p.width], [at, 0])
                        s = pypto.matmul(query, keys(k, b, h, j, p.width, p.width), F32, b_trans=True)
                        pypto.set_pass_options(sg_set_scope=1)
                        s = pypto.mul(s, scale)
                        if p.causal and not decode and pypto.is_loop_end(j):
                            s = pypto.add(s, mask)
                        top = pypto.amax(s, -1, True)
                        first, last = pypto.is_loop_begin(j), pypto.is_loop_end(j)
                        if not first:
                            top = pypto.maximum(m, top)
                        w = pypto.exp(pypto.sub(s, top))
                        part = pypto.sum(w, -1, True)
                        w = pypto.cast(w, dtype)
                        if not first:
                            old = pypto.exp(pypto.sub(m, top))
                            part = pypto.add(pypto.mul(total, old), part)
                        pypto.set_cube_tile_shapes(*pv)
                        pypto.set_pass_options(sg_set_scope=-1)
                        y = pypto.matmul(w, keys(k if p.shared else v, b, h, j, p.value, stride), F32)
                        pypto.set_vec_tile_shapes(rows_of(c.rows, p.value, chip), p.value)
                        pypto.set_pass_options(sg_set_scope=2)
                        if not first:
                            y = pypto.add(pypto.mul(o, old), y)
                        if last:
                            pypto.assemble(pypto.cast(pypto.div(y, part), dtype), [at, 0], out)
                        else:
                            m[:], total[:], o[:] = top, part, y

    rows = p.batch * heads * tiles * c.rows
    side = 2 if p.scattered else p.kv_heads if p.interleaved else 1
    lines = p.batch * p.keys * (1 if p.interleaved else p.kv_heads)
    specs = [Spec((rows, p.width), dtype), Spec((lines, p.width * side), dtype), Spec((lines, stride * side), dtype),
             Spec((c.rows, c.block), F32), Spec((rows, p.value), dtype)]
    return [Launch(kernel, specs, static=True)]


OPERATORS = dict.fromkeys(("flash_attention", "gqa", "mha", "mla", "sparse_flash_mla_decode", "mla_decode"), attention)
