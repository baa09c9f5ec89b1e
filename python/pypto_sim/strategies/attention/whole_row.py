"""Attention over the whole row: matmul, scale, softmax, matmul. The softmax tile holds a full row of scores."""
import functools

import pypto_sim as pypto

from .parts import NPU, local_softmax


def _row(q, k, v, bias, scale: float, dtype):
    scores = pypto.mul(pypto.matmul(q, k, pypto.DT_FP32, b_trans=True), scale)
    if bias is not None:
        scores = pypto.add(scores, bias)
    _, p, total = local_softmax(scores)
    p = pypto.cast(pypto.div(p, total), dtype)
    return pypto.matmul(p, v, dtype)


@functools.cache
def decode_kernel(kv_heads: int, group: int, dim: int, kv: int, cube: tuple, scale: float, dtype: pypto.DataType):
    """q [kv_heads, group, dim], k and v [kv_heads, kv, dim] -> out [kv_heads, group, dim]."""
    @pypto.frontend.jit(runtime_options=NPU)
    def attention_row(q: pypto.Tensor([kv_heads, group, dim], dtype), k: pypto.Tensor([kv_heads, kv, dim], dtype),
                      v: pypto.Tensor([kv_heads, kv, dim], dtype),
                      out: pypto.Tensor([kv_heads, group, dim], dtype)):
        pypto.set_cube_tile_shapes(*cube)
        pypto.set_vec_tile_shapes(1, 1, kv)
        out[:] = _row(q, k, v, None, scale, dtype)
    return attention_row


@functools.cache
def prefill_kernel(heads: int, kv_heads: int, dim: int, seq: int, rows: int, cube: tuple, scale: float,
                   dtype: pypto.DataType):
    """q [heads, seq, dim], k and v [kv_heads, seq, dim], band [rows, 2 seq] -> out; causal.

    band[r, u] is 0 for u <= r + seq and MASKED beyond, so that a window of it is the causal mask of any row tile.
    """
    group = heads // kv_heads

    @pypto.frontend.jit(runtime_options=NPU)
    def attention_row(q: pypto.Tensor([heads, seq, dim], dtype), k: pypto.Tensor([kv_heads, seq, dim], dtype),
                      v: pypto.Tensor([kv_heads, seq, dim], dtype), band: pypto.Tensor([rows, 2 * seq], dtype),
                      out: pypto.Tensor([heads, seq, dim], dtype)):
        for h in pypto.loop(heads, name="heads", idx_name="h"):
            for i in pypto.loop((seq + rows - 1) // rows, name="rows", idx_name="i"):
                pypto.set_cube_tile_shapes(*cube)
                seen = pypto.min(seq, (i + 1) * rows)
                kt = pypto.view(k, [1, seq, dim], [h // group, 0, 0], valid_shape=[1, seen, dim])
                vt = pypto.view(v, [1, seq, dim], [h // group, 0, 0], valid_shape=[1, seen, dim])
                pypto.set_vec_tile_shapes(1, seq)
                hidden = pypto.cast(pypto.view(band, [rows, seq], [0, seq - i * rows]), pypto.DT_FP32)
                hidden = pypto.unsqueeze(hidden, 0)
                pypto.set_vec_tile_shapes(1, 1, seq)
                qt = pypto.view(q, [1, rows, dim], [h, i * rows, 0])
                pypto.assemble(_row(qt, kt, vt, hidden, scale, dtype), [h, i * rows, 0], out)
    return attention_row
