"""Functions of torch_npu that goldens use, from their formulas in torch, and settings without effect."""
from __future__ import annotations

from typing import Any

import torch

from .formats import Format, empty_with_format, get_npu_format, npu_format_cast, npu_format_cast_
from .tensor import NpuTensor

__all__ = ["Format", "empty_with_format", "get_npu_format", "npu_dtype_cast", "npu_dynamic_quant", "npu_format_cast",
           "npu_format_cast_", "npu_prefetch", "npu_rms_norm", "npu_rotary_mul", "npu_scatter_nd_update",
           "npu_scatter_nd_update_", "npu_silu", "npu_swiglu", "npu_fast_gelu"]


def npu_rms_norm(x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> tuple[torch.Tensor, torch.Tensor]:
    """(x / sqrt(mean(x^2) + epsilon) * gamma over gamma's axes, the reciprocal root in fp32)."""
    axes = tuple(range(x.dim() - gamma.dim(), x.dim()))
    wide = x.float()
    rstd = torch.rsqrt(wide.pow(2).mean(axes, keepdim=True) + epsilon)
    return (wide * rstd * gamma.float()).to(x.dtype), rstd


def npu_swiglu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """silu(first half) * second half along `dim`, computed in fp32."""
    a, b = x.float().chunk(2, dim)
    return (torch.nn.functional.silu(a) * b).to(x.dtype)


def npu_rotary_mul(x: torch.Tensor, r1: torch.Tensor, r2: torch.Tensor, rotary_mode: str = "half") -> torch.Tensor:
    """x * cos + rotated(x) * sin; rotary_mode "half" or "interleave"."""
    if rotary_mode == "half":
        a, b = x.chunk(2, -1)
        turned = torch.cat((-b, a), -1)
    elif rotary_mode == "interleave":
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)
    else:
        raise RuntimeError(f"npu_rotary_mul: rotary_mode must be half or interleave, got {rotary_mode!r}")
    return x * r1 + turned * r2


def npu_dynamic_quant(x: torch.Tensor, *, smooth_scales: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """(int8 values, fp32 scale per row): scale = max |row| / 127, values = round(x / scale)."""
    wide = x.float() if smooth_scales is None else x.float() * smooth_scales.float()
    scale = wide.abs().amax(-1) / 127
    values = torch.round(wide / torch.where(scale == 0, 1, scale).unsqueeze(-1))
    return values.clamp(-128, 127).to(torch.int8), scale


def npu_silu(x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(x)."""
    return torch.nn.functional.silu(x)


def npu_fast_gelu(x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(1.702 x)."""
    return x * torch.sigmoid(1.702 * x)


def npu_dtype_cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """x.to(dtype)."""
    return x.to(dtype)


def npu_scatter_nd_update_(target: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """target[indices] = updates, in place; the last axis of `indices` addresses the first axes of `target`."""
    target[tuple(indices.unbind(-1))] = updates
    return target


def npu_scatter_nd_update(target: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """npu_scatter_nd_update_ on a copy."""
    return npu_scatter_nd_update_(target.clone(), indices, updates)


def npu_prefetch(input: torch.Tensor, dependency: Any, max_size: int, offset: int = 0) -> None:
    """A hint for the L2 cache, without effect."""
    if not isinstance(input, NpuTensor):
        raise RuntimeError("torch_npu.npu_prefetch: expected a tensor on the NPU; move it with .npu()")
