"""What an operation may ask of the running kernel. `Stepper` executes each item at once, `Tracer` records it."""
from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..config import Config
from ..dtypes import DataType
from ..errors import HandleError, InternalError, PyptoError, PyptoValueError, PyptoWarning
from ..rules import RULES, Finding, message
from .context import Running, current, running
from .scalar import INT64_MAX, Key, SymbolicScalar, difference, key, numbers
from .tensor import Tensor
from .tiles import CubeTile, Scope

if TYPE_CHECKING:
    from ..device import Device
    from ..registry import OpSpec

__all__ = ["CubeTile", "Out", "Running", "Scope", "Session", "current", "running", "user_line"]

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
USER_FOLDERS = (os.path.join(PACKAGE, "strategies") + os.sep,)   # written on the public API like a user's code
_inside: dict[types.CodeType, bool] = {}
_files: dict[str, str] = {}                    # "file.py:57" -> full path, for the warnings module


@dataclass(frozen=True, slots=True)
class Out:
    """Result of an operation: static shape, element type, valid extents (None: the whole shape)."""

    shape: tuple[int, ...]
    dtype: DataType
    valid: tuple[int | SymbolicScalar, ...] | None = None


def inside_package(code: types.CodeType) -> bool:
    """True for code of this package that is not written on the public API."""
    known = _inside.get(code)
    if known is None:
        file = code.co_filename
        known = _inside[code] = file.startswith(PACKAGE) and not file.startswith(USER_FOLDERS)
    return known


def user_frame() -> types.FrameType | None:
    """The innermost frame outside the package."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and inside_package(frame.f_code):
        frame = frame.f_back
    return frame


def user_line() -> str:
    """ "file:line" of the innermost frame outside the package, "" when there is none."""
    frame = user_frame()
    if frame is None:
        return ""
    file = frame.f_code.co_filename
    text = f"{os.path.basename(file)}:{frame.f_lineno}"
    _files.setdefault(text, file)
    return text


def where(exc: BaseException) -> str:
    """ "file:line" of the user's innermost frame in the traceback."""
    found = ""
    for frame, number in traceback.walk_tb(exc.__traceback__):
        if not inside_package(frame.f_code):
            found = f"{os.path.basename(frame.f_code.co_filename)}:{number}"
    return found or user_line()


_shown: dict[Any, Any] = {}        # warnings that were given, as the warnings module keeps them: once a line by default


def warn(finding: Finding) -> None:
    """Raise a recorded warning as PyptoWarning at the user's line."""
    _, _, number = finding.line.rpartition(":")
    text = f"{message(finding.text, finding.line, finding.kernel)} [{finding.rule}]"
    warnings.warn_explicit(PyptoWarning(text, rule=finding.rule, line=finding.line, kernel=finding.kernel),
                           PyptoWarning, _files.get(finding.line, finding.line.rpartition(":")[0] or "<kernel>"),
                           int(number) if number.isdigit() else 0, registry=_shown)


class Session:
    """One run of a kernel function. Names and offsets are those of DESIGN: items in program order.

    config: Config; scope: tiles and options in force; symbols: values of named axes; findings: rules that fired, by
    (rule, line).
    """

    def __init__(self, config: Config, kernel: str, scope: Scope, symbols: dict[str, int] | None = None) -> None:
        self.config, self.kernel, self.scope, self.symbols = config, kernel, scope, symbols or {}
        self.findings: dict[tuple[str, str], Finding] = {}
        self.labels: list[str] = []
        self.written: set[int] = set()           # argument numbers
        self.read: set[int] = set()
        self.read_only: frozenset[int] = frozenset()
        self.loops: list[Any] = []               # open loops, outermost first
        self._new_block()

    # --- what operations ask
    @functools.cached_property
    def device(self) -> Device:
        """Device table of the configuration."""
        from ..device import Device
        return Device.load(self.config.device)

    @property
    def vec_tile(self) -> tuple[int, ...] | None:
        """As set by set_vec_tile_shapes in the scope in force."""
        return self.scope.vec_tile

    @property
    def cube_tile(self) -> CubeTile | None:
        """As set by set_cube_tile_shapes in the scope in force."""
        return self.scope.cube_tile

    @property
    def options(self) -> dict[str, Any]:
        """Pass options in force."""
        return dict(self.scope.groups.get("pass", {}))

    @property
    def operation_options(self) -> Mapping[str, Any]:
        """Operation options in force, such as combine_axis."""
        return self.scope.groups.get("operation", {})

    def line(self) -> str:
        """ "file:line" of the innermost frame outside the package."""
        return user_line()

    def rule(self, rule_id: str, text: str, *, line: str | None = None, **attributes: Any) -> None:
        """Say that a rule is violated: nothing, a note, a PyptoWarning once per line, or the rule's exception.

        attributes: further keyword arguments of the rule's exception class.
        """
        rule = RULES.get(rule_id)
        if rule is None:
            raise InternalError(f"no rule has the id {rule_id!r}")
        severity = rule.severity[self.config.profile]
        if severity == "off":
            return
        where = self.line() if line is None else line
        if severity == "error":
            raise rule.error(message(text, where, self.kernel), rule=rule_id, line=where, kernel=self.kernel,
                             **attributes)
        self.findings.setdefault((rule_id, where), Finding(rule_id, severity, text, where, self.kernel))

    def error(self, kind: type[PyptoError], text: str, *, rule: str = "") -> PyptoError:
        """Exception of class `kind` that also says where: "text   (file.py:57, in kernel `qk`)"."""
        line = self.line()
        return kind(message(text, line, self.kernel), rule=rule, line=line, kernel=self.kernel)

    def locate(self, exc: BaseException) -> None:
        """Say where in an error of this package that was raised without: below, nobody knows the line."""
        if isinstance(exc, PyptoError) and not exc.line:
            exc.line, exc.kernel = where(exc), self.kernel
            exc.args = (message(str(exc), exc.line, exc.kernel), *exc.args[1:])

    @contextlib.contextmanager
    def label(self, text: str) -> Iterator[None]:
        """Semantic label of the items emitted inside: the name of a composite."""
        self.labels.append(text)
        try:
            yield
        finally:
            self.labels.pop()

    # --- items
    def emit(self, spec: OpSpec, outs: Sequence[Out], ins: Sequence[Tensor], *, ints: Sequence[int] = (),
             floats: Sequence[float] = (), scalars: Sequence[int | SymbolicScalar] = (),
             vec_tile: Sequence[int] | None = None, reads: bool = True) -> tuple[Tensor, ...]:
        """One operation of the core (docs/core_operations.md). Returns one handle per `outs`.

        `vec_tile` overrides the tile of the scope; reads: False when the operands' data is not looked at. Raises
        HandleError for a tensor of another launch.
        """
        for t in ins:
            self.use(t, reads)
        self.check_scalars(scalars)
        results = tuple(self._handle(o.shape, o.dtype, o.valid) for o in outs)
        for r in results:
            r.depth = len(self.loops)
        tile = self.scope.vec_tile if vec_tile is None else tuple(int(v) for v in vec_tile)
        self._op(spec, results, ins, tuple(int(v) for v in ints), tuple(float(v) for v in floats),
                 tuple(map(key, scalars)), tile)
        return results

    def declare(self, shape: Sequence[int], dtype: DataType, name: str = "", into: Tensor | None = None) -> Tensor:
        """An unwritten local tensor; `into` is an object to turn into its handle."""
        t = self._handle(tuple(int(n) for n in shape), dtype, None, into, name)
        t.depth = len(self.loops)
        self._declare(t)
        return t

    def set(self, dst: Tensor, src: Tensor) -> None:
        """`dst[:] = src` on a local: its next version, with the shape and element type of `src`."""
        src = src.pending() if src.pending else src
        self.use(src)
        self.use(dst, reads=False)
        if dst.is_arg:
            raise InternalError("arguments are written by assemble")
        if any(loop.parallel for loop in self.loops[dst.depth:]):
            self.rule("loop.parallel_race", f"`{dst.name or 'a tensor'}` is made outside the parallel loop and "
                      "assigned in it: all iterations share it, in no defined order. Make it inside the loop")
        if dst.alias >= 0:
            self.rule("output.unwritten", f"`{dst.name}` reshaped in place gets a new value here, which writes nothing "
                      "to the argument: use pypto.assemble(x, offsets, reshaped)")
            dst.alias = -1
        self._set(dst, src)

    def assemble(self, dst: Tensor, src: Tensor, offsets: Sequence[int | SymbolicScalar], *,
                 in_place: bool = False) -> None:
        """Write the valid box of `src` into `dst` at `offsets`.

        in_place: a documented in-place operation, for which reading and writing one argument, or writing one place
        twice, is no violation.
        """
        self.use(src)
        self.use(dst, reads=False)
        self.check_scalars(offsets)
        keys = tuple(map(key, offsets))
        if not in_place:
            self._check_overlap(dst, src, keys)
        if dst.memory >= 0:
            self._wrote(dst, in_place)
        self._assemble(dst, src, keys, in_place)

    def load(self, t: Tensor, index: Sequence[int | SymbolicScalar]) -> SymbolicScalar:
        """Element of an integer tensor, as an ordered item."""
        t = t.pending() if t.pending else t
        self.use(t)
        self.check_scalars(index)
        return self._load(t, tuple(map(key, index)))

    def store(self, t: Tensor, value: int | SymbolicScalar, index: Sequence[int | SymbolicScalar]) -> None:
        """Write one element of an INT32 tensor."""
        self.use(t, reads=False)
        self.check_scalars((value, *index))
        if t.memory >= 0:
            self._wrote(t)
        self._store(t, key(value), tuple(map(key, index)))

    # --- checks shared by both modes
    def use(self, t: Tensor, reads: bool = True) -> None:
        """Check that `t` belongs to this launch and note that it is read."""
        if not isinstance(t, Tensor) or t.home is None:
            raise self.error(HandleError, f"expected a tensor of this kernel, got {type(t).__name__}: {t!r:.80}")
        self.check_home(t)
        number = t.memory
        if reads and number >= 0:
            self.read.add(number)
            if number in self._block_writes:
                self._read_write(t)
            self._block_reads.add(number)

    def _wrote(self, t: Tensor, in_place: bool = False) -> None:
        number = t.memory
        if number in self.read_only:
            raise self.error(PyptoValueError, f"argument `{t.name}` is written, but its memory is read-only",
                             rule="arg.read_only")
        self.written.add(number)
        if in_place:
            return
        if number in self._block_reads:
            self._read_write(t)
        self._block_writes.add(number)

    def _read_write(self, t: Tensor) -> None:
        self.rule("arg.read_write", f"argument `{t.name}` is both read and written in one block: PyPTO refuses it "
                  "(F21005); the read sees the value at the time of the view. Write to a second tensor, or split the "
                  "work into two loops")

    def _check_overlap(self, dst: Tensor, src: Tensor, offsets: tuple[Key, ...]) -> None:
        extents = tuple(v if isinstance(v, int) else 0 for v in map(key, src.valid))
        if not all(extents):
            return                              # empty, or not known while tracing
        seen = self._block_boxes.setdefault(dst.key, [])
        for at, size in seen:
            gaps = [difference(a, b) for a, b in zip(at, offsets, strict=False)]
            if all(g is not None and -n < g < m for g, n, m in zip(gaps, size, extents, strict=False)):
                self.rule("assemble.overlap", f"`{dst.name or 'tensor'}` is written twice at the same place in one "
                          "block: the real order is not defined; here the later write wins")
                return
        if len(seen) < 64:
            seen.append((offsets, extents))

    def _new_block(self) -> None:
        self._block_reads: set[int] = set()
        self._block_writes: set[int] = set()
        self._block_boxes: dict[Any, list[tuple[tuple[Key, ...], tuple[int, ...]]]] = {}

    def _label_text(self) -> str:
        return "/".join([self.scope.label, *self.labels] if self.scope.label else self.labels)

    @contextlib.contextmanager
    def scoped(self) -> Iterator[None]:
        """Tiles, options and label set inside are restored afterwards."""
        saved = self.scope
        try:
            yield
        finally:
            self.scope = saved

    def set_scope(self, **changes: Any) -> None:
        """Replace fields of the scope in force."""
        self.scope = replace(self.scope, **changes)

    @property
    def bodies(self) -> Sequence[Any]:
        """The bodies that are open, outermost first: what was made in one of them may be used now."""
        return (self,)

    # --- by mode
    def check_home(self, t: Tensor) -> None:
        """Raise HandleError when `t` is a handle of another launch."""
        raise NotImplementedError

    def check_scalars(self, scalars: Sequence[int | SymbolicScalar]) -> None:
        """Check that scalars fit 64 bits, belong to this launch and have a value where they are used."""
        for s in scalars:
            for n in numbers(key(s)):
                if not -INT64_MAX <= n <= INT64_MAX:
                    raise self.error(PyptoValueError, f"scalar {n} does not fit 64 bits", rule="scalar.overflow")
        self.check_owners(scalars)

    def check_owners(self, scalars: Sequence[int | SymbolicScalar]) -> None:
        """Check that scalars belong to this launch and have a value where they are used."""
        raise NotImplementedError

    def decide(self, s: SymbolicScalar) -> bool:
        """Truth of a scalar whose value is not known while tracing."""
        raise NotImplementedError

    def never_negative(self, s: SymbolicScalar) -> bool:
        """True when a scalar that is not known while tracing is known to be >= 0."""
        return False

    def need_value(self, s: SymbolicScalar, reason: str) -> int:
        """Value of a scalar that is not known while tracing."""
        raise NotImplementedError

    def show_scalar(self, s: SymbolicScalar) -> str:
        """Text of a scalar that is not known while tracing."""
        raise NotImplementedError

    def show_tensor(self, t: Tensor) -> str:
        """Text of a tensor with its values."""
        raise NotImplementedError

    def tensor_values(self, t: Tensor) -> Any:
        """A copy of a tensor's data as a numpy array; None in a run without data."""
        raise NotImplementedError

    def release(self, t: Tensor) -> None:
        """The Python handle is gone."""

    def enter_parallel(self, loop: Any) -> None:
        """A parallel loop runs with concrete indices; `next_iteration` precedes each."""

    def next_iteration(self, index: int) -> None:
        """The next iteration of the innermost parallel loop."""

    def leave_parallel(self) -> None:
        """The parallel loop has ended."""

    def _handle(self, shape, dtype, valid, into=None, name="") -> Tensor:
        raise NotImplementedError

    def _op(self, spec, outs, ins, ints, floats, scalars, tile) -> None:
        raise NotImplementedError

    def _declare(self, t: Tensor) -> None:
        raise NotImplementedError

    def _set(self, dst: Tensor, src: Tensor) -> None:
        raise NotImplementedError

    def _assemble(self, dst: Tensor, src: Tensor, offsets: tuple[Key, ...], in_place: bool) -> None:
        raise NotImplementedError

    def _load(self, t: Tensor, index: tuple[Key, ...]) -> SymbolicScalar:
        raise NotImplementedError

    def _store(self, t: Tensor, value: Key, index: tuple[Key, ...]) -> None:
        raise NotImplementedError
