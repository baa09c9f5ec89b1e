"""Tracing a kernel for one signature into a Program, and the cache of the outcomes."""
from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ..config import Config
from ..rules import Finding
from ..trace.loops import Loop
from ..trace.lower import lower
from ..trace.record import Trace, trace
from ..trace.session import Session
from ..trace.snapshot import Snapshot
from ..trace.source import Site
from ..trace.tensor import Tensor
from ..trace.tiles import Scope
from ..trace.tracer import Tracer
from .arrays import Argument

MAX_PROGRAMS = 64             # per kernel


@dataclass
class Compiled:
    """Outcome of tracing for one signature. program: finished core Program, None when launches have to be stepped."""

    program: Any
    reason: str                               # why it has to be stepped
    line: str
    cacheable: bool
    trapped: list[Exception]                  # by trap number
    loops: list[dict[str, Any]]
    findings: list[Finding]
    written: frozenset[int] = frozenset()     # numbers of the tensor arguments
    read: frozenset[int] = frozenset()
    always_raises: Exception | None = None    # the trap that every run reaches


def handles(session: Session, home: Any, keys: Sequence[Any], arguments: Sequence[Argument | None]) -> list[Any]:
    """Handles of the tensor arguments for a session."""
    out: list[Any] = []
    number = 0
    for a in arguments:
        if a is None:
            out.append(None)
            continue
        t = Tensor.handle(a.shape, a.dtype, None, home, keys[number], a.name)
        t.arg, t.axes, t.format = number, a.axes, a.format
        out.append(t)
        number += 1
    session.read_only = frozenset(n for n, a in enumerate(present(arguments)) if not a.writable)
    return out


def present(arguments: Sequence[Argument | None]) -> list[Argument]:
    """The arguments without left-out optional ones: their order numbers the core's arguments."""
    return [a for a in arguments if a is not None]


def core_args(arguments: Sequence[Argument | None]) -> list[tuple[tuple[int, ...], int, str]]:
    """(shape, dtype code, name) per argument for the Builder."""
    return [(a.shape, a.dtype.code, a.name) for a in present(arguments)]


def compile_kernel(function: Any, kernel: str, arguments: Sequence[Argument | None], scalars: Sequence[Any],
                   config: Config, scope: Scope, symbols: dict[str, int], values: bool) -> Compiled:
    """Trace and lower. `values`: a print in the kernel asks for values (not in cost-only runs)."""
    keys = [f"arg:{n}" for n in range(len(present(arguments)))]

    def call(tracer: Tracer) -> None:
        function(*handles(tracer, tracer.root, keys, arguments), *scalars)

    state = Snapshot(function)
    try:
        t = trace(function, call, config, kernel, scope, symbols, values)
    finally:
        state.restore()
    program, trapped, always = None, [], None
    if t.tree is not None:
        program, items = lower(t.tree, config.numerics, core_args(arguments), keys)
        for number, a in enumerate(present(arguments)):
            program.dynamic_axes(number, [n for n, size in enumerate(a.axes or ()) if not isinstance(size, int)])
        trapped = [t.trapped[item] for item in items]
        always = t.trapped.get(_certain_trap(t.tree))
    return Compiled(program, t.reason, t.line, t.cacheable, trapped, _loops(t),
                    list({(f.rule, f.line): f for f in t.findings}.values()), frozenset(t.written), frozenset(t.read),
                    always)


def _certain_trap(tree: Sequence[Any]) -> tuple[str, ...]:
    """The trap item that every run reaches, () when there is none."""
    for item in tree:
        if item[0] == "trap":
            return item[1:]
        if item[0] == "if":
            return ()
        if item[0] == "loop" and all(isinstance(v, int) for v in item[2:5]) and range(*item[2:5]):
            if found := _certain_trap(item[6]):
                return found
    return ()


def _loops(t: Trace) -> list[dict[str, Any]]:
    shared = t.shared
    return [loop_record(loop, t.tree is not None and site not in shared.concrete, shared.runs[site],
                        shared.concrete.get(site) or t.reason) for site, loop in shared.seen.items()]


def loop_record(loop: Loop, replayed: bool, traces: int, reason: str) -> dict[str, Any]:
    """One entry of `last_run.loops`."""
    return {"loop": loop.name, "line": loop.line, "replayed": replayed, "traces": traces, "reason": reason}


def stepped_loops(seen: dict[Site, Loop], runs: dict[Site, int], reason: str) -> list[dict[str, Any]]:
    """`last_run.loops` of a stepped launch."""
    return [loop_record(loop, False, runs.get(site, 0), reason) for site, loop in seen.items()]


class ProgramCache:
    """Outcomes by signature, the oldest dropped first; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: collections.OrderedDict[Hashable, Compiled] = collections.OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Compiled]) -> tuple[Compiled, bool]:
        """(outcome, was it there)."""
        with self._lock:
            found = self._found.pop(key, None)         # and to the end again
            if found is not None:
                self._found[key] = found
                return found, True
        made = make()
        if made.cacheable:
            with self._lock:
                self._found[key] = made
                while len(self._found) > MAX_PROGRAMS:
                    self._found.popitem(last=False)
        return made, False

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._found.clear()

    def __len__(self) -> int:
        return len(self._found)
