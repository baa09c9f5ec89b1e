"""Decode attention over a paged KV cache: grouped queries, a block table, sequences of any length.

    o[b, h] = softmax(q[b, h] K[b, g]^T / sqrt(D)) V[b, g],  g = h // (N / N_kv)

K and V of a sequence lie in blocks of the cache; `block_table[b, j]` names the j-th. Every KV head reads its blocks
once for the query heads that share it; the last block is cut short by its valid shape. Sizes: Llama 3 8B (32 query
heads, 8 KV heads, D = 128), blocks of 128 rows.
"""
import math
from dataclasses import dataclass

import numpy as np
from gallery_tools import BF16, BF16_STEP, Case, normal, report

import pypto_sim as pypto


@dataclass(frozen=True)
class PagedConfig:
    """heads, kv_heads, head_dim: of the model; block: rows of a cache block; step: rows that one iteration handles."""

    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    block: int = 128
    step: int = 512


LLAMA3_8B = PagedConfig()


def make_paged_decode(cfg: PagedConfig):
    """The kernel of one configuration."""
    group, dim, block, step = cfg.heads // cfg.kv_heads, cfg.head_dim, cfg.block, cfg.step
    blocks_per_step = step // block
    scale = 1.0 / math.sqrt(dim)

    def load_rows(cache, table, b, first, head, valid):
        """Rows of one KV head from `blocks_per_step` cache blocks, as one tile [step, dim]."""
        tile = pypto.tensor([step, dim], pypto.DT_BF16, "rows")
        for j in range(blocks_per_step):
            at = table[b, first + j]
            part = pypto.view(cache, [block, dim], [at * block, head * dim])
            pypto.assemble(part, [j * block, 0], tile)
        return pypto.view(tile, [step, dim], [0, 0], valid_shape=[valid, dim])

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU, "stitch_function_max_num": 128})
    def paged_decode(
        q: pypto.Tensor([pypto.DYNAMIC, cfg.heads, dim], pypto.DT_BF16),
        k_cache: pypto.Tensor([pypto.DYNAMIC, block, cfg.kv_heads, dim], pypto.DT_BF16),
        v_cache: pypto.Tensor([pypto.DYNAMIC, block, cfg.kv_heads, dim], pypto.DT_BF16),
        block_table: pypto.Tensor([pypto.DYNAMIC, pypto.DYNAMIC], pypto.DT_INT32),
        kv_lens: pypto.Tensor([pypto.DYNAMIC], pypto.DT_INT32),
        out: pypto.Tensor([pypto.DYNAMIC, cfg.heads, dim], pypto.DT_BF16),
    ):
        batch, rows = q.shape[0], k_cache.shape[0] * block
        q2 = pypto.reshape(q, [batch * cfg.heads, dim], inplace=True)
        k2 = pypto.reshape(k_cache, [rows, cfg.kv_heads * dim], inplace=True)
        v2 = pypto.reshape(v_cache, [rows, cfg.kv_heads * dim], inplace=True)
        out2 = pypto.reshape(out, [batch * cfg.heads, dim], inplace=True)
        for b in pypto.loop(batch, name="LOOP_B", idx_name="b"):
            length = kv_lens[b]
            length.as_variable()
            for h in pypto.loop(cfg.kv_heads, name="LOOP_N", idx_name="h"):
                row = b * cfg.heads + h * group
                qi = pypto.view(q2, [group, dim], [row, 0])
                oi = pypto.tensor([group, dim], pypto.DT_FP32, "oi")
                li = pypto.tensor([group, 1], pypto.DT_FP32, "li")
                mi = pypto.tensor([group, 1], pypto.DT_FP32, "mi")
                for s in pypto.loop((length + step - 1) // step, name="LOOP_S", idx_name="s", unroll_list=[4, 2, 1]):
                    valid = (length - s * step).min(step)
                    kt = load_rows(k2, block_table, b, s * blocks_per_step, h, valid)
                    vt = load_rows(v2, block_table, b, s * blocks_per_step, h, valid)
                    pypto.set_cube_tile_shapes([16, 16], [128, 128], [128, 512])
                    pypto.set_vec_tile_shapes(group, step)
                    scores = pypto.matmul(qi, kt, pypto.DT_FP32, b_trans=True)
                    scores = pypto.mul(scores, scale)
                    m_new = pypto.amax(scores, -1, keepdim=True)
                    if pypto.is_loop_begin(s):
                        p = pypto.exp(pypto.sub(scores, m_new))
                        li[:] = pypto.sum(p, -1, keepdim=True)
                        pypto.set_cube_tile_shapes([16, 16], [128, 512], [128, 128])
                        oi[:] = pypto.matmul(pypto.cast(p, pypto.DT_BF16), vt, pypto.DT_FP32)
                    else:
                        m_new = pypto.maximum(mi, m_new)
                        p = pypto.exp(pypto.sub(scores, m_new))
                        fade = pypto.exp(pypto.sub(mi, m_new))
                        li[:] = pypto.add(pypto.mul(li, fade), pypto.sum(p, -1, keepdim=True))
                        pypto.set_cube_tile_shapes([16, 16], [128, 512], [128, 128])
                        pv = pypto.matmul(pypto.cast(p, pypto.DT_BF16), vt, pypto.DT_FP32)
                        pypto.set_vec_tile_shapes(group, dim)
                        oi[:] = pypto.add(pypto.mul(oi, fade), pv)
                    mi[:] = m_new
                    if pypto.is_loop_end(s):
                        pypto.set_vec_tile_shapes(group, dim)
                        pypto.assemble(pypto.cast(pypto.div(oi, li), pypto.DT_BF16), [row, 0], out2)
    return paged_decode


def golden(q, k_cache, v_cache, block_table, kv_lens, cfg=LLAMA3_8B):
    """Softmax attention per sequence in float64."""
    group = cfg.heads // cfg.kv_heads
    out = np.zeros(q.shape)
    for b, n in enumerate(kv_lens):
        blocks = block_table[b, :-(-int(n) // cfg.block)]
        k, v = (np.concatenate([c[i] for i in blocks])[:n].astype(np.float64) for c in (k_cache, v_cache))
        for h in range(cfg.heads):
            s = q[b, h].astype(np.float64) @ k[:, h // group].T / math.sqrt(cfg.head_dim)
            p = np.exp(s - s.max())
            out[b, h] = p @ v[:, h // group] / p.sum()
    return out


def inputs(kv_lens, cfg=LLAMA3_8B, seed=0):
    """Arguments for sequences of these lengths; the blocks of the cache are dealt out in random order.

    The table is as wide as whole steps need; entries behind the end of a sequence name block 0.
    """
    lens = np.asarray(kv_lens, np.int32)
    counts = -(-lens // cfg.block)
    width = -(-int(lens.max()) // cfg.step) * (cfg.step // cfg.block)
    order = np.random.default_rng(seed).permutation(int(counts.sum())).astype(np.int32)
    table = np.zeros((len(lens), width), np.int32)
    at = 0
    for b, n in enumerate(counts):
        table[b, :n] = order[at:at + n]
        at += n
    shape = (int(counts.sum()), cfg.block, cfg.kv_heads, cfg.head_dim)
    q = normal(seed + 1, len(lens), cfg.heads, cfg.head_dim)
    return [q, normal(seed + 2, *shape), normal(seed + 3, *shape), table, lens, np.zeros(q.shape, BF16)]


def cases():
    """Ragged lengths: one row, a part of a block, a whole step, several steps with a tail."""
    args = inputs([1, 77, 512, 1300])
    return [Case(make_paged_decode(LLAMA3_8B), args, {5: ("o", golden(*args[:5]), 4 * BF16_STEP)}, "ragged batch of 4")]


def estimate(batch=16, kv_len=8192, cfg=LLAMA3_8B, **options):
    """Predicted cost of a batch of equal lengths; only the table and the lengths have data."""
    blocks = -(-kv_len // cfg.block)
    table = np.arange(batch * blocks, dtype=np.int32).reshape(batch, blocks)
    q = pypto.Spec((batch, cfg.heads, cfg.head_dim), "bf16")
    cache = pypto.Spec((batch * blocks, cfg.block, cfg.kv_heads, cfg.head_dim), "bf16")
    lens = np.full(batch, kv_len, np.int32)
    return pypto.estimate(make_paged_decode(cfg), q, cache, cache, table, lens, q, **options)


def main() -> float:
    return report("Paged GQA decode attention, Llama 3 8B", cases(), {"16 sequences, KV 8192": estimate})


if __name__ == "__main__":
    main()
