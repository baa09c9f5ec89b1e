"""Laws of tails: cost follows what is valid of a tile (docs/cost_model.md)."""
import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pypto_sim as pypto

F16, F32 = pypto.DT_FP16, pypto.DT_FP32
SEARCH = os.environ.get("LAW_EXAMPLES")
LAW = settings(max_examples=int(SEARCH or "25"), derandomize=SEARCH is None, deadline=None,
               suppress_health_check=[HealthCheck.too_slow])
DEVICES = st.sampled_from(["910b1", "910b4", "950pr"])


def cost(kernel, *specs, device="910b1"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pypto.estimate(kernel, *(pypto.Spec(*s) for s in specs), device=device, model="calibrated")


def blocks(operation: str, block: int, tile, given_valid: bool = True):
    """out = operation(x), `block` rows at a time; the last block is a tail."""
    @pypto.frontend.jit()
    def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
        rows, columns = x.shape
        pypto.set_vec_tile_shapes(*tile)
        for i in pypto.loop((rows + block - 1) // block, name="blocks", idx_name="i"):
            left = pypto.min(block, rows - i * block)
            part = pypto.view(x, [block, columns], [i * block, 0], **(
                {"valid_shape": [left, columns]} if given_valid else {}))
            if operation == "exp":
                y = pypto.exp(part)
            elif operation == "softmax":
                y = pypto.softmax(part, -1)
            elif operation == "rms_norm":
                y = pypto.rms_norm(part)
            elif operation == "sum":
                y = part * pypto.sum(part, -1, True)
            else:
                y = pypto.cast(part, F16)
            pypto.assemble(y, [i * block, 0], out)
    return kernel


def product(block: int, tile, axis: int):
    """c = a @ b with the rows (0), the columns (1) or k (2) of a block valid up to the operands' sizes."""
    m, k0, k1, n = tile

    @pypto.frontend.jit()
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
        pypto.set_cube_tile_shapes([m, m], [k0, k1], [n, n])
        (rows, deep), columns = a.shape, b.shape[1]
        sizes = [rows, columns, deep]
        padded = list(sizes)
        padded[axis] = block
        for _ in pypto.loop(1, name="once", idx_name="i"):
            x = pypto.view(a, [padded[0], padded[2]], [0, 0], valid_shape=[rows, deep])
            y = pypto.view(b, [padded[2], padded[1]], [0, 0], valid_shape=[deep, columns])
            pypto.assemble(pypto.matmul(x, y, F32), [0, 0], c)
    return kernel


@LAW
@given(st.sampled_from(["exp", "softmax", "rms_norm", "sum", "cast"]), st.sampled_from([16, 24, 64]),
       st.sampled_from([4, 8, 32]), st.sampled_from([64, 256, 520]), st.integers(1, 150), st.integers(1, 64), DEVICES)
def test_more_valid_rows_never_cost_less(operation, block, tile, columns, rows, more, device):
    kernel = blocks(operation, block, (tile, columns))
    few, many = (cost(kernel, ((n, columns), F32), ((n, columns), F16 if operation == "cast" else F32), device=device)
                 for n in (rows, rows + more))
    assert few.time_us <= many.time_us
    for e, n in ((few, rows), (many, rows + more)):
        assert e.gm_read_bytes == 4 * n * columns
        assert e.gm_write_bytes == (2 if operation == "cast" else 4) * n * columns
        assert e.root_functions == 1 and not any("valid" in a for a in e.assumptions)


@LAW
@given(st.sampled_from([(16, 64, 128, 64), (128, 64, 256, 128), (64, 128, 128, 256)]), st.integers(0, 2),
       st.integers(1, 512), st.integers(1, 300), DEVICES)
def test_more_valid_of_a_product_never_costs_less(tile, axis, extent, more, device):
    """Rows and columns of one tile, or k of a chain of several."""
    block, times = (tile[0], tile[3], 512)[axis], []
    kernel = product(block, tile, axis)
    for n in (min(extent, block), min(extent + more, block)):
        size = [128, 192, 320]
        size[axis] = n
        m, columns, deep = size
        e = cost(kernel, ((m, deep), F16), ((deep, columns), F16), ((m, columns), F32), device=device)
        assert e.gm_write_bytes == 4 * m * columns and e.hbm_read_bytes == 2 * (m * deep + deep * columns)
        times.append(e.time_us)
    assert times[0] <= times[1]


@LAW
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3, 8]), DEVICES)
def test_more_valid_columns_never_cost_less(columns, more, rows, device):
    """Rows of a tile that is cut in its last axis lie apart."""
    @pypto.frontend.jit()
    def kernel(x: pypto.Tensor(), y: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(rows, 640)
        valid = [rows, x.shape[1]]
        a, b = (pypto.view(t, [rows, 640], [0, 0], valid_shape=valid) for t in (x, y))
        pypto.assemble(pypto.exp(a + b), [0, 0], out)

    few, many = (cost(kernel, *[((rows, 16 * n), F32)] * 3, device=device) for n in (columns, min(columns + more, 40)))
    assert few.time_us <= many.time_us


@pytest.mark.parametrize("device", ["910b1", "950pr"])
def test_whole_blocks_cost_what_they_cost_without_valid_shape(device):
    for rows in (64, 256):
        shapes = [((rows, 256), F32)] * 2
        with_valid, without = (cost(blocks("softmax", 64, (8, 256), valid), *shapes, device=device)
                               for valid in (True, False))
        assert with_valid.to_dict() == without.to_dict()


@pytest.mark.parametrize("given_valid", [True, False])
def test_the_last_block_of_ragged_rows_is_cheaper(given_valid):
    """A tail of one tile of eight, with valid_shape or by a view that reaches past the end."""
    kernel = blocks("softmax", 64, (8, 256), given_valid)
    ragged, whole = (cost(kernel, *[((rows, 256), F32)] * 2) for rows in (192 + 5, 256))
    assert ragged.tasks == whole.tasks and ragged.peak_bytes == whole.peak_bytes
    assert ragged.pipe_busy_cycles["VEC"] < 0.82 * whole.pipe_busy_cycles["VEC"]
    assert ragged.gm_read_bytes == 4 * 256 * 197 and ragged.time_us < whole.time_us


def test_a_causal_block_reads_the_keys_it_may_see():
    """Keys of later rows are not valid in the last block of each row block."""
    @pypto.frontend.jit()
    def kernel(q: pypto.Tensor(), k: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_cube_tile_shapes([32, 32], [64, 64], [128, 128])
        pypto.set_vec_tile_shapes(32, 128)
        for i in pypto.loop(q.shape[0] // 32, name="rows", idx_name="i"):
            queries = pypto.view(q, [32, 64], [i * 32, 0])
            for j in pypto.loop(((i + 1) * 32 + 127) // 128, name="keys", idx_name="j"):
                seen = pypto.min(128, (i + 1) * 32 - j * 128)
                keys = pypto.view(k, [128, 64], [j * 128, 0], valid_shape=[seen, 64])
                scores = pypto.matmul(queries, keys, F32, b_trans=True)
                pypto.assemble(pypto.exp(scores), [i * 32, j * 128], out)

    e = cost(kernel, ((256, 64), F16), ((256, 64), F16), ((256, 256), F32))
    scores = sum(32 * 32 * (i + 1) for i in range(8))
    keys = sum(32 * (i + 1) for i in range(8))
    blocks_run = sum(-(-32 * (i + 1) // 128) for i in range(8))
    # the scores cross global memory to the vector core and back out
    assert e.gm_write_bytes == 4 * scores * 2
    assert e.gm_read_bytes == 4 * scores + 2 * 64 * (32 * blocks_run + keys)


def test_extents_that_are_not_known_count_as_full_tiles():
    @pypto.frontend.jit()
    def kernel(lengths: pypto.Tensor((4,), pypto.DT_INT32), x: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(64, 64)
        for i in pypto.loop(4, name="blocks", idx_name="i"):
            part = pypto.view(x, [64, 64], [i * 64, 0], valid_shape=[lengths[i], 64])
            pypto.assemble(pypto.exp(part), [i * 64, 0], out)

    specs = [pypto.Spec((256, 64), F32)] * 2
    unknown = pypto.estimate(kernel, pypto.Spec((4,), pypto.DT_INT32), *specs)
    known = pypto.estimate(kernel, np.array([64, 10, 0, 33], "i4"), *specs)
    assert any("valid extents that are not known" in a for a in unknown.assumptions)
    assert unknown.gm_read_bytes == 4 * 64 * 256
    assert not any("valid" in a for a in known.assumptions)
    assert known.gm_read_bytes == known.gm_write_bytes == 4 * 64 * 107
    assert known.tasks == unknown.tasks and known.time_us <= unknown.time_us
    assert known.pipe_busy_cycles["VEC"] < 0.6 * unknown.pipe_busy_cycles["VEC"]


def test_many_kinds_of_tails_are_rounded_up():
    """A tail of its own in every iteration: exact for 256 of them, then in sixteenths of the tile."""
    def found(trips):
        @pypto.frontend.jit()
        def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
            pypto.set_vec_tile_shapes(16, 512)
            for i in pypto.loop(trips, name="i"):
                part = pypto.view(x, [16, 1024], [0, 0], valid_shape=[16, pypto.min(i + 1, 1024)])
                pypto.assemble(pypto.exp(part), [i * 16, 0], out)
        return cost(kernel, ((16, 1024), F32), ((16 * trips, 1024), F32))

    few, many = found(256), found(1000)
    exact = [16 * 4 * sum(range(1, n + 1)) for n in (256, 1000)]
    assert few.gm_read_bytes == exact[0] and not any("tails" in a for a in few.assumptions)
    assert exact[1] < many.gm_read_bytes < 1.1 * exact[1] and any("kinds of tails" in a for a in many.assumptions)
    assert many.leaf_functions < 300


@pypto.frontend.jit()
def online_attention(q: pypto.Tensor(), k: pypto.Tensor(), v: pypto.Tensor(), out: pypto.Tensor()):
    """Ragged rows and keys; top, total and o carry their valid rows from one key block to the next."""
    (length, dim), block = q.shape, 64
    pypto.set_cube_tile_shapes([64, 64], [64, 64], [64, 64])
    pypto.set_vec_tile_shapes(16, 64)
    top, total = pypto.tensor([block, 1], F32, "top"), pypto.tensor([block, 1], F32, "total")
    o = pypto.tensor([block, dim], F32, "o")
    for i in pypto.loop((length + block - 1) // block, name="rows", idx_name="i"):
        for j in pypto.loop((length + block - 1) // block, name="keys", idx_name="j"):
            queries = pypto.view(q, [block, dim], [i * block, 0],
                                 valid_shape=[pypto.min(block, length - i * block), dim])
            keys, values = (pypto.view(t, [block, dim], [j * block, 0],
                                       valid_shape=[pypto.min(block, length - j * block), dim]) for t in (k, v))
            s = pypto.matmul(queries, keys, F32, b_trans=True)
            if pypto.is_loop_begin(j):
                new = pypto.amax(s, -1, True)
                p = pypto.exp(s - new)
                sums, y = pypto.sum(p, -1, True), pypto.matmul(pypto.cast(p, F16), values, F32)
            else:
                new = pypto.maximum(top, pypto.amax(s, -1, True))
                p, old = pypto.exp(s - new), pypto.exp(top - new)
                sums = total * old + pypto.sum(p, -1, True)
                y = o * old + pypto.matmul(pypto.cast(p, F16), values, F32)
            if pypto.is_loop_end(j):
                pypto.assemble(pypto.cast(y / sums, F16), [i * block, 0], out)
            else:
                top[:], total[:], o[:] = new, sums, y


@LAW
@given(st.integers(1, 320), st.integers(1, 40), DEVICES)
def test_longer_ragged_attention_never_costs_less(length, more, device):
    few, many = (cost(online_attention, *[((n, 64), F16)] * 4, device=device) for n in (length, length + more))
    assert few.time_us <= many.time_us
    for e, n in ((few, length), (many, length + more)):
        assert not any("valid" in a for a in e.assumptions)          # what the loop carries round is known
        blocks = -(-n // 64)
        arguments = {t.name: t for t in e.breakdown.tensors if t.kind == "argument"}
        assert arguments["q"].read_bytes == arguments["k"].read_bytes == 2 * 64 * n * blocks
        assert arguments["out"].write_bytes == 2 * 64 * n
