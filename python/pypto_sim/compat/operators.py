"""Custom operators registered for the NPU run on the stand-in's tensors."""
from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch

from ..errors import PyptoWarning
from .device import NpuDevice, npu_device
from .patches import Patches
from .tensor import NpuTensor

NPU_KEYS = {"privateuse1": "CPU", "npu": "CPU", "autogradprivateuse1": "AutogradCPU", "autogradnpu": "AutogradCPU",
            "autocastprivateuse1": "AutocastCPU", "autocastnpu": "AutocastCPU"}
_called = threading.local()     # .device: the NPU's device among the arguments of the operator call at hand


def patch(patches: Patches) -> None:
    """Teach torch.library the NPU's keys and device type."""
    library = torch.library
    kernels: dict[tuple[str, str], dict[str, Any]] = {}
    general: dict[str, Callable[..., Any]] = {}             # for any device
    real_init, real_impl = library.Library.__init__, library.Library.impl

    def init(self: Any, ns: str, kind: str, dispatch_key: str = "") -> None:
        self._pypto_npu = dispatch_key.lower() in NPU_KEYS and not _by_torch()
        real_init(self, ns, kind, NPU_KEYS[dispatch_key.lower()] if self._pypto_npu else dispatch_key)

    def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        if _by_torch():
            return real_impl(self, op_name, fn, dispatch_key, **options)
        for_npu = dispatch_key.lower() in NPU_KEYS or (not dispatch_key and getattr(self, "_pypto_npu", False))
        key = NPU_KEYS.get(dispatch_key.lower(), dispatch_key) or self.dispatch_key
        if not callable(fn) or fn is library.fallthrough_kernel:
            return real_impl(self, op_name, fn, key if for_npu else dispatch_key, **options)
        name = op_name if isinstance(op_name, str) else op_name._schema.name
        qualified = f"{self.ns}::{name.split('::')[-1]}"
        if key not in NPU_KEYS.values():
            if key.startswith("Composite") and self.ns != "aten":
                general[qualified], fn = fn, _chooser({"cpu": fn})
            return real_impl(self, op_name, fn, dispatch_key, **options)
        if self.ns == "aten":
            if for_npu:
                warnings.warn(PyptoWarning(f"operator aten::{op_name}: an implementation for the NPU is ignored, "
                                           "torch's own for the CPU runs", rule="compat.aten_override"), stacklevel=2)
                return None
            return real_impl(self, op_name, fn, dispatch_key, **options)
        place = (qualified, key)
        known = kernels.get(place)
        if known is not None and known["library"].m is not None:
            known["npu" if for_npu else "cpu"] = fn
            return None
        known = kernels[place] = {"library": self, "npu" if for_npu else "cpu": fn}
        if key == "CPU" and not for_npu and qualified in general:
            known["npu"] = general[qualified]               # what NPU tensors would get without a kernel of their own
        return real_impl(self, op_name, _chooser(known), key, **options)

    patches.set(library.Library, "__init__", functools.wraps(real_init)(init))
    patches.set(library.Library, "impl", functools.wraps(real_impl)(impl))
    real_key = library._device_type_to_key
    patches.set(library, "_device_type_to_key",
                lambda device_type: "PrivateUse1" if _is_npu(device_type) else real_key(device_type))
    from torch._library import custom_ops
    patches.set(custom_ops, "_C", _Core())
    patches.set(custom_ops.CustomOpDef, "_register_backend_select_dispatcher", _select_backend)
    for kind in (torch._ops.OpOverload, torch._ops.OpOverloadPacket):
        patches.set(kind, "__call__", _keeping_device(kind.__call__))


def _keeping_device(real: Any) -> Any:
    """A call of an operator that remembers an NPU device among its arguments, which C++ turns into the CPU's."""
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        for a in (*args, *kwargs.values()):
            if isinstance(a, str) and (isinstance(a, NpuDevice) or npu_device(a)) and _takes_device(self):
                break
        else:
            return real(self, *args, **kwargs)
        before, _called.device = getattr(_called, "device", None), npu_device(a)
        try:
            return real(self, *(npu_device(v) or v if isinstance(v, str) else v for v in args),
                        **{k: npu_device(v) or v if isinstance(v, str) else v for k, v in kwargs.items()})
        finally:
            _called.device = before
    return functools.wraps(real)(call)


def _takes_device(operator: Any) -> bool:
    """Whether a form of an operator has an argument that is a device."""
    forms = [operator] if hasattr(operator, "_schema") else [getattr(operator, n) for n in operator.overloads()]
    return any("Device" in str(a.real_type) for form in forms for a in form._schema.arguments)


def _select_backend(self: Any, device_arg_index: int) -> None:
    """Choice of the kernel of an operator without tensor arguments: NPU and CPU both are the key CPU here."""
    def backend_select(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        kind = args[device_arg_index].type
        if kind not in self._backend_fns and (kind != "cpu" or "npu" not in self._backend_fns):
            raise RuntimeError(f"{self._name} does not have a kernel registered for {kind}. Please use "
                               "register_kernel to do so.")
        key = getattr(torch._C.DispatchKey, torch._C._dispatch_key_for_device(kind))
        return self._opoverload.redispatch(torch._C.DispatchKeySet(key), *args, **kwargs)
    self._lib.impl(self._name, backend_select, "BackendSelect", with_keyset=True)


def _by_torch() -> bool:
    """Whether torch registers one of its own operators."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("torch.library", "torch._library",
                                                                               "functools")):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith("torch.")


def _is_npu(device_type: Any) -> bool:
    return str(device_type).lower() == "npu"


class _Core:
    """torch._C with a dispatch key for the NPU."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch._C, name)

    @staticmethod
    def _dispatch_key_for_device(device_type: str) -> str:
        return "PrivateUse1" if _is_npu(device_type) else torch._C._dispatch_key_for_device(device_type)


def _chooser(kernels: dict[str, Any]) -> Callable[..., Any]:
    """The kernel for the CPU key: the NPU's when a tensor is on it, or when there is no other."""
    def run(*args: Any, **kwargs: Any) -> Any:
        npu, cpu, device = kernels.get("npu"), kernels.get("cpu"), getattr(_called, "device", None)
        if device is not None:
            args = tuple(device if isinstance(a, torch._C.device) else a for a in args)
            kwargs = {k: device if isinstance(a, torch._C.device) else a for k, a in kwargs.items()}
        here = device is not None or _on_npu((*args, *kwargs.values()))
        chosen: Any = npu if npu is not None and (cpu is None or here) else cpu
        _called.device = None                              # operators that the kernel calls have devices of their own
        try:
            with torch._C._EnableTorchFunction():          # the script's code sees NPU tensors
                return chosen(*args, **kwargs)
        finally:
            _called.device = device
    return run


def _on_npu(values: Any) -> bool:
    return any(isinstance(v, NpuTensor) or isinstance(v, (list, tuple)) and _on_npu(v) for v in values)
