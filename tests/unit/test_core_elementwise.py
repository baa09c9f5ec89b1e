"""Elementwise operations of the core against numpy."""
import numpy as np
import pytest

from pypto_sim import _core

from .core_program import BF16, Prog, kernel_rows

F4, F2 = np.dtype("f4"), np.dtype("f2")
INTS = [np.dtype(t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
    "minimum": np.minimum}
SCALAR = {"adds": lambda x, s: x + s, "subs": lambda x, s: x - s, "muls": lambda x, s: x * s, "divs": lambda x,
    s: x / s,
          "maxs": np.maximum, "mins": np.minimum, "rsubs": lambda x, s: s - x, "rdivs": lambda x, s: s / x}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal}
EXACT_UNARY = {"sqrt": np.sqrt, "abs": np.abs, "neg": np.negative, "reciprocal": lambda x: np.float32(1) / x,
               "relu": lambda x: np.maximum(x, np.float32(0)), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
                   "round": np.rint}
SHAPES = [((3, 2050), (3, 2050)), ((7, 33), (7, 1)), ((7, 33), (1, 33)), ((1, 1), (5, 9)), ((2, 1, 4), (2, 3, 1)),
    ((40,), (40,))]


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


def floats(shape, dtype=F4, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * 3).astype(dtype)


def ints(shape, dtype, seed=0):
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)


def run(build, *arrays, **kw):
    """One-operation Program: `build(prog, *ids)` gives the result's id; returns its value."""
    p = Prog()
    y = build(p, *(p.arg(a) for a in arrays))
    p.run(keep=True, **kw)
    return p.read(y)


def same(a, b):
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    assert a.shape == b.shape and a.dtype == b.dtype
    nan = np.isnan(a.astype("f8")) & np.isnan(b.astype("f8"))
    assert np.all(nan | (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [F4, F2, BF16], ids=str)
def test_binary_float_rounds_once(name, shapes, dtype):
    a, b = floats(shapes[0], dtype), floats(shapes[1], dtype, 1)
    with np.errstate(all="ignore"):
        want = BINARY[name](a.astype(F4), b.astype(F4)).astype(dtype)
    same(run(lambda p, x, y: p.binary(name, x, y), a, b), want)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_binary_integers_wrap(name, dtype):
    a, b = ints((4, 70), dtype), ints((4, 70), dtype, 1)
    if name == "div":
        with np.errstate(all="ignore"):
            want = a.astype(F4) / b.astype(F4)
        same(run(lambda p, x, y: p.binary("div", x, y, dtype=F4), a, b), want)
        return
    with np.errstate(all="ignore"):
        want = BINARY[name](a, b)
    same(run(lambda p, x, y: p.binary(name, x, y), a, b), want)


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("dtype", [F4, F2, BF16, np.dtype("i4"), np.dtype("i2")], ids=str)
def test_scalar_forms(name, dtype):
    if dtype.kind == "i":
        if name in ("divs", "rdivs"):
            return
        x, s = ints((3, 100), dtype), dtype.type(7)
        with np.errstate(all="ignore"):
            same(run(lambda p, t: p.scalar(name, t, 7), x), SCALAR[name](x, s))
        return
    x, s = floats((3, 100), dtype), np.float32(1.7)         # the scalar itself is not rounded to a half type
    want = SCALAR[name](x.astype(F4), s).astype(dtype)
    same(run(lambda p, t: p.scalar(name, t, float(s)), x), want)


def test_symbolic_scalar_replaces_both_attributes():
    p = Prog()
    x = p.arg(np.arange(6, dtype="f4"))
    out = p.arg(np.zeros((3, 6), "f4"))
    with p.loop(0, 3) as i:
        y = p.op("adds", [x], ints=[99], floats=[99.0], scalars=[i * 10])
        y = p.op("unsqueeze", [y], shape=(1, 6), ints=[0])
        p.assemble(y, [i, 0], out)
    p.run()
    same(p.arrays[1], np.arange(6, dtype="f4") + np.float32([[0], [10], [20]]))


@pytest.mark.parametrize("name", EXACT_UNARY)
@pytest.mark.parametrize("dtype", [F4, F2, BF16], ids=str)
def test_unary_exact(name, dtype):
    x = floats((5, 333), dtype)
    x[0, :5] = [0.0, np.inf, -np.inf, np.nan, 2.5]
    with np.errstate(all="ignore"):
        want = EXACT_UNARY[name](x.astype(F4)).astype(dtype)
    same(run(lambda p, t: p.op(name, [t]), x), want)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf"])
def test_unary_transcendental_within_two_ulp(name):
    from scipy.special import erf
    x = np.abs(floats((4, 1000))) + np.float32(0.1)
    want = {"exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": erf}[name](x.astype("f8"))
    got = run(lambda p, t: p.op(name, [t]), x)
    assert np.max(np.abs(got - want) / np.spacing(np.abs(want).astype("f4"))) < 2


@pytest.mark.parametrize("name", COMPARE)
@pytest.mark.parametrize("dtype", [F4, F2, BF16, np.dtype("i4"), np.dtype("u1"), np.dtype("i8")], ids=str)
def test_compare(name, dtype):
    a = np.random.default_rng(0).integers(0, 4, (6, 50)).astype(dtype)
    b = np.random.default_rng(1).integers(0, 4, (6, 1)).astype(dtype)
    if dtype == F4:
        a[0, :3] = np.nan
    want = COMPARE[name](a, b)
    same(run(lambda p, x, y: p.binary(name, x, y, dtype="?"), a, b), want)
    same(run(lambda p, x, y: p.binary(name, x, y, dtype="?"), b, a), COMPARE[name](b, a))
    same(run(lambda p, x: p.scalar(name + "s", x, 2, dtype="?"), a), COMPARE[name](a, dtype.type(2)))


@pytest.mark.parametrize("dtype", [F4, np.dtype("i4"), np.dtype("?"), BF16], ids=str)
def test_logical(dtype):
    a = np.random.default_rng(0).integers(0, 2, (6, 50)).astype(dtype)
    b = np.random.default_rng(1).integers(0, 2, (6, 50)).astype(dtype)
    same(run(lambda p, x, y: p.binary("logical_and", x, y, dtype="?"), a, b), (a != 0) & (b != 0))
    same(run(lambda p, x, y: p.binary("logical_or", x, y, dtype="?"), a, b), (a != 0) | (b != 0))
    same(run(lambda p, x: p.op("logical_not", [x], dtype="?"), a), a == 0)


@pytest.mark.parametrize("dtype", [F4, F2, BF16, np.dtype("i4"), np.dtype("i2")], ids=str)
def test_where_all_forms(dtype):
    c = np.random.default_rng(0).integers(0, 2, (6, 50)).astype("?")
    a, b = (np.arange(300).reshape(6, 50) % 90).astype(dtype), np.arange(6).reshape(6, 1).astype(dtype)
    s = dtype.type(3)

    def build(ins, a_scalar, b_scalar):
        return lambda p, *t: p.op("where", list(t), dtype=dtype, shape=(6, 50), ints=[a_scalar, b_scalar, 3, 3],
            floats=[3.0, 3.0])
    same(run(build(3, 0, 0), c, a, b), np.where(c, a, b))
    same(run(build(2, 1, 0), c, b), np.where(c, s, b).astype(dtype))
    same(run(build(2, 0, 1), c, a), np.where(c, a, s).astype(dtype))
    same(run(build(1, 1, 1), c), np.where(c, s, s).astype(dtype))
    same(run(build(3, 0, 0), c[:1], b, a), np.where(c[:1], b, a))


def test_where_does_not_mix_in_the_other_side():
    c = np.array([True, False])
    a, b = np.array([1, np.nan], "f4"), np.array([np.nan, 2], "f4")
    got = run(lambda p, *t: p.op("where", list(t), dtype=F4, ints=[0, 0, 0, 0], floats=[0, 0]), c, a, b)
    same(got, np.array([1, 2], "f4"))


def test_fp64_is_computed_in_fp64():
    a, b = floats((4, 9), "f8"), floats((4, 9), "f8", 1)
    same(run(lambda p, x, y: p.binary("div", x, y), a, b), a / b)
    np.testing.assert_allclose(run(lambda p, x: p.op("exp", [x]), a), np.exp(a), rtol=1e-15)


def test_operation_without_meaning_for_a_dtype_is_refused():
    with pytest.raises(_core.CoreError, match="not defined for INT32") as e:
        run(lambda p, t: p.op("exp", [t]), np.ones(3, "i4"))
    assert e.value.args[0] == "dtype"


def test_strided_and_broadcast_operands():
    a = floats((6, 40))
    p = Prog()
    x = p.arg(a)
    v = p.view(x, (6, 8), [0, 16])                                   # rows apart in memory
    t = p.op("transpose", [v], shape=(8, 6), ints=[1, 0])
    e = p.op("expand", [p.view(x, (6, 1), [0, 3])], shape=(6, 8), ints=[0])
    y = p.binary("add", v, e)
    z = p.binary("mul", t, p.op("transpose", [y], shape=(8, 6), ints=[1, 0]))
    p.run(keep=True)
    want = a[:, 16:24] + a[:, 3:4]
    same(p.read(y), want)
    same(p.read(z), a[:, 16:24].T * want.T)
