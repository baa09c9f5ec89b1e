"""Integer scalars of a kernel: loop indices, sizes, loaded elements and expressions of them.

A scalar is kept in linear normal form, const + sum(coefficient * atom). An atom is a tuple: ("i", name) a loop index,
("ld", name) a loaded element, ("sym", name) a free symbol, or (operator, key, ...) over keys of other scalars. A key
is an int, or ("+", const, terms). Equal scalars have equal keys, so `(i + 1) * 4 - i * 4` is the constant 4 and traces
can be compared as text. Stepping hands out constants: one class in both modes, so that a kernel cannot tell them apart.
"""
from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ..enums import SatStatus
from ..errors import PyptoTypeError, PyptoValueError, PyptoZeroDivisionError
from . import context
from .source import builtin_extreme

Key = Any          # int, or ("+", const, terms)
Atom = tuple[Any, ...]
Terms = tuple[tuple[Atom, int], ...]
INT64_MAX = 2**63 - 1
NO_DEPS: frozenset[Any] = frozenset()

FOLD = {
    "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "min": min, "max": max,
    "ge": lambda a: int(a >= 0), "eq": lambda a: int(a == 0),
}


class SymbolicScalar:
    """An integer known now or at run time.

    `SymbolicScalar("n")` is a free symbol, `SymbolicScalar(3)` and `SymbolicScalar("n", 3)` are constants. Division `/`
    is integer division, as in PyPTO; comparisons give 0/1 scalars.
    """

    __slots__ = ("terms", "const", "deps", "loop")
    __array_ufunc__ = None                      # numpy integers leave the operation to us

    def __init__(self, value: int | str | SymbolicScalar | None = None, concrete: int | None = None) -> None:
        self.terms: Terms = ()
        self.const = 0
        self.deps = NO_DEPS                     # the traced bodies whose indices and elements it holds
        self.loop: Any = None                   # for a loop index: its Loop
        if isinstance(value, SymbolicScalar):
            self.terms, self.const, self.deps, self.loop = value.terms, value.const, value.deps, value.loop
        elif isinstance(value, str) and concrete is None:
            self.terms = ((("sym", value), 1),)
        elif value is not None:
            self.const = _index(concrete if isinstance(value, str) else value)

    # arithmetic
    def __add__(self, other): return lin(self, 1, other, 1)
    def __sub__(self, other): return lin(self, 1, other, -1)
    def __rsub__(self, other): return lin(other, 1, self, -1)
    def __neg__(self): return lin(0, 0, self, -1)
    def __pos__(self): return self

    def __mul__(self, other):
        if known(other):
            return lin(0, 0, self, value_of(other))
        return lin(0, 0, other, value_of(self)) if known(self) else atom("*", self, other)

    def __floordiv__(self, other): return _divide(self, other)
    def __rfloordiv__(self, other): return _divide(other, self)
    def __mod__(self, other): return _modulo(self, other)
    def __rmod__(self, other): return _modulo(other, self)

    __radd__, __rmul__, __truediv__, __rtruediv__ = __add__, __mul__, __floordiv__, __rfloordiv__

    # comparisons
    def __ge__(self, other): return atom("ge", lin(self, 1, other, -1))
    def __le__(self, other): return atom("ge", lin(other, 1, self, -1))
    def __gt__(self, other): return atom("ge", lin(self, 1, other, -1) - 1)
    def __lt__(self, other): return atom("ge", lin(other, 1, self, -1) - 1)

    def __eq__(self, other):
        return atom("eq", lin(self, 1, other, -1)) if _is_integer(other) else False

    def __ne__(self, other):
        return lin(1, 1, self == other, -1) if _is_integer(other) else True

    def __and__(self, other): return smin(_truth(self), _truth(other))
    def __or__(self, other): return smax(_truth(self), _truth(other))

    __rand__, __ror__ = __and__, __or__

    def min(self, other: int | SymbolicScalar) -> SymbolicScalar:
        """The smaller of the two."""
        return written("min", self, other)

    def max(self, other: int | SymbolicScalar) -> SymbolicScalar:
        """The larger of the two."""
        return written("max", self, other)

    # asking for the value
    def __bool__(self) -> bool:
        session = context.running()
        if session is not None and (name := builtin_extreme(sys._getframe(1))):
            session.rule("scalar.builtin_min_max", f"the builtin {name} takes a size or index that is known at run "
                         f"time only: it compares while the kernel is compiled. Use pypto.{name}(a, b)")
        s = resolved(self)
        return _session_of(s).decide(s) if s.terms else bool(s.const)

    def __index__(self) -> int:
        s = resolved(self)
        return _session_of(s).need_value(s, "value of a scalar asked for") if s.terms else s.const

    def __hash__(self) -> int: return hash(self.__index__())
    def __float__(self) -> float: return float(self.__index__())
    __int__ = __index__

    def __str__(self) -> str:
        s = resolved(self)
        if not s.terms:
            return str(s.const)
        session = context.running()
        return text_of(key(s)) if session is None else session.show_scalar(s)

    __repr__ = __str__

    def __copy__(self) -> SymbolicScalar: return self            # it never changes
    def __deepcopy__(self, memo: Any) -> SymbolicScalar: return self

    def __reduce__(self) -> Any:
        s = resolved(self)
        return (make, (s.terms, s.const, NO_DEPS)) if s.terms and not s.deps else (constant, (self.__index__(),))

    def __format__(self, spec: str) -> str:
        s = resolved(self)
        return format(str(s) if s.terms else s.const, spec)

    # PyPTO's questions
    def is_concrete(self) -> bool:
        """True when the value is known. A traced loop index is stepped to find out, so both modes answer alike."""
        s = resolved(self)
        if s.terms and s.deps:
            self.__index__()
        return not s.terms

    def concrete(self) -> int:
        """The value. Raises ValueError for a free symbol."""
        return self.__index__()

    def is_immediate(self) -> bool:
        """Same as is_concrete()."""
        return self.is_concrete()

    def is_symbol(self) -> bool:
        """True for a free symbol."""
        s = resolved(self)
        return not s.const and len(s.terms) == 1 and s.terms[0][0][0] == "sym" and s.terms[0][1] == 1

    def is_expression(self) -> bool:
        """True for an expression of free symbols."""
        return not self.is_concrete() and not self.is_symbol()

    def as_variable(self) -> None:
        """Mark as an intermediate variable; has no effect on values."""

    def simplify(self) -> SymbolicScalar:
        """Itself: scalars are always in normal form."""
        return self

    def as_expr(self) -> SymbolicScalar:
        """Itself: an expression stays one."""
        return self

    def as_var(self) -> SymbolicScalar:
        """Itself: marking as a variable has no effect on values."""
        return self

    @staticmethod
    def check(conds: Any) -> SatStatus:
        """SAT when all conditions hold, UNSAT when one does not, UNKNOWN when that depends on free symbols.

        conds: a SymbolicScalar or a list of them. Conditions of a running kernel have values, so the answer is never
        UNKNOWN there.
        """
        found = [scalar(c) for c in (conds if isinstance(conds, (list, tuple)) else [conds])]
        concrete = [bool(c) if c.is_concrete() else None for c in found]
        if False in concrete:
            return SatStatus.UNSAT
        return SatStatus.UNKNOWN if None in concrete else SatStatus.SAT

    @staticmethod
    def tenary(cond: int | SymbolicScalar, a: int | SymbolicScalar, b: int | SymbolicScalar) -> SymbolicScalar:
        """a where cond is not 0, else b (PyPTO's spelling)."""
        truth = _truth(cond)
        return scalar(a) * truth + scalar(b) * (1 - truth)


def make(terms: Terms, const: int, deps: frozenset[Any]) -> SymbolicScalar:
    """Scalar from its parts."""
    s = SymbolicScalar.__new__(SymbolicScalar)
    s.terms, s.const, s.deps, s.loop = terms, const, deps, None
    return s


def constant(value: int) -> SymbolicScalar:
    """Scalar with a known value."""
    return make((), value, NO_DEPS)


def scalar(x: int | SymbolicScalar) -> SymbolicScalar:
    """`x` as a SymbolicScalar. Raises TypeError for anything but integers."""
    return x if isinstance(x, SymbolicScalar) else constant(_index(x))


def leaf(kind: str, name: str, body: Any) -> SymbolicScalar:
    """Loop index ("i") or loaded element ("ld") of a traced body."""
    return make((((kind, name), 1),), 0, frozenset([body]))


def known(x: int | SymbolicScalar) -> bool:
    """True when the value of `x` is known now."""
    return not (isinstance(x, SymbolicScalar) and resolved(x).terms)


def value_of(x: int | SymbolicScalar) -> int:
    """Value of a known scalar or integer."""
    return resolved(x).const if isinstance(x, SymbolicScalar) else _index(x)


def key(x: int | SymbolicScalar) -> Key:
    """Hashable normal form: an int, or ("+", const, terms)."""
    if not isinstance(x, SymbolicScalar):
        return _index(x)
    x = resolved(x)
    return ("+", x.const, x.terms) if x.terms else x.const


def of_key(k: Key, deps: frozenset[Any] = NO_DEPS) -> SymbolicScalar:
    """Scalar of a key."""
    return constant(k) if isinstance(k, int) else make(k[2], k[1], deps)


def lin(a: Any, ka: int, b: Any, kb: int) -> SymbolicScalar:
    """ka * a + kb * b."""
    (ta, ca, da), (tb, cb, db) = _parts(a), _parts(b)
    const = ka * ca + kb * cb
    if not ta and not tb:
        return make((), const, NO_DEPS)
    total = {t: ka * c for t, c in ta}
    for t, c in tb:
        total[t] = total.get(t, 0) + kb * c
    terms = [(t, c) for t, c in total.items() if c]
    if len(terms) > 1:
        terms.sort(key=repr)
    return make(tuple(terms), const, da | db if terms else NO_DEPS)


def atom(op: str, *xs: Any) -> SymbolicScalar:
    """Operator of FOLD applied to scalars: a constant when all are known, else one atom."""
    xs = tuple(resolved(scalar(x)) for x in xs)
    if op in ("//", "%") and not xs[1].terms and not xs[1].const:
        raise PyptoZeroDivisionError("division by zero in a scalar expression", rule="scalar.division_by_zero")
    if not any(x.terms for x in xs):
        return constant(FOLD[op](*(x.const for x in xs)))
    deps = frozenset().union(*(x.deps for x in xs))
    return make((((op, *map(key, xs)), 1),), 0, deps)


def written(op: str, a: int | SymbolicScalar, b: int | SymbolicScalar) -> SymbolicScalar:
    """min or max as a kernel writes it: it stays an expression where the range of a loop index would decide it, for the
    compiler does not know that range and treats what depends on it as unknown."""
    return atom(op, a, b) if lin(b, 1, a, -1).deps else smin(a, b) if op == "min" else smax(a, b)


def smin(a: int | SymbolicScalar, b: int | SymbolicScalar) -> SymbolicScalar:
    """Smaller of two scalars; one of them where the trace knows which."""
    first, second = _known_order(a, b)
    return scalar(a) if first else scalar(b) if second else atom("min", a, b)


def smax(a: int | SymbolicScalar, b: int | SymbolicScalar) -> SymbolicScalar:
    """Larger of two scalars; one of them where the trace knows which."""
    first, second = _known_order(a, b)
    return scalar(b) if first else scalar(a) if second else atom("max", a, b)


def _known_order(a: int | SymbolicScalar, b: int | SymbolicScalar) -> tuple[bool, bool]:
    """(a <= b for sure, b <= a for sure)."""
    gap = lin(b, 1, a, -1)
    if not gap.terms:
        return gap.const >= 0, gap.const <= 0
    session = context.running()
    if session is None or not gap.deps:
        return False, False
    return session.never_negative(gap), session.never_negative(-gap)


def evaluate(k: Key, env: Mapping[str, int]) -> int:
    """Value of a key; `env` maps the names of its leaves to values."""
    if isinstance(k, int):
        return k
    total = k[1]
    for a, c in k[2]:
        total += c * (env[a[1]] if a[0] in LEAVES else FOLD[a[0]](*(evaluate(x, env) for x in a[1:])))
    return total


LEAVES = ("i", "ld", "sym")


def leaves(k: Key) -> Iterator[Atom]:
    """Loop indices, loaded elements and free symbols that a key holds."""
    if isinstance(k, int):
        return
    for a, _ in k[2]:
        if a[0] in LEAVES:
            yield a
        else:
            for x in a[1:]:
                yield from leaves(x)


def numbers(k: Key) -> Iterator[int]:
    """Constants and coefficients that a key holds."""
    if isinstance(k, int):
        yield k
        return
    yield k[1]
    for a, c in k[2]:
        yield c
        if a[0] not in LEAVES:
            for x in a[1:]:
                yield from numbers(x)


def difference(a: Key, b: Key) -> int | None:
    """a - b when it does not depend on run-time values, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if isinstance(a, int) or isinstance(b, int) or a[2] != b[2]:
        return None
    return a[1] - b[1]


def text_of(k: Key) -> str:
    """Readable form of a key, such as "4*i + 1"."""
    if isinstance(k, int):
        return str(k)
    parts = []
    for a, c in k[2]:
        body = a[1].rstrip("!") if a[0] in LEAVES else f"{a[0]}({', '.join(map(text_of, a[1:]))})"
        parts.append(body if c == 1 else f"-{body}" if c == -1 else f"{c}*{body}")
    if k[1]:
        parts.append(str(k[1]))
    return " + ".join(parts).replace("+ -", "- ")


def resolved(x: SymbolicScalar) -> SymbolicScalar:
    """`x` with free symbols replaced by the sizes that the running kernel's arguments give them."""
    if not x.terms or x.deps:
        return x
    session = context.running()
    if session is None or not session.symbols:
        return x
    k = ("+", x.const, x.terms)
    names = {a[1] for a in leaves(k)}
    return constant(evaluate(k, session.symbols)) if names <= session.symbols.keys() else x


def _session_of(s: SymbolicScalar) -> Any:
    session = context.running()
    if session is None or not s.deps:
        raise PyptoValueError(f"Not concrete value: {text_of(key(s))}")
    return session


def _parts(x: Any) -> tuple[Terms, int, frozenset[Any]]:
    if isinstance(x, SymbolicScalar):
        x = resolved(x)
        return x.terms, x.const, x.deps
    return (), _index(x), NO_DEPS


def _index(x: Any) -> int:
    try:
        return operator.index(x)
    except TypeError:
        raise PyptoTypeError(f"a scalar expression takes integers and SymbolicScalars, got {type(x).__name__}: "
                             f"{x!r}") from None


def _is_integer(x: Any) -> bool:
    return isinstance(x, SymbolicScalar) or hasattr(x, "__index__")


def _truth(x: Any) -> SymbolicScalar:
    return lin(1, 1, atom("eq", x), -1)


def _divide(a: Any, b: Any) -> SymbolicScalar:
    if known(b) and (d := value_of(b)):
        terms, const, deps = _parts(a)
        if terms and not const % d and not any(c % d for _, c in terms):
            return make(tuple((t, c // d) for t, c in terms), const // d, deps)
    return atom("//", a, b)


def _modulo(a: Any, b: Any) -> SymbolicScalar:
    if known(b) and (d := value_of(b)):
        terms, const, _ = _parts(a)
        if terms and not const % d and not any(c % d for _, c in terms):
            return constant(0)
    return atom("%", a, b)
