"""`NpuTensor`: a torch tensor in CPU memory that the script has put on the NPU.

Results of operations on one are on the NPU too (torch's subclass protocol), in every thread. Copies between CPU and
NPU copy, as they do on the device: a kernel that updates a tensor in place leaves an earlier `.cpu()` untouched.
Inside torch's own functions `device` is the CPU, so that torch takes its CPU paths.
"""
from __future__ import annotations

import copy
import sys
from typing import Any

import torch
from torch._tensor_str import _str
from torch.overrides import get_default_nowrap_functions

from .device import NpuDevice, npu_device, placed

CPU = torch.device("cpu")
ND = 2                          # npu format numbers: see formats.Format
_real_to = torch.Tensor.to
_nowrap = get_default_nowrap_functions()
_disabled = torch._C.DisableTorchFunctionSubclass


class NpuTensor(torch.Tensor):
    """A tensor on `npu:<npu_index>`; npu_format: what torch_npu.npu_format_cast has set."""

    npu_index = 0
    npu_format = ND

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        with _disabled():
            result = func(*args, **(kwargs or {}))
            return result if func in _nowrap else _wrapped(result, index_among(args))

    @property
    def device(self) -> Any:                   # type: ignore[override]
        """The NPU for scripts, the CPU for torch."""
        return NpuDevice(self.npu_index) if _asked_by_script() else CPU

    @property
    def is_npu(self) -> bool:
        """True."""
        return True

    def get_device(self) -> int:
        """Number of the device."""
        return self.npu_index

    def cpu(self, memory_format: Any = torch.preserve_format) -> torch.Tensor:
        """A copy in CPU memory."""
        return move(self, ("cpu",), {"memory_format": memory_format})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        with _disabled():
            shown = _str(plain(self), tensor_contents=tensor_contents)
        return shown[:-1] + f", device='{NpuDevice(self.npu_index)}')"

    def __format__(self, spec: str) -> str:
        with _disabled():
            return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> NpuTensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                               "protocol at the moment")
        with _disabled():
            copied = on_npu(copy.deepcopy(plain(self.detach()), memo), self.npu_index)
            copied.requires_grad_(self.requires_grad)
            for name, value in self.__dict__.items():
                setattr(copied, name, copy.deepcopy(value, memo))
            if self.grad is not None:
                copied.grad = copy.deepcopy(self.grad, memo)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        with _disabled():                          # files hold plain tensors: they load without the stand-in
            base = plain(self)
            if getattr(self, "_is_param", False):
                base = torch.nn.Parameter(base.detach(), self.requires_grad)
            return base.__reduce_ex__(protocol)


def _asked_by_script() -> bool:
    """Whether the caller's caller is no code of torch; its test helpers are a script's."""
    if not torch._C._is_torch_function_enabled():
        return False
    name = sys._getframe(2).f_globals.get("__name__", "")
    return not name.startswith("torch.") or name.startswith("torch.testing.")


def on_npu(value: torch.Tensor, index: int) -> NpuTensor:
    """The same memory as a tensor of `npu:index`; leaves that want gradients stay leaves."""
    if isinstance(value, NpuTensor) and value.npu_index == index:
        return value
    with _disabled():
        if value.requires_grad and value.is_leaf:
            made = torch.Tensor._make_subclass(NpuTensor, value.detach(), True)
        else:
            made = value.as_subclass(NpuTensor)
    if index:
        made.npu_index = index
    return made


def plain(value: torch.Tensor) -> torch.Tensor:
    """The same memory as an ordinary CPU tensor."""
    if not isinstance(value, NpuTensor):
        return value
    with _disabled():
        if value.requires_grad and value.is_leaf:
            return torch.Tensor._make_subclass(torch.Tensor, value.detach(), True)
        return value.as_subclass(torch.Tensor)


def _wrapped(result: Any, index: int) -> Any:
    if isinstance(result, torch.Tensor):
        return result if isinstance(result, NpuTensor) else on_npu(result, index)
    if isinstance(result, (tuple, list)) and any(isinstance(r, (torch.Tensor, tuple, list)) for r in result):
        return _again(result, [_wrapped(r, index) for r in result])
    return result


def _again(like: Any, items: list[Any]) -> Any:
    """A container of the type of `like`: lists, tuples, torch.return_types and named tuples."""
    if isinstance(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*items)
    return type(like)(items)


def index_among(args: Any) -> int:
    """Device number of the first NPU tensor in `args`."""
    for a in args:
        if isinstance(a, NpuTensor):
            return a.npu_index
        if isinstance(a, (tuple, list)):
            for b in a:
                if isinstance(b, NpuTensor):
                    return b.npu_index
    return 0


def destination(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """(device, args, kwargs) of a call of `.to`: NpuDevice, another device, or None when only the type changes.

    In args and kwargs returned an NPU stands as "cpu".
    """
    first = args[0] if args else kwargs.get("device", kwargs.get("other"))
    if isinstance(first, torch.Tensor):
        device = NpuDevice(first.npu_index) if isinstance(first, NpuTensor) else first.device
        rest = {k: v for k, v in kwargs.items() if k != "other"}
        return device, ("cpu" if isinstance(device, NpuDevice) else device, first.dtype, *args[1:]), rest
    device = npu_device(first)
    if device is None:
        return (None if first is None or isinstance(first, torch.dtype) else first), args, kwargs
    if args:
        return device, ("cpu", *args[1:]), kwargs
    return device, args, {**kwargs, "device": "cpu"}


def move(value: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """`value.to(*args, **kwargs)` with NPU devices."""
    device, args, kwargs = destination(args, kwargs)
    here = isinstance(value, NpuTensor)
    if not here and not isinstance(device, NpuDevice):
        return _real_to(value, *args, **kwargs)
    index = placed(device) if isinstance(device, NpuDevice) else value.npu_index     # type: ignore[attr-defined]
    away = device is not None and not isinstance(device, NpuDevice)
    with _disabled():
        moved = _real_to(value, *args, **kwargs)
        if moved is value:
            if here and not away and index == value.npu_index:                      # type: ignore[attr-defined]
                return value
            moved = value.clone()
    return plain(moved) if away else on_npu(moved, index)

