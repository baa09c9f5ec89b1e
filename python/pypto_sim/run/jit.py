"""The jit decorator: `@pypto.frontend.jit`, with or without options."""
from __future__ import annotations

import difflib
import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..config import KEYS, Config, active, checked
from ..errors import HandleError, NeedsData, PyptoError, PyptoRuntimeError, PyptoTypeError
from ..ops import options as option_groups
from ..rules import Finding, message
from ..trace.context import Running, holder, running, trial
from ..trace.lower import Builder
from ..trace.session import Session, user_line
from ..trace.stepper import Stepper
from ..trace.tensor import Tensor
from ..trace.tiles import Scope
from ..trace.watch import digest
from .annotations import Signature, check_arguments, defining_frame, plain_function, returns
from .arrays import Argument, argument, check_overlap
from .compiled import Compiled, ProgramCache, compile_kernel, core_args, handles, present, stepped_loops
from .launch import Call, LastRun, apply_settings, clamps, execute, finding, fresh, steps
from .verify import compare_golden, ran

GROUPS = ("host_options", "codegen_options", "pass_options", "runtime_options", "verify_options", "debug_options",
          "operation_options")
FLAGS = {"new_ir": True, "create_new_logical_tensor": False, "infer_controlflow_shape": None, "use_cache": True}
SOC_DEVICES = {"ascend910b1": "910b1", "ascend910b2": "910b2", "ascend910b3": "910b3", "ascend910b4": "910b4"}


@dataclass
class KernelProgram:
    """Outcome of `kernel.program(...)`: a finished core Program without execution.

    program: the core's Program; arguments: shapes, types and given data, in the Program's order; findings: rules that
    fired; loops, mode, reason: as of `kernel.last_run`.
    """

    program: Any
    kernel: str
    arguments: list[Argument]
    findings: list[Finding]
    loops: list[dict[str, Any]]
    mode: str
    reason: str
    config: Config
    trapped: list[Exception] = field(default_factory=list)      # by trap number

    def __str__(self) -> str:
        return str(self.program)


class Kernel:
    """A decorated function. Calling it runs it on the caller's arrays and returns None."""

    def __init__(self, function: Any, groups: Mapping[str, Any], flags: Mapping[str, Any],
                 overrides: Mapping[str, Any]) -> None:
        self.function = plain_function(function)
        functools.update_wrapper(self, function)
        self.groups = {g.removesuffix("_options"): option_groups.checked(g.removesuffix("_options"), groups[g])
                       for g in GROUPS if groups.get(g) is not None}
        self.flags, self.overrides = dict(flags), dict(overrides)
        self.signature = Signature(self.function, defining_frame())
        self.cache = ProgramCache()
        self._scopes: list[option_groups.options] = []
        self._local = threading.local()
        self._last: LastRun | None = None

    # --- for users
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        session = running()
        if session is not None:
            self._inline(session, args, kwargs)
            return
        call = self._bound(args, kwargs)
        if missing := [a.name for a in present(call.arguments) if a.array is None]:
            raise NeedsData(message(f"argument `{missing[0]}` has no data: a Spec is for pypto.estimate, a call takes "
                                    "arrays", user_line(), self.__name__), line=user_line(), kernel=self.__name__)
        if steps(call.config):
            reason = "mode is step" if call.config.mode == "step" else "somebody watches the values"
            compiled, hit = Compiled(None, reason, "", False, [], [], []), False
        else:
            compiled, hit = self._compiled(call, values=True)
        execute(call, compiled, hit, self._record)
        if call.scope.groups.get("verify", {}).get("enable_pass_verify"):
            default = option_groups.OPTIONS["verify"]["pass_verify_error_tol"].default
            compare_golden(self.__name__, [a if a is None else a.array for a in call.arguments],
                           call.scope.groups["verify"].get("pass_verify_error_tol", default))

    @property
    def last_run(self) -> LastRun:
        """How the last call ran (of this thread, else of any). Raises PyptoRuntimeError before the first call."""
        last = getattr(self._local, "last", None) or self._last
        if last is None:
            raise PyptoRuntimeError(f"kernel `{self.__name__}` has not been called yet")
        return last

    def program(self, *args: Any, **kwargs: Any) -> KernelProgram:
        """Trace without executing; tensor arguments are arrays or `pypto.Spec`s.

        Raises NeedsData when the kernel can only be stepped and an argument has no data.
        """
        call = self._bound(args, kwargs)
        compiled, _ = self._compiled(call, values=False)
        if compiled.always_raises is not None:
            raise fresh(compiled.always_raises)
        if compiled.program is not None:
            return KernelProgram(compiled.program, self.__name__, present(call.arguments),
                                 [*call.findings, *compiled.findings], compiled.loops, "replay", "", call.config,
                                 compiled.trapped)
        return self._stepped_program(call, compiled)

    def with_scope(self, scope: option_groups.options) -> Kernel:
        """`@pypto.options(...)` above the jit decorator: options in force while the kernel runs."""
        self._scopes.append(scope)
        return self

    def traced_state(self) -> tuple[Any, ...]:
        """What a kernel that calls this one depends on."""
        return (self.function, self.groups, self.overrides, [s.values for s in self._scopes])

    def __repr__(self) -> str:
        return f"<pypto kernel {self.__name__}>"

    def __reduce__(self) -> str:                 # pickled by name, as functions are; a copy is the kernel itself
        return self.__qualname__

    # --- one call
    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        try:
            return self._bind(args, kwargs)
        except PyptoError as e:
            if not e.line:
                e.line, e.kernel = user_line(), self.__name__
                e.args = (message(str(e), e.line, e.kernel), *e.args[1:])
            raise

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        config = active(self._config_overrides())
        name = self.__name__
        for group, values in self.groups.items():
            option_groups.check_versions(group, values, config.profile)
        findings: list[Finding] = []
        for line, with_value in returns(self.function.__code__):
            at = f"{self.function.__code__.co_filename.rpartition('/')[2]}:{line}"
            text = "a kernel returns nothing: write results through a parameter, `out[:] = ...`" if with_value else \
                "PyPTO refuses `return` in a kernel: put what follows into an if"
            finding(findings, config, "kernel.return_value" if with_value else "kernel.return", text, at, name)
        tensors, scalars = self.signature.bind(args, kwargs, config.profile in ("lenient", "guide"))
        parameters = self.signature.tensors
        arguments: list[Argument | None] = []
        for p, value in zip(parameters, tensors, strict=True):
            arguments.append(None if value is None and p.default is None else argument(p.name, value))
        symbols = check_arguments(name, [p for p, a in zip(parameters, arguments, strict=True) if a is not None],
                                  present(arguments))
        for a, b in check_overlap(present(arguments)):
            finding(findings, config, "arg.same_twice", f"arguments `{a}` and `{b}` are the same memory: writes to one "
                    "are seen through the other, in program order", user_line(), name)
        return Call(self.function, name, arguments, scalars, config, self._scope(holder().scope), symbols, findings)

    def _config_overrides(self) -> dict[str, Any]:
        soc = str(self.groups.get("codegen", {}).get("soc_version", "")).lower()
        device = {"device": SOC_DEVICES[soc]} if soc in SOC_DEVICES else {}
        return {**device, **self.overrides}

    def _scope(self, scope: Scope) -> Scope:
        for group, values in self.groups.items():
            scope = scope.with_options(group, values)
        for s in self._scopes:
            scope = s.applied(scope)
        return scope

    def _compiled(self, call: Call, values: bool) -> tuple[Compiled, bool]:
        c, scope = call.config, call.scope
        if trial() is not None:              # tiles of a trial are not the kernel's own
            return compile_kernel(call.function, call.kernel, call.arguments, call.scalars, c, scope, call.symbols,
                                  values), False
        key = (tuple(None if a is None else a.signature for a in call.arguments), digest(call.scalars),
               digest(self.function), tuple(sorted(call.symbols.items())), values,
               (c.device, c.profile, c.numerics), (scope.vec_tile, scope.cube_tile, repr(scope.conv_tile),
                                                   scope.matrix_size, scope.label, scope.options_text()))
        return self.cache.get(key, lambda: compile_kernel(call.function, call.kernel, call.arguments, call.scalars, c,
                                                          scope, call.symbols, values))

    def _record(self, last: LastRun) -> None:
        self._local.last = self._last = last
        ran(self.__name__, last)

    def _inline(self, session: Session, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        tensors, scalars = self.signature.bind(args, kwargs, session.config.profile in ("lenient", "guide"))
        given = []
        for p, t in zip(self.signature.tensors, tensors, strict=True):
            if t is None and p.default is None:
                continue
            if not isinstance(t, Tensor) or t.home is None:
                raise session.error(HandleError, f"kernel `{self.__name__}` is called inside a kernel: `{p.name}` must "
                                    f"be a tensor of that kernel, got {type(t).__name__}")
            given.append((p, Argument(p.name, t.static_shape, t.dtype, None)))
        symbols = check_arguments(self.__name__, [p for p, _ in given], [a for _, a in given])
        outer = session.symbols
        with session.scoped():
            session.scope = self._scope(session.scope)
            session.symbols = {**outer, **symbols}
            try:
                self.function(*tensors, *scalars)
            finally:
                session.symbols = outer

    def _stepped_program(self, call: Call, compiled: Compiled) -> KernelProgram:
        apply_settings(call.config)
        arguments = present(call.arguments)
        copies = [np.zeros(a.shape, a.dtype.np_dtype) if a.array is None else a.array.copy() for a in arguments]
        builder = Builder(call.config.numerics, core_args(call.arguments))
        stepper = CostStepper(builder, [c.reshape(-1).view(np.uint8) for c in copies], 0, clamps(call.config),
                              call.config, call.kernel, call.scope, call.symbols)
        stepper.given = frozenset(n for n, a in enumerate(arguments) if a.array is not None)
        stepper.complete = all(a.array is not None for a in arguments)
        stepper.why = compiled.reason
        with Running(stepper):
            call.function(*handles(stepper, stepper, builder.args, call.arguments), *call.scalars)
            stepper.alive()
        builder.program.finish()
        return KernelProgram(builder.program, self.__name__, arguments, [*call.findings, *stepper.findings.values()],
                             stepped_loops(stepper.seen, stepper.runs, compiled.reason), "step", compiled.reason,
                             call.config)


class CostStepper(Stepper):
    """Steps a kernel that cannot be traced for its items only. Arguments without data are zero; an element that may
    depend on them raises NeedsData."""

    given: frozenset[int] = frozenset()       # arguments that have data
    complete = False                          # all have
    why = ""

    def tensor_values(self, t: Tensor) -> None:
        """No data: this run is for the cost."""

    def _load(self, t: Tensor, index: tuple[Any, ...]) -> Any:
        if not self.complete and (t.arg not in self.given or t.arg in self.written):
            raise self.error(NeedsData, f"the kernel cannot be traced ({self.why}), and stepping it reads an "
                             f"element of `{t.name or 'a computed tensor'}`, which depends on data that was not given")
        return super()._load(t, index)


def jit(function: Callable[..., Any] | None = None, **keywords: Any) -> Any:
    """Make a kernel of a function whose tensor parameters are annotated with `pypto.Tensor`.

    Parameters
    ----------
    host_options, codegen_options, pass_options, runtime_options, verify_options, debug_options: dicts of options;
    unknown names are refused. RunMode.NPU and RunMode.SIM both simulate.
    new_ir, create_new_logical_tensor, infer_controlflow_shape, use_cache: accepted, without effect.
    device, profile, numerics, mode, threads, poison: configuration of this kernel; wins over `pypto_sim.config`.

    Raises
    ------
    PyptoKeyError for an unknown keyword or option, PyptoValueError for a signature that kernels cannot have.
    """
    if function is not None and not callable(function):
        raise PyptoTypeError(f"pypto.frontend.jit takes keywords only, got {function!r}")
    known = (*GROUPS, *FLAGS, *KEYS)
    for name in keywords:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2)
            raise option_groups.UnknownOption(
                f"pypto.frontend.jit has no keyword {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else
                                                                 f"; known: {', '.join(known)}"))
    groups = {g: v for g, v in keywords.items() if g in GROUPS}
    flags = {f: v for f, v in keywords.items() if f in FLAGS}
    overrides = checked({k: v for k, v in keywords.items() if k in KEYS})
    if function is not None:
        return Kernel(function, groups, flags, overrides)
    return lambda f: Kernel(f, groups, flags, overrides)


jit.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [inspect.Parameter("function", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None,
                       annotation="Callable[..., Any] | None"),
     *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=FLAGS.get(name), annotation="Any")
       for name in (*GROUPS, *FLAGS, *KEYS))], return_annotation="Any")
