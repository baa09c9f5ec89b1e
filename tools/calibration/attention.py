"""Kernels of attention: blocks of keys against a tile of queries, in fp32 scores.

Queries of the heads that share keys are stacked as rows, so that decode with grouped heads is one product per block.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pypto_sim as pypto

from .launches import Chip, Launch
from .table import Row, Unpredictable
from .tiles import ceil, up

FP32 = pypto.DT_FP32
BLOCK = 512           # keys per step
QUERY_ROWS = 128      # query rows per tile


@dataclass(frozen=True, slots=True)
class Problem:
    """batch sequences of kv_heads groups; `rows` stacked query rows per group (`queries` of each of `heads` heads);
    width: contracted size of q and k; value: width of v; shared: v is part of the keys and read once."""
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    width: int
    value: int
    causal: bool
    shared: bool
    dtype: str

    @property
    def rows(self) -> int:
        return self.heads // self.kv_heads * self.queries


def problem(row: Row) -> Problem:
    causal = bool(row.attrs.get("is_causal", False))
    dtype = row.dtype_of(0)
    if row.shapes and row.shapes[0] is not None and len(row.shapes[0]) == 4:
        bnsd = row.attrs.get("inputLayout") == "BNSD"
        shapes = [s if s is None or not bnsd else [s[0], s[2], s[1], s[3]] for s in row.shapes]
        q = shapes[0]
        if len(shapes) >= 5:                       # q, q_rope, k, k_rope, v
            k, v = shapes[2], shapes[4]
            return Problem(q[0], q[2], k[2], q[1], k[1], q[3] + shapes[1][3], v[3], causal, True, dtype)
        k = shapes[1]
        return Problem(q[0], q[2], k[2], q[1], k[1], q[3], shapes[-1][3], causal, False, dtype)
    s = row.sizes
    if "D" not in s:
        raise Unpredictable(f"shape {row.shape!r} names no head size")
    queries = row.query_length
    heads = s.get("Nq", s.get("N", 1))
    if "sparse" in s:
        return Problem(s.get("T", 1) * s.get("B", 1), heads, s.get("Nkv", 1), 1, s["sparse"], s["D"], s["D"] - 64,
                       False, True, dtype)
    if queries is None:
        raise Unpredictable(f"shape {row.shape!r} names no query length")
    return Problem(s.get("B", 1), heads, s.get("Nkv", heads), queries, s.get("S1", queries), s["D"], s["D"], causal,
                   False, dtype)


def kind(dtype: str) -> Any:
    return getattr(pypto, f"DT_{dtype.upper()}")


def attention(row: Row, chip: Chip) -> list[Launch]:
    p = problem(row)
    groups = p.batch * p.kv_heads
    tall = min(QUERY_ROWS, up(p.rows, 16))
    rows = up(p.rows, 16) if p.rows < 16 else p.rows
    block = min(BLOCK, up(p.keys, 16))
    blocks = ceil(p.keys, block)
    tiles = ceil(rows, tall)
    deep = min(128, up(p.width, 16))
    vec = (max(1, min(tall, 16384 // block)), block)
    carried = (max(1, min(tall, 16384 // up(p.value, 64))), up(p.value, 64))     # tile of the output state
    dtype = kind(p.dtype)
    scale = p.width ** -0.5
    key_rows = up(p.keys, 16)

    @pypto.frontend.jit()
    def kernel(q: pypto.Tensor(), k: pypto.Tensor(), v: pypto.Tensor(), out: pypto.Tensor()):
        for g in pypto.loop(groups, name="groups", idx_name="g"):
            for i in pypto.loop(tiles, name="rows", idx_name="i"):
                m = l = o = None
                query = pypto.view(q, [tall, p.width], [g * rows + i * tall, 0])
                for j in range(blocks):
                    pypto.set_cube_tile_shapes([tall, tall], [deep, up(p.width, deep)], [128, 128])
                    pypto.set_vec_tile_shapes(*vec)
                    keys = pypto.view(k, [block, p.width], [g * key_rows + j * block, 0])
                    values = pypto.view(v, [block, p.value], [g * key_rows + j * block, 0])
                    scores = pypto.mul(pypto.matmul(query, keys, FP32, b_trans=True), scale)
                    top = pypto.amax(scores, dim=-1, keepdim=True)
                    new = top if m is None else pypto.maximum(m, top)
                    weights = pypto.exp(pypto.sub(scores, new))
                    total = pypto.sum(weights, dim=-1, keepdim=True)
                    pypto.set_cube_tile_shapes([tall, tall], [128, block], [128, 128])
                    product = pypto.matmul(pypto.cast(weights, dtype), values, FP32)
                    pypto.set_vec_tile_shapes(*carried)
                    if m is None:
                        l, o = total, product
                    else:
                        old = pypto.exp(pypto.sub(m, new))
                        l = pypto.add(pypto.mul(l, old), total)
                        o = pypto.add(pypto.mul(o, old), product)
                    m = new
                pypto.assemble(pypto.cast(pypto.div(o, l), dtype), [g * rows + i * tall, 0], out)
    spec = pypto.Spec
    return [Launch(kernel, [spec((groups * rows, p.width), p.dtype), spec((groups * key_rows, p.width), p.dtype),
                            spec((groups * key_rows, p.value), p.dtype), spec((groups * rows, p.value), p.dtype)])]


OPERATORS = dict.fromkeys(("flash_attention", "gqa", "mha", "mla", "sparse_flash_mla_decode", "mla_decode"), attention)
