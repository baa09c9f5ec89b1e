"""Everything before the attention of one multi-head latent attention layer, for decode steps.

    c_q = rms_norm(x W_dq) * g_q;   q = c_q W_uq;   q_nope[n] = q[n, :128] W_uk[n];   q_rope = rope(q[n, 128:])
    c = x W_dkv;   c_kv = rms_norm(c[:512]) * g_kv;   k_rope = rope(c[512:])
    kv_cache[slot] = c_kv;   kr_cache[slot] = k_rope

Rotary pairs are neighbours in memory; the result holds first the even, then the odd members, as the cache wants them.
Sizes: DeepSeek-V3 (hidden 7168, query rank 1536, KV rank 512, 128 heads of 128 + 64).
"""
from dataclasses import dataclass

import numpy as np
from gallery_tools import BF16, BF16_STEP, Case, normal, report, wide

import pypto_sim as pypto


@dataclass(frozen=True)
class MlaConfig:
    """Sizes of the model; rows: tokens of one step; block: rows of a cache block."""

    hidden: int = 7168
    q_rank: int = 1536
    kv_rank: int = 512
    heads: int = 128
    nope: int = 128
    rope: int = 64
    rows: int = 16
    block: int = 128
    eps: float = 1e-6


DEEPSEEK_V3 = MlaConfig()
CHECKED = MlaConfig(hidden=1024, heads=8)  # the same layer, narrower and with fewer heads


def make_mla_prolog(cfg: MlaConfig):
    """The kernel of one configuration."""
    rows, half = cfg.rows, cfg.rope // 2
    head = cfg.nope + cfg.rope
    bf16, fp32 = pypto.DT_BF16, pypto.DT_FP32

    def project(x, w, columns):
        pypto.set_cube_tile_shapes([16, 16], [256, 512], [128, 256])
        pypto.set_vec_tile_shapes(rows, min(columns, 512))
        return pypto.matmul(x, w, bf16)

    def normalise(x, gamma, columns):
        pypto.set_vec_tile_shapes(4, columns)
        return pypto.rms_norm(x, gamma, cfg.eps)

    def rotate(x, cos, sin):
        """Interleaved rotary embedding of [rows, rope] in fp32; pairs come out as halves."""
        pypto.set_vec_tile_shapes(rows, cfg.rope)
        x = pypto.cast(x, fp32)
        even, odd = pypto.gathermask(x, 1), pypto.gathermask(x, 2)
        first = pypto.sub(pypto.mul(even, cos), pypto.mul(odd, sin))
        second = pypto.add(pypto.mul(odd, cos), pypto.mul(even, sin))
        return pypto.cast(pypto.concat([first, second], -1), bf16)

    def narrow(x, valid):
        """Only the first `valid` rows hold data: concat cannot know."""
        return pypto.view(x, [rows, cfg.rope], [0, 0], valid_shape=[valid, cfg.rope])

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU, "stitch_function_max_num": 128},
                        pass_options={"cube_l1_reuse_setting": {"DEFAULT": 4}})
    def mla_prolog(
        x: pypto.Tensor([pypto.DYNAMIC, cfg.hidden], bf16),
        w_dq: pypto.Tensor([cfg.hidden, cfg.q_rank], bf16),
        w_uq: pypto.Tensor([cfg.q_rank, cfg.heads * head], bf16),
        w_uk: pypto.Tensor([cfg.heads * cfg.nope, cfg.kv_rank], bf16),
        w_dkv: pypto.Tensor([cfg.hidden, cfg.kv_rank + cfg.rope], bf16),
        g_q: pypto.Tensor([1, cfg.q_rank], bf16),
        g_kv: pypto.Tensor([1, cfg.kv_rank], bf16),
        cos: pypto.Tensor([pypto.DYNAMIC, half], fp32),
        sin: pypto.Tensor([pypto.DYNAMIC, half], fp32),
        slots: pypto.Tensor([pypto.DYNAMIC, 1], pypto.DT_INT64),
        kv_cache: pypto.Tensor([pypto.DYNAMIC, cfg.block, 1, cfg.kv_rank], bf16),
        kr_cache: pypto.Tensor([pypto.DYNAMIC, cfg.block, 1, cfg.rope], bf16),
        q_nope: pypto.Tensor([pypto.DYNAMIC, cfg.heads * cfg.kv_rank], bf16),
        q_rope: pypto.Tensor([pypto.DYNAMIC, cfg.heads * cfg.rope], bf16),
    ):
        tokens = x.shape[0]
        kv_flat = pypto.reshape(kv_cache, [kv_cache.shape[0] * cfg.block, cfg.kv_rank], inplace=True)
        kr_flat = pypto.reshape(kr_cache, [kr_cache.shape[0] * cfg.block, cfg.rope], inplace=True)
        for t in pypto.loop((tokens + rows - 1) // rows, name="TOKENS", idx_name="t"):
            valid = pypto.min(rows, tokens - t * rows)
            at = [t * rows, 0]
            xt = pypto.view(x, [rows, cfg.hidden], at, valid_shape=[valid, cfg.hidden])
            cos_t = pypto.view(cos, [rows, half], at, valid_shape=[valid, half])
            sin_t = pypto.view(sin, [rows, half], at, valid_shape=[valid, half])

            c = project(xt, w_dkv, cfg.kv_rank + cfg.rope)
            c_kv = normalise(c[:, :cfg.kv_rank], g_kv, cfg.kv_rank)
            k_rope = narrow(rotate(c[:, cfg.kv_rank:], cos_t, sin_t), valid)
            index = pypto.view(slots, [rows, 1], at, valid_shape=[valid, 1])
            pypto.set_vec_tile_shapes(rows, cfg.kv_rank)
            kv_flat.move(pypto.scatter_update(kv_flat, -2, index, c_kv))
            pypto.set_vec_tile_shapes(rows, cfg.rope)
            kr_flat.move(pypto.scatter_update(kr_flat, -2, index, k_rope))

            c_q = normalise(project(xt, w_dq, cfg.q_rank), g_q, cfg.q_rank)
            for n in pypto.loop(cfg.heads, name="HEADS", idx_name="n"):
                q = project(c_q, pypto.view(w_uq, [cfg.q_rank, head], [0, n * head]), head)
                nope, rotary = q[:, :cfg.nope], q[:, cfg.nope:]
                w = pypto.view(w_uk, [cfg.nope, cfg.kv_rank], [n * cfg.nope, 0])
                pypto.assemble(project(nope, w, cfg.kv_rank), [t * rows, n * cfg.kv_rank], q_nope)
                rotated = narrow(rotate(rotary, cos_t, sin_t), valid)
                pypto.assemble(rotated, [t * rows, n * cfg.rope], q_rope)
    return mla_prolog


def golden(x, w_dq, w_uq, w_uk, w_dkv, g_q, g_kv, cos, sin, slots, kv_cache, kr_cache, cfg):
    """(kv_cache, kr_cache, q_nope, q_rope) in float64."""
    x, w_dq, w_uq, w_uk, w_dkv, g_q, g_kv, cos, sin = wide(x, w_dq, w_uq, w_uk, w_dkv, g_q, g_kv, cos, sin)

    def normalise(t, gamma):
        return t / np.sqrt(np.mean(t * t, -1, keepdims=True) + cfg.eps) * gamma

    def rotate(t):
        even, odd = t[..., ::2], t[..., 1::2]
        return np.concatenate([even * cos - odd * sin, odd * cos + even * sin], -1)

    q = (normalise(x @ w_dq, g_q) @ w_uq).reshape(len(x), cfg.heads, -1)
    w_uk = w_uk.reshape(cfg.heads, cfg.nope, cfg.kv_rank)
    q_nope = np.einsum("tnd,ndc->tnc", q[..., :cfg.nope], w_uk).reshape(len(x), -1)
    q_rope = np.stack([rotate(q[:, n, cfg.nope:]) for n in range(cfg.heads)], 1).reshape(len(x), -1)
    c = x @ w_dkv
    caches = [a.astype(np.float64) for a in (kv_cache, kr_cache)]
    caches[0].reshape(-1, cfg.kv_rank)[slots[:, 0]] = normalise(c[:, :cfg.kv_rank], g_kv)
    caches[1].reshape(-1, cfg.rope)[slots[:, 0]] = rotate(c[:, cfg.kv_rank:])
    return *caches, q_nope, q_rope


def inputs(tokens, cfg, blocks=4, seed=0):
    """Arguments for this many tokens, each with a row of the cache drawn at random."""
    head, half = cfg.nope + cfg.rope, cfg.rope // 2
    weights = [(cfg.hidden, cfg.q_rank), (cfg.q_rank, cfg.heads * head), (cfg.heads * cfg.nope, cfg.kv_rank),
               (cfg.hidden, cfg.kv_rank + cfg.rope)]
    depths = [cfg.hidden, cfg.q_rank, cfg.nope, cfg.hidden]
    angle = np.arange(tokens)[:, None] * 10000.0 ** (-np.arange(half) / half)
    slots = np.random.default_rng(seed).permutation(blocks * cfg.block)[:tokens].astype(np.int64)[:, None]
    return [normal(seed, tokens, cfg.hidden),
            *(normal(seed + 1 + n, *s, scale=d**-0.5) for n, (s, d) in enumerate(zip(weights, depths, strict=True))),
            normal(seed + 5, 1, cfg.q_rank, scale=0.1) + BF16.type(1), normal(seed + 6, 1, cfg.kv_rank) + BF16.type(1),
            np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32), slots,
            normal(seed + 7, blocks, cfg.block, 1, cfg.kv_rank), normal(seed + 8, blocks, cfg.block, 1, cfg.rope),
            np.zeros((tokens, cfg.heads * cfg.kv_rank), BF16), np.zeros((tokens, cfg.heads * cfg.rope), BF16)]


def cases():
    """A step and a tail, on the narrower layer."""
    args = inputs(19, CHECKED)
    names = ("kv_cache", "kr_cache", "q_nope", "q_rope")
    wanted = zip(names, golden(*args[:12], CHECKED), strict=True)
    return [Case(make_mla_prolog(CHECKED), args, {10 + n: (*w, 6 * BF16_STEP) for n, w in enumerate(wanted)},
                 "19 tokens, hidden 1024, 8 heads")]


def estimate(tokens=32, cfg=DEEPSEEK_V3, blocks=1024, **options):
    """Predicted cost of a decode batch on the whole layer."""
    head, half = cfg.nope + cfg.rope, cfg.rope // 2
    shapes = [(tokens, cfg.hidden), (cfg.hidden, cfg.q_rank), (cfg.q_rank, cfg.heads * head),
              (cfg.heads * cfg.nope, cfg.kv_rank), (cfg.hidden, cfg.kv_rank + cfg.rope), (1, cfg.q_rank),
              (1, cfg.kv_rank)]
    angles = [pypto.Spec((tokens, half), "fp32")] * 2
    caches = [pypto.Spec((blocks, cfg.block, 1, n), "bf16") for n in (cfg.kv_rank, cfg.rope)]
    outputs = [pypto.Spec((tokens, cfg.heads * n), "bf16") for n in (cfg.kv_rank, cfg.rope)]
    return pypto.estimate(make_mla_prolog(cfg), *(pypto.Spec(s, "bf16") for s in shapes), *angles,
                          pypto.Spec((tokens, 1), "int64"), *caches, *outputs, **options)


def main() -> float:
    return report("MLA prolog, DeepSeek-V3", cases(), {"32 tokens": estimate})


if __name__ == "__main__":
    main()
