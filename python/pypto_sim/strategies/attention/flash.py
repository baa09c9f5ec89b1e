"""Fused flash attention: several heads and a tile of queries in one step, sequences of different length in one launch.

Policy for a query that sees no key: its output is 0.
"""
import functools

import pypto_sim as pypto

from .online import key_tiles, kv_heads_of, rows_there, state, step, window
from .parts import NPU


@functools.cache
def decode_kernel(kv_heads: int, group: int, dim: int, block: int, cube: tuple, vec: tuple, scale: float,
                  unroll: tuple[int, ...], dtype: pypto.DataType):
    """q [B kv_heads group, dim], k and v [kv_heads T, dim] packed, cu [B + 1] -> out as q. One query a sequence."""
    heads = kv_heads * group

    @pypto.frontend.jit(runtime_options=NPU)
    def flash_decode(q: pypto.Tensor([pypto.DYNAMIC, dim], dtype), k: pypto.Tensor([pypto.DYNAMIC, dim], dtype),
                     v: pypto.Tensor([pypto.DYNAMIC, dim], dtype), cu: pypto.Tensor([pypto.DYNAMIC], pypto.DT_INT32),
                     out: pypto.Tensor([pypto.DYNAMIC, dim], dtype)):
        packed = k.shape[0] // kv_heads
        carried = state(heads, dim)
        for b in pypto.loop(cu.shape[0] - 1, name="sequences", idx_name="b"):
            begin = cu[b]
            length = cu[b + 1] - begin
            pypto.set_vec_tile_shapes(*vec)
            if length == 0:
                pypto.assemble(pypto.full([heads, dim], 0.0, dtype), [b * heads, 0], out)
            for j in pypto.loop((length + block - 1) // block, name="keys", idx_name="j", unroll_list=list(unroll)):
                pypto.set_cube_tile_shapes(*map(list, cube))
                pypto.set_vec_tile_shapes(*vec)
                valid = pypto.min(block, length - j * block)
                targets = [b * heads + h * group for h in range(kv_heads)]
                queries = [pypto.view(q, [group, dim], [target, 0]) for target in targets]
                keys, values = ([pypto.view(t, [block, dim], [h * packed + begin + j * block, 0],
                                            valid_shape=[valid, dim]) for h in range(kv_heads)] for t in (k, v))
                step(j, carried, queries, keys, values, valid, None, group, scale, dtype, False, out, targets)
    return flash_decode


@functools.cache
def prefill_kernel(heads: int, kv_heads: int, together: int, dim: int, rows: int, block: int, cube: tuple, vec: tuple,
                   scale: float, unroll: tuple[int, ...], dtype: pypto.DataType):
    """q [heads T, dim], k and v [kv_heads T, dim], both packed along T by cu [B + 1]; causal -> out.

    band [together rows, 2 block + rows]: 0 for u <= r + block, MASKED beyond; a window of it masks the last block of a
    row tile (`block` is a multiple of `rows`, so no other block meets the diagonal).
    """
    group = heads // kv_heads

    @pypto.frontend.jit(runtime_options=NPU)
    def flash_prefill(q: pypto.Tensor([pypto.DYNAMIC, dim], dtype), k: pypto.Tensor([pypto.DYNAMIC, dim], dtype),
                      v: pypto.Tensor([pypto.DYNAMIC, dim], dtype),
                      band: pypto.Tensor([together * rows, 2 * block + rows], dtype),
                      cu: pypto.Tensor([pypto.DYNAMIC], pypto.DT_INT32),
                      out: pypto.Tensor([pypto.DYNAMIC, dim], dtype)):
        packed = q.shape[0] // heads
        carried = state(together * rows, dim)
        for b in pypto.loop(cu.shape[0] - 1, name="sequences", idx_name="b"):
            begin = cu[b]
            length = cu[b + 1] - begin
            for i in pypto.loop((length + rows - 1) // rows, name="rows", idx_name="i"):
                last = pypto.min(length, (i + 1) * rows)
                for h in pypto.loop(heads // together, name="heads", idx_name="h"):
                    for j in pypto.loop((last + block - 1) // block, name="keys", idx_name="j",
                                        unroll_list=list(unroll)):
                        pypto.set_cube_tile_shapes(*map(list, cube))
                        pypto.set_vec_tile_shapes(*vec)
                        targets = [(h * together + n) * packed + begin + i * rows for n in range(together)]
                        queries = [pypto.view(q, [rows, dim], [target, 0]) for target in targets]
                        seen = pypto.min(block, last - j * block)
                        keys, values = (key_tiles(t, block, dim, *kv_heads_of(h, together, group), packed,
                                                  begin + j * block, seen) for t in (k, v))
                        hidden = None
                        if pypto.is_loop_end(j):
                            hidden = window(band, together * rows, block, i * rows - j * block)
                        step(j, carried, queries, keys, values, seen, hidden, rows, scale, dtype, False, out, targets,
                             pypto.min(rows, length - i * rows), rows_there(q, targets, rows))
    return flash_prefill


@functools.cache
def online_op_kernel(heads: int, kv_heads: int, dim: int, rows: int, block: int, cube: tuple, scale: float,
                     dtype: pypto.DataType, operation: bool):
    """Causal attention on transposed tiles, one head at a time: scores [block, rows], output [dim, rows].

    q [heads S, dim], k and v [kv_heads S, dim], band [2 block + rows, rows] (0 for u <= r + block, MASKED beyond).
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
    def flash_transposed(q: pypto.Tensor([pypto.DYNAMIC, dim], dtype), k: pypto.Tensor([pypto.DYNAMIC, dim], dtype),
                         v: pypto.Tensor([pypto.DYNAMIC, dim], dtype),
                         band: pypto.Tensor([2 * block + rows, rows], dtype),
                         out: pypto.Tensor([pypto.DYNAMIC, dim], dtype)):
        length = q.shape[0] // heads
        m = pypto.tensor([1, rows], pypto.DT_FP32, "m")
        s = pypto.tensor([1, rows], pypto.DT_FP32, "l")
        o = pypto.tensor([dim, rows], pypto.DT_FP32, "o")
        for h in pypto.loop(heads, name="heads", idx_name="h"):
            for i in pypto.loop(length // rows, name="rows", idx_name="i"):
                for j in pypto.loop(((i + 1) * rows + block - 1) // block, name="keys", idx_name="j"):
                    pypto.set_cube_tile_shapes(*map(list, cube))
                    pypto.set_vec_tile_shapes(block, 16)
                    valid = [pypto.min(block, (i + 1) * rows - j * block), dim]
                    qt = pypto.view(q, [rows, dim], [h * length + i * rows, 0])
                    kt, vt = (pypto.view(t, [block, dim], [h // group * length + j * block, 0], valid_shape=valid)
                              for t in (k, v))
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
                        done = pypto.cast(pypto.div(o, s), dtype)
                        pypto.set_vec_tile_shapes(dim, 16)
                        pypto.assemble(pypto.transpose(done, 0, 1), [h * length + i * rows, 0], out)
    return flash_transposed
