"""What both modes share about loops: their description, and running one with concrete indices."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .scalar import SymbolicScalar, constant, value_of
from .source import Site

if TYPE_CHECKING:
    from .session import Session


class Loop(NamedTuple):
    """A loop that is being run. start, stop, step: int or SymbolicScalar; origin: those that is_loop_end refers to."""

    site: Site
    start: Any
    stop: Any
    step: Any
    name: str = ""
    line: str = ""
    parallel: bool = False
    unroll: tuple[int, ...] = ()
    submit_before: bool = False
    origin: tuple[Any, Any, Any] = (0, 0, 1)
    idx_name: str = ""


def concrete(session: Session, loop: Loop) -> Iterator[SymbolicScalar]:
    """Run the loop with known indices, a block per iteration."""
    if loop.parallel:
        session.enter_parallel(loop)
    for v in range(value_of(loop.start), value_of(loop.stop), value_of(loop.step)):
        index = constant(v)
        index.loop = loop
        saved = session.scope
        session.block()
        if loop.parallel:
            session.next_iteration(v)
        session.loops.append(loop)
        session.count_run(loop)
        try:
            yield index
        finally:
            session.loops.pop()
            session.scope = saved
    session.block()
    if loop.parallel:
        session.leave_parallel()
