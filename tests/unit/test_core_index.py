"""gather, index_select, scatter and scatter_update of the core."""
import numpy as np
import pytest

from pypto_sim import _core

from .core_program import BF16, Prog, kernel_rows


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


def result(build, *arrays):
    p = Prog()
    y = build(p, *(p.arg(a) for a in arrays))
    m = p.run(keep=True)
    return p.read(y), m.valid(y), m.candidates()


def code_of(build, *arrays):
    with pytest.raises(_core.CoreError) as e:
        result(build, *arrays)
    return e.value.args


@pytest.mark.parametrize("dtype", ["f4", BF16, "i4", "i1", "i8"], ids=str)
@pytest.mark.parametrize("index_type", ["i4", "i8", "i2"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather_is_take_along_axis(dtype, index_type, dim):
    g = np.random.default_rng(0)
    x = g.integers(0, 90, (4, 5, 6)).astype(dtype)
    i = g.integers(0, x.shape[dim], (3, 4, 5)).astype(index_type)
    cut = tuple(slice(None) if k == dim else slice(0, n) for k, n in enumerate(i.shape))
    got = result(lambda p, a, b: p.op("gather", [a, b], shape=(3, 4, 5), ints=[dim]), x, i)[0]
    assert np.array_equal(got, np.take_along_axis(x[cut], i.astype("i8"), dim))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("index_shape", [(7,), (2, 3)])
def test_index_select_replaces_the_axis(dim, index_shape):
    x = np.arange(120, dtype="f4").reshape(4, 5, 6)
    i = np.random.default_rng(0).integers(0, x.shape[dim], index_shape).astype("i4")
    want = np.take(x, i, dim)
    got, valid, _ = result(lambda p, a, b: p.op("index_select", [a, b], shape=want.shape, ints=[dim]), x, i)
    assert np.array_equal(got, want) and valid == list(want.shape)


def test_index_out_of_range_names_index_and_length():
    x = np.zeros((4, 5), "f4")
    for bad in (5, -1):
        i = np.array([[0, bad]], "i4")
        code, text, _ = code_of(lambda p, a, b: p.op("gather", [a, b], shape=(1, 2), ints=[1]), x, i)
        assert code == "index.out_of_range" and f"index {bad}" in text and "length 5" in text
        assert code_of(lambda p, a, b: p.op("index_select", [a, b], shape=(4, 2), ints=[1]), x,
            i[0])[0] == "index.out_of_range"
        assert code_of(lambda p, a, b: p.op("scatter", [a, b], ints=[1, 0, 1, 0], floats=[0.0]), x,
            i)[0] == "index.out_of_range"


def test_index_inside_the_shape_but_outside_the_valid_box_is_a_candidate():
    x, i = np.arange(6, dtype="f4"), np.array([0, 5], "i4")
    got, _, candidates = result(lambda p, a, b: p.op("gather", [p.partial(a, [4]), b], shape=(2,), ints=[0]), x, i)
    assert got[0] == 0 and np.isnan(got[1]) and len(candidates) == 1


@pytest.mark.parametrize("dtype", ["f4", BF16, "i4", "i2"], ids=str)
@pytest.mark.parametrize("reduce", [0, 1, 2])
def test_scatter(dtype, reduce):
    g = np.random.default_rng(0)
    x, src = g.integers(1, 5, (4, 6)).astype(dtype), g.integers(1, 5, (3, 5)).astype(dtype)
    i = g.integers(0, 6, (3, 5)).astype("i4")
    want = x.copy()
    for r in range(3):
        for c in range(5):
            old = want[r, i[r, c]]
            want[r, i[r, c]] = src[r, c] if reduce == 0 else old + src[r, c] if reduce == 1 else old * src[r, c]
    got = result(lambda p, a, b, s: p.op("scatter", [a, b, s], ints=[1, reduce, 0, 0], floats=[0.0]), x, i, src)[0]
    assert np.array_equal(got, want)


def test_scatter_of_a_scalar_leaves_the_input_alone():
    x, i = np.zeros((3, 4), "f4"), np.array([[1], [2], [0]], "i4")
    p = Prog()
    a = p.arg(x)
    y = p.op("scatter", [a, p.arg(i)], ints=[1, 0, 1, 0], floats=[2.5])
    p.run(keep=True)
    assert np.array_equal(p.read(y), 2.5 * np.eye(4, dtype="f4")[[1, 2, 0]]) and np.all(p.read(a) == 0)


def test_scatter_update_of_both_layouts():
    cache = np.zeros((6, 8, 1, 4), "f4")
    index = np.array([[3, 9], [47, 0]], "i4")
    src = np.arange(16, dtype="f4").reshape(2, 2, 1, 4)
    want = cache.copy().reshape(48, 4)
    want[index.reshape(-1)] = src.reshape(4, 4)
    got = result(lambda p, a, b, s: p.op("scatter_update", [a, b, s], ints=[2]), cache, index, src)[0]
    assert np.array_equal(got.reshape(48, 4), want)
    got = result(lambda p, a, b, s: p.op("scatter_update", [a, b, s], ints=[0]), cache.reshape(48, 4), index,
        src.reshape(4, 4))[0]
    assert np.array_equal(got, want)
    assert code_of(lambda p, a, b, s: p.op("scatter_update", [a, b, s], ints=[2]), cache, index + 1,
        src)[0] == "index.out_of_range"
