"""Recurrence of a gated delta rule layer (linear attention with a decaying, error-correcting state).

    S = exp(g) S;   error = beta (v - S^T k);   S = S + k error^T;   o = S^T q / sqrt(D)

The state S [D, D_v] of a head stays on the chip while the loop walks over the tokens, and is written back at the end.
Sizes: Qwen3-Next-80B-A3B (16 key heads, 32 value heads, D = D_v = 128); two value heads share a key head.
"""
import math
from dataclasses import dataclass

import numpy as np
from gallery_tools import BF16, BF16_STEP, Case, normal, report, wide

import pypto_sim as pypto


@dataclass(frozen=True)
class DeltaConfig:
    """key_heads, value_heads, key_dim, value_dim: of the model."""

    key_heads: int = 16
    value_heads: int = 32
    key_dim: int = 128
    value_dim: int = 128


QWEN3_NEXT = DeltaConfig()


def make_gated_delta(cfg: DeltaConfig):
    """The kernel of one configuration."""
    dk, dv, share = cfg.key_dim, cfg.value_dim, cfg.value_heads // cfg.key_heads
    fp32 = pypto.DT_FP32

    def column(x, row, head):
        """[dk, 1] fp32 of one token and head, normalised to length 1."""
        t = pypto.cast(pypto.view(x, [1, dk], [row, head * dk]), fp32)
        square = pypto.sum(pypto.mul(t, t), -1, keepdim=True)
        t = pypto.mul(t, pypto.rsqrt(pypto.add(square, 1e-6)))
        return pypto.reshape(t, [dk, 1])

    def read_out(state, col):
        """state^T col as a row [1, dv]."""
        return pypto.sum(pypto.mul(state, col), 0, keepdim=True)

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def gated_delta(
        q: pypto.Tensor([pypto.DYNAMIC, cfg.key_heads * dk], pypto.DT_BF16),
        k: pypto.Tensor([pypto.DYNAMIC, cfg.key_heads * dk], pypto.DT_BF16),
        v: pypto.Tensor([pypto.DYNAMIC, cfg.value_heads * dv], pypto.DT_BF16),
        gate: pypto.Tensor([pypto.DYNAMIC, cfg.value_heads], fp32),
        beta: pypto.Tensor([pypto.DYNAMIC, cfg.value_heads], fp32),
        state: pypto.Tensor([cfg.value_heads * dk, dv], fp32),
        new_state: pypto.Tensor([cfg.value_heads * dk, dv], fp32),
        out: pypto.Tensor([pypto.DYNAMIC, cfg.value_heads * dv], pypto.DT_BF16),
    ):
        for h in pypto.loop(cfg.value_heads, name="HEAD", idx_name="h"):
            s = pypto.tensor([dk, dv], fp32, "s")
            for t in pypto.loop(q.shape[0], name="TOKEN", idx_name="t"):
                pypto.set_vec_tile_shapes(64, dv)
                kt, qt = column(k, t, h // share), column(q, t, h // share)
                vt = pypto.cast(pypto.view(v, [1, dv], [t, h * dv]), fp32)
                fade = pypto.exp(pypto.view(gate, [1, 1], [t, h]))
                rate = pypto.view(beta, [1, 1], [t, h])
                if pypto.is_loop_begin(t):
                    old = pypto.view(state, [dk, dv], [h * dk, 0])
                else:
                    old = s
                faded = pypto.mul(old, fade)
                error = pypto.mul(pypto.sub(vt, read_out(faded, kt)), rate)
                new = pypto.add(faded, pypto.mul(pypto.expand_clone(kt, [dk, dv]), error))
                o = pypto.mul(read_out(new, qt), 1.0 / math.sqrt(dk))
                pypto.assemble(pypto.cast(o, pypto.DT_BF16), [t, h * dv], out)
                if pypto.is_loop_end(t):
                    pypto.assemble(new, [h * dk, 0], new_state)
                else:
                    s[:] = new
    return gated_delta


def golden(q, k, v, gate, beta, state, cfg=QWEN3_NEXT):
    """(new state, output) in float64."""
    q, k, v, gate, beta, state = wide(q, k, v, gate, beta, state)
    tokens, share = len(q), cfg.value_heads // cfg.key_heads

    def unit(x):
        x = x.reshape(tokens, cfg.key_heads, -1)
        return np.repeat(x / np.sqrt(np.sum(x * x, -1, keepdims=True) + 1e-6), share, 1)

    q, k, v = unit(q), unit(k), v.reshape(tokens, cfg.value_heads, -1)
    s, out = state.reshape(cfg.value_heads, cfg.key_dim, -1).copy(), np.zeros_like(v)
    for t in range(tokens):
        s *= np.exp(gate[t])[:, None, None]
        error = beta[t][:, None] * (v[t] - np.einsum("hkv,hk->hv", s, k[t]))
        s += k[t][:, :, None] * error[:, None, :]
        out[t] = np.einsum("hkv,hk->hv", s, q[t]) / math.sqrt(cfg.key_dim)
    return s.reshape(state.shape), out.reshape(tokens, -1)


def inputs(tokens, cfg=QWEN3_NEXT, seed=0):
    """Arguments for this many tokens; gates in (-1, 0), rates in (0, 1)."""
    rng = np.random.default_rng(seed)
    q, k = (normal(seed + n, tokens, cfg.key_heads * cfg.key_dim) for n in (1, 2))
    v = normal(seed + 3, tokens, cfg.value_heads * cfg.value_dim)
    gate = -rng.random((tokens, cfg.value_heads), np.float32)
    beta = rng.random((tokens, cfg.value_heads), np.float32)
    state = normal(seed + 4, cfg.value_heads * cfg.key_dim, cfg.value_dim, dtype=np.float32)
    return [q, k, v, gate, beta, state, np.zeros_like(state), np.zeros(v.shape, BF16)]


def cases():
    """One token, as in decode, and a short prompt."""
    kernel, found = make_gated_delta(QWEN3_NEXT), []
    for tokens in (1, 24):
        args = inputs(tokens)
        state, out = golden(*args[:6])
        found.append(Case(kernel, args, {6: ("state", state, 1e-4), 7: ("o", out, BF16_STEP)}, f"{tokens} tokens"))
    return found


def estimate(tokens=1, cfg=QWEN3_NEXT, **options):
    """Predicted cost of this many tokens of one sequence."""
    q = pypto.Spec((tokens, cfg.key_heads * cfg.key_dim), "bf16")
    v = pypto.Spec((tokens, cfg.value_heads * cfg.value_dim), "bf16")
    g = pypto.Spec((tokens, cfg.value_heads), "fp32")
    state = pypto.Spec((cfg.value_heads * cfg.key_dim, cfg.value_dim), "fp32")
    return pypto.estimate(make_gated_delta(cfg), q, q, v, g, g, state, state, v, **options)


def main() -> float:
    return report("Gated delta rule, Qwen3-Next-80B-A3B", cases(), {
        "1 token": estimate, "64 tokens": lambda: estimate(64)})


if __name__ == "__main__":
    main()
