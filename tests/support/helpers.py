"""Helpers that kernels of the tests call from another module."""
import pypto_sim as pypto

SCALE = 2.0
CALLS = {"count": 0}


def scaled(x):
    return x * SCALE


def add_rows(a, out, rows):
    for i in pypto.loop(rows):
        pypto.assemble(pypto.view(a, [1, 16], [i, 0]) + 1.0, [i, 0], out)


def counting(x):
    CALLS["count"] += 1
    return x * float(CALLS["count"])


def pick(i):
    if i < 2:
        return 1.0
    return 3.0


class Counter:
    def __init__(self):
        self.n = 0

    def up(self):
        self.n += 1
        return self.n


@pypto.options(pass_options={"enable_slice": True})
def with_options(x):
    return x + 5.0
