"""Fused flash attention: all heads and a tile of queries in one step, sequences of different length in one launch.

Policy for a query that sees no key: its output is 0.
"""
import functools

import pypto_sim as pypto

from .online import step, window
from .parts import NPU


@functools.cache
def decode_kernel(kv_heads: int, group: int, dim: int, block: int, cube: tuple, vec: tuple, scale: float,
                  unroll: tuple[int, ...], dtype: pypto.DataType):
    """q [B kv_heads, group, dim], k and v [kv_heads, T, dim] packed, cu [B + 1] -> out as q. One query a sequence."""
    @pypto.frontend.jit(runtime_options=NPU)
    def flash_decode(q: pypto.Tensor([pypto.DYNAMIC, group, dim], dtype),
                     k: pypto.Tensor([kv_heads, pypto.DYNAMIC, dim], dtype),
                     v: pypto.Tensor([kv_heads, pypto.DYNAMIC, dim], dtype),
                     cu: pypto.Tensor([pypto.DYNAMIC], pypto.DT_INT32),
                     out: pypto.Tensor([pypto.DYNAMIC, group, dim], dtype)):
        m = pypto.tensor([kv_heads, group, 1], pypto.DT_FP32, "m")
        s = pypto.tensor([kv_heads, group, 1], pypto.DT_FP32, "l")
        o = pypto.tensor([kv_heads, group, dim], pypto.DT_FP32, "o")
        for b in pypto.loop(cu.shape[0] - 1, name="sequences", idx_name="b"):
            begin = cu[b]
            length = cu[b + 1] - begin
            pypto.set_vec_tile_shapes(*vec)
            if length == 0:
                pypto.assemble(pypto.full([kv_heads, group, dim], 0.0, dtype), [b * kv_heads, 0, 0], out)
            for j in pypto.loop((length + block - 1) // block, name="keys", idx_name="j", unroll_list=list(unroll)):
                pypto.set_cube_tile_shapes(*cube)
                pypto.set_vec_tile_shapes(*vec)
                valid = [kv_heads, pypto.min(block, length - j * block), dim]
                qt = pypto.view(q, [kv_heads, group, dim], [b * kv_heads, 0, 0])
                kt = pypto.view(k, [kv_heads, block, dim], [0, begin + j * block, 0], valid_shape=valid)
                vt = pypto.view(v, [kv_heads, block, dim], [0, begin + j * block, 0], valid_shape=valid)
                step(j, (m, s, o), qt, kt, vt, None, scale, dtype, False, out, [b * kv_heads, 0, 0])
    return flash_decode


@functools.cache
def prefill_kernel(kv_heads: int, group: int, dim: int, rows: int, block: int, cube: tuple, vec: tuple, scale: float,
                   unroll: tuple[int, ...], dtype: pypto.DataType):
    """q [kv_heads, group, T, dim], k and v [kv_heads, 1, T, dim], both packed along T by cu [B + 1]; causal -> out.

    band [rows, 2 block + rows]: 0 for u <= r + block, MASKED beyond; a window of it masks the last block of a row tile
    (`block` is a multiple of `rows`, so no other block meets the diagonal).
    """
    @pypto.frontend.jit(runtime_options=NPU)
    def flash_prefill(q: pypto.Tensor([kv_heads, group, pypto.DYNAMIC, dim], dtype),
                      k: pypto.Tensor([kv_heads, 1, pypto.DYNAMIC, dim], dtype),
                      v: pypto.Tensor([kv_heads, 1, pypto.DYNAMIC, dim], dtype),
                      band: pypto.Tensor([rows, 2 * block + rows], dtype),
                      cu: pypto.Tensor([pypto.DYNAMIC], pypto.DT_INT32),
                      out: pypto.Tensor([kv_heads, group, pypto.DYNAMIC, dim], dtype)):
        m = pypto.tensor([kv_heads, group, rows, 1], pypto.DT_FP32, "m")
        s = pypto.tensor([kv_heads, group, rows, 1], pypto.DT_FP32, "l")
        o = pypto.tensor([kv_heads, group, rows, dim], pypto.DT_FP32, "o")
        for b in pypto.loop(cu.shape[0] - 1, name="sequences", idx_name="b"):
            begin = cu[b]
            length = cu[b + 1] - begin
            for i in pypto.loop((length + rows - 1) // rows, name="rows", idx_name="i"):
                last = pypto.min(length, (i + 1) * rows)
                for j in pypto.loop((last + block - 1) // block, name="keys", idx_name="j",
                                    unroll_list=list(unroll)):
                    pypto.set_cube_tile_shapes(*cube)
                    pypto.set_vec_tile_shapes(1, *vec)
                    valid = [kv_heads, 1, pypto.min(block, last - j * block), dim]
                    qt = pypto.view(q, [kv_heads, group, rows, dim], [0, 0, begin + i * rows, 0],
                                    valid_shape=[kv_heads, group, pypto.min(rows, length - i * rows), dim])
                    kt = pypto.view(k, [kv_heads, 1, block, dim], [0, 0, begin + j * block, 0], valid_shape=valid)
                    vt = pypto.view(v, [kv_heads, 1, block, dim], [0, 0, begin + j * block, 0], valid_shape=valid)
                    hidden = None
                    if pypto.is_loop_end(j):
                        hidden = pypto.unsqueeze(window(band, rows, block, i * rows - j * block, vec), 0)
                        pypto.set_vec_tile_shapes(1, *vec)
                    step(j, (m, s, o), qt, kt, vt, hidden, scale, dtype, False, out, [0, 0, begin + i * rows, 0])
    return flash_prefill


@functools.cache
def online_op_kernel(heads: int, kv_heads: int, dim: int, rows: int, block: int, cube: tuple, scale: float,
                     dtype: pypto.DataType, operation: bool):
    """Causal attention on transposed tiles, one head at a time: scores [block, rows], output [dim, rows].

    q [heads, S, dim], k and v [kv_heads, S, dim], band [2 block + rows, rows] (0 for u <= r + block, MASKED beyond).
    operation: experimental.online_softmax and online_softmax_update (950); otherwise the same steps written by hand.
    """
    group = heads // kv_heads

    def block_softmax(scores):
        if operation:
            return pypto.experimental.online_softmax(scores, scale)
        scaled = pypto.mul(scores, scale)
        top = pypto.amax(scaled, dim=0, keepdim=True)
        p = pypto.exp(pypto.sub(scaled, top))
        return pypto.cast(p, pypto.DT_BF16), top, pypto.sum(p, dim=0, keepdim=True)

    def update(m, s, o, top, total, product):
        if operation:
            return pypto.experimental.online_softmax_update(m, s, o, top, total, product)
        new = pypto.maximum(m, top)
        old, now = pypto.exp(pypto.sub(m, new)), pypto.exp(pypto.sub(top, new))
        return (new, pypto.add(pypto.mul(s, old), pypto.mul(total, now)),
                pypto.add(pypto.mul(o, old), pypto.mul(product, now)))

    @pypto.frontend.jit(runtime_options=NPU)
    def flash_transposed(q: pypto.Tensor([heads, pypto.DYNAMIC, dim], dtype),
                         k: pypto.Tensor([kv_heads, pypto.DYNAMIC, dim], dtype),
                         v: pypto.Tensor([kv_heads, pypto.DYNAMIC, dim], dtype),
                         band: pypto.Tensor([2 * block + rows, rows], dtype),
                         out: pypto.Tensor([heads, pypto.DYNAMIC, dim], dtype)):
        length = q.shape[1]
        m = pypto.tensor([1, rows], pypto.DT_FP32, "m")
        s = pypto.tensor([1, rows], pypto.DT_FP32, "l")
        o = pypto.tensor([dim, rows], pypto.DT_FP32, "o")
        for h in pypto.loop(heads, name="heads", idx_name="h"):
            for i in pypto.loop(length // rows, name="rows", idx_name="i"):
                for j in pypto.loop(((i + 1) * rows + block - 1) // block, name="keys", idx_name="j"):
                    pypto.set_cube_tile_shapes(*cube)
                    pypto.set_vec_tile_shapes(block, 16)
                    qt = pypto.reshape(pypto.view(q, [1, rows, dim], [h, i * rows, 0]), [rows, dim])
                    valid = pypto.min(block, (i + 1) * rows - j * block)
                    kt = pypto.reshape(pypto.view(k, [1, block, dim], [h // group, j * block, 0]), [block, dim],
                                       valid_shape=[valid, dim])
                    vt = pypto.reshape(pypto.view(v, [1, block, dim], [h // group, j * block, 0]), [block, dim],
                                       valid_shape=[valid, dim])
                    scores = pypto.matmul(kt, qt, pypto.DT_FP32, b_trans=True)
                    if pypto.is_loop_end(j):
                        hidden = pypto.view(band, [block, rows], [block - i * rows + j * block, 0])
                        scores = pypto.add(scores, pypto.cast(hidden, pypto.DT_FP32))
                    p, top, total = block_softmax(scores)
                    product = pypto.matmul(vt, p, pypto.DT_FP32, a_trans=True)
                    if pypto.is_loop_begin(j):
                        m[:], s[:], o[:] = top, total, product
                    else:
                        m[:], s[:], o[:] = update(m, s, o, top, total, product)
                    if pypto.is_loop_end(j):
                        done = pypto.transpose(pypto.cast(pypto.div(o, s), dtype), 0, 1)
                        pypto.assemble(pypto.unsqueeze(done, 0), [h, i * rows, 0], out)
    return flash_transposed
