"""Casts of the core: every pair of dtypes, rounding modes, saturation, wrap-around."""
import ml_dtypes
import numpy as np
import pytest

from .core_program import BF16, DTYPES, Prog, kernel_rows

F4, F2 = np.dtype("f4"), np.dtype("f2")
NONE, RINT, ROUND, FLOOR, CEIL, TRUNC, ODD = range(7)


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


def cast(x, dtype, mode=NONE, saturate=0):
    p = Prog()
    y = p.op("cast", [p.arg(x)], dtype, ints=[mode, saturate])
    p.run(keep=True)
    return p.read(y)


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("frm", DTYPES, ids=str)
def test_small_values_survive_every_pair(frm, to):
    x = np.array([0, 1, 1, 0, 1], frm) if np.dtype("?") in (frm, to) else np.array([0, 1, 5, 100, 77], frm)
    assert np.array_equal(cast(x, to), x.astype(to))


@pytest.mark.parametrize("half", [F2, BF16], ids=str)
def test_to_half_is_nearest_even_like_ml_dtypes(half):
    g = np.random.default_rng(0)
    x = g.integers(0, 2**32, 20000, dtype="u4").view("f4")
    with np.errstate(all="ignore"):
        got, want = cast(x, half), x.astype(half)
    nan = np.isnan(x)
    assert np.array_equal(got.view("u2")[~nan], want.view("u2")[~nan]) and np.all(np.isnan(got[nan].astype(F4)))


def neighbours(x, half):
    """The largest value of `half` <= x and the smallest >= x."""
    near = x.astype(half).astype("f8")
    info = ml_dtypes.finfo(half)
    up = np.nextafter(x.astype(half), half.type(np.inf)).astype("f8")
    down = np.nextafter(x.astype(half), half.type(-np.inf)).astype("f8")
    assert float(info.max) > 0
    return np.where(near <= x, near, down), np.where(near >= x, near, up)


@pytest.mark.parametrize("half", [F2, BF16], ids=str)
def test_directed_modes_pick_the_right_neighbour(half):
    g = np.random.default_rng(1)
    x = (g.normal(size=5000) * 10.0 ** g.integers(-9, 4, 5000)).astype(F4)
    low, high = neighbours(x.astype("f8"), half)
    x8 = x.astype("f8")
    assert np.array_equal(cast(x, half, FLOOR).astype("f8"), low)
    assert np.array_equal(cast(x, half, CEIL).astype("f8"), high)
    assert np.array_equal(cast(x, half, TRUNC).astype("f8"), np.where(x8 < 0, high, low))
    away = np.where(x8 - low == high - x8, np.where(x8 < 0, low, high), np.where(x8 - low < high - x8, low, high))
    assert np.array_equal(cast(x, half, ROUND).astype("f8"), away)
    odd = cast(x, half, ODD)
    exact = low == high
    assert np.array_equal(odd.astype("f8")[exact], low[exact]) and np.all(odd.view("u2")[~exact] & 1)


def test_half_overflow_saturates_only_on_request():
    x = np.array([1e6, -1e6, 65519, 65520, np.inf, np.nan], "f4")
    assert cast(x, F2).tolist()[:5] == [np.inf, -np.inf, 65504, np.inf, np.inf]
    assert cast(x, F2, NONE, 1).tolist()[:5] == [65504, -65504, 65504, 65504, 65504] and np.isnan(cast(x, F2, NONE,
        1)[5])
    assert cast(x, F2, TRUNC).tolist()[:4] == [65504, -65504, 65504, 65504]


def test_float_to_int_modes():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.4, -2.6], "f4")
    assert cast(x, "i4").tolist() == [0, 1, 2, 0, -1, -2, 2, -2]
    assert cast(x, "i4", RINT).tolist() == [0, 2, 2, 0, -2, -2, 2, -3]
    assert cast(x, "i4", ROUND).tolist() == [1, 2, 3, -1, -2, -3, 2, -3]
    assert cast(x, "i4", FLOOR).tolist() == [0, 1, 2, -1, -2, -3, 2, -3]
    assert cast(x, "i4", CEIL).tolist() == [1, 2, 3, 0, -1, -2, 3, -2]
    for source in (F2, BF16):
        assert cast(x.astype(source), "i2", ROUND).tolist()[:6] == [1, 2, 3, -1, -2, -3]


def test_float_to_int_out_of_range():
    x = np.array([300, -300, 3e9, -3e9, 1e30, np.nan], "f4")
    # by way of int64; its indefinite value wraps to 0
    assert cast(x, "i1").tolist() == [44, -44, 0x5E00 & 255, -0x5E00 & 255, 0, 0]
    assert cast(x, "i1", NONE, 1).tolist() == [127, -128, 127, -128, 127, 0]
    assert cast(x, "u1", NONE, 1).tolist() == [255, 0, 255, 0, 255, 0]
    lowest = -2147483648
    assert cast(x, "i4").tolist() == [300, -300, lowest, lowest, lowest, lowest]
    assert cast(x, "i4", NONE, 1).tolist() == [300, -300, 2147483647, lowest, 2147483647, 0]
    assert cast(x, "i8").tolist() == [300, -300, 3000000000, -3000000000, -2**63, -2**63]


def test_float_to_int_matches_torch_where_defined():
    torch = pytest.importorskip("torch")
    x = (np.random.default_rng(0).normal(size=1000) * 1e5).astype("f4")
    for dtype, name in (("i1", torch.int8), ("i2", torch.int16), ("u1", torch.uint8), ("i4", torch.int32)):
        assert np.array_equal(cast(x, dtype), torch.from_numpy(x).to(name).numpy())


def test_int_to_int_wraps_or_saturates():
    x = np.array([300, -300, 127, -129, 70000], "i4")
    assert cast(x, "i1").tolist() == x.astype("i1").tolist()
    assert cast(x, "i1", NONE, 1).tolist() == [127, -128, 127, -128, 127]
    assert cast(x, "u2", NONE, 1).tolist() == [300, 0, 127, 0, 65535]
    assert cast(np.array([2**64 - 1, 5], "u8"), "i4", NONE, 1).tolist() == [2147483647, 5]


def test_int_to_float_is_nearest_even():
    x = np.array([16777217, 16777219, -16777217, 2**31 - 1], "i4")
    assert np.array_equal(cast(x, F4), x.astype(F4))
    big = np.array([2**63 - 1, 2**53 + 1, -(2**62) - 3], "i8")
    assert np.array_equal(cast(big, F4), big.astype(F4))


@pytest.mark.parametrize("dtype", [F4, F2, BF16, np.dtype("f8")], ids=str)
def test_same_dtype_rounds_to_integral_values(dtype):
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 3.25], dtype)
    assert np.array_equal(cast(x, dtype), x)
    assert cast(x, dtype, ROUND).astype("f8").tolist() == [1, 2, 3, -1, -3, 3]
    assert cast(x, dtype, FLOOR).astype("f8").tolist() == [0, 1, 2, -1, -3, 3]
    assert cast(x, dtype, CEIL).astype("f8").tolist() == [1, 2, 3, 0, -2, 4]
    assert cast(x, dtype, TRUNC).astype("f8").tolist() == [0, 1, 2, 0, -2, 3]


def test_bool():
    assert cast(np.array([0, 0.5, np.nan, -0.0], "f4"), "?").tolist() == [False, True, True, False]
    assert cast(np.array([True, False]), F4).tolist() == [1, 0]
