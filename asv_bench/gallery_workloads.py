"""Workloads of the gallery at realistic sizes: ours, and the same work by torch or float32 numpy."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples" / "gallery"))

import expert_ffn  # noqa: E402
import expert_selection  # noqa: E402
import paged_decode  # noqa: E402


def paged_numpy(q: np.ndarray, k: np.ndarray, v: np.ndarray, table: np.ndarray, lens: np.ndarray,
                step: int = 512) -> np.ndarray:
    """Online softmax decode of q [B, N, D] over paged caches [blocks, block, N_kv, D], float32, `step` rows at once."""
    batch, heads, dim = q.shape
    block, kv_heads = k.shape[1:3]
    out = np.empty(q.shape, np.float32)
    for b in range(batch):
        qb = q[b].reshape(kv_heads, heads // kv_heads, dim)
        m = s = o = None
        for start in range(0, int(lens[b]), step):
            rows = min(step, int(lens[b]) - start)
            ids = table[b, start // block:-(-(start + rows) // block)]
            kt = k[ids].reshape(-1, kv_heads, dim)[:rows].transpose(1, 2, 0)
            vt = v[ids].reshape(-1, kv_heads, dim)[:rows].transpose(1, 0, 2)
            scores = np.matmul(qb, kt)
            scores *= dim ** -0.5
            top = scores.max(-1, keepdims=True)
            new = top if m is None else np.maximum(m, top)
            scores -= new
            p = np.exp(scores, out=scores)
            total, product = p.sum(-1, keepdims=True), np.matmul(p, vt)
            if m is not None:
                fade = np.exp(m - new)
                total, product = total + s * fade, product + o * fade
            m, s, o = new, total, product
        out[b] = (o / s).reshape(heads, dim)
    return out


def paged(batch: int = 16, kv_len: int = 8192) -> tuple[Any, Any]:
    """Paged decode, 32 / 8 heads, D 128, against blocked float32 numpy on converted inputs."""
    args = paged_decode.inputs([kv_len] * batch)
    kernel = paged_decode.make_paged_decode(paged_decode.LLAMA3_8B)
    q, k, v = (a.astype(np.float32) for a in args[:3])
    return lambda: kernel(*args), lambda: paged_numpy(q, k, v, *args[3:5])


def selection(tokens: int = 4096) -> tuple[Any, Any]:
    """Grouped expert selection of DeepSeek-V2, 160 experts, against torch eager."""
    import torch
    cfg = expert_selection.DEEPSEEK_V2
    args = expert_selection.inputs(tokens, cfg)
    kernel, logits = expert_selection.make_expert_selection(cfg), torch.from_numpy(args[0].copy())

    def other() -> Any:
        scores = torch.softmax(logits, -1)
        of_group = scores.view(tokens, cfg.groups, -1).amax(-1)
        kept = torch.topk(of_group, cfg.kept_groups, -1).indices
        mask = torch.zeros_like(of_group).scatter_(1, kept, 1.0)
        mask = mask[..., None].expand(-1, -1, cfg.experts // cfg.groups).reshape(tokens, -1)
        weights, ids = torch.topk(scores.masked_fill(mask == 0, -1e30), cfg.top, -1)
        return weights * cfg.scale, ids
    return lambda: kernel(*args), other


def grouped_ffn(experts: int = 16, tokens: int = 64) -> tuple[Any, Any]:
    """Grouped FFN of Qwen3-30B-A3B, one of eight devices: 16 experts, every fifth idle, the others with `tokens` each,
    against float32 numpy on converted inputs."""
    cfg = expert_ffn.ExpertConfig(experts=experts)
    args = expert_ffn.inputs([0 if e % 5 == 4 else tokens for e in range(experts)], cfg)
    kernel, starts = expert_ffn.make_expert_ffn(cfg), args[1]
    x = args[0].astype(np.float32)
    w1 = args[2].astype(np.float32).reshape(experts, cfg.hidden, -1)
    w2 = args[3].astype(np.float32).reshape(experts, cfg.inner, -1)

    def other() -> Any:
        out = np.empty_like(x)
        for e in range(experts):
            rows = slice(starts[e], starts[e + 1])
            if rows.start == rows.stop:
                continue
            h = np.matmul(x[rows], w1[e])
            gate, up = h[:, :cfg.inner], h[:, cfg.inner:]
            out[rows] = np.matmul(gate / (1.0 + np.exp(-gate)) * up, w2[e])
        return out
    return lambda: kernel(*args), other


# name, other side, limit of ours / other, setup
WORKLOADS = (
    ("paged_decode_16x8192_bf16", "numpy", 2.0, paged),
    ("expert_selection_4096x160", "torch", 3.0, selection),
    ("grouped_ffn_qwen3_30b_16_experts", "numpy", 1.5, grouped_ffn),
)
