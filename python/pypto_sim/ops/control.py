"""Control flow of kernels: loops, conditions, symbolic minimum and maximum."""
from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import PyptoTypeError, PyptoValueError
from ..trace.context import current
from ..trace.loops import Loop
from ..trace.scalar import SymbolicScalar, known, value_of, written
from ..trace.session import Session
from ..trace.source import find_for, rebound_names
from ..trace.tensor import Tensor
from ..trace.watch import UNBOUND

Int = int | SymbolicScalar


def loop(*args: Int, name: str | None = None, idx_name: str | None = None, unroll_list: Iterable[int] | None = None,
         submit_before_loop: bool = False, parallel: bool = False) -> Iterator[SymbolicScalar]:
    """Loop of the kernel: `for i in pypto.loop(stop)`, `loop(start, stop)` or `loop(start, stop, step)`.

    Parameters
    ----------
    args: ints or SymbolicScalars.
    name, idx_name: labels; nested loops need different `idx_name`s.
    unroll_list: factors by which the compiler may unroll; values do not depend on it.
    submit_before_loop: earlier work is submitted first; steers the cost only.
    parallel: the promise that iterations are independent.

    Returns
    -------
    Iterator of a symbolic index. The body is traced once per path of its decisions, not once per iteration, unless it
    needs concrete indices (`kernel.last_run` tells).

    Raises
    ------
    PyptoTypeError: no or more than three positional arguments. PyptoValueError: an argument is not an integer.
    """
    session = current()
    start, stop, step = _bounds(session, "loop", args)
    frame = sys._getframe(1)
    site, node = find_for(frame)
    _check_idx_name(session, idx_name)
    if parallel and session.config.profile == "0.2":
        session.rule("option.version", "pypto.loop has no `parallel` in 0.2")
    loop_ = Loop(site, start, stop, step, name or idx_name or "", session.line(), bool(parallel),
                 _factors(session, unroll_list), bool(submit_before_loop), (start, stop, step), idx_name or "")
    _check_rebound(session, node, frame)
    return session.run_loop(loop_, node, frame)


def loop_unroll(*args: Int, name: str | None = None, idx_name: str | None = None, unroll_list: Iterable[int] = (1,),
                submit_before_loop: bool = False) -> Iterator[tuple[SymbolicScalar, int]]:
    """`for i, k in pypto.loop_unroll(start, stop, step, unroll_list=[4, 2])`: the body handles k steps at once.

    Factors run in descending order, 1 is always among them; what one leaves over goes to the next. `is_loop_begin` and
    `is_loop_end` of the index refer to the bounds and the step that were given, not to k.

    Raises
    ------
    PyptoTypeError, PyptoValueError: as `loop`.
    """
    session = current()
    start, stop, step = _bounds(session, "loop_unroll", args)
    frame = sys._getframe(1)
    site, node = find_for(frame)
    _check_idx_name(session, idx_name)
    _check_rebound(session, node, frame)
    line, factors = session.line(), sorted({*_factors(session, unroll_list), 1}, reverse=True)

    def run() -> Iterator[tuple[SymbolicScalar, int]]:
        at = start
        for k in factors:
            width = k * step
            end = at + (stop - at) // width * width if k > 1 else stop
            inner = Loop((*site, k), at, end, width, name or idx_name or "", line, False, (), submit_before_loop,
                         (start, stop, step), idx_name or "")
            for i in session.run_loop(inner, node, frame):
                yield i, k
            at = end
    return run()


def cond(scalar: Int, file: str | None = None, lineno: int | None = None) -> bool:
    """Condition on a scalar: `if pypto.cond(i == 0):`. Inside kernels a plain `if` does the same."""
    if file is not None and lineno is None:
        raise PyptoValueError("pypto.cond: `file` needs `lineno`")
    return bool(scalar)


def is_loop_begin(scalar: Int) -> SymbolicScalar:
    """True in the first iteration of the loop that `scalar` is the index of.

    Profile `master` compares with the innermost loop whatever the index, `0.2` takes a raw index only; the others use
    the loop of a raw index, else the innermost.
    """
    start, _, _ = _loop_of(scalar).origin
    return SymbolicScalar(scalar) == start


def is_loop_end(scalar: Int) -> SymbolicScalar:
    """True in the last iteration of the loop that `scalar` is the index of: index + step >= stop."""
    _, stop, step = _loop_of(scalar).origin
    if known(step) and value_of(step) < 0:
        current().rule("loop.descending_end", "is_loop_end in a descending loop compares index + step >= stop, which "
                       "is true from the first iteration on. Count upwards and compute the descending index from it")
    return SymbolicScalar(scalar) + step >= stop


def min_op(a: Int, b: Int) -> Int:
    """The smaller of two scalars."""
    return written("min", a, b) if isinstance(a, SymbolicScalar) or isinstance(b, SymbolicScalar) else min(a, b)


def max_op(a: Int, b: Int) -> Int:
    """The larger of two scalars."""
    return written("max", a, b) if isinstance(a, SymbolicScalar) or isinstance(b, SymbolicScalar) else max(a, b)


def ceildiv(a: Int, b: Int) -> Int:
    """(a + b - 1) // b."""
    return (a + b - 1) // b


def _bounds(session: Session, who: str, args: tuple[Any, ...]) -> tuple[Int, Int, Int]:
    if not 1 <= len(args) <= 3:
        raise session.error(PyptoTypeError, f"pypto.{who} takes 1 to 3 positional arguments (stop), (start, stop) or "
                            f"(start, stop, step), got {len(args)}")
    for a in args:
        if isinstance(a, (bool, Tensor)) or not (isinstance(a, SymbolicScalar) or hasattr(a, "__index__")):
            raise session.error(PyptoValueError, f"pypto.{who} takes ints and SymbolicScalars, got {a!r}")
    plain = [value_of(a) if known(a) else a for a in args]
    start, stop, step = (0, plain[0], 1) if len(plain) == 1 else (*plain, 1) if len(plain) == 2 else plain
    if known(step) and not value_of(step):
        raise session.error(PyptoValueError, f"pypto.{who}: the step must not be 0")
    return start, stop, step


def _factors(session: Session, unroll_list: Iterable[int] | None) -> tuple[int, ...]:
    factors = sorted(set(unroll_list or ()), reverse=True)
    if bad := [f for f in factors if isinstance(f, bool) or not hasattr(f, "__index__") or f < 1]:
        raise session.error(PyptoValueError, f"unroll_list holds positive ints, got {bad[0]!r}")
    return tuple(int(f) for f in factors)


def _check_idx_name(session: Session, idx_name: str | None) -> None:
    if idx_name and any(open_.idx_name == idx_name for open_ in session.loops):
        session.rule("loop.idx_name", f"nested loops have the same idx_name {idx_name!r} (F21007): rename one")


def _check_rebound(session: Session, node: Any, frame: Any) -> None:
    if node is None:
        return
    for name in sorted(rebound_names(node)):
        value = frame.f_locals.get(name, UNBOUND)
        if isinstance(value, (Tensor, SymbolicScalar, int, float)) and not isinstance(value, bool):
            session.rule("loop.rebound_name", f"`{name}` is rebound in the loop: 0.2 reads the value from before the "
                         f"loop in every iteration, here it is carried on as in the current release. Use "
                         f"`{name}[:] = ...` on a tensor declared before the loop")


def _loop_of(scalar: Int) -> Loop:
    session = current()
    own = scalar.loop if isinstance(scalar, SymbolicScalar) else None
    if own is None and session.config.profile == "0.2":
        raise session.error(PyptoValueError, "not loop index: pass the index that pypto.loop gave")
    if own is not None and session.config.profile != "master":
        return own
    if not session.loops:
        raise session.error(PyptoValueError, "not loop index: there is no open loop")
    return session.loops[-1]


