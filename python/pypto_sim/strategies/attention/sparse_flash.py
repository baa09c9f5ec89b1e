"""Sparse flash attention (MLA-like): every query attends to its top-k rows of a paged cache, gathered by index."""
import functools

import pypto_sim as pypto

from .online import state, step
from .parts import NPU


@functools.cache
def sparse_kernel(heads: int, dim: int, v_dim: int, topk: int, block: int, page: int, pages: int, cube: tuple,
                  vec: tuple, gather_rows: int, scale: float, unroll: tuple[int, ...], dtype: pypto.DataType):
    """q [tokens heads, dim], cache [slots, dim] (the first v_dim columns are the values), table [1, pages] with the
    physical page of each logical one, picked [tokens, topk] logical positions -> out [tokens heads, v_dim]."""
    @pypto.frontend.jit(runtime_options=NPU)
    def sparse_flash(q: pypto.Tensor([pypto.DYNAMIC, dim], dtype), cache: pypto.Tensor([pages * page, dim], dtype),
                     table: pypto.Tensor([1, pages], pypto.DT_INT32),
                     picked: pypto.Tensor([pypto.DYNAMIC, topk], pypto.DT_INT32),
                     out: pypto.Tensor([pypto.DYNAMIC, v_dim], dtype)):
        carried = state(heads, v_dim)
        for t in pypto.loop(picked.shape[0], name="tokens", idx_name="t"):
            for j in pypto.loop(topk // block, name="picked", idx_name="j", unroll_list=list(unroll)):
                pypto.set_cube_tile_shapes(*map(list, cube))
                pypto.set_vec_tile_shapes(1, max(block, pages))
                position = pypto.view(picked, [1, block], [t, j * block])
                logical = pypto.cast(pypto.mul(pypto.cast(position, pypto.DT_FP32), 1.0 / page), pypto.DT_INT32,
                                     pypto.CastMode.CAST_TRUNC)
                physical = pypto.gather(table, 1, logical)
                slot = pypto.add(pypto.mul(pypto.sub(physical, logical), page), position)
                slot = pypto.reshape(slot, [block])
                pypto.set_vec_tile_shapes(gather_rows, dim)
                rows = pypto.index_select(cache, 0, slot)
                pypto.set_vec_tile_shapes(*vec)
                qt = pypto.view(q, [heads, dim], [t * heads, 0])
                values = pypto.view(rows, [block, v_dim], [0, 0])
                step(j, carried, [qt], [rows], [values], block, None, heads, scale, dtype, False, out, [t * heads])
    return sparse_flash
