"""Attention over the whole row: matmul, scale, softmax, matmul. The softmax tile holds a full row of scores."""
import functools

import pypto_sim as pypto

from .parts import NPU, local_softmax


def _row(q, k, v, hidden, scale: float, dtype):
    scores = pypto.mul(pypto.matmul(q, k, pypto.DT_FP32, b_trans=True), scale)
    if hidden is not None:
        scores = pypto.add(scores, hidden)
    _, p, total = local_softmax(scores)
    return pypto.matmul(pypto.cast(pypto.div(p, total), dtype), v, dtype)


@functools.cache
def decode_kernel(kv_heads: int, group: int, dim: int, kv: int, tile_rows: int, cube: tuple, scale: float,
                  dtype: pypto.DataType):
    """q [kv_heads group, dim], k and v [kv_heads kv, dim] -> out [kv_heads group, dim]."""
    @pypto.frontend.jit(runtime_options=NPU)
    def attention_row(q: pypto.Tensor([kv_heads * group, dim], dtype), k: pypto.Tensor([kv_heads * kv, dim], dtype),
                      v: pypto.Tensor([kv_heads * kv, dim], dtype),
                      out: pypto.Tensor([kv_heads * group, dim], dtype)):
        for h in pypto.loop(kv_heads, name="kv_heads", idx_name="h"):
            pypto.set_cube_tile_shapes(*map(list, cube))
            pypto.set_vec_tile_shapes(tile_rows, kv)
            qt = pypto.view(q, [group, dim], [h * group, 0])
            kt, vt = (pypto.view(t, [kv, dim], [h * kv, 0]) for t in (k, v))
            pypto.assemble(_row(qt, kt, vt, None, scale, dtype), [h * group, 0], out)
    return attention_row


@functools.cache
def prefill_kernel(heads: int, kv_heads: int, dim: int, seq: int, rows: int, tile_rows: int, cube: tuple, scale: float,
                   dtype: pypto.DataType):
    """q [heads seq, dim], k and v [kv_heads seq, dim], band [rows, 2 seq] -> out; causal.

    band[r, u] is 0 for u <= r + seq and MASKED beyond, so that a window of it is the causal mask of any row tile.
    """
    group = heads // kv_heads

    @pypto.frontend.jit(runtime_options=NPU)
    def attention_row(q: pypto.Tensor([heads * seq, dim], dtype), k: pypto.Tensor([kv_heads * seq, dim], dtype),
                      v: pypto.Tensor([kv_heads * seq, dim], dtype), band: pypto.Tensor([rows, 2 * seq], dtype),
                      out: pypto.Tensor([heads * seq, dim], dtype)):
        for h in pypto.loop(heads, name="heads", idx_name="h"):
            for i in pypto.loop((seq + rows - 1) // rows, name="rows", idx_name="i"):
                pypto.set_cube_tile_shapes(*map(list, cube))
                pypto.set_vec_tile_shapes(tile_rows, seq)
                seen = pypto.min(seq, (i + 1) * rows)
                there = [pypto.min(rows, seq - i * rows), dim]
                qt = pypto.view(q, [rows, dim], [h * seq + i * rows, 0], valid_shape=there)
                kt, vt = (pypto.view(t, [seq, dim], [h // group * seq, 0], valid_shape=[seen, dim]) for t in (k, v))
                hidden = pypto.cast(pypto.view(band, [rows, seq], [0, seq - i * rows]), pypto.DT_FP32)
                pypto.assemble(_row(qt, kt, vt, hidden, scale, dtype), [h * seq + i * rows, 0], out)
    return attention_row
