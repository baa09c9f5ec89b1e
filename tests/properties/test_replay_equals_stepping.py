"""Property: a random kernel replays with the bits, and the exception, of stepping it."""
import itertools
import linecache
import random
import warnings

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pypto_sim as pypto

HEAD = "def kernel(a: pypto.Tensor, cu: pypto.Tensor, out: pypto.Tensor):"
_numbers = itertools.count()


class Source:
    """Writes a random kernel: slots s0 and s1, names n, x and f that Python may carry, nested loops, decisions."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines = [HEAD, "    pypto.set_vec_tile_shapes(1, 16)"]
        self.indices = []
        self.budget = 22
        kind = self.r.choice(["DT_FP32", "DT_BF16"])
        self.cast = "" if kind == "DT_FP32" else "x = pypto.cast(x, pypto.DT_BF16)"
        self.put(1, f"s0 = pypto.full([1, 16], 0.5, pypto.{kind})")
        self.put(1, f"s1 = pypto.full([1, 16], 1.5, pypto.{kind})")
        self.put(1, "n, f, kept = 0, 1.0, s1")
        self.row(1)
        while self.budget > 0:
            self.statement(1, 3)
        self.put(1, "x = s0 + s1 * f")
        self.store(1, "0")

    def put(self, depth, text):
        self.lines.append("    " * depth + text)

    def row(self, depth):
        self.put(depth, f"x = pypto.view(a, [1, 16], [({self.scalar()}) % 8, 0])")
        if self.cast:
            self.put(depth, self.cast)

    def store(self, depth, at):
        value = "pypto.cast(x, pypto.DT_FP32)" if self.cast else "x"
        self.put(depth, f"pypto.assemble({value}, [({at}) % 8, 0], out)")

    def scalar(self):
        choices = [str(self.r.randrange(8)), "cu[1]"] + self.indices * 3
        if self.indices:
            i = self.r.choice(self.indices)
            choices += [f"{i} + {self.r.randrange(3)}", f"cu[{i} % 4]", f"pypto.min({i}, 3)", f"{i} * 2 // 3"]
        return self.r.choice(choices)

    def condition(self):
        r = self.r
        if self.indices and r.random() < 0.4:
            return r.choice(["pypto.is_loop_begin({i})", "pypto.is_loop_end({i})"]).format(i=self.indices[-1])
        ops = [f"{self.scalar()} {r.choice(['<', '>=', '==', '!='])} {r.randrange(7)}"
               for _ in range(r.choice([1, 1, 2]))]
        if r.random() < 0.1:
            ops[0] = f"n < {r.randrange(5)}"
        return r.choice([" and ", " or "]).join(ops)

    def statement(self, depth, levels):
        self.budget -= 1
        r = self.r
        what = r.choices(["loop", "if", "slot", "name", "state", "store", "row", "odd"],
                         [4 if levels else 0, 3, 4, 2, 0.4, 4, 3, 0.3])[0]
        if what == "loop":
            self.loop(depth, levels - 1)
        elif what == "if":
            self.branch(depth, levels)
        elif what == "slot":
            s = r.choice(["s0", "s1"])
            self.put(depth, r.choice([f"{s}[:] = {s} * 0.75 + x", f"{s}[:] = x", f"{s}[:] = x * {s} + 0.1",
                                      f"pypto.assemble(x, [0, 0], {s})", f"x = x + {s}"]))
        elif what == "name":
            self.put(depth, r.choice(["x = x * 1.25", "x = x + kept", "f = 0.5", f"f = {r.randrange(1, 4)}.0",
                                      "x = x * f", "x = kept * 2.0"]))
        elif what == "state":
            self.put(depth, r.choice(["n += 1", "kept = x", "kept = s0", "x, kept = kept, x", "n = 2", "f = f * 0.5"]))
        elif what == "store":
            self.store(depth, self.scalar())
        elif what == "row":
            self.row(depth)
        else:
            self.odd(depth)

    def loop(self, depth, levels):
        r, i = self.r, f"i{len(self.indices)}"
        call = r.choice([f"pypto.loop({r.randrange(5)})", f"pypto.loop(1, {r.randrange(1, 6)})",
                         "pypto.loop(cu[1], cu[3])", f"pypto.loop(0, 6, {r.randrange(1, 4)})", "pypto.loop(cu[2])"]
                        + ([f"pypto.loop({self.indices[-1]}, 4)"] if self.indices else []))
        self.put(depth, f"for {i} in {call}:")
        self.indices.append(i)
        if r.random() < 0.8:
            self.row(depth + 1)
        for _ in range(r.randrange(1, 4)):
            self.statement(depth + 1, levels)
        self.indices.pop()
        if r.random() < 0.9:                          # else x is a handle of the loop's last iteration
            self.put(depth, "x = s1 + 0.0")

    def branch(self, depth, levels):
        self.put(depth, f"if {self.condition()}:")
        self.statement(depth + 1, levels)
        if self.r.random() < 0.6:
            self.put(depth, "else:")
            self.statement(depth + 1, levels)

    def odd(self, depth):
        choices = ["pass"]
        if self.indices:
            choices += [f"if {self.condition()}: raise ValueError({self.r.randrange(9)})",
                        f"if {self.condition()}: break", f"if {self.condition()}: continue",
                        f"if {self.condition()}: return", f"f = [1.0, 2.0, 3.0, 4.0][{self.indices[-1]} % 4]"]
        self.put(depth, self.r.choice(choices))


def build(seed):
    text = "\n".join(Source(seed).lines) + "\n"
    file = f"<random kernel {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names = {"pypto": pypto}
    exec(compile(text, file, "exec"), names)
    return pypto.frontend.jit(names["kernel"]), text


def outcome(kernel, mode, cu):
    a = np.random.default_rng(3).uniform(-2, 2, (8, 16)).astype(np.float32)
    out, error = np.full((8, 16), 9, np.float32), None
    with pypto.config(mode=mode, poison="off"), warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        try:
            kernel(a, np.array(cu, np.int32), out)
        except Exception as e:  # noqa: BLE001 - both modes must raise the same
            error = (type(e), str(e))
    return error, out.tobytes(), kernel.last_run.mode


def check(seed, cu):
    kernel, text = build(seed)
    error, bits, _ = outcome(kernel, "auto", cu)
    want_error, want, _ = outcome(kernel, "step", cu)
    assert (error, bits) == (want_error, want), f"seed {seed}, cu {cu}\n{text}\n{error}\n{want_error}"
    return kernel


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), st.lists(st.integers(0, 6), min_size=4, max_size=4))
def test_random_kernels(seed, cu):
    check(seed, cu)


def test_the_generator_reaches_replay_and_stepping():
    modes = {outcome(build(seed)[0], "auto", [0, 1, 2, 5])[2] for seed in range(30)}
    assert modes == {"replay", "step"}
