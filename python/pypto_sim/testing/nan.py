"""Which operation of a kernel produced the first NaN."""
from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import PyptoError, PyptoRuntimeError
from ..run.compiled import core_args, present
from ..run.jit import Kernel
from ..run.launch import Call, apply_settings, enter, stepped
from ..trace.lower import Builder
from ..trace.session import user_frame
from ..trace.tensor import Tensor, named
from .watch import Item, WatchingStepper


@dataclass(frozen=True, slots=True)
class FirstNan:
    """Where a NaN came from. operation, line: the item; indices: open loops; element: its first NaN; operands: (name,
    value there or what holds NaN already); inherited: the operands had NaN before."""

    kernel: str
    operation: str
    line: str
    indices: dict[str, int] = field(hash=False)
    element: tuple[int, ...]
    operands: tuple[tuple[str, str], ...]
    inherited: bool
    note: str = ""

    def __str__(self) -> str:
        at = ", ".join(f"{k}={v}" for k, v in self.indices.items())
        text = (f"first NaN in `{self.kernel}`: {self.operation} at {self.line}" + (f", iteration {at}" if at else "")
                + f", element {list(self.element)}")
        if self.operands:
            text += "; operands there: " + ", ".join(f"{n} = {v}" for n, v in self.operands)
        if self.inherited:
            text += "; the NaN was in what it read: an argument, or memory that was never written"
        return text + (f" ({self.note})" if self.note else "")


class _Found(BaseException):
    """Ends the search."""


class SearchTooLong(PyptoRuntimeError):
    """The search for the first NaN was given up."""


class _Finder(WatchingStepper):
    found: FirstNan | None = None
    until: float | None = None

    def seen_item(self, item: Item) -> None:
        if self.until is not None and time.monotonic() > self.until:
            at = ", ".join(f"{k}={v}" for k, v in self.indices)
            where = f"{item.line}, iteration {at}" if at else item.line
            raise SearchTooLong(f"given up at {where}: no NaN until there; pypto_sim.testing.first_nan(kernel, *args) "
                                "searches to the end")
        for t in item.read if item.operation == "assemble" else item.written:     # the target holds other parts
            if t.pending is not None or not _float_like(t):
                continue
            values = self.array(t)
            wrong = np.isnan(values.astype(np.float32, copy=False))
            if not wrong.any():
                continue
            element = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
            operands = [(_name(o), *self._at(o, element, wrong.shape)) for o in item.read]
            self.found = FirstNan(self.kernel, item.operation, item.line, dict(self.indices), element,
                                  tuple((n, text) for n, text, _ in operands), any(nan for *_, nan in operands))
            raise _Found

    def _at(self, t: Tensor, element: tuple[int, ...], shape: tuple[int, ...]) -> tuple[str, bool]:
        """(value at `element` where the shapes broadcast, whether there is NaN in it)."""
        values = self.array(t)
        has_nan = _float_like(t) and bool(np.isnan(values.astype(np.float32, copy=False)).any())
        try:
            there = np.broadcast_to(values, shape)[element]
        except ValueError:
            return ("has NaN" if has_nan else f"{list(values.shape)} without NaN"), has_nan
        return str(there), has_nan


def _name(t: Tensor) -> str:
    """Its own name, or that of the kernel's variable that holds it."""
    frame = None if t.name else user_frame()
    holders = [n for n, v in frame.f_locals.items() if v is t] if frame is not None else []
    return f"`{holders[0]}`" if holders else named(t)


def _float_like(t: Tensor) -> bool:
    return t.dtype.arithmetic and not np.issubdtype(t.dtype.np_dtype, np.integer) and t.dtype.np_dtype != np.bool_


def first_nan(kernel: Kernel, *args: Any, **kwargs: Any) -> FirstNan | None:
    """Run `kernel` on copies of its arguments and return the first item whose result has a NaN, None without one.

    The kernel is stepped; the caller's arrays stay untouched. NaN outside valid boxes is not looked at.
    """
    if not isinstance(kernel, Kernel):
        raise PyptoError(f"first_nan takes a kernel and its arguments, got {type(kernel).__name__}")
    return search(kernel._bound(args, kwargs))


def search(call: Call, note: str = "", seconds: float | None = None) -> FirstNan | None:
    """first_nan of a call that is bound already. Raises SearchTooLong after `seconds`."""
    apply_settings(call.config)
    builder = Builder(call.config.numerics, core_args(call.arguments))
    copies = [np.array(a.array, copy=True) for a in present(call.arguments)]
    finder: Any = stepped(call, _Finder, [c.reshape(-1).view(np.uint8) for c in copies], builder)
    finder.until = None if seconds is None else time.monotonic() + seconds
    try:
        enter(call, finder, builder)
    except _Found:
        pass
    found = finder.found
    return found if found is None or not note else replace(found, note=note)
