"""A small builder for tests of the core: programs over numpy arrays, without the front end."""
import contextlib

import ml_dtypes
import numpy as np

from pypto_sim import _core

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(t) for t in ("f4", "f2")] + [BF16] + [
    np.dtype(t) for t in ("f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")]
CODE = {t: i for i, t in enumerate(DTYPES)}
ADD, MUL, FLOORDIV, MOD, MIN, MAX, GE0, EQ0 = range(3, 11)

NO_BF16 = set("""exp log sqrt abs neg reciprocal relu add sub mul div maximum minimum adds subs muls divs maxs mins
    rsubs rdivs where logical_and logical_or logical_not sum amax amin prod tril triu""".split())
NO_FP16 = set("add sub mul adds subs muls rsubs".split())


@contextlib.contextmanager
def kernel_rows():
    """The operation rows of these tests: one per executor kernel, twins as on A2/A3."""
    names = _core.executor_kernels()
    before = _core.op_rows_in_use()
    _core.set_op_rows([(n, n, "", "", n not in NO_BF16, n not in NO_FP16) for n in names])
    try:
        yield
    finally:
        _core.set_op_rows(before)


ROW = {n: i for i, n in enumerate(_core.executor_kernels())}


class Prog:
    """Wraps _core.Program. Tensors are ids; `dtype` and `shape` are kept beside them."""

    def __init__(self, numerics: int = 0) -> None:
        self.p = _core.Program(numerics)
        self.dtype: dict[int, np.dtype] = {}
        self.shape: dict[int, tuple[int, ...]] = {}
        self.arrays: list[np.ndarray] = []

    def arg(self, array, name: str = "") -> int:
        array = np.ascontiguousarray(array)
        t = self.p.tensor(CODE[array.dtype], array.shape, len(self.arrays), name or f"arg{len(self.arrays)}")
        self.arrays.append(array)
        self.dtype[t], self.shape[t] = array.dtype, array.shape
        return t

    def local(self, dtype, shape, name: str = "") -> int:
        dtype = np.dtype(dtype)
        t = self.p.tensor(CODE[dtype], shape, -1, name)
        self.dtype[t], self.shape[t] = dtype, tuple(shape)
        return t

    def op(self, name, ins, dtype=None, shape=None, ints=(), floats=(), scalars=(), tile=-1, line=-1):
        """One-result operation; dtype and shape default to the first input's."""
        t = self.local(dtype if dtype is not None else self.dtype[ins[0]],
            shape if shape is not None else self.shape[ins[0]])
        self.p.op(ROW[name], [t], ins, ints, floats, [self.e(s) for s in scalars], tile, -1, -1, line)
        return t

    def e(self, x) -> int:
        """Expression id: a `Sym` stays, an int becomes a constant."""
        return x.id if isinstance(x, Sym) else self.p.const(x)

    def tile(self, vec=(), cube=(), split_k=False) -> int:
        return self.p.tile(vec, cube, split_k)

    def sym(self, kind: int):
        slot, e = self.p.scalar(kind)
        return slot, Sym(self, e)

    def view(self, x, shape, offsets, valid=None):
        scalars = [*offsets, *(valid or [])]
        return self.op("view", [x], shape=shape, ints=[int(valid is not None)], scalars=scalars)

    def partial(self, x, valid):
        """The same tensor with a smaller valid box."""
        return self.view(x, self.shape[x], [0] * len(valid), list(valid))

    def binary(self, name, a, b, dtype=None, **kw):
        return self.op(name, [a, b], dtype, np.broadcast_shapes(self.shape[a], self.shape[b]), **kw)

    def scalar(self, name, x, s, dtype=None, **kw):
        dtype = dtype if dtype is not None else self.dtype[x]
        as_int = int(s) if abs(s) < 2**62 else 0
        return self.op(name, [x], dtype, ints=[as_int], floats=[float(s)], **kw)

    def assemble(self, x, offsets, dst, line=-1):
        self.p.assemble(dst, x, [self.e(o) for o in offsets], line)

    def write(self, x, dst):
        self.assemble(x, [0] * len(self.shape[x]), dst)

    @contextlib.contextmanager
    def loop(self, start, stop, step=1):
        slot, i = self.sym(1)
        self.p.begin_loop(slot, self.e(start), self.e(stop), self.e(step))
        yield i
        self.p.end_loop()

    def machine(self, **kw) -> "_core.Machine":
        self.machine_ = _core.Machine(self.p, [a.view(np.uint8) if a.size else a.view(np.uint8) for a in map(flat,
            self.arrays)], **kw)
        return self.machine_

    def run(self, **kw):
        self.p.finish()
        m = self.machine(**kw)
        m.run()
        return m

    def step(self, **kw):
        m = self.machine(**kw)
        m.step()
        return m

    def read(self, t, wide: bool = False) -> np.ndarray:
        data = self.machine_.read(t, wide)
        dtype = np.dtype("f4") if wide and self.dtype[t] in (BF16, np.dtype("f2")) else self.dtype[t]
        return np.frombuffer(data, dtype).reshape(self.shape[t])


def flat(a: np.ndarray) -> np.ndarray:
    return a.reshape(-1)


class Sym:
    """Integer expression of a Program."""

    def __init__(self, prog: Prog, e: int) -> None:
        self.prog, self.id = prog, e

    def _with(self, op, other):
        return Sym(self.prog, self.prog.p.expr(op, self.id, self.prog.e(other)))

    def __add__(self, o): return self._with(ADD, o)
    def __mul__(self, o): return self._with(MUL, o)
    def __floordiv__(self, o): return self._with(FLOORDIV, o)
    def __mod__(self, o): return self._with(MOD, o)
    def min(self, o): return self._with(MIN, o)
    def max(self, o): return self._with(MAX, o)
    def ge0(self): return Sym(self.prog, self.prog.p.expr(GE0, self.id))
    def eq0(self): return Sym(self.prog, self.prog.p.expr(EQ0, self.id))
