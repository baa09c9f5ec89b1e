"""Online softmax over blocks of keys: running maximum, sum and output; memory does not grow with the row."""
import functools

import pypto_sim as pypto

from .parts import NPU, local_softmax, merged, piece, scores_of, weighted


def step(j, carried, queries, keys, values, seen, hidden, rows: int, scale: float, dtype, split: bool, out, targets,
         valid=None, there=None):
    """One block of keys for one row tile of every head.

    carried: (m, l, o) tensors of the loop. queries, keys, values: a tile per head, with `seen` valid keys. A finished
    tile of head n goes to row targets[n] of `out`, `valid` rows of it. there: valid rows of all queries together.
    """
    m, s, o = carried
    there = len(queries) * rows if there is None else there
    top, p, total = local_softmax(scores_of(queries, keys, rows, there, seen, scale, hidden))
    product = weighted(p, values, rows, there, dtype, split)
    if pypto.is_loop_begin(j):
        if pypto.is_loop_end(j):
            _store(pypto.div(product, total), rows, dtype, out, targets, valid)
        else:
            # a stack of products is put together on its way through UB
            m[:], s[:], o[:] = top, total, product if len(queries) == 1 else pypto.mul(product, 1.0)
    else:
        new_m, new_s, new_o = merged(m, s, o, top, total, product)
        if pypto.is_loop_end(j):
            _store(pypto.div(new_o, new_s), rows, dtype, out, targets, valid)
        else:
            m[:], s[:], o[:] = new_m, new_s, new_o


def _store(tile, rows: int, dtype, out, targets, valid):
    done = pypto.cast(tile, dtype)
    for n, target in enumerate(targets):
        pypto.assemble(piece(done, n, len(targets), rows, valid), [target, 0], out)


def state(rows: int, dim: int):
    """Running maximum, sum and output of `rows` rows; the first block writes them."""
    return (pypto.tensor([rows, 1], pypto.DT_FP32, "m"), pypto.tensor([rows, 1], pypto.DT_FP32, "l"),
            pypto.tensor([rows, dim], pypto.DT_FP32, "o"))


def window(band, rows: int, block: int, ahead):
    """Causal mask [rows, block] of a block that starts `ahead` keys before the first query row; fp32."""
    return pypto.cast(pypto.view(band, [rows, block], [0, block - ahead]), pypto.DT_FP32)


def rows_there(q, targets, rows: int):
    """Valid rows of the stacked query tiles: only the last one can reach past the end of `q`."""
    return (len(targets) - 1) * rows + pypto.min(rows, q.shape[0] - targets[-1])


def kv_heads_of(h, together: int, group: int):
    """(distinct KV heads, which of them each query head uses) of the `together` query heads from h * together on."""
    if together % group == 0:
        several = together // group
        return [h * several + n for n in range(several)], [n // group for n in range(together)]
    return [(h * together) // group], [0] * together


def key_tiles(t, block: int, dim: int, kv_heads, used, stride, first, valid):
    """[block, dim] tile per query head of flat keys or values; query heads of one KV head share the view."""
    tiles = [pypto.view(t, [block, dim], [head * stride + first, 0], valid_shape=[valid, dim]) for head in kv_heads]
    return [tiles[n] for n in used]


@functools.cache
def decode_kernel(kv_heads: int, group: int, dim: int, block: int, cube: tuple, vec: tuple, scale: float,
                  unroll: tuple[int, ...], split: bool, dtype: pypto.DataType):
    """q [kv_heads group, dim], k and v [kv_heads KV, dim] -> out [kv_heads group, dim]; KV may change per call."""
    @pypto.frontend.jit(runtime_options=NPU)
    def gqa_decode(q: pypto.Tensor([kv_heads * group, dim], dtype), k: pypto.Tensor([pypto.DYNAMIC, dim], dtype),
                   v: pypto.Tensor([pypto.DYNAMIC, dim], dtype), out: pypto.Tensor([kv_heads * group, dim], dtype)):
        length = k.shape[0] // kv_heads
        carried = state(kv_heads * group, dim)
        for j in pypto.loop((length + block - 1) // block, name="keys", idx_name="j", unroll_list=list(unroll)):
            pypto.set_cube_tile_shapes(*map(list, cube))
            pypto.set_vec_tile_shapes(*vec)
            valid = pypto.min(block, length - j * block)
            queries = [pypto.view(q, [group, dim], [h * group, 0]) for h in range(kv_heads)]
            keys, values = ([pypto.view(t, [block, dim], [h * length + j * block, 0], valid_shape=[valid, dim])
                             for h in range(kv_heads)] for t in (k, v))
            step(j, carried, queries, keys, values, valid, None, group, scale, dtype, split, out,
                 [h * group for h in range(kv_heads)])
    return gqa_decode


@functools.cache
def prefill_kernel(heads: int, kv_heads: int, together: int, dim: int, rows: int, block: int, cube: tuple, vec: tuple,
                   scale: float, unroll: tuple[int, ...], split: bool, dtype: pypto.DataType):
    """q [heads S, dim], k and v [kv_heads S, dim], band [together rows, 2 block + rows] -> out; causal.

    `together` query heads make a step; those of one KV head share its tiles. `block` is a multiple of `rows`, so only
    the last block of a row tile needs the mask, a window of `band` (0 for u <= r + block, MASKED beyond). Rows past the
    end of a head are rows of the next one: computed and not stored.
    """
    group = heads // kv_heads

    @pypto.frontend.jit(runtime_options=NPU)
    def gqa_prefill(q: pypto.Tensor([pypto.DYNAMIC, dim], dtype), k: pypto.Tensor([pypto.DYNAMIC, dim], dtype),
                    v: pypto.Tensor([pypto.DYNAMIC, dim], dtype),
                    band: pypto.Tensor([together * rows, 2 * block + rows], dtype),
                    out: pypto.Tensor([pypto.DYNAMIC, dim], dtype)):
        length = q.shape[0] // heads
        carried = state(together * rows, dim)
        for h in pypto.loop(heads // together, name="heads", idx_name="h"):
            for i in pypto.loop((length + rows - 1) // rows, name="rows", idx_name="i"):
                last = pypto.min(length, (i + 1) * rows)
                for j in pypto.loop((last + block - 1) // block, name="keys", idx_name="j",
                                    unroll_list=list(unroll)):
                    pypto.set_cube_tile_shapes(*map(list, cube))
                    pypto.set_vec_tile_shapes(*vec)
                    targets = [(h * together + n) * length + i * rows for n in range(together)]
                    queries = [pypto.view(q, [rows, dim], [target, 0]) for target in targets]
                    seen = pypto.min(block, last - j * block)
                    keys, values = (key_tiles(t, block, dim, *kv_heads_of(h, together, group), length, j * block, seen)
                                    for t in (k, v))
                    hidden = None
                    if pypto.is_loop_end(j):
                        hidden = window(band, together * rows, block, i * rows - j * block)
                    step(j, carried, queries, keys, values, seen, hidden, rows, scale, dtype, split, out, targets,
                         pypto.min(rows, length - i * rows), rows_there(q, targets, rows))
    return gqa_prefill
