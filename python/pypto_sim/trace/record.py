"""Tracing a kernel to the end: all paths outside loops, traps for exceptions, restarts after giving up."""
from __future__ import annotations

import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..config import Config
from ..errors import PyptoError
from ..rules import RULES, Finding, message
from ..usual_names import MissingNameError
from .context import Running
from .session import inside_package, where
from .tiles import Scope
from .tracer import MAX_PATHS, Abandon, Shared, Tracer, freeze, insert
from .watch import digest, reachable_codes

STEPPING_NAMES = ("breakpoint", "set_trace")


@dataclass
class Trace:
    """Outcome of tracing. tree: nested items, None when the launch has to be stepped (`reason`).

    cacheable: the same signature gives the same outcome. trapped: exceptions of the trap items.
    """

    tree: tuple[Any, ...] | None
    shared: Shared
    reason: str = ""
    line: str = ""
    cacheable: bool = True
    findings: list[Finding] = field(default_factory=list)
    written: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)

    @property
    def trapped(self) -> dict[tuple[str, ...], Exception]:
        """Trap item (class, arguments, line) -> the exception to raise."""
        return self.shared.trapped


def asks_for_values(fn: types.FunctionType) -> str:
    """Name of a call that needs values at every line, such as `breakpoint`; "" when there is none."""
    for code in reachable_codes(fn):
        for name in STEPPING_NAMES:
            if name in code.co_names:
                return name
    return ""


def trace(fn: types.FunctionType, call: Callable[[Tracer], None], config: Config, kernel: str, scope: Scope,
          symbols: dict[str, int], values: bool = True) -> Trace:
    """Trace the kernel function `fn`; `call(tracer)` calls it with handles of the tracer."""
    shared = Shared()
    out = Trace(None, shared)
    if values and (name := asks_for_values(fn)):
        out.reason = f"the kernel calls {name}()"
        return out
    while True:
        shared.traps.clear()
        shared.confirmed.clear()
        out.findings, out.written, out.read = [], set(), set()
        try:
            out.tree = _all_paths(fn, call, shared, out, (config, kernel, scope, symbols), values)
            for f in shared.carried.values():
                if f.severity == "error":
                    raise RULES[f.rule].error(message(f.text, f.line, f.kernel), rule=f.rule, line=f.line,
                                              kernel=f.kernel)
            out.findings += shared.carried.values()
            return out
        except Abandon as a:
            shared.restarts.append(a)
            if a.reason == IMPURE:
                out.cacheable = False
                out.findings = [Finding("kernel.impure", RULES["kernel.impure"].severity[config.profile], IMPURE, "",
                                        kernel)]
            new = [s for s in a.sites if s not in shared.concrete]
            if not new:
                out.findings = [f for f in out.findings if f.rule == "kernel.impure"]     # stepping finds its own
                out.reason, out.line = a.reason, a.line
                return out
            shared.concrete.update({s: a.reason for s in new})


IMPURE = "the kernel changes captured or global Python state"


def _all_paths(fn: types.FunctionType, call: Callable[[Tracer], None], shared: Shared, out: Trace, session: Any,
               values: bool) -> tuple[Any, ...]:
    tree: list[Any] = []
    path: list[bool] | None = []
    paths = 0
    while path is not None:
        tracer = Tracer(shared, path, values, *session)
        tracer.code = fn.__code__
        trap = None
        before = digest(fn)
        try:
            with Running(tracer):
                call(tracer)
                tracer.alive()
                tracer.hold(tracer.frame)
        except Exception as exc:             # a trap: it ends this path of the innermost open body
            if tracer.dead is None:
                if not _may_be_trap(exc):
                    raise
                trap = exc
        except Abandon:
            pass
        finally:
            tracer.frame = None
            out.findings += tracer.findings.values()
            out.written |= tracer.written
            out.read |= tracer.read
        if tracer.dead:
            raise tracer.dead
        if digest(fn) != before:
            raise Abandon(IMPURE)
        if trap is not None:
            body = tracer.stack[-1]
            item = (type(trap).__qualname__, repr(trap.args), where(trap))
            shared.trapped.setdefault(item, trap)
            _forget_frames(trap)
            body.items.append(("trap", *item))
            if body is not tracer.root:      # its Python frame is gone: remember the path and run the kernel again
                shared.traps.setdefault(body.ident, []).append(body)
                continue
        insert(tree, tracer.root.items)
        paths += 1
        if paths > MAX_PATHS:
            raise Abandon("too many paths outside loops")
        path = tracer.root.next_path()
    return freeze(tree)


def _may_be_trap(exc: Exception) -> bool:
    """Errors of this package's own machinery are raised at once; those of the kernel and PyptoErrors become traps."""
    if isinstance(exc, (PyptoError, MissingNameError)):
        return True
    last = None
    for frame, _ in traceback.walk_tb(exc.__traceback__):
        last = frame
    return last is not None and not inside_package(last.f_code)


def _forget_frames(exc: BaseException) -> None:
    """Drop the tracebacks, whose frames hold the caller's arrays; the user's lines stay as a note."""
    if not isinstance(exc, PyptoError):
        user = [(f, n) for f, n in traceback.walk_tb(exc.__traceback__) if not inside_package(f.f_code)]
        exc.add_note("Raised in the kernel at\n" + "".join(traceback.format_list(traceback.StackSummary.extract(user))))
    seen: set[int] = set()
    todo: list[BaseException | None] = [exc]
    while todo:
        e = todo.pop()
        if e is not None and id(e) not in seen:
            seen.add(id(e))
            e.__traceback__ = None
            todo += [e.__cause__, e.__context__]
