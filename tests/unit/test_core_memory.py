"""Argument memory, snapshots, versions of locals, and pieces of locals that were never written."""
import gc
import resource

import numpy as np
import pytest

from pypto_sim import _core

from .core_program import BF16, ROW, Prog, kernel_rows


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


@pytest.mark.parametrize("stepping", [False, True])
def test_a_view_of_a_written_argument_keeps_what_it_saw(stepping):
    p = Prog()
    a = p.arg(np.arange(12, dtype="f4").reshape(3, 4))
    out = p.arg(np.zeros((2, 4), "f4"))
    first, second = p.view(a, (1, 4), [0, 0]), p.view(a, (1, 4), [1, 0])
    again = p.view(first, (1, 2), [0, 1])
    p.assemble(p.op("full", [], "f4", (1, 4), ints=[0, 0, 0], floats=[-1.0]), [0, 0], a)
    p.assemble(first, [0, 0], out)
    p.assemble(second, [1, 0], out)
    p.assemble(again, [1, 0], out)
    p.assemble(p.view(a, (1, 1), [0, 0]), [1, 3], out)
    (p.step if stepping else p.run)()
    assert p.arrays[1].tolist() == [[0, 1, 2, 3], [1, 2, 6, -1]]


def test_arguments_that_share_memory():
    x = np.arange(8, dtype="f4")
    p = Prog()
    a = p.arg(x)
    b = p.p.tensor(0, [8], 1, "same")
    p.arrays.append(p.arrays[0])
    p.dtype[b], p.shape[b] = x.dtype, (8,)
    v = p.view(a, (2,), [0])
    p.assemble(p.op("full", [], "f4", (2,), ints=[0, 0, 0], floats=[9.0]), [0], b)
    p.assemble(v, [6], b)
    p.run()
    assert p.arrays[0].tolist() == [9, 9, 2, 3, 4, 5, 0, 1]


def test_assemble_of_an_argument_into_itself_reads_before_it_writes():
    p = Prog()
    a = p.arg(np.arange(6, dtype="i4"))
    p.assemble(p.view(a, (4,), [0]), [1], a)
    p.run()
    assert p.arrays[0].tolist() == [0, 0, 1, 2, 3, 5]


def test_assemble_writes_the_valid_box():
    p = Prog()
    x = p.arg(np.ones((4, 4), "f4"))
    out = p.arg(np.zeros((5, 5), "f4"))
    p.assemble(p.partial(x, [2, 3]), [1, 2], out)
    p.run()
    want = np.zeros((5, 5), "f4")
    want[1:3, 2:5] = 1
    assert np.array_equal(p.arrays[1], want)


@pytest.mark.parametrize("offset, code", [([-1, 0], "assemble.negative_offset"), ([1, 3], "assemble.past_end")])
def test_assemble_outside_the_destination(offset, code):
    p = Prog()
    x = p.arg(np.ones((4, 4), "f4"))
    p.assemble(p.partial(x, [2, 3]), offset, p.arg(np.zeros((5, 5), "f4")))
    with pytest.raises(_core.CoreError) as e:
        p.run()
    assert e.value.args[0] == code and not p.arrays[1].any()


@pytest.mark.parametrize("to", [BF16, np.dtype("f2"), np.dtype("i4")], ids=str)
def test_assemble_converts_half_even(to):
    x = np.array([0.5, 1.5, 2.5, 1.00390625, 3.7], "f4")
    p = Prog()
    p.assemble(p.arg(x), [0], p.arg(np.zeros(5, to)))
    p.run()
    assert np.array_equal(p.arrays[1], np.rint(x).astype(to) if to.kind == "i" else x.astype(to))


def test_read_only_argument():
    a = np.zeros(4, "f4")
    a.flags.writeable = False
    p = Prog()
    t = p.arg(a)
    p.assemble(p.op("full", [], "f4", (4,), ints=[0, 0, 0], floats=[1.0]), [0], t)
    with pytest.raises(_core.CoreError) as e:
        p.run()
    assert e.value.args[0] == "arg.read_only" and np.all(a == 0)


def test_wrong_amount_of_memory_is_refused():
    p = Prog()
    p.p.tensor(0, [4], 0, "x")
    with pytest.raises(_core.CoreError, match="16 bytes, 12"):
        _core.Machine(p.p, [np.zeros(3, "f4").view("u1")])
    with pytest.raises(_core.CoreError):
        _core.Machine(p.p, [])


def test_versions_of_a_local():
    p = Prog()
    a = p.arg(np.zeros((4, 4), "f4"))
    t = p.local("f4", (4, 4), "t")
    p.p.set(t, a)
    old = p.view(t, (2, 4), [1, 0])
    one = p.op("full", [], "f4", (2, 2), ints=[0, 0, 0], floats=[1.0])
    p.assemble(one, [1, 1], t)
    new = p.view(t, (2, 4), [1, 0])
    p.assemble(one, [0, 0], t)
    m = p.run(keep=True)
    assert np.all(p.read(old) == 0) and np.all(p.arrays[0] == 0)
    assert p.read(new).tolist() == [[0, 1, 1, 0]] * 2 and p.read(t).sum() == 7 and m.candidates() == []


def test_a_local_takes_shape_and_dtype_of_its_last_write():
    p = Prog()
    t = p.local("f4", (2,), "t")
    p.p.set(t, p.arg(np.arange(6, dtype="i4")))
    y = p.local("i4", (6,))
    p.p.op(ROW["adds"], [y], [t], [1], [1.0])
    p.dtype[y], p.shape[y] = np.dtype("i4"), (6,)
    p.run(keep=True)
    assert p.read(y).tolist() == [1, 2, 3, 4, 5, 6]


def test_unwritten_parts_of_a_local_are_poison_and_a_candidate():
    def kernel(pieces):
        p = Prog()
        x, out = p.arg(np.ones((4, 4), "f4")), p.arg(np.zeros((8, 8), "f4"))
        t = p.local("f4", (8, 8), "t")
        p.p.decl(t)
        for r, c in pieces:
            p.assemble(x, [r, c], t)
        p.assemble(p.scalar("adds", t, 1.0), [0, 0], out)
        return p, p.run()
    p, m = kernel([(0, 0), (4, 4), (0, 4), (4, 0)])
    assert np.all(p.arrays[1] == 2) and m.candidates() == []
    p, m = kernel([(0, 0), (4, 4), (0, 4)])
    assert np.all(np.isnan(p.arrays[1][4:, :4])) and len(m.candidates()) == 1 and m.candidates()[0][0] == "adds"


def test_view_of_the_written_part_is_clean():
    p = Prog()
    x = p.arg(np.ones((4, 8), "f4"))
    t = p.local("f4", (8, 8), "t")
    p.p.decl(t)
    p.assemble(x, [0, 0], t)
    good = p.scalar("adds", p.view(t, (2, 8), [1, 0]), 1.0)
    m = p.run(keep=True)
    assert np.all(p.read(good) == 2) and m.candidates() == []


def test_reshape_in_place_writes_through_to_the_argument():
    p = Prog()
    a = p.arg(np.zeros((2, 6), "f4"))
    r = p.op("reshape", [a], shape=(3, 4), ints=[0, 1])
    p.assemble(p.op("full", [], "f4", (1, 4), ints=[0, 0, 0], floats=[5.0]), [1, 0], r)
    p.run()
    assert p.arrays[0].tolist() == [[0, 0, 0, 0, 5, 5], [5, 5, 0, 0, 0, 0]]


def test_empty_tensors():
    p = Prog()
    a = p.arg(np.zeros((0, 4), "f4"))
    b = p.arg(np.zeros((3, 4), "f4"))
    y = p.scalar("adds", a, 1.0)
    s = p.op("sum", [a], shape=(1, 4), ints=[0, 1])
    c = p.op("concat", [y, b], shape=(3, 4), ints=[0])
    p.run(keep=True)
    assert p.read(y).shape == (0, 4) and np.all(p.read(s) == 0) and np.array_equal(p.read(c), p.arrays[1])


def test_malformed_programs_are_refused():
    p = Prog()
    a = p.arg(np.zeros((3, 4), "f4"))
    for bad in (lambda: p.p.op(999, [a], [a]), lambda: p.p.op(ROW["add"], [a], [a, a]), lambda: p.p.op(ROW["add"],
        [p.local("f4", (1,))], [a]),
                lambda: p.p.set(0, 50), lambda: p.p.end_loop(), lambda: p.p.expr(3, 0, 77), lambda: p.p.tensor(0, [-1]),
                lambda: p.p.tensor(77, [1]), lambda: p.p.tensor(0, [1] * 9), lambda: p.p.tensor(0, [2**40, 2**40])):
        with pytest.raises(ValueError):
            bad()
    y = p.local("f4", (3, 5))
    p.p.op(ROW["transpose"], [y], [a], [1, 0])
    with pytest.raises(_core.CoreError) as e:
        p.run()
    assert e.value.args[0] == "internal"


def test_liveness_keeps_memory_small():
    """200 values of 4 MiB in a row: only a few exist at a time."""
    n = 1 << 20
    p = Prog()
    x = p.arg(np.zeros(n, "f4"))
    out = p.arg(np.zeros(n, "f4"))
    y = x
    for _ in range(200):
        y = p.op("clone", [p.op("tanh", [p.op("reshape", [y], shape=(1024, 1024), ints=[0, 0])])])
        y = p.op("reshape", [p.op("transpose", [y], ints=[1, 0])], shape=(n,), ints=[0, 0])
    p.write(y, out)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    p.run()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
