"""Tensors and operations outside jit: `from_torch`, and `with pypto.function(name, *tensors)`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..config import active
from ..dtypes import DataType
from ..enums import TileOpFormat
from ..errors import DTypeError, PyptoRuntimeError, PyptoTypeError
from ..trace.context import Running, holder, running
from ..trace.lower import Builder
from ..trace.scalar import constant
from ..trace.session import warn
from ..trace.stepper import Stepper
from ..trace.tensor import Tensor
from .arrays import Argument, is_array, memory_of, torch_format
from .launch import POISON, apply_settings, clamps


def from_torch(tensor: Any, name: str = "", *, dynamic_axis: Sequence[int] | None = None,
               tensor_format: TileOpFormat | None = None, dtype: DataType | None = None) -> Tensor:
    """A pypto tensor that shares the memory of a torch tensor or numpy array; 0-D becomes [1].

    dynamic_axis: axes that are SymbolicScalars inside kernels. Raises PyptoTypeError for anything but an array,
    PyptoRuntimeError for non-contiguous memory, DTypeError for another element type than `dtype`.
    """
    if not is_array(tensor) or isinstance(tensor, Tensor):
        raise PyptoTypeError(f"pypto.from_torch takes a torch tensor or a numpy array, got {type(tensor).__name__}")
    array, found = memory_of(name or "tensor", tensor)
    if dtype is not None and dtype is not found:
        raise DTypeError(f"pypto.from_torch: the tensor is {found.name}, dtype says {dtype.name}")
    t = Tensor(list(array.shape), found, name, tensor_format or torch_format(tensor))
    t.data = array
    t.declared = tuple(-1 if n in tuple(dynamic_axis or ()) else size for n, size in enumerate(array.shape))
    return t


class function:
    """Run operations at once on given tensors, outside jit: `with pypto.function("name", a, b): ...`.

    tensors: pypto tensors with data (`from_torch`). Functions do not nest: PyptoRuntimeError.
    """

    def __init__(self, name: str, *tensors: Tensor) -> None:
        if not isinstance(name, str):
            raise PyptoTypeError(f"pypto.function takes a name first, got {name!r}")
        for t in tensors:
            if not isinstance(t, Tensor) or t.data is None:
                raise PyptoTypeError("pypto.function takes tensors with data: pypto.from_torch(array)")
        self.name, self.tensors = name, tensors

    def __enter__(self) -> function:
        if running() is not None:
            raise PyptoRuntimeError("function nested is not allowed")
        config = active()
        apply_settings(config)
        arguments = [Argument(t.name, t.data.shape, t.dtype, t.data) for t in self.tensors]
        builder = Builder(config.numerics, [(a.shape, a.dtype.code, a.name) for a in arguments])
        self.stepper = Stepper(builder, [a.bytes_view for a in arguments], POISON[config.poison],
                               clamps(config), config, self.name, holder().scope)
        self.stepper.read_only = frozenset(n for n, a in enumerate(arguments) if not a.writable)
        for number, (t, a) in enumerate(zip(self.tensors, arguments, strict=True)):
            axes = tuple(constant(n) if d == -1 else n for n, d in zip(a.shape, t.declared, strict=True))
            t.static_shape, t.valid, t.arg, t.axes = a.shape, a.shape, number, axes
            t.home, t.key = self.stepper, builder.args[number]
        self.entered = Running(self.stepper)
        self.entered.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.entered.__exit__(*exc)
        for t in self.tensors:
            t.home, t.key, t.arg = None, None, -1
        for f in self.stepper.findings.values():
            if f.severity == "warn":
                warn(f)
