"""Memory formats of NPU tensors: remembered per tensor, the memory itself stays row-major."""
from __future__ import annotations

import enum
import warnings
from typing import Any

import torch

from ..errors import PyptoWarning
from .device import current_index
from .tensor import NpuTensor, _disabled, on_npu


class Format(enum.IntEnum):
    """Format numbers of the Ascend runtime."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33


def get_npu_format(tensor: torch.Tensor) -> Format:
    """Format of a tensor; ND for one on the CPU, with a warning, since the device refuses those."""
    return Format(_checked(tensor, "get_npu_format").npu_format)


def npu_format_cast(tensor: torch.Tensor, acl_format: Any, customize_dtype: Any = None) -> NpuTensor:
    """A copy of the tensor that has this format; the tensor itself when it has it already."""
    wanted = _format_of(acl_format)
    source = _checked(tensor, "npu_format_cast")
    if source.npu_format == wanted:
        return source
    with _disabled():
        copied = source.clone()
    made = on_npu(copied, source.npu_index)
    made.npu_format = int(wanted)
    return made


def npu_format_cast_(tensor: torch.Tensor, acl_format: Any) -> NpuTensor:
    """Give the tensor itself this format: a number, or a tensor that has it."""
    source = _checked(tensor, "npu_format_cast_")
    source.npu_format = int(_format_of(acl_format))
    return source


def empty_with_format(size: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
                      acl_format: Any = Format.ND) -> NpuTensor:
    """torch.empty on the NPU with a format."""
    from .device import placed
    from .factories import as_npu
    with _disabled():
        made = torch.empty(size, dtype=dtype)
    return npu_format_cast_(on_npu(made, placed(as_npu(device))), acl_format)


def _format_of(value: Any) -> Format:
    if isinstance(value, torch.Tensor):
        return get_npu_format(value)
    try:
        return Format(int(value))
    except (TypeError, ValueError):
        known = ", ".join(f"{f.value} {f.name}" for f in Format)
        raise RuntimeError(f"unknown npu format {value!r}; known: {known}") from None


def _checked(tensor: Any, who: str) -> NpuTensor:
    if isinstance(tensor, NpuTensor):
        return tensor
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"torch_npu.{who}: expected a tensor, got {type(tensor).__name__}")
    warnings.warn(PyptoWarning(f"torch_npu.{who}: the tensor is on {tensor.device}, the device refuses it; move it "
                               "with .npu()", rule="compat.cpu_tensor"), stacklevel=3)
    return on_npu(tensor, current_index())
