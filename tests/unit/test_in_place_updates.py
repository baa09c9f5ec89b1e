"""Updates by index in the storage of their operand: the same values as on a copy, whoever else looks at it."""
import numpy as np
import pytest

import pypto_sim as pypto

pytestmark = pytest.mark.filterwarnings("ignore::pypto_sim.errors.PyptoWarning")
ANY = pypto.Tensor([...])
ROWS = np.array([5, 0, 9, 2], np.int32)
MODES = pytest.mark.parametrize("mode", ["auto", "step"])


def table(rows=12):
    return np.arange(rows * 16, dtype=np.float32).reshape(rows, 16)


def put(a, rows, values):
    b = a.copy()
    b[rows] = values
    return b


def added(a, rows, values):
    b = a.copy()
    np.add.at(b, rows, values)
    return b


UPDATES = {
    "scatter_update": (lambda c, i, s: pypto.scatter_update(c, -2, pypto.reshape(i, [1, 4]), s), put),
    "index_put_": (lambda c, i, s: pypto.index_put_(c, (i,), s), put),
    "index_add_": (lambda c, i, s: pypto.index_add_(c, 0, i, s), added),
    "scatter_": (lambda c, i, s: pypto.scatter_(c, 0, pypto.expand_clone(pypto.unsqueeze(i, 1), [4, 16]), s), put),
}
EACH = pytest.mark.parametrize("name", UPDATES)


@MODES
@EACH
def test_argument(name, mode):
    call, want = UPDATES[name]

    @pypto.frontend.jit(mode=mode)
    def kernel(c: ANY, i: ANY, s: ANY):
        pypto.set_vec_tile_shapes(4, 16)
        call(c, i, s)
    c, s = table(), -np.ones((4, 16), np.float32)
    kernel(c, ROWS, s)
    np.testing.assert_array_equal(c, want(table(), ROWS, s))


@MODES
@EACH
def test_views_keep_what_they_saw(name, mode):
    call, want = UPDATES[name]

    @pypto.frontend.jit(mode=mode)
    def kernel(c: ANY, i: ANY, s: ANY, before: ANY, after: ANY):
        pypto.set_vec_tile_shapes(4, 16)
        old = pypto.view(c, [12, 16], [0, 0])
        call(c, i, s)
        before[:] = old
        after[:] = c
    c, s, before, after = table(), -np.ones((4, 16), np.float32), table(), table()
    kernel(c, ROWS, s, before, after)
    np.testing.assert_array_equal(before, table())
    np.testing.assert_array_equal(after, want(table(), ROWS, s))
    np.testing.assert_array_equal(c, after)


@MODES
@EACH
def test_source_in_the_argument_itself(name, mode):
    call, want = UPDATES[name]

    @pypto.frontend.jit(mode=mode)
    def kernel(c: ANY, i: ANY):
        pypto.set_vec_tile_shapes(4, 16)
        call(c, i, pypto.view(c, [4, 16], [0, 0]))
    c = table()
    kernel(c, ROWS)
    np.testing.assert_array_equal(c, want(table(), ROWS, table()[:4]))


@MODES
@EACH
def test_local_with_a_second_name(name, mode):
    call, want = UPDATES[name]

    @pypto.frontend.jit(mode=mode)
    def kernel(a: ANY, i: ANY, s: ANY, out: ANY, kept: ANY):
        pypto.set_vec_tile_shapes(4, 16)
        c = a * 2.0
        other = pypto.tensor([12, 16], pypto.DT_FP32, "other")
        other[:] = c
        for _ in pypto.loop(2):
            call(c, i, s)
        out[:] = c
        kept[:] = other
    s, out, kept = -np.ones((4, 16), np.float32), table(), table()
    kernel(table(), ROWS, s, out, kept)
    np.testing.assert_array_equal(out, want(want(2 * table(), ROWS, s), ROWS, s))
    np.testing.assert_array_equal(kept, 2 * table())


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "int32"])
@EACH
def test_other_types(name, dtype):
    call, want = UPDATES[name]
    kind = next(d for d in pypto.DataType if d.short == dtype)

    @pypto.frontend.jit
    def kernel(c: ANY, i: ANY, s: ANY):
        pypto.set_vec_tile_shapes(4, 16)
        call(c, i, s)
    c, s = table().astype(kind.np_dtype), np.ones((4, 16), np.float32).astype(kind.np_dtype)
    expected = want(table(), ROWS, np.ones((4, 16), np.float32)).astype(kind.np_dtype)
    kernel(c, ROWS, s)
    np.testing.assert_array_equal(c.astype(np.float64), expected.astype(np.float64))


@EACH
def test_an_index_outside_changes_nothing(name):
    call, _ = UPDATES[name]

    @pypto.frontend.jit
    def kernel(c: ANY, i: ANY, s: ANY):
        pypto.set_vec_tile_shapes(4, 16)
        call(c, i, s)
    c = table()
    with pytest.raises(IndexError):
        kernel(c, np.array([0, 1, 2, 12], np.int32), -np.ones((4, 16), np.float32))
    np.testing.assert_array_equal(c, table())


def test_result_assigned_back_and_used():
    @pypto.frontend.jit
    def kernel(c: ANY, i: ANY, s: ANY, out: ANY):
        pypto.set_vec_tile_shapes(4, 16)
        made = pypto.scatter_update(c, -2, i, s)
        c.move(made)
        out[:] = made + 1.0
    c, s, out = table(), -np.ones((4, 16), np.float32), table()
    kernel(c, ROWS.reshape(1, 4), s, out)
    np.testing.assert_array_equal(c, put(table(), ROWS, -1))
    np.testing.assert_array_equal(out, c + 1)
