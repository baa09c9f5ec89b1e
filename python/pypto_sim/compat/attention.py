"""Fused attention of torch_npu from its formula in torch, for goldens: softmax(scale Q K^T, masked) V in fp32."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .functions import refuse

__all__ = ["npu_fusion_attention", "npu_fused_infer_attention_score", "npu_incre_flash_attention",
           "npu_prompt_flash_attention"]

ALL_TOKENS = 2147483647
STATISTICS = 8          # softmax_max and softmax_sum hold every number this often


def npu_fusion_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, head_num: int, input_layout: str,
                         pse: Any = None, padding_mask: Any = None, atten_mask: Any = None, scale: float = 1.0,
                         keep_prob: float = 1.0, pre_tockens: int = ALL_TOKENS, next_tockens: int = ALL_TOKENS,
                         inner_precise: int = 0, prefix: Any = None, actual_seq_qlen: Any = None,
                         actual_seq_kvlen: Any = None, sparse_mode: int = 0, gen_mask_parallel: bool = True,
                         sync: bool = False, **others: Any) -> tuple[Any, ...]:
    """(attention_out, softmax_max, softmax_sum [B, N, S, 8], an empty tensor, 0, 0, 0).

    Layouts BSH, SBH, BSND, BNSD and TND (with cumulative actual_seq_qlen and actual_seq_kvlen); fewer heads of key and
    value are shared. atten_mask: true hides. sparse_mode 0 to 4. Dropout, pse and prefix are refused.
    """
    name = "npu_fusion_attention"
    refuse(name, pse=pse, padding_mask=padding_mask, prefix=prefix, **others)
    if keep_prob != 1.0:
        raise RuntimeError(f"torch_npu.{name}: keep_prob {keep_prob}: dropout is not stood in for on the CPU")
    rule = (sparse_mode, atten_mask, pre_tockens, next_tockens)
    if input_layout == "TND":
        out, largest, total = _sequences(query, key, value, _ends(name, "actual_seq_qlen", actual_seq_qlen),
                                         _ends(name, "actual_seq_kvlen", actual_seq_kvlen), scale, rule)
    else:
        q, k, v = _heads(name, input_layout, head_num, query, key, value)
        out, largest, total = _attend(q, k, v, scale, hidden(q.shape[2], k.shape[2], *rule, device=q.device))
        out = _back(out, input_layout)
    return (out.to(query.dtype), _repeated(largest), _repeated(total), torch.empty(0, device=query.device), 0, 0, 0)


def npu_fused_infer_attention_score(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *,
                                    pse_shift: Any = None, atten_mask: Any = None, actual_seq_lengths: Any = None,
                                    actual_seq_lengths_kv: Any = None, block_table: Any = None, num_heads: int = 1,
                                    scale: float = 1.0, pre_tokens: int = ALL_TOKENS, next_tokens: int = ALL_TOKENS,
                                    input_layout: str = "BSH", num_key_value_heads: int = 0, sparse_mode: int = 0,
                                    inner_precise: int = 0, block_size: int = 0, softmax_lse_flag: bool = False,
                                    **others: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """(attention_out, log of the softmax sum [B, N, S, 1], one zero without softmax_lse_flag).

    actual_seq_lengths, actual_seq_lengths_kv: rows in use per batch entry. block_table [B, blocks]: key and value are
    pages [blocks, block_size, Nkv D] or [blocks, Nkv, block_size, D]. Layouts BSH, BSND and BNSD.
    """
    name = "npu_fused_infer_attention_score"
    refuse(name, pse_shift=pse_shift, **others)
    if input_layout not in ("BSH", "BSND", "BNSD"):
        raise RuntimeError(f"torch_npu.{name}: input_layout {input_layout!r} is not stood in for; there are BSH, BSND "
                           "and BNSD")
    kv_heads = num_key_value_heads or num_heads
    if block_table is not None:
        q = _heads(name, input_layout, num_heads, query)[0]
        k, v = (_pages(t, block_table, kv_heads) for t in (key, value))
    else:
        q, k, v = _heads(name, input_layout, num_heads, query, key, value)
    out = torch.zeros(*q.shape[:3], v.shape[-1], device=q.device)
    lse = torch.full((*q.shape[:3], 1), float("inf"), device=q.device)
    rows = _lengths(actual_seq_lengths, q.shape[0], q.shape[2])
    keys = _lengths(actual_seq_lengths_kv, q.shape[0], k.shape[2])
    for b, (n, m) in enumerate(zip(rows, keys, strict=True)):
        mask = hidden(n, m, sparse_mode, _entry(atten_mask, b), pre_tokens, next_tokens, device=q.device)
        part, largest, total = _attend(q[b:b + 1, :, :n], k[b:b + 1, :, :m], v[b:b + 1, :, :m], scale, mask)
        out[b, :, :n], lse[b, :, :n] = part[0], (largest + torch.log(total))[0]
    return _back(out, input_layout).to(query.dtype), lse if softmax_lse_flag else torch.zeros(1, device=q.device)


def npu_prompt_flash_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, padding_mask: Any = None,
                               atten_mask: Any = None, pse_shift: Any = None, actual_seq_lengths: Any = None,
                               num_heads: int = 1, scale_value: float = 1.0, pre_tokens: int = ALL_TOKENS,
                               next_tokens: int = 0, input_layout: str = "BSH", num_key_value_heads: int = 0,
                               actual_seq_lengths_kv: Any = None, sparse_mode: int = 0, **others: Any) -> torch.Tensor:
    """attention_out of npu_fused_infer_attention_score; next_tokens is 0 by default, so a mask is causal as well."""
    refuse("npu_prompt_flash_attention", padding_mask=padding_mask)
    return npu_fused_infer_attention_score(
        query, key, value, pse_shift=pse_shift, atten_mask=atten_mask, actual_seq_lengths=actual_seq_lengths,
        actual_seq_lengths_kv=actual_seq_lengths_kv, num_heads=num_heads, scale=scale_value, pre_tokens=pre_tokens,
        next_tokens=next_tokens, input_layout=input_layout, num_key_value_heads=num_key_value_heads,
        sparse_mode=sparse_mode, **others)[0]


def npu_incre_flash_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, padding_mask: Any = None,
                              pse_shift: Any = None, atten_mask: Any = None, actual_seq_lengths: Any = None,
                              num_heads: int = 1, scale_value: float = 1.0, input_layout: str = "BSH",
                              num_key_value_heads: int = 0, block_size: int = 0, inner_precise: int = 1,
                              block_table: Any = None, **others: Any) -> torch.Tensor:
    """Attention of one new token; actual_seq_lengths: rows of key and value in use per batch entry."""
    refuse("npu_incre_flash_attention", padding_mask=padding_mask)
    return npu_fused_infer_attention_score(
        query, key, value, pse_shift=pse_shift, atten_mask=atten_mask, actual_seq_lengths_kv=actual_seq_lengths,
        block_table=block_table, num_heads=num_heads, scale=scale_value, input_layout=input_layout,
        num_key_value_heads=num_key_value_heads, block_size=block_size, **others)[0]


def hidden(rows: int, keys: int, sparse_mode: int, mask: Any, before: int, after: int, *, device: Any) -> Any:
    """Boolean mask, true where a query does not look: 0 the mask within a band, 1 the mask, 2 causal from the first
    row, 3 causal up to the last, 4 a band up to the last. None: nothing is hidden."""
    mask = None if mask is None else torch.as_tensor(mask, device=device).bool()
    at = torch.arange(keys, device=device)[None] - torch.arange(rows, device=device)[:, None]
    last = keys - rows
    if sparse_mode in (0, 1):
        if mask is None:
            return None
        mask = mask[..., :rows, :keys] if mask.shape[-2] > 1 else mask[..., :keys]
        return mask if sparse_mode else mask | (at < -before) | (at > after)
    if sparse_mode in (2, 3, 4):
        return {2: at > 0, 3: at > last, 4: (at < last - before) | (at > last + after)}[sparse_mode]
    raise RuntimeError(f"torch_npu: sparse_mode {sparse_mode} of attention is not stood in for; there are 0 to 4")


def _attend(q: Any, k: Any, v: Any, scale: float, mask: Any) -> tuple[Any, Any, Any]:
    """(out [B, N, S, D], largest score, sum of exp [B, N, S, 1]) in fp32; a row that sees nothing gives zeros."""
    q, k, v = q.float(), k.float(), v.float()
    if q.shape[1] != k.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * scale
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    largest = scores.amax(-1, keepdim=True)
    shares = torch.exp(scores - torch.where(largest == float("-inf"), 0.0, largest))
    total = shares.sum(-1, keepdim=True)
    return shares @ v / torch.where(total == 0, 1.0, total), largest, total


def _sequences(query: Any, key: Any, value: Any, ends: Sequence[int], key_ends: Sequence[int], scale: float,
               rule: Any) -> tuple[Any, Any, Any]:
    """_attend sequence by sequence of packed [T, N, D] tensors."""
    parts, first, first_key = [], 0, 0
    for end, key_end in zip(ends, key_ends, strict=True):
        q, k, v = (t[a:b].transpose(0, 1)[None] for t, a, b in
                   ((query, first, end), (key, first_key, key_end), (value, first_key, key_end)))
        mask = hidden(end - first, key_end - first_key, *rule, device=query.device)
        parts.append([t[0].transpose(0, 1) for t in _attend(q, k, v, scale, mask)])
        first, first_key = end, key_end
    return tuple(torch.cat(one) for one in zip(*parts, strict=True))     # type: ignore[return-value]


def _heads(name: str, layout: str, heads: int, query: Any, *others: Any) -> list[Any]:
    """Tensors as [B, N, S, D]."""
    def turned(t: Any) -> Any:
        if layout == "BNSD":
            return t
        if layout == "BSND":
            return t.transpose(1, 2)
        b = t.transpose(0, 1) if layout == "SBH" else t
        return b.reshape(*b.shape[:2], -1, size).transpose(1, 2)
    if layout not in ("BSH", "SBH", "BSND", "BNSD"):
        raise RuntimeError(f"torch_npu.{name}: input_layout {layout!r} is not stood in for; there are BSH, SBH, BSND, "
                           "BNSD and TND")
    size = query.shape[-1] // heads
    return [turned(t) for t in (query, *others)]


def _back(out: Any, layout: str) -> Any:
    """[B, N, S, D] in a layout."""
    if layout == "BNSD":
        return out
    by_row = out.transpose(1, 2)
    if layout == "BSND":
        return by_row.contiguous()
    flat = by_row.reshape(*by_row.shape[:2], -1)
    return flat.transpose(0, 1).contiguous() if layout == "SBH" else flat


def _pages(cache: Any, table: Any, heads: int) -> Any:
    """[B, Nkv, S, D] of the pages that a block table names."""
    if cache.dim() == 3:
        cache = cache.reshape(*cache.shape[:2], heads, -1).transpose(1, 2)
    picked = cache[table.long().clamp(min=0)]                       # [B, blocks, Nkv, block, D]
    return picked.transpose(1, 2).flatten(2, 3)


def _repeated(statistics: Any) -> Any:
    return statistics.expand(*statistics.shape[:-1], STATISTICS).contiguous()


def _lengths(given: Any, batch: int, default: int) -> list[int]:
    if given is None:
        return [default] * batch
    found = [int(n) for n in (given.tolist() if hasattr(given, "tolist") else given)]
    return found * batch if len(found) == 1 else found


def _ends(name: str, argument: str, given: Any) -> list[int]:
    if given is None:
        raise RuntimeError(f"torch_npu.{name}: layout TND needs {argument}, the end of every sequence")
    return _lengths(given, 1, 0)


def _entry(mask: Any, b: int) -> Any:
    """Mask of one batch entry: [N or 1, S, keys], or one for all."""
    if mask is None or mask.dim() == 2 and mask.shape[0] > 1:
        return mask
    return mask[b if mask.shape[0] > 1 else 0] if mask.dim() > 2 else mask
