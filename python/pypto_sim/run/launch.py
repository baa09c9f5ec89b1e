"""One call of a kernel: replay its Program or step it, then say what the rules and the poison check found."""
from __future__ import annotations

import threading
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core
from ..config import Config
from ..rules import RULES, Finding, message
from ..trace.context import Running
from ..trace.faults import raise_core_error
from ..trace.lower import Builder
from ..trace.session import warn
from ..trace.stepper import Stepper
from ..trace.tiles import Scope
from .annotations import rebound_parameters
from .arrays import Argument
from .compiled import Compiled, core_args, handles, present, stepped_loops
from .coverage import describe, unwritten

POISON = {"off": 0, "check": 1, "trace": 2}
MAX_KEPT_BYTES = 256 << 20        # of arguments that are read and written, kept for the poison check

DEFAULT_THREADS, BEST_ISA = _core.threads(), _core.isa()      # before anybody has set them

observers = threading.local()     # .list: called with each Launch of this thread (pypto_sim.profile)
watchers = threading.local()      # .stepper: class of Stepper that runs the launches of this thread (testing.dump)


@dataclass
class LastRun:
    """What `kernel.last_run` tells about the last call.

    mode: "replay" or "step"; loops: [{loop, line, replayed, traces, reason}]; warnings: Findings; reason: why it was
    stepped.
    """

    mode: str
    loops: list[dict[str, Any]]
    warnings: list[Finding]
    cache_hit: bool
    reason: str = ""
    line: str = ""
    program: Any = field(default=None, repr=False)


@dataclass
class Launch:
    """One call as observers see it. program: finished core Program; int_data: integer arguments as they were before;
    call: what `stepped` runs again."""

    kernel: str
    program: Any
    arguments: list[Argument]
    int_data: list[np.ndarray | None]
    config: Config
    findings: list[Finding]
    mode: str
    call: Call
    read: Container[int]           # numbers of `arguments`
    written: Container[int]


@dataclass
class Call:
    """Everything a call needs, bound and checked."""

    function: Any
    kernel: str
    arguments: list[Argument | None]
    scalars: list[Any]
    config: Config
    scope: Scope
    symbols: dict[str, int]
    findings: list[Finding]                  # of binding


def apply_settings(config: Config) -> None:
    """Threads and ISA level are settings of the process: every launch makes them its own."""
    threads, isa = config.threads or DEFAULT_THREADS, config.isa or BEST_ISA
    if _core.threads() != threads:
        _core.set_threads(threads)
    if _core.isa() != isa:
        _core.select_isa(isa)


def finding(call_findings: list[Finding], config: Config, rule_id: str, text: str, line: str, kernel: str) -> None:
    """Apply a rule outside the kernel's run: append a finding, or raise."""
    rule = RULES[rule_id]
    severity = rule.severity[config.profile]
    if severity == "error":
        raise rule.error(message(text, line, kernel), rule=rule_id, line=line, kernel=kernel)
    if severity != "off":
        call_findings.append(Finding(rule_id, severity, text, line, kernel))


def execute(call: Call, compiled: Compiled, cache_hit: bool, record: Callable[[LastRun], None]) -> None:
    """Run the call on the caller's memory; `record` gets its LastRun. Warnings are raised in any case."""
    apply_settings(call.config)
    memory = [a.bytes_view for a in present(call.arguments)]
    watched = getattr(observers, "list", None)
    int_data = [a.array.copy() if a.array is not None and a.array.dtype.kind in "iu" else None
                for a in present(call.arguments)] if watched else []
    stepping = compiled.program is None or steps(call.config) or call.config.poison == "trace"
    last = LastRun("step" if stepping else "replay", list(compiled.loops), [*call.findings, *compiled.findings],
                   cache_hit, compiled.reason, compiled.line, compiled.program)
    record(last)
    try:
        if stepping:
            touched = _step(call, memory, last)
        else:
            _replay(call, compiled, memory, last)
            touched = compiled.read, compiled.written
    finally:
        last.warnings = list({(f.rule, f.line): f for f in last.warnings}.values())
        for f in last.warnings:
            if f.severity == "warn":
                warn(f)
    if watched:
        launch = Launch(call.kernel, last.program, present(call.arguments), int_data, call.config, last.warnings,
                        last.mode, call, *touched)
        for observer in watched:
            observer(launch)


def steps(config: Config) -> bool:
    """Whether launches are stepped whatever tracing finds: mode "step", or somebody watches."""
    return config.mode == "step" or getattr(watchers, "stepper", None) is not None


def stepped(call: Call, kind: type[Stepper], memory: Sequence[Any], builder: Builder) -> Stepper:
    """A stepper of class `kind` for `call` on `memory`, one uint8 view per argument."""
    return kind(builder, memory, POISON[call.config.poison], clamps(call.config), call.config, call.kernel, call.scope,
                call.symbols)


def enter(call: Call, stepper: Stepper, builder: Builder) -> None:
    """Run the kernel function under a stepper."""
    with Running(stepper), stepper.watched():
        call.function(*handles(stepper, stepper, builder.args, call.arguments), *call.scalars)
        stepper.alive()


def _check_outputs(call: Call, written: Container[int], read: Container[int], last: LastRun) -> None:
    """Rule output.unwritten: a parameter is rebound, or no argument is written at all though none is empty."""
    arguments = present(call.arguments)
    code = call.function.__code__
    rebinds = rebound_parameters(code, tuple(a.name for a in arguments))
    file = code.co_filename.rpartition("/")[2]
    found = False
    for number, a in enumerate(arguments):
        if a.name in rebinds and number not in written:
            line, lost = rebinds[a.name]
            if lost or number not in read:
                found = True
                finding(last.warnings, call.config, "output.unwritten", f"`{a.name}` is rebound, which writes nothing "
                        f"to the argument: use `{a.name}[:] = ...`", f"{file}:{line}", call.kernel)
    empty = any(0 in a.shape for a in arguments)                       # a batch of 0 rows leaves nothing to write
    if not found and arguments and not empty and not any(n in written for n in range(len(arguments))):
        unread = [a.name for n, a in enumerate(arguments) if n not in read] or [arguments[-1].name]
        finding(last.warnings, call.config, "output.unwritten", f"`{unread[-1]}` is never written, nor is any "
                f"other argument: use `{unread[-1]}[:] = ...` or pypto.assemble", f"{file}:{code.co_firstlineno}",
                call.kernel)


def _replay(call: Call, compiled: Compiled, memory: Sequence[Any], last: LastRun) -> None:
    kept = _keep(call, compiled)
    machine = _core.Machine(compiled.program, memory, POISON[call.config.poison], clamps(call.config))
    try:
        machine.run()
    except _core.CoreError as e:
        raise_core_error(e, call.kernel)
    except _core.TrapReached as e:
        trap = fresh(compiled.trapped[e.args[0]])
        raise trap from trap.__cause__
    finally:
        run_time_findings(machine, call, last.warnings)
    _check_outputs(call, compiled.written, compiled.read, last)
    if call.config.poison == "check" and (candidates := machine.candidates()):
        _check_poison(call, kept, candidates, last)


def clamps(config: Config) -> bool:
    """Whether an element read past the end of a table is clamped and warned about instead of raised."""
    return RULES["element.past_end"].severity[config.profile] != "error"


def run_time_findings(machine: Any, call: Call, into: list[Finding]) -> None:
    """Findings that only the run could make."""
    for rule_id, line, text in machine.warnings():
        finding(into, call.config, rule_id, text, line, call.kernel)


def fresh(exc: Exception) -> Exception:
    """A new exception equal to a recorded one, without the traceback of the trace."""
    kind = type(exc)
    try:
        again = kind.__new__(kind, *exc.args)         # __init__ of the user's class may want other arguments
        next(c for c in kind.__mro__ if c.__module__ == "builtins").__init__(again, *exc.args)
    except Exception:                 # an exception class that cannot be made anew: raise the recorded one
        again = exc
    again.args = exc.args
    again.__dict__.update({k: list(v) if k == "__notes__" else v for k, v in exc.__dict__.items()})
    again.__cause__, again.__traceback__ = exc.__cause__, None
    return again


def _step(call: Call, memory: Sequence[Any], last: LastRun) -> tuple[Container[int], Container[int]]:
    """Returns the numbers of the arguments that were read and written."""
    poison = call.config.poison
    kept = {} if poison == "off" else _copies(dict(enumerate(a.array for a in present(call.arguments))))
    builder = Builder(call.config.numerics, core_args(call.arguments))
    stepper = stepped(call, getattr(watchers, "stepper", None) or Stepper, memory, builder)
    last.program = builder.program
    try:
        enter(call, stepper, builder)
    finally:
        last.warnings += stepper.findings.values()
        last.loops = stepped_loops(stepper.seen, stepper.runs, last.reason)
        run_time_findings(stepper.machine, call, last.warnings)
        builder.program.finish()
    _check_outputs(call, stepper.written, stepper.read, last)
    candidates = stepper.machine.candidates()
    if poison == "trace":
        _report_poison(call, candidates, last)
        _check_coverage(call, kept, stepper, last)
    elif poison == "check" and candidates:
        _check_poison(call, kept, candidates, last)
    return stepper.read, stepper.written


def _keep(call: Call, compiled: Compiled) -> dict[int, np.ndarray] | None:
    """Copies of the arguments that the kernel reads and writes, for a second run; None when they are too large."""
    if call.config.poison != "check":
        return {}
    both = compiled.read & compiled.written
    return _copies({n: a.array for n, a in enumerate(present(call.arguments)) if n in both})


def _copies(arrays: dict[int, Any]) -> dict[int, np.ndarray] | None:
    if sum(a.nbytes for a in arrays.values()) > MAX_KEPT_BYTES:
        return None
    return {n: a.copy() for n, a in arrays.items()}


def _check_poison(call: Call, kept: dict[int, np.ndarray] | None, candidates: Sequence[Any], last: LastRun) -> None:
    """Run the items again with a mask per element, on copies; report undefined elements that were stored."""
    if kept is None:
        for op, line, text in candidates:
            finding(last.warnings, call.config, "poison.unchecked", f"{op}: {text}; arguments that are both read and "
                    "written are too large to run again with element masks: set poison='trace'", line, call.kernel)
        return
    arrays = [kept[n] if n in kept else a.array.copy() for n, a in enumerate(present(call.arguments))]
    machine = _core.Machine(last.program, [a.reshape(-1).view(np.uint8) for a in arrays], POISON["trace"],
                            clamps(call.config))
    machine.run()
    _report_poison(call, machine.candidates(), last)


def _check_coverage(call: Call, kept: dict[int, np.ndarray] | None, stepper: Stepper, last: LastRun) -> None:
    """Rule output.partly_written: elements of an output that the launch never wrote."""
    code = call.function.__code__
    line = f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"
    if kept is None:
        finding(last.warnings, call.config, "poison.unchecked", "the arguments are too large to look for elements that "
                "are never written", line, call.kernel)
        return
    arguments = present(call.arguments)
    found = unwritten(last.program, arguments, [kept[n] for n in range(len(arguments))], stepper.read, stepper.written,
                      clamps(call.config))
    if found:                                   # one finding: they share the line
        finding(last.warnings, call.config, "output.partly_written", "; ".join(describe(*one) for one in found), line,
                call.kernel)


def _report_poison(call: Call, candidates: Sequence[Any], last: LastRun) -> None:
    for op, line, text in candidates:
        finding(last.warnings, call.config, "poison.stored", f"{op}: {text}", line, call.kernel)
