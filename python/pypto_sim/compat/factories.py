"""torch functions and methods that take a device, taught the NPU ones."""
from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from .device import NpuDevice, current_index, npu_device, placed
from .patches import Patches
from .tensor import NpuTensor, _disabled, move, on_npu, plain

SHARING = ("as_tensor", "asarray")                     # may return the caller's memory
NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")
MORE = ("scalar_tensor", "asarray", "empty_quantized", "normal", "tensor")


def patch(patches: Patches) -> None:
    """Replace torch's factories, the moves of tensors and modules, generators, default devices, load and autocast."""
    from torch.jit._builtins import _get_builtin_table
    from torch.utils._device import DeviceContext, _device_constructors
    _device_constructors()                                 # cached with torch's own functions, before they change
    for name in dir(torch):
        found = getattr(torch, name)
        if isinstance(found, types.BuiltinFunctionType) and ("device=" in (found.__doc__ or "") or name in MORE):
            made = (_sharing if name in SHARING else _factory)(found)
            patches.set(torch, name, made)
            patches.set_item(_get_builtin_table(), id(made), f"aten::{name}")       # for torch.jit.script
    for name in ("fftfreq", "rfftfreq"):
        patches.set(torch.fft, name, _factory(getattr(torch.fft, name)))
    for name in NEW:
        patches.set(torch.Tensor, name, _factory(getattr(torch.Tensor, name)))
    _patch_tensor(patches)
    _patch_module(patches)
    real = DeviceContext.__torch_function__

    def in_context(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        implied = func in _device_constructors() and (kwargs or {}).get("device") is None
        result = real(self, func, types, args, kwargs)
        return on_npu(result, placed(self.device)) if implied and isinstance(self.device, NpuDevice) else result
    patches.set(DeviceContext, "__torch_function__", in_context)
    patches.set(torch, "set_default_device", _set_default_device(torch.set_default_device))
    patches.set(torch, "load", _load(torch.load))
    patches.set(torch.amp.autocast, "__init__", _autocast(torch.amp.autocast.__init__))
    patches.set(torch.amp.GradScaler, "__init__", _grad_scaler(torch.amp.GradScaler.__init__))
    patches.set(torch, "Generator", generator_class(torch.Generator))
    if hasattr(torch, "accelerator"):                      # from torch 2.6 on
        _patch_accelerator(patches, torch.accelerator)


def _patch_accelerator(patches: Patches, module: types.ModuleType) -> None:
    for name, value in (("is_available", lambda: True), ("device_count", device_count),
                        ("current_accelerator", lambda check_available=False: NpuDevice(None)),
                        ("current_device_index", current_index), ("synchronize", lambda device=None: None)):
        if hasattr(module, name):
            patches.set(module, name, _for_scripts(value, getattr(module, name)))


def _for_scripts(ours: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    """`ours`, but torch's own modules get torch's answer."""
    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        return (real if caller.partition(".")[0] == "torch" else ours)(*args, **kwargs)
    return call


def device_count() -> int:
    """One device, or as many as make the current number valid."""
    return current_index() + 1


def _factory(real: Callable[..., Any]) -> Callable[..., Any]:
    """`real` with NPU devices for the keyword `device`."""
    @functools.wraps(real)
    def make(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("pin_memory"):
            del kwargs["pin_memory"]                       # CPU memory serves as pinned memory
        device = kwargs.get("device")
        if device is None:
            return real(*args, **kwargs)
        npu = npu_device(device)
        if npu is None:
            return plain(real(*args, **kwargs))
        kwargs["device"] = "cpu"
        with _disabled():
            made = real(*args, **kwargs)
        return on_npu(made, placed(npu))
    return make


def _sharing(real: Callable[..., Any]) -> Callable[..., Any]:
    """`real` (as_tensor, asarray), which copies between CPU and NPU."""
    @functools.wraps(real)
    def make(data: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
        npu = npu_device(device)
        here = isinstance(data, NpuTensor)
        if npu is None and not here:
            return real(data, dtype=dtype, device=device, **kwargs)
        with _disabled():
            made = real(data, dtype=dtype, device=None if npu else device, **kwargs)
            if device is not None and here != (npu is not None):
                made = made.clone()
        if device is None:
            return on_npu(made, data.npu_index)
        return plain(made) if npu is None else on_npu(made, placed(npu))
    return make


def _patch_tensor(patches: Patches) -> None:
    tensor = torch.Tensor

    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return move(self, args, kwargs)

    def npu(self: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        """The tensor on the NPU: itself when it is there, else a copy."""
        extra = {} if memory_format is None else {"memory_format": memory_format}
        return move(self, (as_npu(device),), extra)

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        """A copy that says it is pinned; CPU memory serves as pinned memory."""
        made = plain(self).clone()
        made._pypto_pinned = True               # type: ignore[attr-defined]
        return made

    patches.set(tensor, "to", functools.wraps(tensor.to)(to))
    patches.set(tensor, "npu", npu)
    patches.set(tensor, "is_npu", property(lambda self: False))
    patches.set(tensor, "pin_memory", pin_memory)
    patches.set(tensor, "is_pinned", lambda self, device=None: getattr(self, "_pypto_pinned", False))
    patches.set(tensor, "record_stream", lambda self, stream: None)


def as_npu(device: Any) -> NpuDevice:
    """`device` of a call such as `.npu(device)`. Raises RuntimeError for a device of another type."""
    if device is None:
        return NpuDevice(None)
    found = npu_device(device)
    if found is None:
        raise RuntimeError(f"Invalid device, must be npu device, got {device!r}")
    return found


def _patch_module(patches: Patches) -> None:
    module = torch.nn.Module
    real_to, real_cpu = module.to, module.cpu

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        from .tensor import destination
        device, args, kwargs = destination(args, kwargs)
        if isinstance(device, NpuDevice):
            real_apply = _without_device(args, kwargs)
            if real_apply is not None:
                real_to(self, *real_apply[0], **real_apply[1])
            return _replace(self, device)
        if device is not None and str(device) == "cpu":
            _replace(self, device)
        return real_to(self, *args, **kwargs)

    def npu(self: Any, device: Any = None) -> Any:
        """Move parameters and buffers to the NPU."""
        return _replace(self, as_npu(device))

    def cpu(self: Any) -> Any:
        return real_cpu(_replace(self, torch._C.device("cpu")))

    patches.set(module, "to", functools.wraps(real_to)(to))
    patches.set(module, "npu", npu)
    patches.set(module, "cpu", functools.wraps(real_cpu)(cpu))


def _without_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """What a call of Module.to changes beside the device, None when that is nothing."""
    rest, named = args[1:], {k: v for k, v in kwargs.items() if k not in ("device", "non_blocking")}
    rest = tuple(a for a in rest if isinstance(a, torch.dtype))
    return (rest, named) if rest or named else None


def _replace(module: Any, device: Any) -> Any:
    """Parameters and buffers on `device`, as new objects where they were elsewhere (as between real devices)."""
    def there(t: torch.Tensor) -> bool:
        if not isinstance(device, NpuDevice):
            return not isinstance(t, NpuTensor)
        return isinstance(t, NpuTensor) and t.npu_index == placed(device)
    if all(there(t) for t in [*module.parameters(), *module.buffers()]):
        return module
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        return module._apply(lambda t: move(t, (device,), {}))
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)


def _set_default_device(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def set_default_device(device: Any) -> None:
        found = npu_device(device)
        real(device if found is None else found)
    return set_default_device


def _load(real: Callable[..., Any]) -> Callable[..., Any]:
    """torch.load: an NPU as map_location; files written with real NPU tensors load too."""
    @functools.wraps(real)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        found = npu_device(map_location)
        if found is None:
            return real(f, map_location or (lambda storage, location: storage), *args, **kwargs)
        loaded = real(f, "cpu", *args, **kwargs)
        from torch.utils._pytree import tree_map
        return tree_map(lambda v: on_npu(v, placed(found)) if isinstance(v, torch.Tensor) else v, loaded)
    return load


def _autocast(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def init(self: Any, device_type: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if npu_device(device_type) is not None:
            device_type, dtype = "cpu", torch.float16 if dtype is None else dtype
        real(self, device_type, dtype, *args, **kwargs)
    return init


def _grad_scaler(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def init(self: Any, device: Any = "cuda", *args: Any, **kwargs: Any) -> None:
        real(self, "cpu" if npu_device(device) is not None else device, *args, **kwargs)
    return init


def generator_class(real: Any) -> type:
    """Replacement of torch.Generator: generators for an NPU draw the CPU's numbers and say where they are."""
    class NpuGenerator(real):
        index = 0

        @property
        def device(self) -> NpuDevice:
            return NpuDevice(self.index)

    class GeneratorType(type):
        def __call__(cls, device: Any = "cpu") -> Any:
            found = npu_device(device)
            if found is None:
                return real(device)
            made = NpuGenerator()
            made.index = placed(found)
            return made

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, real)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, real)

    return GeneratorType("Generator", (), {"__module__": "torch", "__doc__": real.__doc__})
