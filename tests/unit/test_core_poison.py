"""poison=2: undefined elements followed to the arguments, with the operation and line that let them in."""
import numpy as np
import pytest

from .core_program import ROW, Prog, kernel_rows

TRACE = {"poison": 2}


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


class Kernel(Prog):
    """x: a [8, 8] argument, v: a view of it of which [8, 5] is valid, out: where results go."""

    def __init__(self, out_shape=(8, 8), dtype="f4"):
        super().__init__()
        self.x = self.arg(np.arange(64).reshape(8, 8).astype(dtype), "x")
        self.v = self.partial(self.x, [8, 5])
        self.out = self.arg(np.zeros(out_shape, "f4"), "out")

    def bad(self, line="k.py:1"):
        """x + v: columns 5.. are undefined."""
        return self.binary("add", self.x, self.v, line=self.p.line(line))

    def found(self, y, **kw):
        self.write(y, self.out)
        return self.step(**TRACE, **kw).candidates()


def count(found):
    assert len(found) == 1, found
    return int(found[0][2].split("; ")[1].split()[0])


def test_stored_undefined_elements_name_the_read():
    k = Kernel()
    found = k.found(k.scalar("adds", k.op("exp", [k.bad()]), 1.0))
    assert found[0][:2] == ("add", "k.py:1") and count(found) == 8 * 3 and "out" in found[0][2]


def test_undefined_elements_that_are_not_stored_are_no_finding():
    k = Kernel((8, 5))
    assert k.found(k.view(k.bad(), (8, 5), [0, 0])) == []
    k = Kernel()
    assert k.found(k.op("abs", [k.v])) == []                       # outside the valid box nothing is stored
    k = Kernel()
    k.bad()
    assert k.found(k.op("abs", [k.x])) == []


@pytest.mark.parametrize("stepping", [True, False])
def test_where_taints_through_the_chosen_side(stepping):
    k = Kernel()
    mask = k.scalar("lts", k.op("expand", [k.op("reshape", [k.op("arange", [], "f4", (8,), floats=[0.0, 1.0])],
        shape=(1, 8),
                                                ints=[0, 0])], shape=(8, 8), ints=[0]), 5.0, dtype="?")
    y = k.op("where", [mask, k.bad()], "f4", ints=[0, 1, 0, 0], floats=[0.0, -1.0])
    k.write(y, k.out)
    m = k.step(**TRACE) if stepping else k.run(**TRACE)
    assert m.candidates() == [] and not np.isnan(k.arrays[1]).any()
    k = Kernel()
    mask = k.scalar("lts", k.x, 1e9, dtype="?")
    assert count(k.found(k.op("where", [mask, k.bad()], "f4", ints=[0, 1, 0, 0], floats=[0.0, -1.0]))) == 24


def test_moves_carry_single_elements():
    k = Kernel()
    b = k.bad()
    t = k.op("transpose", [b], shape=(8, 8), ints=[1, 0])
    r = k.op("reshape", [t], shape=(4, 16), ints=[0, 0])           # rows 5, 6, 7 of t: the last 24 elements
    assert count(Kernel.found(k, k.op("reshape", [r], shape=(8, 8), ints=[0, 0]))) == 24
    k = Kernel((8, 16))
    assert count(k.found(k.op("concat", [k.bad(), k.x], shape=(8, 16), ints=[1]))) == 24
    k = Kernel((8, 4))
    assert count(k.found(k.op("gathermask", [k.bad()], shape=(8, 4), ints=[1]))) == 8
    k = Kernel((8, 3))
    assert count(k.found(k.view(k.bad(), (8, 3), [0, 4]))) == 16
    k = Kernel()
    assert count(k.found(k.op("tril", [k.bad()], scalars=[0]))) == 1 + 2 + 3
    k = Kernel((1, 8, 8))
    assert count(k.found(k.op("unsqueeze", [k.bad()], shape=(1, 8, 8), ints=[0]))) == 24
    k = Kernel()
    assert k.found(k.op("fillpad", [k.v], ints=[0], floats=[0.0])) == []


def test_reductions_and_products_spread():
    k = Kernel((8, 1))
    assert count(k.found(k.op("sum", [k.bad()], shape=(8, 1), ints=[1, 1]))) == 8
    k = Kernel((1, 8))
    assert count(k.found(k.op("amax", [k.bad()], shape=(1, 8), ints=[0, 1]))) == 3
    k = Kernel((8, 1))
    assert k.found(k.op("sum", [k.v], shape=(8, 1), ints=[1, 1])) == []
    k = Kernel()
    assert count(k.found(k.op("matmul", [k.bad(), k.x], ints=[0, 0, 0, 0]))) == 64
    k = Kernel()
    assert count(k.found(k.op("matmul", [k.x, k.bad()], ints=[0, 0, 0, 0]))) == 24
    k = Kernel()
    assert count(k.found(k.op("matmul", [k.bad(), k.x], ints=[1, 0, 0, 0]))) == 24
    k = Kernel()
    assert k.found(k.op("matmul", [k.v, k.x], ints=[0, 0, 0, 0])) == []     # K is filled with zeros


def test_running_sums_and_positions():
    k = Kernel()
    assert count(k.found(k.op("cumsum", [k.bad()], ints=[1]))) == 24
    k = Kernel()
    assert count(k.found(k.op("cumsum", [k.op("transpose", [k.bad()], ints=[1, 0])], ints=[0]))) == 24
    k = Kernel()
    k.out = k.arg(np.zeros((8, 1), "i4"), "positions")
    assert count(k.found(k.op("argmax", [k.bad()], "i4", (8, 1), ints=[1, 1]))) == 8


def test_gather_scatter_and_topk():
    k = Kernel((8, 2))
    i = k.arg(np.array([[0, 6]] * 8, "i4"))
    assert count(k.found(k.op("gather", [k.bad(), i], shape=(8, 2), ints=[1]))) == 8
    k = Kernel((8, 2))
    i = k.arg(np.array([[0, 6]] * 8, "i4"))
    assert count(k.found(k.op("gather", [k.v, i], shape=(8, 2), ints=[1]))) == 8
    k = Kernel((8, 3))
    assert count(k.found(k.op("index_select", [k.bad(), k.arg(np.array([0, 5, 7], "i4"))], shape=(8, 3),
        ints=[1]))) == 16
    k = Kernel()
    i = k.arg(np.array([[0, 6]] * 8, "i4"))
    # column 6 is overwritten
    assert count(k.found(k.op("scatter", [k.bad(), i], ints=[1, 0, 1, 0], floats=[0.0]))) == 16
    k = Kernel((8, 2))
    v, i = k.local("f4", (8, 2)), k.local("i4", (8, 2))
    k.p.op(ROW["topk"], [v, i], [k.bad()], [2, 1])
    assert count(k.found(v)) == 16


def test_unwritten_parts_of_a_local():
    k = Kernel()
    t = k.local("f4", (8, 8), "t")
    k.p.decl(t)
    k.assemble(k.view(k.x, (4, 8), [0, 0]), [0, 0], t)
    found = k.found(k.op("abs", [t], line=k.p.line("k.py:7")))
    assert found[0][:2] == ("abs", "k.py:7") and count(found) == 32
    k = Kernel()
    t = k.local("f4", (8, 8), "t")
    k.p.decl(t)
    for r in range(0, 8, 2):
        k.assemble(k.view(k.x, (2, 8), [r, 0]), [r, 0], t)
    assert k.found(k.op("abs", [t])) == []
    k = Kernel()
    t = k.local("f4", (8, 8), "t")
    k.p.set(t, k.bad())
    k.assemble(k.view(k.x, (8, 3), [0, 5]), [0, 5], t)              # the undefined columns are written again
    assert k.found(t) == []


def test_an_undefined_element_used_as_a_scalar():
    k = Kernel(dtype="i4")
    slot, _ = k.sym(2)
    k.p.load(slot, k.bad(), [k.e(0), k.e(7)], k.p.line("k.py:4"))
    found = k.step(**TRACE).candidates()
    assert found[0][:2] == ("element", "k.py:4")


def test_explicit_valid_beyond_the_source():
    k = Kernel((8, 8))
    y = k.view(k.x, (8, 8), [2, 4], [8, 8])
    assert count(k.found(y)) == 64 - 6 * 4


def test_check_mode_lists_the_reads_only():
    k = Kernel()
    for _ in range(3):
        k.bad()
    k.binary("mul", k.x, k.v, line=k.p.line("k.py:2"))
    found = k.step(poison=1).candidates()
    assert [f[:2] for f in found] == [("add", "k.py:1"), ("mul", "k.py:2")]
    assert "[8, 5]" in found[0][2]
    k = Kernel()
    k.bad()
    assert k.step(poison=0).candidates() == []
