"""Online softmax over blocks of keys: running maximum, sum and output; memory does not grow with the row."""
import functools

import pypto_sim as pypto

from .parts import NPU, local_softmax, merged, weighted


def step(j, carried, q, k, v, bias, scale: float, dtype, split: bool, out, offsets):
    """One block of keys. carried: (m, l, o) tensors of the loop; a finished tile goes to `out` at `offsets`."""
    m, s, o = carried
    scores = pypto.mul(pypto.matmul(q, k, pypto.DT_FP32, b_trans=True), scale)
    if bias is not None:
        scores = pypto.add(scores, bias)
    top, p, total = local_softmax(scores)
    product = weighted(p, v, dtype, split)
    if pypto.is_loop_begin(j):
        if pypto.is_loop_end(j):
            pypto.assemble(pypto.cast(pypto.div(product, total), dtype), offsets, out)
        else:
            m[:], s[:], o[:] = top, total, product
    else:
        new_m, new_s, new_o = merged(m, s, o, top, total, product)
        if pypto.is_loop_end(j):
            pypto.assemble(pypto.cast(pypto.div(new_o, new_s), dtype), offsets, out)
        else:
            m[:], s[:], o[:] = new_m, new_s, new_o


def window(band, rows: int, block: int, ahead, vec):
    """Causal mask [1, rows, block] of a block that starts `ahead` keys before the first query row; fp32."""
    pypto.set_vec_tile_shapes(vec[1], vec[2])
    found = pypto.cast(pypto.view(band, [rows, block], [0, block - ahead]), pypto.DT_FP32)
    found = pypto.unsqueeze(found, 0)
    pypto.set_vec_tile_shapes(*vec)
    return found


def state(batch: int, rows: int, dim: int):
    """Running maximum, sum and output of a row tile; the first block writes them."""
    return (pypto.tensor([batch, rows, 1], pypto.DT_FP32, "m"), pypto.tensor([batch, rows, 1], pypto.DT_FP32, "l"),
            pypto.tensor([batch, rows, dim], pypto.DT_FP32, "o"))


@functools.cache
def decode_kernel(kv_heads: int, group: int, dim: int, block: int, cube: tuple, vec: tuple, scale: float,
                  unroll: tuple[int, ...], split: bool, dtype: pypto.DataType):
    """q [kv_heads, group, dim], k and v [kv_heads, KV, dim] -> out [kv_heads, group, dim]; KV may change per call."""
    @pypto.frontend.jit(runtime_options=NPU)
    def gqa_decode(q: pypto.Tensor([kv_heads, group, dim], dtype),
                   k: pypto.Tensor([kv_heads, pypto.DYNAMIC, dim], dtype),
                   v: pypto.Tensor([kv_heads, pypto.DYNAMIC, dim], dtype),
                   out: pypto.Tensor([kv_heads, group, dim], dtype)):
        length = k.shape[1]
        m, s, o = state(kv_heads, group, dim)
        for j in pypto.loop((length + block - 1) // block, name="keys", idx_name="j", unroll_list=list(unroll)):
            pypto.set_cube_tile_shapes(*cube)
            pypto.set_vec_tile_shapes(*vec)
            valid = [kv_heads, pypto.min(block, length - j * block), dim]
            kt = pypto.view(k, [kv_heads, block, dim], [0, j * block, 0], valid_shape=valid)
            vt = pypto.view(v, [kv_heads, block, dim], [0, j * block, 0], valid_shape=valid)
            step(j, (m, s, o), q, kt, vt, None, scale, dtype, split, out, [0, 0, 0])
    return gqa_decode


@functools.cache
def prefill_kernel(heads: int, kv_heads: int, dim: int, rows: int, block: int, cube: tuple, vec: tuple, scale: float,
                   unroll: tuple[int, ...], split: bool, dtype: pypto.DataType):
    """q [heads, S, dim], k and v [kv_heads, S, dim], band [rows, 2 block + rows] -> out; causal.

    The query heads of one KV head share its blocks. `block` is a multiple of `rows`, so only the last block of a row
    tile needs the mask, a window of `band` (0 for u <= r + block, MASKED beyond).
    """
    group = heads // kv_heads

    @pypto.frontend.jit(runtime_options=NPU)
    def gqa_prefill(q: pypto.Tensor([heads, pypto.DYNAMIC, dim], dtype),
                    k: pypto.Tensor([kv_heads, pypto.DYNAMIC, dim], dtype),
                    v: pypto.Tensor([kv_heads, pypto.DYNAMIC, dim], dtype),
                    band: pypto.Tensor([rows, 2 * block + rows], dtype),
                    out: pypto.Tensor([heads, pypto.DYNAMIC, dim], dtype)):
        length = q.shape[1]
        m, s, o = state(group, rows, dim)
        for h in pypto.loop(kv_heads, name="kv_heads", idx_name="h"):
            for i in pypto.loop((length + rows - 1) // rows, name="rows", idx_name="i"):
                last = pypto.min(length, (i + 1) * rows)
                for j in pypto.loop((last + block - 1) // block, name="keys", idx_name="j",
                                    unroll_list=list(unroll)):
                    pypto.set_cube_tile_shapes(*cube)
                    pypto.set_vec_tile_shapes(*vec)
                    valid = [1, pypto.min(block, last - j * block), dim]
                    qt = pypto.view(q, [group, rows, dim], [h * group, i * rows, 0])
                    kt = pypto.view(k, [1, block, dim], [h, j * block, 0], valid_shape=valid)
                    vt = pypto.view(v, [1, block, dim], [h, j * block, 0], valid_shape=valid)
                    hidden = None
                    if pypto.is_loop_end(j):
                        hidden = window(band, rows, block, i * rows - j * block, vec)
                    step(j, (m, s, o), qt, kt, vt, hidden, scale, dtype, split, out, [h * group, i * rows, 0])
    return gqa_prefill
