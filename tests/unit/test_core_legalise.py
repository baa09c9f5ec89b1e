"""fp32 twins of half-precision arithmetic: where they live and where they are rounded."""
import numpy as np
import pytest

from .core_program import BF16, Prog, kernel_rows

F4, F2 = np.dtype("f4"), np.dtype("f2")


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


def values(dtype=BF16, n=2048, seed=0):
    return np.random.default_rng(seed).normal(size=n).astype(dtype)


def chain(p, x):
    """(x * x + x) * x"""
    return p.binary("mul", p.binary("add", p.binary("mul", x, x), x), x)


def test_a_bf16_chain_rounds_once():
    x = values()
    p = Prog()
    y = chain(p, p.arg(x))
    p.run(keep=True)
    w = x.astype(F4)
    once = ((w * w + w) * w).astype(BF16)
    each = (((w * w).astype(BF16).astype(F4) + w).astype(BF16).astype(F4) * w).astype(BF16)
    assert np.array_equal(p.read(y), once) and not np.array_equal(once, each)


def test_fp16_follows_the_numerics_version():
    x = values(F2)
    w = x.astype(F4)
    for numerics, want in ((0, ((w * w + w) * w).astype(F2)), (1, (x * x + x) * x)):
        p = Prog(numerics)
        y = chain(p, p.arg(x))
        p.run(keep=True)
        assert np.array_equal(p.read(y), want)


def test_fp16_division_is_native_and_rounds():
    x = values(F2)
    p = Prog()
    t = p.arg(x)
    y = p.binary("add", p.binary("div", t, t), t)
    z = p.binary("add", p.binary("div", p.scalar("adds", t, 3.0), t), t)
    p.run(keep=True)
    assert np.array_equal(p.read(y), (x.astype(F4) + 1).astype(F2))
    # div reads the rounded sum
    narrow = ((x.astype(F4) + np.float32(3)).astype(F2).astype(F4) / x.astype(F4)).astype(F2)
    assert np.array_equal(p.read(z), (narrow.astype(F4) + x.astype(F4)).astype(F2))


def rounded_between(build_between):
    """exp(x) + something in between + add: the value that add saw must have been rounded to bf16."""
    x = values()
    p = Prog()
    t = p.arg(x)
    y = p.scalar("muls", t, 1.1)
    y = build_between(p, y)
    z = p.scalar("adds", y, 0.5)
    p.run(keep=True)
    return p.read(z, wide=True).reshape(-1), (x.astype(F4) * np.float32(1.1)).astype(BF16).astype(F4) + np.float32(0.5)


@pytest.mark.parametrize("between", ["clone", "view", "reshape", "cast", "block", "set", "assemble", "transpose",
    "concat"])
def test_rounding_points(between):
    def build(p, y):
        if between == "view": return p.view(y, (2048,), [0])
        if between == "clone": return p.op("clone", [y])
        if between == "reshape": return p.op("reshape", [y], shape=(2, 1024), ints=[0, 0])
        if between == "cast": return p.op("cast", [p.op("cast", [y], F4, ints=[0, 0])], BF16, ints=[0, 0])
        if between == "transpose": return p.op("transpose", [y], ints=[0])
        if between == "concat": return p.op("concat", [y], ints=[0])
        if between == "block":
            p.p.block()
            return y
        t = p.local(BF16, (2048,), "t")
        if between == "set":
            p.p.set(t, y)
            return t
        p.p.decl(t)
        p.write(y, t)
        return t
    got, want = rounded_between(build)
    assert np.array_equal(got, want)


def test_tanh_rounds_before_and_after():
    x = values()
    p = Prog()
    y = p.op("tanh", [p.scalar("muls", p.arg(x), 1.1)])
    z = p.scalar("adds", y, 0.1)
    p.run(keep=True)
    rounded = (x.astype(F4) * np.float32(1.1)).astype(BF16).astype(F4)
    q = Prog()
    t = q.op("tanh", [q.arg(rounded)])
    q.run(keep=True)
    assert np.array_equal(p.read(z, wide=True), q.read(t).astype(BF16).astype(F4) + np.float32(0.1))


def test_loop_and_branch_boundaries():
    x = values(n=16).reshape(1, 16)
    p = Prog()
    t, out = p.arg(x), p.arg(np.zeros((4, 16), BF16))
    before = p.scalar("muls", t, 1.1)
    with p.loop(0, 2) as i:
        inside = p.scalar("adds", before, 0.3)                      # another block: rounded operand
        p.p.begin_if(i.eq0().id)
        p.assemble(p.scalar("muls", inside, 1.3), [i, 0], out)      # a branch continues the block: fp32 operand
        p.p.begin_else()
        p.assemble(p.scalar("muls", inside, 1.7), [i, 0], out)
        p.p.end_if()
    after = p.scalar("adds", before, 0.3)
    p.assemble(after, [2, 0], out)
    p.run()
    w = (x.astype(F4) * np.float32(1.1)).astype(BF16).astype(F4) + np.float32(0.3)
    got = p.arrays[1]
    assert np.array_equal(got[0], (w * np.float32(1.3)).astype(BF16)[0])
    assert np.array_equal(got[1], (w * np.float32(1.7)).astype(BF16)[0])
    assert np.array_equal(got[2], w.astype(BF16)[0])


def test_a_write_in_one_branch_does_not_reach_the_other():
    x = values(n=16).reshape(1, 16)
    p = Prog()
    t, out = p.arg(x), p.arg(np.zeros((2, 16), BF16))
    with p.loop(0, 2) as i:
        y = p.scalar("muls", t, 1.1)
        p.p.begin_if(i.eq0().id)
        p.p.set(y, y)
        p.assemble(p.scalar("adds", y, 0.3), [i, 0], out)
        p.p.begin_else()
        p.assemble(p.scalar("adds", y, 0.3), [i, 0], out)
        p.p.end_if()
    p.run()
    w = x.astype(F4) * np.float32(1.1)
    assert np.array_equal(p.arrays[1][0], (w.astype(BF16).astype(F4) + np.float32(0.3)).astype(BF16)[0])
    assert np.array_equal(p.arrays[1][1], (w + np.float32(0.3)).astype(BF16)[0])


def test_where_reduce_and_triangle_read_the_twin():
    x = values(n=64).reshape(8, 8)
    p = Prog()
    y = p.scalar("muls", p.arg(x), 1.1)
    s = p.op("sum", [y], shape=(8, 1), ints=[1, 1])
    w = p.op("where", [p.scalar("gts", y, 0.0, dtype="?"), y], BF16, ints=[0, 1, 0, 0], floats=[0.0, 0.3])
    t = p.scalar("adds", p.op("tril", [y], scalars=[0]), 0.0)
    p.run(keep=True)
    wide = x.astype(F4) * np.float32(1.1)
    q = Prog()
    r = q.op("sum", [q.arg(wide)], shape=(8, 1), ints=[1, 1])
    q.run(keep=True)
    assert np.array_equal(p.read(s, wide=True), q.read(r))
    assert np.array_equal(p.read(w, wide=True), np.where(wide.astype(BF16).astype(F4) > 0, wide, np.float32(0.3)))
    assert np.array_equal(p.read(t, wide=True), np.tril(wide))


def test_listing_shows_twins():
    p = Prog()
    t = p.arg(values())
    chain(p, t)
    p.p.finish()
    items = p.p.items()
    assert [i["wide_out"] for i in items] == [True] * 3 and [i["wide_ins"] for i in items] == [0, 1, 1]
    assert "fp32 twin" in str(p.p)
