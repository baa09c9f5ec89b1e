"""Same bits for any number of threads, in forked children and in concurrent launches."""
import os
import threading

import numpy as np
import pytest

from pypto_sim import _core

from .core_program import BF16, ROW, Prog, kernel_rows


@pytest.fixture(autouse=True)
def rows():
    before = _core.threads()
    with kernel_rows():
        yield
    _core.set_threads(before)


def big_program(seed=0):
    """Every kind of operation that is shared among threads, above the size where it is."""
    g = np.random.default_rng(seed)
    p = Prog()
    a, b = p.arg(g.normal(size=(300, 700)).astype(BF16)), p.arg(g.normal(size=(700, 500)).astype(BF16))
    c = p.op("matmul", [a, b], "f4", (300, 500), ints=[0, 0, 0, 0])
    d = p.binary("sub", c, p.op("amax", [c], shape=(300, 1), ints=[1, 1]))
    e = p.op("exp", [d])
    s = p.op("sum", [e], shape=(300, 1), ints=[1, 1], tile=p.tile([8, 64]))
    y = p.binary("div", e, s)
    t = p.op("transpose", [y], shape=(500, 300), ints=[1, 0])
    u = p.op("sum", [t], shape=(1, 300), ints=[0, 1], tile=p.tile([64, 64]))
    z = p.binary("mul", t, u)
    h = p.op("cast", [z], BF16, ints=[0, 0])
    i8 = p.op("cast", [p.scalar("muls", y, 100.0)], "i1", ints=[0, 1])
    q = p.op("matmul", [i8, i8], "i4", (300, 300), ints=[0, 1, 0, 0])
    values, index = p.local("f4", (300, 20)), p.local("i4", (300, 20))
    p.p.op(ROW["topk"], [values, index], [y], [20, 1])
    outs = [p.arg(np.zeros(p.shape[r], p.dtype[r])) for r in (h, q, values, index)]
    for r, o in zip((h, q, values, index), outs, strict=True):
        p.write(r, o)
    return p


def bits(p):
    return [a.tobytes() for a in p.arrays]


def test_same_bits_for_any_number_of_threads():
    results = []
    for n in (1, 2, 3, 8):
        _core.set_threads(n)
        p = big_program()
        p.run()
        results.append(bits(p))
    assert all(r == results[0] for r in results)


def test_concurrent_launches():
    _core.set_threads(2)
    want = []
    for seed in range(3):
        p = big_program(seed)
        p.run()
        want.append(bits(p))
    programs = [big_program(seed) for seed in range(3)]
    for p in programs:
        p.p.finish()
    machines = [p.machine() for p in programs]
    workers = [threading.Thread(target=m.run) for m in machines]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert [bits(p) for p in programs] == want


def test_a_forked_child_starts_its_own_threads():
    _core.set_threads(2)
    p = big_program()
    p.run()
    want = bits(p)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            q = big_program()
            q.run()
            code = 0 if bits(q) == want else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_number_of_threads_is_checked():
    for bad in (0, -1, 5000):
        with pytest.raises(ValueError):
            _core.set_threads(bad)


def test_same_bits_on_every_instruction_set():
    before, results = _core.isa(), []
    try:
        for name in _core.available_isas():
            _core.select_isa(name)
            p = big_program()
            p.run()
            results.append(bits(p))
    finally:
        _core.select_isa(before)
    assert all(r == results[0] for r in results)
