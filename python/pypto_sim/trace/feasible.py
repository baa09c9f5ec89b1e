"""Which outcomes of a condition are possible, given the bounds of the open loops and the decisions taken before."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .scalar import LEAVES, Key, SymbolicScalar, known, leaves, lin, of_key, value_of
from .scalar import key as key_of

if TYPE_CHECKING:
    from .tracer import Body

MAX_POINTS = 4096             # index tuples that are tried one by one
INFINITY = float("inf")
_FOLD = {
    "*": np.multiply, "//": np.floor_divide, "%": np.mod, "min": np.minimum, "max": np.maximum,
    "ge": lambda a: np.asarray(a >= 0, np.int64), "eq": lambda a: np.asarray(a == 0, np.int64),
}


def outcomes(s: SymbolicScalar, stack: Sequence[Body]) -> set[bool]:
    """Possible truth values of a comparison (one "ge" or "eq" atom)."""
    (op, k), _ = s.terms[0]
    by_intervals = _by_intervals(op, of_key(k, s.deps), stack)
    if len(by_intervals) == 1:
        return by_intervals
    return _by_points(key_of(s), stack) or by_intervals


def _by_intervals(op: str, x: SymbolicScalar, stack: Sequence[Body]) -> set[bool]:
    if op == "ge":
        return {True} if implied(x, stack) else {False} if implied(-x - 1, stack) else {True, False}
    if implied(x - 1, stack) or implied(-x - 1, stack):
        return {False}
    return {True} if implied(x, stack) and implied(-x, stack) else {True, False}


def _by_points(condition: Key, stack: Sequence[Body]) -> set[bool] | None:
    """Try every index tuple; None when the condition is not over static indices or there are too many."""
    axes = {b.index_name: range(*(value_of(v) for v in b.loop[1:4])) for b in stack
            if b.loop and all(known(v) for v in b.loop[1:4])}
    facts = [(key_of(c), v) for b in stack for c, v in b.facts]
    facts = [(c, v, names) for c, v in facts if (names := _names(c)) <= axes.keys()]
    used = _names(condition)
    if not used <= axes.keys():
        return None
    while True:                             # facts and indices connected with the condition; the others are independent
        more = used.union(*(names for _, _, names in facts if names & used))
        if more == used:
            break
        used = more
    points = 1
    for n in used:
        points *= len(axes[n])
    if points > MAX_POINTS or not points:
        return None
    grids = np.meshgrid(*(np.array(axes[n], np.int64) for n in sorted(used)), indexing="ij")
    env = dict(zip(sorted(used), grids, strict=True))
    allowed = np.ones(grids[0].shape if grids else (), bool)
    with np.errstate(divide="ignore"):
        for c, v, names in facts:
            if names & used:
                allowed &= (_evaluate(c, env) != 0) == v
        value = np.broadcast_to(_evaluate(condition, env) != 0, allowed.shape)[allowed]
    return set(np.unique(value).tolist()) or {False}


def _names(k: Key) -> set[str]:
    return {a[1] if a[0] == "i" else "" for a in leaves(k)}


def _evaluate(k: Key, env: dict[str, Any]) -> Any:
    if isinstance(k, int):
        return np.int64(k)
    total: Any = np.int64(k[1])
    for a, c in k[2]:
        total = total + c * (env[a[1]] if a[0] in LEAVES else _FOLD[a[0]](*(_evaluate(x, env) for x in a[1:])))
    return total


def _spans(stack: Sequence[Body]) -> Iterator[SymbolicScalar]:
    """index - start >= 0 and stop - 1 - index >= 0 (steps are positive in traced loops)."""
    for b in stack:
        if b.loop:
            yield lin(b.index, 1, b.loop.start, -1)
            yield lin(lin(b.loop.stop, 1, b.index, -1), 1, 1, -1)


def _facts(stack: Sequence[Body]) -> list[SymbolicScalar]:
    """Linear forms known to be >= 0; kept until a body is entered or a decision taken."""
    kept = _kept(stack)
    if "facts" not in kept:
        kept["facts"] = list(_derived(stack))
    return kept["facts"]


def _kept(stack: Sequence[Body]) -> dict[Any, Any]:
    """What is known until a body is entered or a decision taken."""
    state = (len(stack), sum(len(b.facts) for b in stack))
    kept = stack[-1].kept
    if kept is None or kept[0] != state:
        kept = stack[-1].kept = (state, {})
    return kept[1]


def _derived(stack: Sequence[Body]) -> Iterator[SymbolicScalar]:
    yield from _spans(stack)
    for b in stack:
        for s, v in b.facts:
            (op, k), _ = s.terms[0]
            x = of_key(k, s.deps)
            if op == "ge":
                yield x if v else -x - 1
            elif v:
                yield x
                yield -x
            else:                           # x is not 0 and one side is known
                for y in (x, -x):
                    if implied(y, stack, deep=False):
                        yield y - 1


def never_negative(x: SymbolicScalar, stack: Sequence[Body]) -> bool:
    """`implied`, each form asked about once."""
    kept, k = _kept(stack), key_of(x)
    if k not in kept:
        kept[k] = implied(x, stack)
    return kept[k]


def implied(x: SymbolicScalar, stack: Sequence[Body], deep: bool = True) -> bool:
    """True when x >= 0 follows from the bounds of its leaves, or from them and one fact."""
    found = _kept(stack).setdefault("bounds", {})
    if _bounds(key_of(x), stack, found)[0] >= 0:
        return True
    atoms = {a for a, _ in x.terms}
    for f in _facts(stack) if deep else _spans(stack):
        # a fact without a common atom only lowers the bound
        if any(a in atoms for a, _ in f.terms) and _bounds(key_of(lin(x, 1, f, -1)), stack, found)[0] >= 0:
            return True
    return False


def _bounds(k: Key, stack: Sequence[Body], found: dict[Any, Any]) -> tuple[float, float]:
    """Interval of an integer expression. found: those of atoms asked about before."""
    if isinstance(k, int):
        return k, k
    low: float = k[1]
    high: float = k[1]
    for a, c in k[2]:
        if a not in found:
            found[a] = _atom_bounds(a, stack, found)
        lo, hi = found[a]
        low += c * lo if c > 0 else c * hi
        high += c * hi if c > 0 else c * lo
    return low, high


def _atom_bounds(a: tuple[Any, ...], stack: Sequence[Body], found: dict[Any, Any]) -> tuple[float, float]:
    if a[0] == "i":
        for b in stack:
            if b.loop and b.index_name == a[1]:
                return (_bounds(key_of(b.loop.start), stack, found)[0],
                        _bounds(key_of(b.loop.stop), stack, found)[1] - 1)
    if a[0] in ("ge", "eq"):
        return 0, 1
    if a[0] in ("min", "max"):
        (l1, h1), (l2, h2) = _bounds(a[1], stack, found), _bounds(a[2], stack, found)
        f = min if a[0] == "min" else max
        return f(l1, l2), f(h1, h2)
    if a[0] == "%" and isinstance(a[2], int) and a[2] > 0:
        return 0, a[2] - 1
    if a[0] == "//" and isinstance(a[2], int) and a[2] > 0:
        low, high = _bounds(a[1], stack, found)
        return tuple(v if abs(v) == INFINITY else v // a[2] for v in (low, high))  # type: ignore[return-value]
    if a[0] == "*":
        (l1, h1), (l2, h2) = _bounds(a[1], stack, found), _bounds(a[2], stack, found)
        if l1 >= 0 and l2 >= 0:
            return l1 * l2 if l1 and l2 else 0, (0 if 0 in (h1, h2) else h1 * h2)
    return -INFINITY, INFINITY
