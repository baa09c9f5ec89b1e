"""Golden data and the handles of kernels that ran."""
from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import PyptoRuntimeError, PyptoTypeError
from ..ops.options import get_verify_options, options
from ..trace.context import running
from .arrays import memory_of
from .outside import from_torch, function

_local = threading.local()


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel that ran or is running."""

    name: str
    run: Any = field(default=None, repr=False)        # its LastRun, None while it runs

    @property
    def program(self) -> Any:
        """The core Program, None while it runs."""
        return None if self.run is None else self.run.program

    def dump(self) -> str:
        """Listing of the Program, "" without one."""
        return "" if self.program is None else str(self.program)


def ran(name: str, run: Any) -> None:
    """Note the kernel that this thread has run last, and its LastRun."""
    _local.last = Function(name, run)


def get_last_function() -> Function | None:
    """The kernel that this thread has run last, None before the first."""
    return getattr(_local, "last", None)


def get_current_function() -> Function | None:
    """The kernel that is running in this thread, None outside."""
    session = running()
    return None if session is None else Function(session.kernel)


def set_verify_golden_data(in_out_tensors: Sequence[Any] | None = None, goldens: Sequence[Any] | None = None) -> None:
    """Expected contents of arguments of the launches that follow in this thread; without arguments, none.

    A launch whose verify_options have enable_pass_verify compares `in_out_tensors` (the arrays that are passed to the
    kernel; None: its tensor arguments in order) with `goldens` afterwards, entries None are left out, and raises
    PyptoRuntimeError where they differ by more than pass_verify_error_tol ([rtol, atol], default 1e-3 each).
    """
    expected = list(goldens or ())
    tensors = None if in_out_tensors is None else list(in_out_tensors)
    if tensors is not None and len(tensors) != len(expected):
        raise PyptoTypeError(f"pypto.set_verify_golden_data: {len(tensors)} tensors and {len(expected)} goldens; their "
                             "number must be equal")
    _local.golden = (tensors, expected)


def compare_golden(kernel: str, arguments: Sequence[Any], tolerances: Sequence[float]) -> None:
    """Compare the golden data of this thread with its tensors, else with the launch's `arguments`.

    Raises PyptoRuntimeError naming the worst element, or the numbers of arguments and goldens when they differ.
    """
    tensors, expected = getattr(_local, "golden", (None, ()))
    if tensors is None and expected and len(arguments) != len(expected):
        raise PyptoRuntimeError(f"kernel `{kernel}` has {len(arguments)} tensor arguments, "
                                f"pypto.set_verify_golden_data got {len(expected)} goldens; give one for each, None "
                                "for those not compared")
    for i, (tensor, golden) in enumerate(zip(arguments if tensors is None else tensors, expected, strict=False)):
        if golden is not None:
            _compare(kernel, i, tensor, golden, tolerances)


def _compare(kernel: str, number: int, tensor: Any, golden: Any, tolerances: Sequence[float]) -> None:
    got, want = (np.asarray(memory_of(name, x)[0], np.float64) for name, x in (("result", tensor), ("golden", golden)))
    if got.shape != want.shape:
        raise PyptoRuntimeError(f"kernel `{kernel}`, golden {number}: shape {list(got.shape)}, expected "
                                f"{list(want.shape)}")
    rtol, atol = tolerances
    with np.errstate(invalid="ignore"):
        excess = np.abs(got - want) - (atol + rtol * np.abs(want))
    excess = np.where((got == want) | (np.isnan(got) & np.isnan(want)), -np.inf, excess)
    excess = np.where(np.isnan(excess), np.inf, excess)
    if got.size and (excess > 0).any():
        at = np.unravel_index(np.argmax(excess), got.shape)
        raise PyptoRuntimeError(f"kernel `{kernel}`, golden {number}: {int((excess > 0).sum())} of {got.size} elements "
                                f"differ (rtol {rtol}, atol {atol}), worst at {[int(i) for i in at]}: {got[at]}, "
                                f"expected {want[at]}")


def verify(func: Any, inputs: Sequence[Any], outputs: Sequence[Any], goldens: Sequence[Any], *args: Any,
           codegen_options: dict[str, Any] | None = None, host_options: dict[str, Any] | None = None,
           pass_options: dict[str, Any] | None = None, verify_options: dict[str, Any] | None = None,
           **kwargs: Any) -> None:
    """Run `func(*inputs, *outputs, *args, **kwargs)` and compare the outputs with `goldens`.

    func: a jit kernel, or a plain function of pypto tensors. Raises PyptoRuntimeError where an output differs by more
    than pass_verify_error_tol of `verify_options` ([rtol, atol], default 1e-3 each); goldens None are left out.
    """
    name = getattr(func, "__name__", "verify")
    if len(outputs) != len(goldens):
        raise PyptoTypeError(f"pypto.verify: {len(outputs)} outputs and {len(goldens)} goldens; their number must be "
                             "equal")
    with options(codegen_options=codegen_options, host_options=host_options, pass_options=pass_options,
                 verify_options=verify_options), ExitStack() as stack:
        tolerances = get_verify_options()["pass_verify_error_tol"]
        given = [*inputs, *outputs]
        if not hasattr(func, "with_scope"):            # no jit kernel
            given = [from_torch(x, f"argument{i}") for i, x in enumerate(given)]
            stack.enter_context(function(name, *given))
        func(*given, *args, **kwargs)
    for i, (output, golden) in enumerate(zip(outputs, goldens, strict=True)):
        if golden is not None:
            _compare(name, i, output, golden, tolerances)
