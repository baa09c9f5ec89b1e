"""`torch.device("npu", 0)` of the stand-in."""
from __future__ import annotations

import os
import sys
import threading
import warnings
from typing import Any

from ..errors import PyptoWarning

DEVICE_ID = "TILE_FWK_DEVICE_ID"
ALSO: set[str] = set()                  # further device types that mean the NPU ("cuda" after transfer_to_npu)

_state = threading.local()              # .index: device set by this thread


def current_index() -> int:
    """Device set by torch.npu.set_device in this thread, TILE_FWK_DEVICE_ID before."""
    found = getattr(_state, "index", None)
    return int(os.environ.get(DEVICE_ID, "0")) if found is None else found


def set_index(index: int | None) -> None:
    """Choose the current device of this thread; None: the default again."""
    _state.index = index


class Kind(str):
    """`torch.device("npu").type`: "npu", and equal to "cpu" as well, where the memory is."""

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or other == "cpu" and _is_cpu_too()

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _is_cpu_too() -> bool:
    """True; scripts are warned, since the device would answer False."""
    frame: Any = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame, level = frame.f_back, level + 1
    if frame is not None and not frame.f_globals.get("__name__", "").startswith("torch."):
        warnings.warn(PyptoWarning("an NPU device is compared with the CPU: equal here, where its tensors lie in CPU "
                                   "memory, but not on the device. Code that takes another path for CPU tensors should "
                                   "ask for the type \"npu\" first", rule="compat.cpu_too"), stacklevel=level)
    return True


class NpuDevice(str):
    """A device of type "npu".

    As text it is "cpu", which is where torch's C++ code allocates when it is passed one; what a script can ask
    (`type`, `index`, `str`, `isinstance(d, torch.device)`) says npu. It equals the CPU's device too, with a warning.
    """

    type = Kind("npu")
    index: int | None                   # type: ignore[assignment]  (hides str.index)

    def __new__(cls, index: int | None = None) -> NpuDevice:
        made = str.__new__(cls, "cpu")
        made.index = index
        return made

    def __str__(self) -> str:
        return "npu" if self.index is None else f"npu:{self.index}"

    def __repr__(self) -> str:
        return "device(type='npu')" if self.index is None else f"device(type='npu', index={self.index})"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NpuDevice):
            return self.index == other.index
        return getattr(other, "type", None) == "cpu" and not isinstance(other, str) and _is_cpu_too()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("npu", self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return NpuDevice, (self.index,)

    def __enter__(self) -> NpuDevice:
        from torch.utils._device import DeviceContext
        context = DeviceContext(self)
        self.__dict__.setdefault("entered", []).append(context)
        context.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.__dict__["entered"].pop().__exit__(*exc)


def npu_device(value: Any) -> NpuDevice | None:
    """`value` as a device of the NPU: an NpuDevice, "npu", "npu:1" or an int; None for anything else."""
    if isinstance(value, NpuDevice):
        return value
    if isinstance(value, str):
        kind, colon, index = value.partition(":")
        if (kind == "npu" or kind in ALSO) and (not colon or index.isdigit()):
            return NpuDevice(int(index) if colon else None)
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return NpuDevice(value)
    return None


def placed(device: NpuDevice) -> int:
    """Number of the device where a tensor for `device` goes."""
    return current_index() if device.index is None else device.index


class DeviceType(type):
    """Class of the class that replaces torch.device: calls make devices, real ones are instances too."""

    real: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        kind = args[0] if args else kwargs.get("type", kwargs.get("device"))
        found = npu_device(kind)
        if found is None:
            return cls.real(*args, **kwargs)
        index = args[1] if len(args) > 1 else kwargs.get("index")
        if index is None:
            return found
        if found.index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {found}")
        return NpuDevice(int(index))

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, (cls.real, NpuDevice))

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, (cls.real, NpuDevice))

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.real

    def __hash__(cls) -> int:
        return hash(cls.real)


def device_class(real: Any) -> type:
    """Replacement of torch.device."""
    return DeviceType("device", (), {"real": real, "__module__": "torch", "__doc__": real.__doc__})
