"""Moves, creation and valid boxes of the core."""
import numpy as np
import pytest

from pypto_sim import _core

from .core_program import BF16, ROW, Prog, kernel_rows

F4 = np.dtype("f4")
ALL = ["f4", "f2", BF16, "f8", "i1", "i2", "i4", "i8", "u1", "?"]


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


def numbers(shape, dtype="f4"):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def result(build, *arrays, **kw):
    p = Prog()
    y = build(p, *(p.arg(a) for a in arrays))
    m = p.run(keep=True, **kw)
    return p.read(y), m.valid(y), m.candidates()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_moves_of_every_dtype(dtype):
    x = numbers((4, 6, 8), dtype)
    assert np.array_equal(result(lambda p, t: p.op("transpose", [t], shape=(8, 4, 6), ints=[2, 0, 1]), x)[0],
        x.transpose(2, 0, 1))
    assert np.array_equal(result(lambda p, t: p.op("transpose", [t], shape=(6, 4, 8), ints=[1, 0, 2]), x)[0],
        x.transpose(1, 0, 2))
    assert np.array_equal(result(lambda p, t: p.op("reshape", [t], shape=(12, 16), ints=[0, 0]), x)[0], x.reshape(12,
        16))
    assert np.array_equal(result(lambda p, t: p.op("unsqueeze", [t], shape=(4, 1, 6, 8), ints=[1]), x)[0], x[:, None])
    assert np.array_equal(result(lambda p, t: p.op("squeeze", [t], shape=(6, 8), ints=[0]), x[:1])[0], x[0])
    assert np.array_equal(result(lambda p, t: p.op("expand", [t], shape=(4, 6, 8), ints=[0]), x[:, :1])[0],
        np.broadcast_to(x[:, :1], x.shape))
    assert np.array_equal(result(lambda p, t: p.op("clone", [t]), x)[0], x)
    assert np.array_equal(result(lambda p, a, b: p.op("concat", [a, b], shape=(4, 9, 8), ints=[1]), x, x[:, :3])[0],
        np.concatenate([x, x[:, :3]], 1))
    assert np.array_equal(result(lambda p, t: p.view(t, (2, 3, 5), [1, 2, 3]), x)[0], x[1:3, 2:5, 3:])


@pytest.mark.parametrize("dtype", ["f4", BF16, "i4", "i1"], ids=str)
@pytest.mark.parametrize("diagonal", [0, 2, -3, 100, -100])
def test_tril_triu(dtype, diagonal):
    x = numbers((2, 5, 7), dtype) + np.dtype(dtype).type(1)
    for name, f in (("tril", np.tril), ("triu", np.triu)):
        assert np.array_equal(result(lambda p, t, name=name: p.op(name, [t], scalars=[diagonal]), x)[0], f(x, diagonal))


def test_deinterleave_and_gathermask():
    x = numbers((2, 12))
    p = Prog()
    t, u = p.arg(x), p.arg(x + 100)
    a = p.local("f4", (2, 6)), p.local("f4", (2, 6))
    b = p.local("f4", (2, 12)), p.local("f4", (2, 12))
    p.p.op(ROW["deinterleave"], list(a), [t])
    p.p.op(ROW["deinterleave"], list(b), [t, u])
    masks = [p.op("gathermask", [t], shape=(2, n), ints=[mode]) for mode, n in ((1, 6), (2, 6), (3, 3), (4, 3), (5,
        3), (6, 3), (7, 12))]
    p.run(keep=True)
    both = np.concatenate([x, x + 100], 1)
    for parity in (0, 1):
        assert np.array_equal(p.read(a[parity]), x[:, parity::2])
        assert np.array_equal(p.read(b[parity]), both[:, parity::2])
    for got, want in zip(masks, [x[:, 0::2], x[:, 1::2], x[:, 0::4], x[:, 1::4], x[:, 2::4], x[:, 3::4], x],
        strict=True):
        assert np.array_equal(p.read(got), want)


def test_full_and_arange():
    p = Prog()
    a = p.op("full", [], BF16, (3, 5), ints=[0, 0, 0], floats=[0.7978845608])
    b = p.op("full", [], "i2", (4,), ints=[-7, 1, 0], floats=[0.0], scalars=[2])
    c = p.op("arange", [], "f4", (5,), floats=[0.5, 0.25])
    d = p.op("arange", [], "i4", (5,), ints=[10, -3])
    m = p.run(keep=True)
    assert np.all(p.read(a).astype(F4) == 0.796875)
    assert m.valid(b) == [2] and p.read(b)[:2].tolist() == [-7, -7] and p.read(b)[2] == np.int16(-0x7F80)
    assert np.array_equal(p.read(c), np.float32([0.5, 0.75, 1, 1.25, 1.5]))
    assert p.read(d).tolist() == [10, 7, 4, 1, -2]


def test_symbolic_full():
    p = Prog()
    out = p.arg(np.zeros((3, 2), "f4"))
    with p.loop(0, 3) as i:
        p.assemble(p.op("full", [], "f4", (1, 2), ints=[0, 0, 1], floats=[0.0], scalars=[i * 2]), [i, 0], out)
    p.run()
    assert p.arrays[0].tolist() == [[0, 0], [2, 2], [4, 4]]


# ------------------------------------------------------------------------------------------------ valid boxes
def test_view_clamps_at_the_end_of_its_source():
    x = numbers((10, 4))
    got, valid, candidates = result(lambda p, t: p.view(t, (4, 4), [8, 0]), x)
    assert valid == [2, 4] and candidates == [] and np.array_equal(got[:2], x[8:]) and np.all(np.isnan(got[2:]))


def test_view_past_valid_is_empty_past_the_shape_is_an_error():
    x = numbers((10, 4))
    assert result(lambda p, t: p.view(p.partial(t, [5, 4]), (4, 4), [7, 0]), x)[1] == [0, 4]
    with pytest.raises(_core.CoreError) as e:
        result(lambda p, t: p.view(t, (4, 4), [10, 0]), x)
    assert e.value.args[0] == "view.past_end" and "length 10" in e.value.args[1]


def test_explicit_valid_beyond_the_source_is_a_candidate():
    x = numbers((10, 4))
    got, valid, candidates = result(lambda p, t: p.view(t, (4, 4), [8, 0], [4, 4]), x)
    assert valid == [4, 4] and len(candidates) == 1 and np.all(np.isnan(got[2:])) and np.array_equal(got[:2], x[8:])


def test_binary_takes_the_box_of_the_operand_that_has_the_axis():
    x, row = numbers((6, 8)), numbers((1, 8))
    assert result(lambda p, a, b: p.binary("add", p.partial(a, [4, 5]), b), x, row)[1:] == ([4, 5], [])
    got, valid, candidates = result(lambda p, a, b: p.binary("add", a, p.partial(b, [1, 5])), x, row)
    assert valid == [6, 8] and len(candidates) == 1 and candidates[0][0] == "add" and np.all(np.isnan(got[:, 5:]))
    assert result(lambda p, a, b: p.binary("add", p.partial(b, [1, 5]), a), x, row)[1] == [6, 5]


def test_integer_poison_is_a_bit_pattern():
    x = numbers((4,), "i4")
    got, valid, candidates = result(lambda p, t: p.binary("add", t, p.partial(t, [2])), x)
    assert got.tolist() == [0, 2, np.int32(2 - 0x7F7F7F80), np.int32(3 - 0x7F7F7F80)] and len(candidates) == 1


def test_reshape_of_a_partial_value():
    x = numbers((4, 8))
    full = result(lambda p, t: p.op("reshape", [p.partial(t, [3, 8])], shape=(32,), ints=[0, 0]), x)
    assert full[1] == [32] and len(full[2]) == 1 and np.all(np.isnan(full[0][24:]))
    told = result(lambda p, t: p.op("reshape", [p.partial(t, [3, 8])], shape=(32,), ints=[1, 0], scalars=[24]), x)
    assert told[1:] == ([24], []) and np.array_equal(told[0][:24], x.reshape(-1)[:24])
    wrong = result(lambda p, t: p.op("reshape", [p.partial(t, [4, 7])], shape=(32,), ints=[1, 0], scalars=[24]), x)
    assert len(wrong[2]) == 1 and np.isnan(wrong[0][7])


def test_concat_and_expand_read_whole_operands():
    x = numbers((4, 8))
    got, valid, candidates = result(lambda p, t: p.op("concat", [p.partial(t, [4, 5]), t], shape=(4, 16), ints=[1]), x)
    assert valid == [4, 16] and len(candidates) == 1 and np.all(np.isnan(got[:, 5:8])) and np.array_equal(got[:, 8:], x)
    got, valid, candidates = result(lambda p, t: p.op("expand", [p.partial(t, [1, 5])], shape=(4, 8), ints=[0]), x[:1])
    assert valid == [4, 8] and len(candidates) == 1
    assert result(lambda p, t: p.op("expand", [p.partial(t, [1, 5])], shape=(4, 8), ints=[1], scalars=[2, 5]),
        x[:1])[1:] == ([2, 5], [])


def test_fillpad_defines_the_rest():
    got, valid, candidates = result(lambda p, t: p.op("fillpad", [p.partial(t, [2, 3])], ints=[9], floats=[-np.inf]),
        numbers((4, 8)))
    want = np.full((4, 8), -np.inf, "f4")
    want[:2, :3] = numbers((4, 8))[:2, :3]
    assert np.array_equal(got, want) and valid == [4, 8] and candidates == []
    got = result(lambda p, t: p.op("fillpad", [p.partial(t, [2, 3])], ints=[9], floats=[0.0]), numbers((4, 8), "i4"))[0]
    assert got[3].tolist() == [9] * 8 and got[0].tolist() == [0, 1, 2] + [9] * 5


def test_unary_keeps_and_transpose_permutes_the_box():
    x = numbers((4, 8))
    assert result(lambda p, t: p.op("abs", [p.partial(t, [2, 3])]), x)[1] == [2, 3]
    assert result(lambda p, t: p.op("transpose", [p.partial(t, [2, 3])], shape=(8, 4), ints=[1, 0]), x)[1] == [3, 2]
    assert result(lambda p, t: p.op("unsqueeze", [p.partial(t, [2, 3])], shape=(4, 8, 1), ints=[2]), x)[1] == [2, 3, 1]
    assert result(lambda p, t: p.op("gathermask", [p.partial(t, [2, 3])], shape=(4, 4), ints=[1]), x)[1] == [2, 2]
    assert result(lambda p, t: p.op("gathermask", [p.partial(t, [2, 3])], shape=(4, 4), ints=[2]), x)[1] == [2, 1]
