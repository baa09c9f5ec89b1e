"""Causal attention over a sliding window, with a learned sink per head.

    s[q, t] = q k[t]^T / sqrt(D) for q - W < t <= q
    o[q]    = sum_t exp(s[q, t] - m) v[t] / (exp(sink - m) + sum_t exp(s[q, t] - m)),  m = max(sink, max_t s[q, t])

A query tile is as long as the window, so it meets two key tiles: its own (lower triangle) and the one before (what lies
above the diagonal). Sizes: gpt-oss-20b (64 query heads, 8 KV heads, D = 64, window 128).
"""
import math
from dataclasses import dataclass

import numpy as np
from gallery_tools import BF16, BF16_STEP, Case, normal, report, wide

import pypto_sim as pypto

FAR = -1.0e30                              # score of a key outside the window: exp of it is 0


@dataclass(frozen=True)
class WindowConfig:
    """heads, kv_heads, head_dim, window: of the model."""

    heads: int = 64
    kv_heads: int = 8
    head_dim: int = 64
    window: int = 128


GPT_OSS_20B = WindowConfig()


def make_window_attention(cfg: WindowConfig):
    """The kernel of one configuration."""
    dim, tile, group = cfg.head_dim, cfg.window, cfg.heads // cfg.kv_heads
    scale = 1.0 / math.sqrt(dim)

    def masked_scores(qt, kt, rows, columns, own: bool):
        """[tile, tile] scores, of which [rows, columns] hold data; keys outside the window get FAR."""
        pypto.set_cube_tile_shapes([128, 128], [64, 64], [128, 128])
        s = pypto.mul(pypto.matmul(qt, kt, pypto.DT_FP32, b_trans=True), scale)
        ones = pypto.full([tile, tile], 1.0, pypto.DT_FP32)
        inside = pypto.tril(ones, 0) if own else pypto.triu(ones, 1)
        s = pypto.where(pypto.gt(inside, 0.5), s, pypto.full([tile, tile], FAR, pypto.DT_FP32))
        return pypto.view(s, [tile, tile], [0, 0], valid_shape=[rows, columns])

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def window_attention(
        q: pypto.Tensor([pypto.DYNAMIC, cfg.heads * dim], pypto.DT_BF16),
        k: pypto.Tensor([pypto.DYNAMIC, cfg.kv_heads * dim], pypto.DT_BF16),
        v: pypto.Tensor([pypto.DYNAMIC, cfg.kv_heads * dim], pypto.DT_BF16),
        sinks: pypto.Tensor([1, cfg.heads], pypto.DT_FP32),
        out: pypto.Tensor([pypto.DYNAMIC, cfg.heads * dim], pypto.DT_BF16),
    ):
        rows = q.shape[0]
        for h in pypto.loop(cfg.heads, name="LOOP_N", idx_name="h"):
            kv = h // group * dim
            for i in pypto.loop((rows + tile - 1) // tile, name="LOOP_S", idx_name="i"):
                pypto.set_vec_tile_shapes(64, tile)
                valid = pypto.min(tile, rows - i * tile)
                at = [i * tile, h * dim]
                qt = pypto.view(q, [tile, dim], at, valid_shape=[valid, dim])
                kt = pypto.view(k, [tile, dim], [i * tile, kv], valid_shape=[valid, dim])
                vt = pypto.view(v, [tile, dim], [i * tile, kv], valid_shape=[valid, dim])
                sink = pypto.expand_clone(pypto.view(sinks, [1, 1], [0, h]), [tile, 1])
                s = masked_scores(qt, kt, valid, valid, own=True)
                m = pypto.maximum(pypto.amax(s, -1, keepdim=True), sink)
                if i > 0:
                    before = pypto.view(k, [tile, dim], [(i - 1) * tile, kv])
                    s_before = masked_scores(qt, before, valid, tile, own=False)
                    m = pypto.maximum(m, pypto.amax(s_before, -1, keepdim=True))
                    p = pypto.exp(pypto.sub(s, m))
                    p_before = pypto.exp(pypto.sub(s_before, m))
                    total = pypto.add(pypto.sum(p, -1, keepdim=True), pypto.sum(p_before, -1, keepdim=True))
                    v_before = pypto.view(v, [tile, dim], [(i - 1) * tile, kv])
                    pypto.set_cube_tile_shapes([128, 128], [128, 128], [64, 64])
                    o = pypto.add(pypto.matmul(pypto.cast(p, pypto.DT_BF16), vt, pypto.DT_FP32),
                                  pypto.matmul(pypto.cast(p_before, pypto.DT_BF16), v_before, pypto.DT_FP32))
                else:
                    p = pypto.exp(pypto.sub(s, m))
                    total = pypto.sum(p, -1, keepdim=True)
                    pypto.set_cube_tile_shapes([128, 128], [128, 128], [64, 64])
                    o = pypto.matmul(pypto.cast(p, pypto.DT_BF16), vt, pypto.DT_FP32)
                total = pypto.add(total, pypto.exp(pypto.sub(sink, m)))
                pypto.set_vec_tile_shapes(64, dim)
                pypto.assemble(pypto.cast(pypto.div(o, total), pypto.DT_BF16), at, out)
    return window_attention


def golden(q, k, v, sinks, cfg=GPT_OSS_20B):
    """The formula in float64; q [S, N * D], k and v [S, N_kv * D], sinks [1, N]."""
    q, k, v = wide(q, k, v)
    rows, dim, group = len(q), cfg.head_dim, cfg.heads // cfg.kv_heads
    distance = np.arange(rows)[:, None] - np.arange(rows)
    inside = (distance >= 0) & (distance < cfg.window)
    out = np.zeros_like(q)
    for h in range(cfg.heads):
        kv = slice(h // group * dim, (h // group + 1) * dim)
        s = np.where(inside, q[:, h * dim:(h + 1) * dim] @ k[:, kv].T / math.sqrt(dim), -np.inf)
        m = np.maximum(s.max(-1, keepdims=True), float(sinks[0, h]))
        p = np.exp(s - m)
        total = p.sum(-1, keepdims=True) + np.exp(float(sinks[0, h]) - m)
        out[:, h * dim:(h + 1) * dim] = p @ v[:, kv] / total
    return out


def inputs(rows, cfg=GPT_OSS_20B, seed=0):
    """Arguments for one sequence of `rows` tokens."""
    q = normal(seed, rows, cfg.heads * cfg.head_dim)
    k, v = (normal(seed + n, rows, cfg.kv_heads * cfg.head_dim) for n in (1, 2))
    return [q, k, v, normal(seed + 3, 1, cfg.heads, dtype=np.float32), np.zeros(q.shape, BF16)]


def cases():
    """One tile cut short, and three tiles with a tail."""
    kernel, found = make_window_attention(GPT_OSS_20B), []
    for rows in (50, 300):
        args = inputs(rows)
        found.append(Case(kernel, args, {4: ("o", golden(*args[:4]), 4 * BF16_STEP)}, f"{rows} tokens"))
    return found


def estimate(rows=4096, cfg=GPT_OSS_20B, **options):
    """Predicted cost of one sequence."""
    q, kv = (pypto.Spec((rows, n * cfg.head_dim), "bf16") for n in (cfg.heads, cfg.kv_heads))
    return pypto.estimate(make_window_attention(cfg), q, kv, kv, pypto.Spec((1, cfg.heads), "fp32"), q, **options)


def main() -> float:
    return report("Sliding-window attention with sinks, gpt-oss-20b", cases(), {"4096 tokens": estimate})


if __name__ == "__main__":
    main()
