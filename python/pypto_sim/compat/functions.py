"""Functions of torch_npu that goldens use, from their formulas in torch, and settings without effect."""
from __future__ import annotations

from typing import Any

import torch

from .formats import Format, empty_with_format, get_npu_format, npu_format_cast, npu_format_cast_
from .tensor import NpuTensor

__all__ = ["Format", "empty_with_format", "get_npu_format", "npu_add_rms_norm", "npu_dtype_cast", "npu_dynamic_quant",
           "npu_format_cast", "npu_format_cast_", "npu_gelu", "npu_grouped_matmul", "npu_linear",
           "npu_moe_gating_top_k_softmax", "npu_prefetch", "npu_rms_norm", "npu_rotary_mul",
           "npu_scaled_masked_softmax", "npu_scatter_nd_update", "npu_scatter_nd_update_", "npu_silu", "npu_swiglu",
           "npu_fast_gelu"]


def refuse(name: str, **given: Any) -> None:
    """RuntimeError for arguments that are given (not None, 0 or False) and that the stand-in does not compute."""
    if used := [k for k, v in given.items() if v is not None and not (isinstance(v, (int, float)) and v == 0)]:
        raise RuntimeError(f"torch_npu.{name}: {', '.join(used)} is not stood in for on the CPU; a golden can compute "
                           "it with torch")


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


def npu_add_rms_norm(x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor,
                     epsilon: float = 1e-6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(npu_rms_norm of x1 + x2, its reciprocal root, x1 + x2 in their type)."""
    total = x1.float() + x2.float()
    y, rstd = npu_rms_norm(total, gamma, epsilon)
    return y.to(x1.dtype), rstd, total.to(x1.dtype)


def npu_gelu(x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    """GELU; approximate "none" or "tanh"."""
    return torch.nn.functional.gelu(x, approximate=approximate)


def npu_linear(input: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> torch.Tensor:
    """input @ weight^T + bias."""
    return torch.nn.functional.linear(input, weight, bias)


def npu_scaled_masked_softmax(x: torch.Tensor, mask: torch.Tensor, scale: float = 1.0,
                              fixed_triu_mask: bool = False) -> torch.Tensor:
    """softmax(scale x) over the last axis, -10000 where the mask is true; fixed_triu_mask: a causal mask instead."""
    if fixed_triu_mask:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return torch.softmax((x.float() * scale).masked_fill(mask.bool(), -10000.0), -1).to(x.dtype)


def npu_moe_gating_top_k_softmax(x: torch.Tensor, finished: Any = None,
                                 k: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(the k largest of softmax(x) per token, their experts, row numbers [tokens, k] of the expanded tokens), int32.

    finished: tokens that get the expert number x.shape[-1], which there is not.
    """
    y, experts = torch.topk(torch.softmax(x.float(), -1), k, -1)
    if finished is not None:
        experts = torch.where(finished.reshape(*x.shape[:-1], 1), x.shape[-1], experts)
    tokens = x.shape[:-1].numel()
    rows = torch.arange(tokens * k, dtype=torch.int32, device=x.device).reshape(k, tokens).T.reshape(*x.shape[:-1], k)
    return y.to(x.dtype), experts.to(torch.int32), rows.contiguous()


def npu_grouped_matmul(x: Any, weight: Any, *, bias: Any = None, group_list: Any = None, split_item: int = 0,
                       group_type: Any = None, group_list_type: int = 0, output_dtype: Any = None,
                       **others: Any) -> list[torch.Tensor]:
    """x[i] @ weight[i] (+ bias[i]) per group, in fp32 before the result's type.

    x: a list, or one tensor of rows that group_list cuts (ends, or counts with group_list_type 1); weight: a list, or
    one [groups, K, N]. split_item 2 and 3: one tensor of all groups. Quantised forms are refused.
    """
    refuse("npu_grouped_matmul", **others)
    if group_type not in (None, -1, 0) or group_list_type not in (0, 1):
        raise RuntimeError(f"torch_npu.npu_grouped_matmul: group_type {group_type} with group_list_type "
                           f"{group_list_type} is not stood in for; groups of rows are (0; ends 0 or counts 1)")
    weights = list(weight[0].unbind(0)) if len(weight) == 1 and weight[0].dim() == 3 else list(weight)
    rows = list(x)
    if group_list is not None and len(rows) == 1:
        sizes = torch.as_tensor(group_list).cpu().long()
        sizes = sizes if group_list_type == 1 else torch.diff(sizes, prepend=torch.zeros(1, dtype=torch.long))
        rows = list(rows[0][:int(sizes.sum())].split(sizes.tolist()))
    biases = list(bias[0].unbind(0)) if bias is not None and len(bias) == 1 and bias[0].dim() == 2 else bias or \
        [None] * len(weights)
    done = []
    for part, w, b in zip(rows, weights, biases, strict=True):
        y = part.float() @ w.float()
        done.append((y if b is None else y + b.float()).to(output_dtype or part.dtype))
    return [torch.cat(done)] if split_item in (2, 3) else done
