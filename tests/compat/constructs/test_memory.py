"""Memory of production kernels: aliasing reshapes, caches in place, valid regions, loose ranks, NZ, int8 chains."""
import warnings

import ml_dtypes
import numpy as np
import pytest
from support.both import both, close, rng

import pypto_sim as pypto

BF16, FP32, I32, I8, DYN = pypto.DT_BF16, pypto.DT_FP32, pypto.DT_INT32, pypto.DT_INT8, pypto.DYNAMIC
bf16 = ml_dtypes.bfloat16


def f32(*shape, seed=0):
    return rng(seed).standard_normal(shape).astype(np.float32)


# --- slices and assignment
def test_open_ended_slice_assignment():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 32], FP32), out: pypto.Tensor([DYN, 32], FP32)):
        for i in pypto.loop((x.shape[0] + 3) // 4, name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(4, 16)
            t = pypto.view(x, [4, 32], [i * 4, 0], valid_shape=[pypto.min(4, x.shape[0] - i * 4), 32])
            left, right = t[:, :16], t[:, 16:]
            out[i * 4:, :16] = right * 1.0
            out[i * 4:, 16:] = left * 2.0
    for rows in (4, 7):
        x = f32(rows, 32)
        want = np.concatenate([x[:, 16:], x[:, :16] * 2], -1)
        assert (both(kernel, x, np.zeros_like(x))[1] == want).all()


@pytest.mark.parametrize("form", range(8))
def test_forms_of_writing_a_result(form):
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4, 16], FP32), out: pypto.Tensor([4, 16], FP32)):
        pypto.set_vec_tile_shapes(4, 16)
        y = x * 2.0
        if form == 0:
            out[:] = y
        elif form == 1:
            out[...] = y
        elif form == 2:
            out.move(y)
        elif form == 3:
            pypto.assemble(y, [0, 0], out)
        elif form == 4:
            out.assemble(y, [0, 0])
        elif form == 5:
            out[0:4, 0:16] = y
        elif form == 6:
            out[:, :] = y
        else:
            pypto.assemble([(y[:2, :], [0, 0]), (y[2:, :], [2, 0])], out)
    x = f32(4, 16)
    assert (both(kernel, x, np.zeros_like(x))[1] == x * 2).all()


@pytest.mark.parametrize("form", ["integer", "integers", "negative", "ellipsis", "missing"])
def test_rank_loose_assignment(form):
    """An int index adds the axis that the tensor lacks."""
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 4, 16], FP32), out: pypto.Tensor([DYN, 4, 16], FP32)):
        for b in pypto.loop(x.shape[0], name="B", idx_name="b"):
            pypto.set_vec_tile_shapes(4, 16)
            rows = x[b]
            if form == "integer":
                out[b] = rows * 2.0
            elif form == "integers":
                for h in range(4):
                    pypto.set_vec_tile_shapes(16)
                    out[b, h] = x[b, h, :] * 2.0
            elif form == "negative":
                for h in range(4):
                    pypto.set_vec_tile_shapes(16)
                    out[b, h - 4] = x[b, h - 4, :] * 2.0
            elif form == "ellipsis":
                out[b, ...] = rows * 2.0
            else:
                out[b, :] = rows * 2.0
    x = f32(3, 4, 16)
    assert (both(kernel, x, np.zeros_like(x))[1] == x * 2).all()


def test_a_smaller_tensor_fills_the_corner():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4, 16], FP32), out: pypto.Tensor([8, 32], FP32)):
        pypto.set_vec_tile_shapes(4, 16)
        out[:] = x + 1.0
    out = np.full((8, 32), 7, np.float32)
    x = f32(4, 16)
    got = both(kernel, x, out)[1]
    close(got[:4, :16], x.astype(np.float64) + 1)
    assert (got[4:] == 7).all() and (got[:, 16:] == 7).all()


# --- reshape
def test_reshape_inplace_aliases_global_memory():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 4, 16], BF16), out: pypto.Tensor([DYN, 4, 16], BF16)):
        b = x.shape[0]
        x2 = pypto.reshape(x, [b * 4, 16], inplace=True)
        out2 = pypto.reshape(out, [b * 4, 16], inplace=True)
        for i in pypto.loop(b * 4, name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(1, 16)
            pypto.assemble(pypto.view(x2, [1, 16], [i, 0]) * 2.0, [i, 0], out2)
    x = f32(3, 4, 16).astype(bf16)
    assert (both(kernel, x, np.zeros_like(x))[1] == x * bf16(2)).all()


def test_reshape_inplace_counts_as_the_argument():
    """Writes through it are writes of the argument: for the rules, for read-only memory and in the estimate."""
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 4, 16], FP32), out: pypto.Tensor([DYN, 4, 16], FP32)):
        x2, out2 = (pypto.reshape(t, [x.shape[0] * 4, 16], inplace=True) for t in (x, out))
        for i in pypto.loop(x.shape[0] * 4, name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(1, 16)
            pypto.assemble(pypto.view(x2, [1, 16], [i, 0]) * 2.0, [i, 0], out2)

    @pypto.frontend.jit
    def rebound(x: pypto.Tensor([3, 4, 16], FP32), out: pypto.Tensor([3, 4, 16], FP32)):
        pypto.set_vec_tile_shapes(12, 16)
        out2 = pypto.reshape(out, [12, 16], inplace=True)
        out2[:] = pypto.reshape(x, [12, 16]) * 2.0
    x = f32(3, 4, 16)
    for model in ("calibrated", "official"):
        estimate = pypto.estimate(kernel, x, np.zeros_like(x), model=model)
        assert (estimate.gm_read_bytes, estimate.gm_write_bytes) == (x.nbytes, x.nbytes)
    frozen = np.zeros_like(x)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        kernel(x, frozen)
    both(rebound, x, np.zeros_like(x), quiet=False)
    assert "output.unwritten" in {f.rule for f in rebound.last_run.warnings}


def test_element_of_a_table_reshaped_in_place():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 16], FP32), table: pypto.Tensor([2, 3], I32), out: pypto.Tensor([DYN, 16], FP32)):
        flat = pypto.reshape(table, [6], inplace=True)
        for i in pypto.loop(6, name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(1, 16)
            out[i:i + 1, :] = pypto.view(x, [1, 16], [flat[i], 0]) * 1.0
        for i in pypto.loop(flat[5], name="J", idx_name="j"):
            pypto.set_vec_tile_shapes(1, 16)
            out[i + 6:i + 7, :] = pypto.view(x, [1, 16], [i, 0]) * 2.0
    x, table = f32(6, 16), np.array([[5, 1, 0], [2, 4, 3]], np.int32)
    got = both(kernel, x, table, np.zeros((9, 16), np.float32))[2]
    assert (got == np.concatenate([x[table.ravel()], x[:3] * 2])).all()
    assert pypto.estimate(kernel, x, table, np.zeros((9, 16), np.float32)).gm_write_bytes == got.nbytes


@pytest.mark.parametrize("form", ["move", "slice", "alone"])
def test_cache_reshaped_in_place_and_updated(form):
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4, 16], BF16), slots: pypto.Tensor([4, 1], I32),
               cache: pypto.Tensor([DYN, 4, 1, 16], BF16)):
        pypto.set_vec_tile_shapes(4, 16)
        flat = pypto.reshape(cache, [cache.shape[0] * 4, 16], inplace=True)
        for _ in pypto.loop(1, name="UPDATE"):
            new = pypto.scatter_update(flat, -2, slots, x * 1.0)
            if form == "move":
                flat.move(new)
            elif form == "slice":
                flat[:] = new
    x, cache = f32(4, 16).astype(bf16), f32(12, 16, seed=1).astype(bf16)
    slots = np.array([[7], [0], [11], [2]], np.int32)
    want = cache.copy()
    want[slots[:, 0]] = x
    got = both(kernel, x, slots, cache.reshape(3, 4, 1, 16))[2]
    assert (got.reshape(12, 16) == want).all()


def test_reshape_inplace_in_a_loop_of_one():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 8, 16], FP32), w: pypto.Tensor([16, 16], FP32),
               out: pypto.Tensor([DYN, 8, 16], FP32)):
        n = x.shape[0]
        flat = pypto.tensor([64, 16], FP32, "flat") if isinstance(n, int) else None
        for _ in pypto.loop(1, name="RESHAPE"):
            flat = pypto.reshape(x, [n * 8, 16], inplace=True)
        for i in pypto.loop(n, name="I", idx_name="i"):
            pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
            pypto.set_vec_tile_shapes(8, 16)
            y = pypto.matmul(pypto.view(flat, [8, 16], [i * 8, 0]), w, FP32)
            out[i] = y
    x, w = f32(4, 8, 16), f32(16, 16, seed=1)
    close(both(kernel, x, w, np.zeros_like(x))[2], x.astype(np.float64) @ w.astype(np.float64), atol=1e-4)


def test_reshape_of_locals_with_valid_shape():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 32], FP32), out: pypto.Tensor([DYN, 4, 8], FP32)):
        for i in pypto.loop((x.shape[0] + 3) // 4, name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(4, 32)
            n = pypto.min(4, x.shape[0] - i * 4)
            t = pypto.view(x, [4, 32], [i * 4, 0], valid_shape=[n, 32]) + 1.0
            r = pypto.reshape(t, [4, 4, 8], valid_shape=[n, 4, 8])
            pypto.set_vec_tile_shapes(4, 4, 8)
            pypto.assemble(r * 2.0, [i * 4, 0, 0], out)
    x = f32(6, 32)
    close(both(kernel, x, np.zeros((6, 4, 8), np.float32))[1], ((x.astype(np.float64) + 1) * 2).reshape(6, 4, 8))


# --- caches in place
@pytest.mark.parametrize("form", ["move", "slice", "discard_rebind"])
@pytest.mark.parametrize("rank", [2, 4])
def test_cache_update_in_place(form, rank):
    block, dim = 4, 16
    shape = [DYN, dim] if rank == 2 else [DYN, block, 1, dim]

    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, dim], BF16), slots: pypto.Tensor([DYN, 1], pypto.DT_INT64),
               cache: pypto.Tensor(shape, BF16)):
        n = x.shape[0]
        for i in pypto.loop((n + 3) // 4, name="UPDATE", idx_name="i"):
            pypto.set_vec_tile_shapes(4, dim)
            valid = pypto.min(4, n - i * 4)
            rows = pypto.view(x, [4, dim], [i * 4, 0], valid_shape=[valid, dim]) * 1.0
            index = pypto.view(slots, [4, 1], [i * 4, 0], valid_shape=[valid, 1])
            if rank == 4:
                pypto.set_vec_tile_shapes(4, 1, 1, dim)
                rows = pypto.reshape(rows, [4, 1, 1, dim], valid_shape=[valid, 1, 1, dim])
            new = pypto.scatter_update(cache, -2, index, rows)
            if form == "move":
                cache.move(new)
            elif form == "slice":
                cache[:] = new
            else:
                cache = new
    rows = 12
    x, cache = f32(6, dim).astype(bf16), f32(rows, dim, seed=1).astype(bf16)
    slots = np.array([5, 0, 11, 7, 2, 8], np.int64)[:, None]
    want = cache.copy()
    want[slots[:, 0]] = x
    given = cache if rank == 2 else cache.reshape(-1, block, 1, dim)
    got = both(kernel, x, slots, given, quiet=False)[2]
    assert (got.reshape(rows, dim) == want).all()


def test_cache_written_and_then_read_by_a_second_loop():
    heads, dim, block = 2, 16, 4

    @pypto.frontend.jit
    def kernel(k: pypto.Tensor([DYN, dim], BF16), slots: pypto.Tensor([DYN], I32), q: pypto.Tensor([heads, dim], BF16),
               cache: pypto.Tensor([DYN, dim], BF16), out: pypto.Tensor([heads, DYN], FP32)):
        for i in pypto.loop(k.shape[0], name="WRITE", idx_name="i"):
            pypto.set_vec_tile_shapes(1, dim)
            at = slots[i]
            cache[at:at + 1, :] = pypto.view(k, [1, dim], [i, 0]) + 0.0
        for i in pypto.loop(cache.shape[0] // block, name="READ", idx_name="i", submit_before_loop=True):
            pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
            pypto.set_vec_tile_shapes(heads, block)
            kt = pypto.view(cache, [block, dim], [i * block, 0])
            out[:, i * block:] = pypto.matmul(q, kt, FP32, b_trans=True)
    k, q, cache = (f32(*s, seed=n).astype(bf16) for n, s in enumerate(((3, dim), (heads, dim), (8, dim))))
    slots = np.array([6, 1, 3], np.int32)
    want = cache.copy()
    want[slots] = k
    got = both(kernel, k, slots, q, cache, np.zeros((heads, 8), np.float32))
    assert (got[3] == want).all()
    close(got[4], q.astype(np.float64) @ want.astype(np.float64).T, atol=1e-4)


def test_in_place_row_operations():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4, 16], FP32), index: pypto.Tensor([4], I32), table: pypto.Tensor([8, 16], FP32),
               sums: pypto.Tensor([8, 16], FP32)):
        pypto.set_vec_tile_shapes(4, 16)
        pypto.index_put_(table, (index,), x * 2.0)
        pypto.index_add_(sums, 0, index, x * 1.0)
    x, table, sums = f32(4, 16), f32(8, 16, seed=1), f32(8, 16, seed=2)
    index = np.array([6, 1, 3, 0], np.int32)
    got = both(kernel, x, index, table, sums, quiet=False)
    want, added = table.copy(), sums.astype(np.float64)
    want[index] = x * 2
    added[index] += x
    assert (got[2] == want).all()
    close(got[3], added)


# --- valid regions
def test_narrowing_an_intermediate():
    @pypto.frontend.jit
    def kernel(q: pypto.Tensor([16, 32], BF16), k: pypto.Tensor([DYN, 32], BF16), out: pypto.Tensor([16, 1], FP32)):
        n = k.shape[0]
        best = pypto.tensor([16, 1], FP32, "best")
        for i in pypto.loop((n + 15) // 16, name="S", idx_name="i"):
            valid = pypto.min(16, n - i * 16)
            pypto.set_cube_tile_shapes([16, 16], [32, 32], [16, 16])
            pypto.set_vec_tile_shapes(16, 16)
            kt = pypto.view(k, [16, 32], [i * 16, 0], valid_shape=[valid, 32])
            s = pypto.matmul(q, kt, FP32, b_trans=True)
            s = pypto.view(s, [16, 16], [0, 0], valid_shape=[16, valid])
            m = pypto.amax(s * 0.5, -1, keepdim=True)
            if pypto.is_loop_begin(i):
                best[:] = m
            else:
                best[:] = pypto.maximum(best, m)
            if pypto.is_loop_end(i):
                out[:] = best + 0.0
    for n in (16, 21, 1):
        q, k = f32(16, 32).astype(bf16), f32(n, 32, seed=1).astype(bf16)
        want = (q.astype(np.float64) @ k.astype(np.float64).T * 0.5).max(-1, keepdims=True)
        close(both(kernel, q, k, np.zeros((16, 1), np.float32))[2], want, atol=1e-4)


def test_mixed_valid_regions_in_binary_and_where():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 16], FP32), bias: pypto.Tensor([1, 16], FP32), out: pypto.Tensor([DYN, 16], FP32)):
        n = x.shape[0]
        for i in pypto.loop((n + 7) // 8, name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(8, 16)
            valid = pypto.min(8, n - i * 8)
            part = pypto.view(x, [8, 16], [i * 8, 0], valid_shape=[valid, 16])
            whole = pypto.full([8, 16], 0.5, FP32)
            partial_full = pypto.full([8, 16], -2.0, FP32, valid_shape=[valid, 16])
            y = part * whole + bias
            mask = pypto.gt(part, 0.0)
            y = pypto.where(mask, y, whole)
            y = pypto.where(pypto.lt(part, -1.0), partial_full, y)
            pypto.assemble(y, [i * 8, 0], out)
    x, bias = f32(13, 16), f32(1, 16, seed=1)
    w = x.astype(np.float64)
    want = np.where(w < -1, -2.0, np.where(w > 0, w * 0.5 + bias, 0.5))
    close(both(kernel, x, bias, np.zeros_like(x))[2], want)


def test_fillpad_before_amax():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([8, DYN], FP32), out: pypto.Tensor([8, 1], FP32)):
        n = x.shape[1]
        best = pypto.tensor([8, 1], FP32, "best")
        for i in pypto.loop((n + 15) // 16, name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(8, 16)
            t = pypto.view(x, [8, 16], [0, i * 16], valid_shape=[8, pypto.min(16, n - i * 16)])
            t = pypto.fillpad(t, "constant", float("-inf"))
            m = pypto.amax(t, -1, keepdim=True)
            if pypto.is_loop_begin(i):
                best[:] = m
            else:
                best[:] = pypto.maximum(best, m)
            if pypto.is_loop_end(i):
                out[:] = best + 0.0
    for n in (16, 5, 37):
        x = f32(8, n) - 5
        assert (both(kernel, x, np.zeros((8, 1), np.float32))[1] == x.max(-1, keepdims=True)).all()


def test_mask_built_from_arange_at_the_tail():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([8, 32], FP32), limit: pypto.Tensor([1], I32), out: pypto.Tensor([8, 32], FP32)):
        pypto.set_vec_tile_shapes(8, 32)
        n = limit[0]
        columns = pypto.cast(pypto.reshape(pypto.arange(32), [1, 32]), FP32)
        bound = pypto.cast(pypto.full([1, 32], n, I32), FP32)
        keep = pypto.expand_clone(pypto.lt(columns, bound), [8, 32])
        masked = pypto.where(keep, x * 1.0, pypto.full([8, 32], -1e30, FP32))
        out[:] = pypto.softmax(masked, -1)
    x = f32(8, 32)
    e = np.exp(x[:, :20].astype(np.float64))
    want = np.zeros((8, 32))
    want[:, :20] = e / e.sum(-1, keepdims=True)
    close(both(kernel, x, np.array([20], np.int32), np.zeros_like(x))[2], want)


def test_tensors_whose_shape_changes_when_assigned():
    """A local takes shape and type of what is assigned to it."""
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4, 16], FP32), out: pypto.Tensor([4, 1], FP32)):
        pypto.set_vec_tile_shapes(4, 16)
        t = pypto.tensor([4, 16], FP32, "t")
        t[:] = x * 2.0
        t[:] = pypto.sum(t, -1, keepdim=True)
        t[:] = pypto.cast(t, BF16)
        out[:] = pypto.cast(t, FP32)
    x = f32(4, 16)
    want = (x * 2).sum(-1, keepdims=True)
    close(both(kernel, x, np.zeros((4, 1), np.float32))[1], want, rtol=2**-8, atol=1e-3)


# --- NZ weights
@pytest.mark.parametrize("trans", [False, True])
def test_nz_weights_by_annotation(trans):
    """The annotation says how the device stores the weights; the caller's array keeps its logical order."""
    k, n = 64, 32
    shape = [n, k] if trans else [k, n]

    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, k], BF16), w: pypto.Tensor(shape, BF16, format=pypto.TileOpFormat.TILEOP_NZ),
               out: pypto.Tensor([DYN, n], FP32)):
        for i in pypto.loop((x.shape[0] + 15) // 16, name="M", idx_name="i"):
            pypto.set_cube_tile_shapes([16, 16], [64, 64], [32, 32])
            pypto.set_vec_tile_shapes(16, 32)
            t = pypto.view(x, [16, k], [i * 16, 0], valid_shape=[pypto.min(16, x.shape[0] - i * 16), k])
            out[i * 16:, :] = pypto.matmul(t, w, FP32, b_trans=trans)
    x, w = f32(20, k).astype(bf16), f32(k, n, seed=1).astype(bf16)
    given = np.ascontiguousarray(w.T) if trans else w
    want = x.astype(np.float64) @ w.astype(np.float64)
    got = both(kernel, x, given, np.zeros((20, n), np.float32))[2]
    close(got, want, atol=1e-4)


# --- quantisation chains
def test_dynamic_int8_quantisation_of_activations():
    """Per-token scale, rounding to int8 through fp16, int8 matmul, both scales applied to the int32 result."""
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 64], BF16), w: pypto.Tensor([64, 32], I8), ws: pypto.Tensor([1, 32], FP32),
               out: pypto.Tensor([DYN, 32], BF16), codes: pypto.Tensor([DYN, 64], I8),
               scales: pypto.Tensor([DYN, 1], FP32)):
        for i in pypto.loop((x.shape[0] + 15) // 16, name="T", idx_name="i"):
            rows = pypto.min(16, x.shape[0] - i * 16)
            pypto.set_vec_tile_shapes(16, 64)
            t = pypto.cast(pypto.view(x, [16, 64], [i * 16, 0], valid_shape=[rows, 64]), FP32)
            top = pypto.amax(pypto.abs(t), -1, keepdim=True)
            inverse = 127.0 / top
            scale = pypto.reciprocal(inverse)
            q = pypto.cast(pypto.mul(t, inverse), I32, mode=pypto.CastMode.CAST_RINT)
            q = pypto.cast(q, pypto.DT_FP16, mode=pypto.CastMode.CAST_ROUND)
            q = pypto.cast(q, I8, mode=pypto.CastMode.CAST_TRUNC, satmode=pypto.SaturationMode.ON)
            pypto.set_cube_tile_shapes([16, 16], [64, 64], [32, 32])
            acc = pypto.matmul(q, w, I32)
            pypto.set_vec_tile_shapes(16, 32)
            y = pypto.cast(acc, FP32) * ws * scale
            pypto.assemble(pypto.cast(y, BF16), [i * 16, 0], out)
            pypto.assemble(q, [i * 16, 0], codes)
            pypto.assemble(scale, [i * 16, 0], scales)
    x = f32(20, 64).astype(bf16)
    w = rng(1).integers(-127, 128, (64, 32)).astype(np.int8)
    ws = (np.abs(f32(1, 32, seed=2)) * 0.01 + 0.001).astype(np.float32)
    got = both(kernel, x, w, ws, np.zeros((20, 32), bf16), np.zeros((20, 64), np.int8), np.zeros((20, 1), np.float32))
    wide = x.astype(np.float64)
    scale = np.abs(wide).max(-1, keepdims=True) / 127
    codes = np.rint(wide / scale)
    assert np.abs(got[4] - codes).max() <= 1 and (got[4] == codes).mean() > 0.99
    close(got[5], scale, rtol=1e-6)
    want = (got[4].astype(np.float64) @ w.astype(np.float64)) * ws * scale
    close(got[3].astype(np.float32), want, rtol=2**-8, atol=1e-6)


def test_int8_weights_with_scale_tensor_and_bias():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([16, 64], I8), w: pypto.Tensor([64, 32], I8), bias: pypto.Tensor([1, 32], I32),
               out: pypto.Tensor([16, 32], pypto.DT_FP16)):
        pypto.set_cube_tile_shapes([16, 16], [64, 64], [32, 32])
        out[:] = pypto.matmul(x, w, pypto.DT_FP16, extend_params={"scale": 0.0078125, "bias_tensor": bias,
                                                                  "relu_type": pypto.ReLuType.RELU})
    x, w = rng(0).integers(-8, 8, (16, 64)).astype(np.int8), rng(1).integers(-8, 8, (64, 32)).astype(np.int8)
    bias = rng(2).integers(-99, 99, (1, 32)).astype(np.int32)
    want = np.maximum(x.astype(np.int64) @ w + bias, 0) * 2.0**-7
    assert (both(kernel, x, w, bias, np.zeros((16, 32), np.float16))[3] == want).all()


def test_quantize_and_dequantize_operations():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([8, 64], FP32), scale: pypto.Tensor([8], FP32), q: pypto.Tensor([8, 64], I8),
               back: pypto.Tensor([8, 64], FP32)):
        pypto.set_vec_tile_shapes(8, 64)
        codes = pypto.quantize(x, scale, I8, -1)
        q[:] = codes
        back[:] = pypto.dequantize(codes, pypto.reciprocal(scale), FP32, -1)
    x = f32(8, 64)
    scale = (127 / np.abs(x).max(-1)).astype(np.float32)
    got = both(kernel, x, scale, np.zeros((8, 64), np.int8), np.zeros_like(x), quiet=False)
    scale = scale[:, None]
    codes = np.rint(x.astype(np.float64) * scale)
    assert np.abs(got[2] - codes).max() <= 1 and (got[2] == codes).mean() > 0.99
    close(got[3], got[2].astype(np.float64) / scale, rtol=1e-6)


# --- views
def test_view_forms():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([8, 4, 16], FP32), out: pypto.Tensor([8, 16], FP32)):
        for i in pypto.loop(2, name="I", idx_name="i"):
            pypto.set_vec_tile_shapes(4, 1, 16)
            a = pypto.view(x, [4, 1, 16], [i * 4, 1, 0])
            b = x.view([4, 1, 16], [i * 4, 2, 0])
            c = x[i * 4:i * 4 + 4, 3:4, :]
            d = pypto.view(x, shape=[4, 1, 16], offsets=[i * 4, 0, 0], valid_shape=[4, 1, 16])
            total = a + b + c + d
            pypto.set_vec_tile_shapes(4, 16)
            out[i * 4:i * 4 + 4, :] = pypto.reshape(total, [4, 16])
    x = f32(8, 4, 16)
    close(both(kernel, x, np.zeros((8, 16), np.float32))[1], x.astype(np.float64).sum(1), atol=1e-4)


def test_from_torch_and_numpy_side_by_side():
    torch = pytest.importorskip("torch")

    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 16], FP32), out: pypto.Tensor([DYN, 16], FP32)):
        for i in pypto.loop(x.shape[0]):
            pypto.set_vec_tile_shapes(1, 16)
            out[i:i + 1, :] = x[i:i + 1, :] * 2.0
    x, out = torch.randn(5, 16), torch.zeros(5, 16)
    kernel(pypto.from_torch(x, "x", dynamic_axis=[0]), pypto.from_torch(out))
    assert torch.equal(out, x * 2)
    other = np.zeros((5, 16), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(x, other)
    assert (other == out.numpy()).all()


@pytest.mark.parametrize("model", ["calibrated", "official"])
def test_estimate_of_a_cache_update_counts_rows_only(model):
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([16, 512], BF16), slots: pypto.Tensor([16, 1], I32),
               cache: pypto.Tensor([DYN, 512], BF16)):
        pypto.set_vec_tile_shapes(16, 512)
        cache.move(pypto.scatter_update(cache, -2, slots, x * 1.0))
    specs = [pypto.Spec(s, d) for s, d in (((16, 512), "bf16"), ((16, 1), "int32"), ((2**17, 512), "bf16"))]
    estimate = pypto.estimate(kernel, *specs, model=model)
    assert 0 < estimate.gm_write_bytes <= 4 * 16 * 512 * 2 and estimate.gm_read_bytes <= 4 * 16 * 512 * 2


def test_in_place_updates_leave_snapshots_alone():
    """A view taken before an update keeps what it saw; one taken after sees the update."""
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4, 16], FP32), index: pypto.Tensor([4], I32), cache: pypto.Tensor([8, 16], FP32),
               before: pypto.Tensor([8, 16], FP32), after: pypto.Tensor([8, 16], FP32)):
        pypto.set_vec_tile_shapes(8, 16)
        old = pypto.view(cache, [8, 16], [0, 0])
        rows = pypto.view(cache, [4, 16], [2, 0])
        cache.move(pypto.scatter_update(cache, -2, pypto.reshape(index, [4, 1]), rows + x))
        pypto.index_add_(cache, 0, index, pypto.view(cache, [4, 16], [0, 0]))
        pypto.index_put_(cache, (index,), pypto.view(cache, [4, 16], [4, 0]))
        pypto.scatter_(cache, 1, pypto.expand_clone(pypto.reshape(index, [4, 1]), [4, 16]), 7.0)
        before[:] = old * 2.0
        after[:] = pypto.view(cache, [8, 16], [0, 0]) * 2.0
    x, cache = f32(4, 16), f32(8, 16, seed=1)
    index = np.array([3, 0, 6, 5], np.int32)
    want = cache.copy()
    want[index] = cache[2:6] + x
    want[index] += want[:4].copy()
    want[index] = want[4:8].copy()
    for row, at in enumerate(index):
        want[row, at] = 7
    got = both(kernel, x, index, cache, np.zeros_like(cache), np.zeros_like(cache), quiet=False)
    assert (got[2] == want).all() and (got[3] == cache * 2).all() and (got[4] == want * 2).all()


def test_an_empty_batch_runs_without_a_word():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, 16], FP32), out: pypto.Tensor([DYN, 16], FP32)):
        pypto.set_vec_tile_shapes(4, 16)
        for i in pypto.loop((x.shape[0] + 3) // 4):
            rows = pypto.min(4, x.shape[0] - i * 4)
            pypto.assemble(pypto.exp(pypto.view(x, [4, 16], [i * 4, 0], valid_shape=[rows, 16])), [i * 4, 0], out)
    for rows in (0, 5, 0):
        x = np.ones((rows, 16), np.float32)
        close(both(kernel, x, np.zeros_like(x))[1], np.exp(x.astype(np.float64)))


@pytest.mark.parametrize("profile", ["0.2", "master"])
def test_a_cache_with_a_dynamic_number_of_blocks_is_updated_under_strict_profiles(profile):
    @pypto.frontend.jit
    def kernel(new: pypto.Tensor([4, 1, 1, 16], BF16), index: pypto.Tensor([4, 1], I32),
               cache: pypto.Tensor([DYN, 8, 1, 16], BF16)):
        for _ in pypto.loop(1, name="UPDATE", idx_name="u"):
            pypto.set_vec_tile_shapes(4, 1, 1, 16)
            cache.move(pypto.scatter_update(cache, -2, index, new))
    for blocks in (2, 3):
        cache = np.zeros((blocks, 8, 1, 16), ml_dtypes.bfloat16)
        new = rng(blocks).standard_normal((4, 1, 1, 16)).astype(ml_dtypes.bfloat16)
        index = np.array([[3], [0], [15], [9]], np.int32)
        want = cache.copy()
        want.reshape(-1, 16)[index[:, 0]] = new[:, 0, 0]
        with pypto.config(profile=profile):
            close(both(kernel, new, index, cache)[2].astype(np.float64), want.astype(np.float64))
