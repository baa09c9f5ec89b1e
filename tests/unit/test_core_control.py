"""Loops, decisions, slots, element loads and stores, traps of the core; replay against stepping."""
import numpy as np
import pytest

from pypto_sim import _core

from .core_program import BF16, ROW, Prog, kernel_rows


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


def test_loop_with_slot_and_decision():
    """acc is written on the first iteration and read on later ones; the result leaves on the last."""
    x = np.arange(40, dtype="f4").reshape(5, 8)
    p = Prog()
    a, out = p.arg(x), p.arg(np.zeros((1, 8), "f4"))
    acc = p.local("f4", (1, 8), "acc")
    p.p.decl(acc)
    with p.loop(0, 5) as i:
        row = p.view(a, (1, 8), [i, 0])
        p.p.begin_if(i.eq0().id)
        p.p.set(acc, row)
        p.p.begin_else()
        p.p.set(acc, p.binary("add", acc, row))
        p.p.begin_if((i + -4).ge0().id)
        p.write(acc, out)
        p.p.begin_else()
        p.p.end_if()
        p.p.end_if()
    p.run()
    assert np.array_equal(p.arrays[1], x.sum(0, keepdims=True))


def test_nested_loops_with_loaded_bounds():
    p = Prog()
    lengths = p.arg(np.array([3, 0, 2], "i4"))
    out = p.arg(np.zeros((3, 4), "i4"))
    with p.loop(0, 3) as i:
        slot, n = p.sym(2)
        p.p.load(slot, lengths, [i.id])
        with p.loop(0, n) as j:
            p.p.store(out, (j * 10 + i + 1).id, [i.id, j.id])
    p.run()
    assert p.arrays[1].tolist() == [[1, 11, 21, 0], [0, 0, 0, 0], [3, 13, 0, 0]]


def test_loads_see_earlier_stores():
    p = Prog()
    t = p.arg(np.zeros(4, "i4"))
    with p.loop(0, 3) as i:
        slot, v = p.sym(2)
        p.p.load(slot, t, [i.id])
        p.p.store(t, (v * 2 + 1).id, [(i + 1).id])
    p.run()
    assert p.arrays[0].tolist() == [0, 1, 3, 7]


def test_expressions_follow_python():
    p = Prog()
    out = p.arg(np.zeros((7, 6), "i4"))
    with p.loop(0, 7) as k:
        i = k + -3
        for c, e in enumerate([i // 2, i % 3, i.min(1), i.max(1), i.ge0(), i.eq0()]):
            p.p.store(out, e.id, [k.id, p.e(c)])
    p.run()
    want = [[i // 2, i % 3, min(i, 1), max(i, 1), int(i >= 0), int(i == 0)] for i in range(-3, 4)]
    assert p.arrays[0].tolist() == want


def test_deep_and_shared_expressions():
    p = Prog()
    out = p.arg(np.zeros(2, "i8"))
    with p.loop(1, 2) as i:
        deep = doubled = i
        for k in range(5000):
            deep = deep.max(k) + 1
        for _ in range(62):
            doubled = doubled + doubled
        p.p.store(out, deep.id, [p.e(0)])
        p.p.store(out, doubled.id, [p.e(1)])
    p.run()
    assert p.arrays[0].tolist() == [5001, 2**62]


def test_division_by_zero_is_reported():
    p = Prog()
    out = p.arg(np.zeros(1, "i4"))
    line = p.p.line("kernel.py:12")
    with p.loop(0, 1) as i:
        p.p.store(out, (i // i).id, [p.e(0)], line)
    with pytest.raises(_core.CoreError) as e:
        p.run()
    assert e.value.args[0] == "scalar.division_by_zero" and e.value.args[2] == "kernel.py:12"


@pytest.mark.parametrize("factor", [2**61, -2**61, 2**62])
def test_a_scalar_that_leaves_64_bits_is_reported(factor):
    p = Prog()
    out = p.arg(np.zeros(1, "i4"))
    line = p.p.line("kernel.py:12")
    with p.loop(0, 9) as i:
        p.p.store(out, (i * factor).id, [p.e(0)], line)
    with pytest.raises(_core.CoreError) as e:
        p.run()
    assert e.value.args[0] == "scalar.overflow" and e.value.args[2] == "kernel.py:12"


def test_trap_comes_after_the_writes_before_it():
    p = Prog()
    out = p.arg(np.zeros((6, 2), "f4"))
    with p.loop(0, 6) as i:
        p.assemble(p.op("full", [], "f4", (1, 2), ints=[0, 0, 0], floats=[1.0]), [i, 0], out)
        p.p.begin_if((i + -3).eq0().id)
        p.p.trap(7)
        p.p.begin_else()
        p.p.end_if()
    with pytest.raises(_core.TrapReached) as e:
        p.run()
    assert e.value.args == (7,) and p.arrays[0][:, 0].tolist() == [1, 1, 1, 1, 0, 0]


def test_256_nested_decisions():
    p = Prog()
    out = p.arg(np.zeros(1, "i4"))
    with p.loop(0, 300) as i:
        for k in range(256):
            p.p.begin_if((i + -k).eq0().id)
            p.p.store(out, p.e(k), [p.e(0)])
            p.p.begin_else()
        for _ in range(256):
            p.p.end_if()
    p.run()
    assert p.arrays[0][0] == 255


def test_read_before_write_names_the_tensor_and_line():
    p = Prog()
    t = p.local("f4", (2,), "state")
    p.p.decl(t)
    y = p.local("f4", (2,))
    p.p.op(ROW["abs"], [y], [t], line=p.p.line("k.py:3"))
    with pytest.raises(_core.CoreError, match="state") as e:
        p.run()
    assert e.value.args[0] == "read_before_write" and e.value.args[2] == "k.py:3"


def test_declaration_forgets_the_previous_iteration():
    p = Prog()
    x, out = p.arg(np.ones((1, 4), "f4")), p.arg(np.zeros((1, 4), "f4"))
    t = p.local("f4", (1, 4), "t")
    with p.loop(0, 2) as i:
        p.p.decl(t)
        p.p.begin_if(i.eq0().id)
        p.p.set(t, x)
        p.p.begin_else()
        p.write(t, out)
        p.p.end_if()
    with pytest.raises(_core.CoreError) as e:
        p.run()
    assert e.value.args[0] == "read_before_write"


@pytest.mark.parametrize("index", [4, -1, 100])
def test_element_past_the_end(index):
    def build():
        p = Prog()
        t, out = p.arg(np.arange(4, dtype="i4")), p.arg(np.zeros(1, "i4"))
        slot, v = p.sym(2)
        p.p.load(slot, t, [p.e(index)], p.p.line("k.py:9"))
        p.p.store(out, v.id, [p.e(0)])
        return p
    with pytest.raises(_core.CoreError, match="length 4") as e:
        build().run()
    assert e.value.args[0] == "element.past_end" and e.value.args[2] == "k.py:9"
    p = build()
    m = p.run(clamp_elements=True)
    assert p.arrays[1][0] == (3 if index > 0 else 0)
    assert m.warnings()[0][:2] == ("element.past_end", "k.py:9")


def test_store_past_the_end_is_an_error_even_when_lenient():
    p = Prog()
    t = p.arg(np.zeros(4, "i4"))
    p.p.store(t, p.e(1), [p.e(4)])
    with pytest.raises(_core.CoreError) as e:
        p.run(clamp_elements=True)
    assert e.value.args[0] == "element.past_end"


def test_element_store_into_a_local_makes_a_version():
    p = Prog()
    t = p.local("i4", (3,), "t")
    p.p.set(t, p.op("full", [], "i4", (3,), ints=[5, 0, 0], floats=[0.0]))
    before = p.op("clone", [t])
    p.p.store(t, p.e(9), [p.e(1)])
    p.run(keep=True)
    assert p.read(before).tolist() == [5, 5, 5] and p.read(t).tolist() == [5, 9, 5]


def test_stepping_runs_new_items_only():
    p = Prog()
    x = p.arg(np.arange(4, dtype="f4"))
    m = p.machine()
    y = p.scalar("adds", x, 1.0)
    m.step()
    assert p.read(y).tolist() == [1, 2, 3, 4]
    slot, _ = p.sym(2)
    i = p.arg_later = p.op("cast", [y], "i4", ints=[0, 0])
    p.p.load(slot, i, [p.e(2)])
    m.step()
    assert m.scalar(slot) == 3
    m.free(y)
    assert not m.is_ready(y)
    z = p.scalar("muls", y, 2.0)
    with pytest.raises(_core.CoreError):
        m.step()
    assert not m.is_ready(z)


def random_kernel(seed, unrolled):
    """The same random kernel as a loop (replayed) or unrolled with block markers (stepped)."""
    g = np.random.default_rng(seed)
    p = Prog()
    dtype = [BF16, np.dtype("f2"), np.dtype("f4")][seed % 3]
    x = p.arg(g.normal(size=(12, 16)).astype(dtype))
    out = p.arg(np.zeros((12, 16), dtype))
    acc = p.local(dtype, (3, 16), "acc")
    p.p.set(acc, p.op("full", [], dtype, (3, 16), ints=[0, 0, 0], floats=[0.25]))
    choices = g.integers(0, 7, 12).tolist()

    def body(i):
        live = [p.view(x, (3, 16), [i, 0]), acc]
        for k, c in enumerate(choices):
            a, b = live[-1 - k % 2], live[k % len(live)]
            if c == 0: live.append(p.binary("add", a, b))
            elif c == 1: live.append(p.binary("mul", a, b))
            elif c == 2: live.append(p.op("tanh", [a]))
            elif c == 3: live.append(p.scalar("muls", a, 0.7))
            elif c == 4: live.append(p.op("exp", [p.scalar("mins", a, 2.0)]))
            elif c == 5: live.append(p.binary("sub", a, p.op("amax", [b], shape=(3, 1), ints=[1, 1])))
            else: live.append(p.op("cast", [p.op("cast", [a], "f4", ints=[0, 0])], dtype, ints=[0, 0]))
        p.p.set(acc, live[-1])
        p.assemble(live[-1], [i, 0], out)

    if unrolled:
        for i in range(0, 12, 3):
            p.p.block()
            body(i)
        p.p.block()
    else:
        with p.loop(0, 12, 3) as i:
            body(i)
    return p, out


@pytest.mark.parametrize("seed", range(30))
def test_replay_has_the_bits_of_stepping(seed):
    a, out = random_kernel(seed, unrolled=True)
    a.step()
    results = [a.arrays[out].tobytes()]
    for kw in ({}, {"fuse": False}, {"keep": True}):
        b, _ = random_kernel(seed, unrolled=False)
        b.run(**kw)
        results.append(b.arrays[out].tobytes())
    assert len(set(results)) == 1
