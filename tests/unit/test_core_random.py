"""Random kernels: fused replay, plain replay and stepping give the same bits, also with partial valid boxes."""
import numpy as np
import pytest

from pypto_sim import _core

from .core_program import BF16, Prog, kernel_rows

F4, F2, I4, BOOL = np.dtype("f4"), np.dtype("f2"), np.dtype("i4"), np.dtype("?")
M, N, STEPS = 6, 20, 4


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


class Maker:
    """Emits the body of a random kernel; the same choices for every call with the same seed."""

    def __init__(self, p: Prog, g: np.random.Generator) -> None:
        self.p, self.g, self.live, self.partial = p, g, [], False

    def pick(self, dtypes=None, shape=None):
        fits = [t for t in self.live if (dtypes is None or self.p.dtype[t] in dtypes)
                and (shape is None or self.p.shape[t] == shape)]
        return fits[self.g.integers(len(fits))] if fits else None

    def unary(self):
        x = self.pick([F4, F2, BF16])
        return self.p.op(["exp", "tanh", "abs", "neg", "relu", "floor"][self.g.integers(6)], [x])

    def scalar(self):
        x = self.pick([F4, F2, BF16, I4])
        return self.p.scalar(["adds", "muls", "rsubs", "maxs", "mins", "subs"][self.g.integers(6)], x,
            float(self.g.integers(1, 4)))

    def binary(self):
        x = self.pick([F4, F2, BF16, I4], (M, N))
        y = self.pick([self.p.dtype[x]])
        x, y = (x, y) if self.g.random() < 0.7 else (y, x)
        return self.p.binary(["add", "sub", "mul", "maximum"][self.g.integers(4)], x, y)

    def compare(self):
        x = self.pick([F4, BF16, I4])
        return self.p.scalar(["gts", "les", "nes"][self.g.integers(3)], x, 1.0, dtype=BOOL)

    def where(self):
        c = self.pick([BOOL], (M, N))
        x = self.pick([F4, F2, BF16, I4], (M, N))
        return None if c is None else self.p.op("where", [c, x], self.p.dtype[x], ints=[0, 1, 0, 2], floats=[0.0, 0.3])

    def cast(self):
        to = [F4, F2, BF16, I4][self.g.integers(4)]
        x = self.pick([F4, F2, BF16, I4])
        return self.p.op("cast", [x], to, ints=[int(self.g.integers(0, 3)), int(self.g.integers(2))])

    def reduce(self):
        x = self.pick([F4, BF16, I4], (M, N))
        dim = int(self.g.integers(2))
        return self.p.op(["sum", "amax"][self.g.integers(2)], [x], shape=(1, N) if dim == 0 else (M, 1), ints=[dim, 1])

    def move(self):
        x = self.pick(None, (M, N))
        kind = self.g.integers(4)
        if kind == 0:
            t = self.p.op("transpose", [x], shape=(N, M), ints=[1, 0])
            return self.p.op("transpose", [t], shape=(M, N), ints=[1, 0])
        if kind == 1:
            return self.p.op("clone", [x])
        if kind == 2:
            return self.p.op("expand", [self.p.view(x, (M, 1), [0, int(self.g.integers(N))])], shape=(M, N), ints=[0])
        return self.p.view(x, (M, N), [int(self.g.integers(2)), 0])

    def body(self, i, args, outs, slots):
        p, g = self.p, self.g
        self.live = [p.view(a, (M, N), [i * M, 0]) for a in args] + list(slots)
        if self.partial:
            self.live += [p.view(args[0], (M, N), [i * M, 0], [M, N - 3]), p.view(args[0], (M, N), [i * M, 5])]
        for _ in range(25):
            make = [self.unary, self.scalar, self.binary, self.compare, self.where, self.cast, self.reduce, self.move]
            y = make[g.choice(8, p=[0.15, 0.2, 0.25, 0.08, 0.1, 0.1, 0.06, 0.06])]()
            if y is not None:
                self.live.append(y)
            if g.random() < 0.1:
                out = outs[g.integers(len(outs))]
                src = self.pick([p.dtype[out]], (M, N))
                if src is not None:
                    p.assemble(src, [i * M, 0], out)
                    self.live.append(p.view(out, (M, N), [i * M, 0]))
        for s in slots:
            src = self.pick([p.dtype[s]], (M, N))
            p.p.set(s, src)
        for out in outs:
            p.assemble(self.pick([p.dtype[out]], (M, N)), [i * M, 0], out)


def kernel(seed, unrolled, partial):
    g = np.random.default_rng(seed)
    p = Prog()
    args = [p.arg(g.normal(size=(M * STEPS, N)).astype(t)) for t in (F4, BF16, F2)]
    args.append(p.arg(g.integers(-50, 50, (M * STEPS, N)).astype(I4)))
    outs = [p.arg(np.zeros((M * STEPS, N), t)) for t in (F4, BF16, F2, I4)]
    slots = [p.local(t, (M, N)) for t in (F4, BF16)]
    for s in slots:
        p.p.set(s, p.op("full", [], p.dtype[s], (M, N), ints=[1, 0, 0], floats=[0.5]))
    state = g.bit_generator.state
    maker = Maker(p, g)
    maker.partial = partial
    if unrolled:
        for i in range(STEPS):
            g.bit_generator.state = state
            p.p.block()
            maker.body(Index(i), args, outs, slots)
        p.p.block()
    else:
        with p.loop(0, STEPS) as i:
            maker.body(i, args, outs, slots)
    return p, outs


class Index:
    """A Python index with the arithmetic of a symbol."""

    def __init__(self, i):
        self.i = i

    def __mul__(self, k):
        return self.i * k


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_every_way_to_run_gives_the_same_bits(seed, partial):
    p, outs = kernel(seed, True, partial)
    m = p.step()
    want = [p.arrays[o].tobytes() for o in outs]
    reads = {c[0] for c in m.candidates()}
    for kw in ({}, {"fuse": False}, {"keep": True}, {"poison": 2}):
        q, _ = kernel(seed, False, partial)
        m = q.run(**kw)
        assert [q.arrays[o].tobytes() for o in outs] == want, kw
        if kw.get("poison") != 2:
            assert {c[0] for c in m.candidates()} == reads
    before = _core.threads()
    _core.set_threads(3 if before != 3 else 2)
    try:
        q, _ = kernel(seed, False, partial)
        q.run()
        assert [q.arrays[o].tobytes() for o in outs] == want
    finally:
        _core.set_threads(before)
