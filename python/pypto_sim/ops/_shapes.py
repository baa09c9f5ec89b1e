"""Reading shapes, offsets and valid shapes that users hand to the movement operations."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..trace.scalar import SymbolicScalar, known, lin, smax, smin, value_of
from ..trace.tensor import Tensor, static_shape
from ._checks import Check, Valid, is_full, plain

Extent = int | SymbolicScalar


def entries(check: Check, arg: str, value: Any) -> list[Any]:
    """`value` as a list of integers and scalars."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        check.rule("arg.type", f"`{arg}` must be a list of ints, got {type(value).__name__}")
    for n in value:
        if isinstance(n, bool) or not (isinstance(n, SymbolicScalar) or hasattr(n, "__index__")):
            check.rule("arg.type", f"`{arg}` has the entry {n!r}; entries must be ints or SymbolicScalars")
    return list(value)


def shape_arg(check: Check, arg: str, value: Any, *, infer: bool = False) -> list[int]:
    """Static sizes. A size taken from a dynamic axis is a rule; one that depends on a run-time value is an error.

    infer: -1 is allowed.
    """
    sizes = []
    for n in entries(check, arg, value):
        if not known(n):
            check.rule("arg.type", f"`{arg}` has an entry that depends on a run-time value; sizes must be ints: give "
                                   "the static extent, and the rest as valid_shape")
        if isinstance(n, SymbolicScalar):
            check.rule("shape.symbolic", f"`{arg}` has the symbolic entry {value_of(n)}; sizes must be ints")
        n = value_of(n)
        if n < 0 and not (infer and n == -1):
            check.rule("arg.value", f"`{arg}` has the entry {n}; sizes must be at least 1")
        sizes.append(n)
    if not infer or -1 not in sizes:
        check.size(arg, sizes)
    return sizes


def offsets_arg(check: Check, arg: str, value: Any, rank: int, of: str) -> list[Extent]:
    """One offset per axis; known ones must not be negative."""
    offsets = [plain(n) for n in entries(check, arg, value)]
    if len(offsets) != rank:
        check.rule("shape.mismatch", f"`{arg}` has {len(offsets)} entries; `{of}` has {rank} axes, so {rank} are "
                                     "needed")
    for given, n in zip(value, offsets, strict=True):
        if isinstance(n, int) and n < 0:                     # what only a run can know has the rule of the run
            rule = f"{check.spec.name}.past_end" if isinstance(given, SymbolicScalar) else "arg.value"
            check.rule(rule, f"`{arg}` has the entry {n}; offsets must not be negative")
    return offsets


def valid_arg(check: Check, value: Any, shape: Sequence[int]) -> tuple[Extent, ...] | None:
    """An explicit valid shape, None where there is none. A known extent above the shape is a rule and clamped."""
    if value is None:
        return None
    valid = [plain(n) for n in entries(check, "valid_shape", value)]
    if len(valid) != len(shape):
        check.rule("shape.mismatch", f"`valid_shape` has {len(valid)} entries; the result {list(shape)} has "
                                     f"{len(shape)} axes")
    for axis, (v, n) in enumerate(zip(valid, shape, strict=True)):
        if isinstance(v, int) and v < 0:
            check.rule("arg.value", f"`valid_shape` has the entry {v}; extents must not be negative")
        if isinstance(v, int) and v > n:
            check.rule("view.valid_above", f"`valid_shape` has {v} for axis {axis}, whose size is {n}; {n} is used")
            valid[axis] = n
    return tuple(valid)


def clamped(extent: Extent, offset: Extent, size: int) -> Extent:
    """clamp(extent - offset, 0, size): what a view of `size` at `offset` sees of a valid `extent`."""
    if isinstance(extent, int) and isinstance(offset, int):
        return min(max(extent - offset, 0), size)
    return plain(smin(smax(lin(extent, 1, offset, -1), 0), size))


def valid_list(t: Tensor) -> list[Extent]:
    """Valid extents of `t`, ints where known."""
    return [plain(v) for v in t.valid_shape]


def or_full(valid: Sequence[Extent], shape: Sequence[int]) -> Valid:
    """None when `valid` is the whole shape."""
    return None if is_full(valid, shape) else tuple(valid)


def shape_of(t: Tensor) -> list[int]:
    """Static sizes as a list."""
    return list(static_shape(t))


def rank_range(check: Check) -> tuple[int, int]:
    """Documented ranks of full and expand_clone; 0.2 lets one more axis through."""
    low, high = check.spec.ranks
    return (low, high + 1) if check.session.config.profile == "0.2" else (low, high)
