"""Stepping: the reference. Every item is appended to a Program and executed at once."""
from __future__ import annotations

import ast
import contextlib
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..errors import HandleError, PyptoValueError
from ..registry import OpSpec
from .faults import raise_core_error
from .loops import Loop, concrete
from .lower import LOAD, Builder
from .scalar import SymbolicScalar, constant, key, known, resolved, text_of
from .session import Session
from .source import Site
from .tensor import Tensor

NO_NAMES: dict[str, int] = {}


class Stepper(Session):
    """Runs the kernel function with concrete indices. Tensor keys are the core's tensor ids.

    builder: its Program holds the arguments; memory: one uint8 view per argument; poison: 0 off, 1 check, 2 trace;
    clamp_elements: elements past the end of a table are clamped.
    """

    def __init__(self, builder: Builder, memory: Sequence[Any], poison: int, clamp_elements: bool,
                 *session: Any) -> None:
        super().__init__(*session)
        self.builder, self.program = builder, builder.program
        self.machine = _core.Machine(self.program, memory, poison, clamp_elements)
        self.dead: BaseException | None = None
        self.runs: dict[Site, int] = {}
        self.seen: dict[Site, Loop] = {}

    def _step(self) -> None:
        try:
            self.machine.step()
        except _core.CoreError as e:
            try:
                raise_core_error(e, self.kernel)
            except Exception as mapped:
                self.dead = mapped              # a swallowed fault must not let the kernel go on
                raise

    def alive(self) -> None:
        """Raise again the fault that the kernel has swallowed."""
        if self.dead:
            raise self.dead

    def check_home(self, t: Tensor) -> None:
        self.alive()
        if t.home is not self:
            raise self.error(HandleError, f"tensor `{t.name or t.id}` was made in another launch of a kernel",
                             rule="handle.escaped")

    def check_owners(self, scalars: Sequence[int | SymbolicScalar]) -> None:
        for s in scalars:
            if not known(s):
                raise self._free(s)

    def _free(self, s: SymbolicScalar) -> Exception:
        if resolved(s).deps:
            return self.error(HandleError, "a scalar was made in another launch of a kernel", rule="handle.escaped")
        return self.error(PyptoValueError, f"Not concrete value: {text_of(key(s))}")

    def decide(self, s: SymbolicScalar) -> bool:
        raise self._free(s)

    def need_value(self, s: SymbolicScalar, reason: str) -> int:
        raise self._free(s)

    def show_scalar(self, s: SymbolicScalar) -> str:
        return text_of(key(s))

    def show_tensor(self, t: Tensor) -> str:
        if t.home is not self:
            return f"Tensor({list(t.static_shape)}, {t.dtype.name}, {t.name!r})"
        edge, precision, threshold, width = self.scope.print_options
        return np.array2string(self.values(t), edgeitems=edge, precision=precision, threshold=threshold,
                               max_line_width=width)

    def tensor_values(self, t: Tensor) -> np.ndarray | None:
        self.use(t)
        return self.values(t.pending() if t.pending else t)

    def values(self, t: Tensor) -> np.ndarray:
        """A copy of the tensor's data; poison outside its valid box."""
        return np.frombuffer(self.machine.read(t.key), t.dtype.np_dtype).reshape(t.static_shape)

    def release(self, t: Tensor) -> None:
        self.machine.free(t.key)

    def watched(self) -> contextlib.AbstractContextManager[Any]:
        """Entered around the kernel function: for steppers that look at its variables."""
        return contextlib.nullcontext()

    def enter_parallel(self, loop: Loop) -> None:
        self.machine.enter_parallel(self.builder.line(loop.line))

    def next_iteration(self, index: int) -> None:
        self.machine.next_iteration(index)

    def leave_parallel(self) -> None:
        self.machine.leave_parallel()

    # --- items
    def _handle(self, shape, dtype, valid, into=None, name="") -> Tensor:
        return Tensor.handle(shape, dtype, valid, self, self.builder.tensor(shape, dtype.code, name), name, into)

    def _op(self, spec: OpSpec, outs, ins, ints, floats, scalars, tile) -> None:
        b, cube = self.builder, self.scope.cube_tile
        tile_id = b.tile((tile or (), cube.flat if cube else (), bool(cube and cube.split_k)))
        for t in outs:
            if t.valid is not t.static_shape:         # so that it costs what a replayed launch does
                self.program.extents(t.key, b.exprs([key(n) for n in t.valid], NO_NAMES))
        self.program.op(spec.row, [t.key for t in outs], [t.key for t in ins], ints, floats, b.exprs(scalars, NO_NAMES),
                        tile_id, b.options(self.scope.options_text()), b.label(self._label_text()), b.line(self.line()))
        self._step()

    def _declare(self, t: Tensor) -> None:
        self.program.decl(t.key, self.builder.line(self.line()))
        self._step()

    def _set(self, dst: Tensor, src: Tensor) -> None:
        if (dst.static_shape, dst.dtype) != (src.static_shape, src.dtype):
            self.machine.free(dst.key)
            dst.key = self.builder.tensor(src.static_shape, src.dtype.code, dst.name)
            dst.static_shape, dst.dtype = src.static_shape, src.dtype
        dst.valid = src.valid
        self.program.set(dst.key, src.key, self.builder.line(self.line()))
        self._step()

    def _assemble(self, dst: Tensor, src: Tensor, offsets, in_place) -> None:
        b = self.builder
        self.program.assemble(dst.key, src.key, b.exprs(offsets, NO_NAMES), b.line(self.line()), in_place)
        self._step()
        if not dst.is_arg:
            dst.valid = dst.static_shape

    def _load(self, t: Tensor, index) -> SymbolicScalar:
        slot, _ = self.program.scalar(LOAD)
        self.program.load(slot, t.key, self.builder.exprs(index, NO_NAMES), self.builder.line(self.line()))
        self._step()
        return constant(self.machine.scalar(slot))

    def _store(self, t: Tensor, value, index) -> None:
        b = self.builder
        self.program.store(t.key, b.expr(value, NO_NAMES), b.exprs(index, NO_NAMES), b.line(self.line()))
        self._step()

    def block(self) -> None:
        """A new block begins."""
        self.alive()
        self.program.block()
        self._step()
        self._new_block()

    # --- loops
    def count_run(self, loop: Loop) -> None:
        """Count a run of the body."""
        self.runs[loop.site] = self.runs.get(loop.site, 0) + 1

    def run_loop(self, loop: Loop, node: ast.For | None, frame: types.FrameType) -> Iterator[SymbolicScalar]:
        """Concrete indices."""
        self.alive()
        self.check_scalars(loop[1:4])
        self.seen.setdefault(loop.site, loop)
        return concrete(self, loop)
