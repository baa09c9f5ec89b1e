"""Reductions and topk of the core: values, and the documented order of additions."""
import numpy as np
import pytest

from .core_program import BF16, Prog, kernel_rows

F4 = np.dtype("f4")


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


def reduce(name, x, dim, keepdim=True, vec=None, valid=None, dtype=None):
    p = Prog()
    t = p.arg(x)
    if valid is not None:
        t = p.partial(t, valid)
    shape = [1 if i == dim else n for i, n in enumerate(x.shape)]
    if not keepdim:
        del shape[dim]
    y = p.op(name, [t], dtype or x.dtype, shape or [1], ints=[dim, int(keepdim)],
        tile=-1 if vec is None else p.tile(vec))
    m = p.run(keep=True)
    return p.read(y), m


def pair_tree(x, tile, op):
    """x: [length, width]. Whole tiles combined by halving, the remainder folded in when it is at least half as long."""
    length = x.shape[0]
    tiles = [x[i:i + tile].copy() for i in range(0, length, tile)]

    def combine(a, b):
        a[:len(b)] = op(a[:len(b)], b)
    whole = 1
    while whole * 2 <= len(tiles):
        whole *= 2
    taken = whole
    while whole > 1:
        whole //= 2
        for j in range(whole):
            combine(tiles[j], tiles[j + whole])
        if len(tiles) - taken >= whole:
            for j in range(whole):
                combine(tiles[j], tiles[taken + j])
            taken += whole
    return tiles[0]


def halving(x, op):
    while len(x) > 1:
        half = (len(x) + 1) // 2
        x = np.concatenate([op(x[:len(x) - half], x[half:]), x[len(x) - half:half]])
    return x


@pytest.mark.parametrize("length", [1, 3, 8, 13, 64, 100])
@pytest.mark.parametrize("tile", [1, 4, 16, 200])
def test_sum_of_columns_has_the_documented_order(length, tile):
    x = np.random.default_rng(0).normal(size=(length, 37)).astype(F4)
    got, _ = reduce("sum", x, 0, vec=[tile, 8])
    want = halving(pair_tree(x, tile, np.add), np.add)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("length", [7, 64, 129, 500, 1000])
@pytest.mark.parametrize("tile", [8, 64, 96, 2000])
def test_sum_of_rows_combines_whole_tiles_first(length, tile):
    x = np.random.default_rng(0).normal(size=(5, length)).astype(F4)
    got, _ = reduce("sum", x, 1, vec=[8, tile])
    first = pair_tree(x.T.copy(), tile, np.add).T.copy()         # the last tile alone is summed by the row kernel
    want, _ = reduce("sum", first, 1)
    assert np.array_equal(got, want)
    np.testing.assert_allclose(got, x.sum(1, keepdims=True, dtype="f8"), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f2", BF16, "i2", "i4", "i8", "u1", "f8"], ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("keepdim", [True, False])
def test_values_on_every_axis(dtype, dim, keepdim):
    dtype = np.dtype(dtype)
    x = np.random.default_rng(3).integers(1, 4, size=(3, 5, 6)).astype(dtype)
    for name, f in (("sum", np.sum), ("amax", np.max), ("amin", np.min), ("prod", np.prod)):
        got, _ = reduce(name, x, dim, keepdim)
        want = f(x.astype("f8"), axis=dim, keepdims=keepdim)
        if name == "prod" and dtype.kind in "iu":
            want = want.astype("i8").astype(dtype)
        assert np.array_equal(got, want.astype(dtype)), name


def test_integer_sum_wraps():
    x = np.full((2, 300), 30000, "i2")
    got, _ = reduce("sum", x, 1)
    assert got[0, 0] == np.int16((300 * 30000) % 65536 - 65536 * ((300 * 30000) % 65536 >= 32768))


def test_only_the_valid_box_is_read():
    x = np.arange(64, dtype="f4").reshape(1, 64)
    x[0, 40:] = np.nan
    got, m = reduce("sum", x, 1, valid=[1, 40])
    assert got[0, 0] == np.arange(40).sum() and m.candidates() == []
    got, m = reduce("amax", x, 0, valid=[1, 40])
    assert np.array_equal(got[0, :40], x[0, :40]) and np.all(np.isnan(got[0, 40:]))


def test_nan_propagates_through_amax():
    x = np.array([[1, np.nan, 3]], "f4")
    for dim in (0, 1):
        assert np.isnan(reduce("amax", x, dim)[0]).any()
        assert np.isnan(reduce("amin", x, dim)[0]).any()


def test_bf16_sum_is_rounded_once_and_keeps_its_twin():
    x = np.random.default_rng(0).normal(size=(4, 100)).astype(BF16)
    p = Prog()
    y = p.op("sum", [p.arg(x)], shape=(4, 1), ints=[1, 1])
    p.run(keep=True)
    wide = p.read(y, wide=True)
    assert np.array_equal(p.read(y).view("u2"), wide.astype(BF16).view("u2"))
    assert np.array_equal(wide, reduce("sum", x.astype(F4), 1)[0])


@pytest.mark.parametrize("dtype", ["f4", "i4", BF16, "i2"], ids=str)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 5, 64])
def test_topk_breaks_ties_by_lowest_index(dtype, largest, k):
    x = np.random.default_rng(1).integers(0, 9, size=(3, 64)).astype(dtype)
    p = Prog()
    t = p.arg(x)
    v, i = p.local(x.dtype, (3, k)), p.local("i4", (3, k))
    from .core_program import ROW
    p.p.op(ROW["topk"], [v, i], [t], [k, int(largest)])
    p.run(keep=True)
    key = -x.astype("f8") if largest else x.astype("f8")
    order = np.argsort(key, axis=1, kind="stable")[:, :k]
    assert np.array_equal(p.read(i), order)
    assert np.array_equal(p.read(v), np.take_along_axis(x, order, 1))


def test_topk_counts_nan_as_largest_and_respects_the_valid_box():
    x = np.array([[3, np.nan, 1, -np.inf, np.inf, 100, 100]], "f4")
    p = Prog()
    t = p.partial(p.arg(x), [1, 5])
    v, i = p.local("f4", (1, 3)), p.local("i4", (1, 3))
    from .core_program import ROW
    p.p.op(ROW["topk"], [v, i], [t], [3, 1])
    p.run(keep=True)
    assert p.read(i).tolist() == [[1, 4, 0]]
