"""Loops of production kernels: unrolling, begin and end, nested bounds read from tables, scalars from writes."""
import ml_dtypes
import numpy as np
import pytest
from support.both import both, close, rng

import pypto_sim as pypto

BF16, FP32, I32, DYN = pypto.DT_BF16, pypto.DT_FP32, pypto.DT_INT32, pypto.DYNAMIC
Rows = pypto.Tensor([DYN, 16], FP32)


def f32(*shape, seed=0):
    return rng(seed).standard_normal(shape).astype(np.float32)


# --- loop_unroll
@pytest.mark.parametrize("factors", [[4, 2, 1], {8, 2}, (4,), [1], {1, 2, 4, 8}, [3]])
@pytest.mark.parametrize("rows", [1, 7, 8, 13])
def test_loop_unroll_with_lists_and_sets(factors, rows):
    @pypto.frontend.jit
    def kernel(x: Rows, out: Rows):
        for i, k in pypto.loop_unroll(0, x.shape[0], 1, name="UNROLL", idx_name="i", unroll_list=factors):
            pypto.set_vec_tile_shapes(k, 16)
            t = pypto.view(x, [k, 16], [i, 0])
            pypto.assemble(t * float(k), [i, 0], out)
    x = f32(rows, 16)
    got = both(kernel, x, np.zeros_like(x))[1]
    at, want = 0, x.astype(np.float64)
    for k in sorted({*factors, 1}, reverse=True):
        while rows - at >= k:
            want[at:at + k] *= k
            at += k
    close(got, want)


def test_loop_unroll_with_state_and_end():
    @pypto.frontend.jit
    def kernel(x: Rows, out: pypto.Tensor([1, 16], FP32)):
        total = pypto.tensor([1, 16], FP32, "total")
        for i, k in pypto.loop_unroll(0, x.shape[0], 1, unroll_list=[4, 2, 1], name="S", idx_name="i"):
            pypto.set_vec_tile_shapes(k, 16)
            part = pypto.sum(pypto.view(x, [k, 16], [i, 0]), 0, keepdim=True)
            if pypto.is_loop_begin(i):
                total[:] = part
            else:
                total[:] = total + part
        for _ in pypto.loop(1, submit_before_loop=True):
            pypto.set_vec_tile_shapes(1, 16)
            out[:] = total * 1.0
    for rows in (1, 4, 7):
        x = f32(rows, 16)
        close(both(kernel, x, np.zeros((1, 16), np.float32))[1], x.astype(np.float64).sum(0, keepdims=True))


def test_loop_unroll_two_levels_and_a_step():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 64], FP32), out: pypto.Tensor([DYN, 64], FP32)):
        for i, k in pypto.loop_unroll(0, x.shape[0], 2, unroll_list={2, 1}, name="OUT", idx_name="i"):
            for j, m in pypto.loop_unroll(4, unroll_list=[2], name="IN", idx_name="j"):
                pypto.set_vec_tile_shapes(2 * k, 16 * m)
                t = pypto.view(x, [2 * k, 16 * m], [i, j * 16])
                out[i:i + 2 * k, j * 16:(j + m) * 16] = t + 1.0
    for rows in (2, 6):
        x = f32(rows, 64)
        close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) + 1)


# --- unroll_list of loop, names, order
@pytest.mark.parametrize("keywords", [
    {"name": "L", "idx_name": "i", "unroll_list": [4, 2, 1]}, {"unroll_list": {2, 1}}, {"submit_before_loop": True},
    {"parallel": True}, {"unroll_list": [8], "submit_before_loop": True, "name": "A"}, {"unroll_list": (2,)},
    {"unroll_list": []}, {"unroll_list": range(1, 3)}])
def test_loop_keywords(keywords):
    @pypto.frontend.jit
    def kernel(x: Rows, out: Rows):
        pypto.set_vec_tile_shapes(2, 16)
        for i in pypto.loop(0, x.shape[0], 2, **keywords):
            out[i:i + 2, :] = pypto.view(x, [2, 16], [i, 0]) * 2.0
    x = f32(6, 16)
    close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) * 2)


def test_two_loops_through_global_memory():
    @pypto.frontend.jit
    def kernel(x: Rows, mid: Rows, out: Rows):
        n = x.shape[0]
        for i in pypto.loop(n, name="FIRST", idx_name="i"):
            pypto.set_vec_tile_shapes(1, 16)
            mid[i:i + 1, :] = pypto.exp(pypto.view(x, [1, 16], [i, 0]))
        for i in pypto.loop(n, name="SECOND", idx_name="i", submit_before_loop=True):
            pypto.set_vec_tile_shapes(1, 16)
            out[i:i + 1, :] = pypto.view(mid, [1, 16], [n - 1 - i, 0]) * 2.0
    x = f32(5, 16)
    close(both(kernel, x, np.zeros_like(x), np.zeros_like(x))[2], np.exp(x.astype(np.float64))[::-1] * 2)


# --- begin, end, cond
@pytest.mark.parametrize("form", ["plain", "cond", "flags", "arithmetic"])
def test_begin_and_end(form):
    @pypto.frontend.jit
    def kernel(x: Rows, out: pypto.Tensor([2, 16], FP32)):
        n = x.shape[0]
        acc = pypto.tensor([1, 16], FP32, "acc")
        for b in pypto.loop(2, name="B", idx_name="b"):
            for i in pypto.loop(0, n, 1, name="S", idx_name="i", unroll_list=[2, 1]):
                pypto.set_vec_tile_shapes(1, 16)
                row = pypto.view(x, [1, 16], [i, 0])
                if form == "flags":
                    begin, end = pypto.is_loop_begin(i), pypto.is_loop_end(i)
                elif form == "arithmetic":
                    begin, end = i == 0, i == n - 1
                else:
                    begin, end = pypto.cond(pypto.is_loop_begin(i)), pypto.cond(pypto.is_loop_end(i))
                if begin:
                    acc[:] = row
                else:
                    acc[:] = acc + row
                if form == "cond":
                    if pypto.cond(i == n - 1):
                        pypto.assemble(acc * 1.0, [b, 0], out)
                elif end:
                    pypto.assemble(acc * 1.0, [b, 0], out)
    for rows in (1, 2, 5):
        x = f32(rows, 16)
        s = x.astype(np.float64).sum(0, keepdims=True)
        close(both(kernel, x, np.zeros((2, 16), np.float32))[1], np.concatenate([s, s]))


def test_begin_of_an_outer_loop_inside_an_inner_one():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4, 64], FP32), out: pypto.Tensor([1, 16], FP32)):
        acc = pypto.tensor([1, 16], FP32, "acc")
        for i in pypto.loop(4, name="I", idx_name="i"):
            for j in pypto.loop(4, name="J", idx_name="j"):
                pypto.set_vec_tile_shapes(1, 16)
                t = pypto.view(x, [1, 16], [i, j * 16])
                if pypto.is_loop_begin(i) and pypto.is_loop_begin(j):
                    acc[:] = t
                else:
                    acc[:] = acc + t
                if pypto.is_loop_end(i):
                    if pypto.is_loop_end(j):
                        out[:] = acc + 0.0
    x = f32(4, 64)
    close(both(kernel, x, np.zeros((1, 16), np.float32))[1],
          x.astype(np.float64).reshape(4, 4, 16).sum((0, 1))[None], atol=1e-4)


# --- bounds from data
@pytest.mark.parametrize("dtype", [np.int32])
def test_nested_bounds_read_from_a_table(dtype):
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 16], FP32), starts: pypto.Tensor([DYN], I32), out: pypto.Tensor([DYN, 16], FP32)):
        for b in pypto.loop(starts.shape[0] - 1, name="B", idx_name="b"):
            begin, end = starts[b], starts[b + 1]
            begin.as_variable()
            length = end - begin
            total = pypto.tensor([1, 16], FP32, "total")
            for t in pypto.loop((length + 3) // 4, name="T", idx_name="t", unroll_list=[2, 1]):
                pypto.set_vec_tile_shapes(4, 16)
                valid = pypto.min(4, length - t * 4)
                part = pypto.view(x, [4, 16], [begin + t * 4, 0], valid_shape=[valid, 16])
                s = pypto.sum(part, 0, keepdim=True)
                if pypto.is_loop_begin(t):
                    total[:] = s
                else:
                    total[:] = total + s
                if pypto.is_loop_end(t):
                    pypto.assemble(total * 1.0, [b, 0], out)
    x = f32(20, 16)
    starts = np.array([0, 3, 3, 11, 12, 20], dtype)
    want = np.stack([x[a:b].astype(np.float64).sum(0) for a, b in zip(starts, starts[1:], strict=False)])
    got = both(kernel, x, starts, np.zeros((5, 16), np.float32))[2]
    close(got, want)


def test_element_past_the_end_of_a_table_is_clamped():
    @pypto.frontend.jit
    def kernel(x: Rows, table: pypto.Tensor([2, 3], I32), out: Rows):
        for b in pypto.loop(2, name="B", idx_name="b"):
            for i in pypto.loop(4, name="I", idx_name="i"):
                pypto.set_vec_tile_shapes(1, 16)
                block = table[b, i]
                pypto.assemble(pypto.view(x, [1, 16], [block, 0]) * 1.0, [b * 4 + i, 0], out)
    x, table = f32(6, 16), np.array([[0, 2, 4], [1, 3, 5]], np.int32)
    want = x[[0, 2, 4, 4, 1, 3, 5, 5]]
    got = both(kernel, x, table, np.zeros((8, 16), np.float32), quiet=False)[2]
    assert (got == want).all()
    assert "element.past_end" in {f.rule for f in kernel.last_run.warnings}
    with pypto.config(profile="master"), pytest.raises(IndexError, match="element"):
        kernel(x, table, np.zeros((8, 16), np.float32))


def test_four_deep_with_bounds_of_each_other():
    @pypto.frontend.jit
    def kernel(lens: pypto.Tensor([DYN], I32), out: pypto.Tensor([DYN], I32)):
        for b in pypto.loop(lens.shape[0], name="B", idx_name="b"):
            n = lens[b]
            out[b] = 0
            for i in pypto.loop(n, name="I", idx_name="i"):
                for j in pypto.loop(i + 1, name="J", idx_name="j"):
                    for k in pypto.loop(j, n, name="K", idx_name="k"):
                        out[b] = out[b] + k * 1 + j
    lens = np.array([0, 1, 3, 4], np.int32)
    want = [sum(k + j for i in range(n) for j in range(i + 1) for k in range(j, n)) for n in lens]
    got = both(kernel, lens, np.full(4, -1, np.int32), quiet=False)[1]
    assert got.tolist() == want


# --- scalars read from earlier writes
def test_scalars_from_earlier_writes():
    @pypto.frontend.jit
    def kernel(x: Rows, order: pypto.Tensor([DYN], I32), work: pypto.Tensor([DYN], I32), out: Rows):
        n = x.shape[0]
        for i in pypto.loop(n, name="INVERT", idx_name="i"):
            work[order[i]] = i
        for i in pypto.loop(n, name="APPLY", idx_name="i", submit_before_loop=True):
            pypto.set_vec_tile_shapes(1, 16)
            at = work[i]
            if at > 0:
                y = pypto.view(x, [1, 16], [at, 0]) * 2.0
            else:
                y = pypto.view(x, [1, 16], [at, 0]) * 3.0
            pypto.assemble(y, [i, 0], out)
    x, order = f32(6, 16), rng(3).permutation(6).astype(np.int32)
    inverse = np.argsort(order)
    want = x[inverse].astype(np.float64) * np.where(inverse > 0, 2, 3)[:, None]
    close(both(kernel, x, order, np.zeros(6, np.int32), np.zeros_like(x))[3], want)


def test_scalar_from_a_computed_local():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 32], FP32), out: pypto.Tensor([DYN, 32], FP32)):
        for i in pypto.loop(x.shape[0], name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(1, 32)
            row = pypto.view(x, [1, 32], [i, 0])
            _, top = pypto.topk(row, 8, -1)
            first = top[0, 0]
            shifted = pypto.view(x, [1, 32], [first % x.shape[0], 0])
            pypto.assemble(row + shifted, [i, 0], out)
    x = f32(5, 32)
    want = x.astype(np.float64) + x[x.argmax(-1) % 5]
    close(both(kernel, x, np.zeros_like(x))[1], want)


def test_counts_and_offsets_computed_in_the_kernel():
    """Expert sorting: tokens are counted per expert, offsets follow by a running sum, then tokens are placed."""
    experts = 4

    @pypto.frontend.jit
    def kernel(ids: pypto.Tensor([DYN], I32), counts: pypto.Tensor([experts], I32),
               offsets: pypto.Tensor([experts], I32), place: pypto.Tensor([DYN], I32)):
        for e in pypto.loop(experts, name="ZERO", idx_name="e"):
            counts[e] = 0
        for t in pypto.loop(ids.shape[0], name="COUNT", idx_name="t", submit_before_loop=True):
            e = ids[t]
            counts[e] = counts[e] + 1
        for e in pypto.loop(experts, name="SCAN", idx_name="e", submit_before_loop=True):
            if e == 0:
                offsets[e] = 0
            else:
                offsets[e] = offsets[e - 1] + counts[e - 1]
        for t in pypto.loop(ids.shape[0], name="PLACE", idx_name="t", submit_before_loop=True):
            e = ids[t]
            place[offsets[e]] = t
            offsets[e] = offsets[e] + 1
    ids = np.array([3, 0, 3, 1, 0, 3, 3], np.int32)
    zero = np.zeros(experts, np.int32)
    got = both(kernel, ids, zero, zero, np.zeros(7, np.int32), quiet=False)
    assert got[1].tolist() == [2, 1, 0, 4]
    assert got[3].tolist() == np.argsort(ids, kind="stable").tolist()


# --- nested loops as attention kernels have them
def test_paged_cache_walk_with_ragged_lengths():
    block, dim, heads = 8, 32, 4

    @pypto.frontend.jit(runtime_options={"stitch_function_max_num": 128})
    def kernel(q: pypto.Tensor([DYN, heads, dim], BF16), cache: pypto.Tensor([DYN, block, dim], BF16),
               table: pypto.Tensor([DYN, DYN], I32), lens: pypto.Tensor([DYN], I32),
               out: pypto.Tensor([DYN, heads, dim], FP32)):
        cache_2d = pypto.reshape(cache, [cache.shape[0] * block, dim], inplace=True)
        q_2d = pypto.reshape(q, [q.shape[0] * heads, dim], inplace=True)
        for b in pypto.loop(q.shape[0], name="LOOP_B", idx_name="b"):
            n = lens[b]
            blocks = (n + block - 1) // block
            blocks.as_variable()
            acc = pypto.tensor([heads, dim], FP32, "acc")
            for s in pypto.loop(blocks, name="LOOP_S", idx_name="s", unroll_list=[2, 1]):
                at = table[b, s]
                valid = (n - s * block).min(block)
                pypto.set_cube_tile_shapes([16, 16], [32, 32], [16, 16])
                pypto.set_vec_tile_shapes(heads, 16)
                qt = pypto.view(q_2d, [heads, dim], [b * heads, 0])
                kt = pypto.view(cache_2d, [block, dim], [at * block, 0], valid_shape=[valid, dim])
                scores = pypto.matmul(qt, kt, FP32, b_trans=True)
                scores = pypto.view(scores, [heads, block], [0, 0], valid_shape=[heads, valid])
                p = pypto.exp(scores * 0.1)
                o = pypto.matmul(pypto.cast(p, BF16), kt, FP32)
                if pypto.is_loop_begin(s):
                    acc[:] = o
                else:
                    acc[:] = pypto.add(acc, o)
                if pypto.is_loop_end(s):
                    pypto.assemble(pypto.reshape(acc + 0.0, [1, heads, dim]), [b, 0, 0], out)
    q, cache = (f32(*s, seed=n).astype(ml_dtypes.bfloat16) for n, s in enumerate(((3, heads, dim), (7, block, dim))))
    table = np.array([[4, 1, 6], [2, -1, -1], [0, 5, -1]], np.int32)
    lens = np.array([19, 8, 9], np.int32)
    got = both(kernel, q, cache, table, lens, np.zeros((3, heads, dim), np.float32))[4]
    for b, n in enumerate(lens):
        rows = np.concatenate([cache[t] for t in table[b, :-(-n // block)]])[:n].astype(np.float64)
        p = np.exp(q[b].astype(np.float64) @ rows.T * 0.1).astype(np.float32).astype(ml_dtypes.bfloat16)
        close(got[b], p.astype(np.float64) @ rows, rtol=0.03, atol=0.1)


def test_loop_index_arithmetic_in_offsets_and_shapes():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 64], FP32), out: pypto.Tensor([DYN, 64], FP32)):
        n = x.shape[0]
        for t in pypto.loop(n * 4, name="FLAT", idx_name="t"):
            row, col = t // 4, t % 4
            pypto.set_vec_tile_shapes(1, 16)
            tile = x[row:row + 1, col * 16:(col + 1) * 16]
            back = pypto.max(0, pypto.min(n - 1, n - 1 - row))
            out[back:back + 1, col * 16:] = tile * 1.0
    x = f32(5, 64)
    got = both(kernel, x, np.zeros_like(x))[1]
    assert (got == x[::-1]).all()


def test_start_and_stop_of_loops():
    @pypto.frontend.jit
    def kernel(x: Rows, out: Rows):
        n = x.shape[0]
        for i in pypto.loop(1, n - 1, name="MID", idx_name="i"):
            pypto.set_vec_tile_shapes(1, 16)
            out[i:i + 1, :] = x[i:i + 1, :] * 2.0
        for i in pypto.loop(0, n, n - 1, name="ENDS", idx_name="i"):
            pypto.set_vec_tile_shapes(1, 16)
            out[i:i + 1, :] = x[i:i + 1, :] * 3.0
    x = f32(6, 16)
    f = np.array([3, 2, 2, 2, 2, 3.0])[:, None]
    close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) * f)


def test_descending_loop():
    @pypto.frontend.jit
    def kernel(x: Rows, out: Rows):
        acc = pypto.tensor([1, 16], FP32, "acc")
        acc[:] = pypto.full([1, 16], 0.0, FP32)
        for i in pypto.loop(x.shape[0] - 1, -1, -1, name="BACK", idx_name="i"):
            pypto.set_vec_tile_shapes(1, 16)
            acc[:] = acc * 0.5 + x[i:i + 1, :]
            out[i:i + 1, :] = acc + 0.0
    x = f32(6, 16)
    want, a = np.zeros((6, 16)), 0
    for i in reversed(range(6)):
        a = a * 0.5 + x[i].astype(np.float64)
        want[i] = a
    close(both(kernel, x, np.zeros_like(x), quiet=False)[1], want)


def test_data_decides_which_branch_runs():
    @pypto.frontend.jit
    def kernel(x: Rows, kind: pypto.Tensor([DYN], I32), out: Rows):
        for i in pypto.loop(x.shape[0], name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(1, 16)
            row = x[i:i + 1, :]
            k = kind[i]
            if k == 0:
                out[i:i + 1, :] = pypto.exp(row)
            elif k == 1:
                out[i:i + 1, :] = row * 2.0
            elif pypto.cond(k > 5):
                for j in pypto.loop(k - 4, name="J", idx_name="j"):
                    if j == k - 5:
                        out[i:i + 1, :] = row + 1.0
    x, kind = f32(6, 16), np.array([0, 1, 2, 6, 9, 0], np.int32)
    out = np.full_like(x, 7)
    w = x.astype(np.float64)
    want = np.stack([np.exp(w[0]), w[1] * 2, np.full(16, 7), w[3] + 1, w[4] + 1, np.exp(w[5])])
    close(both(kernel, x, kind, out)[2], want)
