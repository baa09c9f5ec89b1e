"""Flash attention forward over packed sequences: causal, with the row sums and maxima that a backward pass needs.

    o = softmax(causal(q k^T / sqrt(D))) v per sequence and head;  m = row maximum of the scores, l = sum exp(s - m)

Tokens of all sequences are packed on one axis; sequence b has the rows cu_seqlens[b] .. cu_seqlens[b + 1]. Outputs are
O [T, N * D] in bf16 and L, M [T, N] in fp32. Key tiles behind the diagonal are never visited. Sizes: Qwen3-8B (32 query
heads, 8 KV heads, D = 128).
"""
import math
from dataclasses import dataclass

import numpy as np
from gallery_tools import BF16, BF16_STEP, Case, normal, report, wide

import pypto_sim as pypto

FAR = -1.0e30                              # score of a key in the future: exp of it is 0


@dataclass(frozen=True)
class VarlenConfig:
    """heads, kv_heads, head_dim: of the model; tile: query and key rows of one step."""

    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    tile: int = 128


QWEN3_8B = VarlenConfig()


def make_varlen_flash(cfg: VarlenConfig):
    """The kernel of one configuration."""
    dim, tile, group = cfg.head_dim, cfg.tile, cfg.heads // cfg.kv_heads
    scale = 1.0 / math.sqrt(dim)

    def tile_of(x, row, column, valid):
        return pypto.view(x, [tile, dim], [row, column], valid_shape=[valid, dim])

    def weighted(p, vt):
        pypto.set_cube_tile_shapes([128, 128], [128, 128], [128, 128])
        return pypto.matmul(pypto.cast(p, pypto.DT_BF16), vt, pypto.DT_FP32)

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU, "stitch_function_max_num": 128},
                        pass_options={"cube_l1_reuse_setting": {"DEFAULT": 4}})
    def varlen_flash(
        q: pypto.Tensor([pypto.DYNAMIC, cfg.heads * dim], pypto.DT_BF16),
        k: pypto.Tensor([pypto.DYNAMIC, cfg.kv_heads * dim], pypto.DT_BF16),
        v: pypto.Tensor([pypto.DYNAMIC, cfg.kv_heads * dim], pypto.DT_BF16),
        cu_seqlens: pypto.Tensor([pypto.DYNAMIC], pypto.DT_INT32),
        out: pypto.Tensor([pypto.DYNAMIC, cfg.heads * dim], pypto.DT_BF16),
        l_out: pypto.Tensor([pypto.DYNAMIC, cfg.heads], pypto.DT_FP32),
        m_out: pypto.Tensor([pypto.DYNAMIC, cfg.heads], pypto.DT_FP32),
    ):
        for b in pypto.loop(cu_seqlens.shape[0] - 1, name="LOOP_B", idx_name="b"):
            first = cu_seqlens[b]
            length = cu_seqlens[b + 1] - first
            tiles = (length + tile - 1) // tile
            for h in pypto.loop(cfg.heads, name="LOOP_N", idx_name="h"):
                kv = h // group * dim
                for i in pypto.loop(tiles, name="LOOP_Q", idx_name="i"):
                    q_rows = pypto.min(tile, length - i * tile)
                    row = first + i * tile
                    oi = pypto.tensor([tile, dim], pypto.DT_FP32, "oi")
                    li = pypto.tensor([tile, 1], pypto.DT_FP32, "li")
                    mi = pypto.tensor([tile, 1], pypto.DT_FP32, "mi")
                    for j in pypto.loop(i + 1, name="LOOP_K", idx_name="j"):
                        pypto.set_vec_tile_shapes(64, tile)
                        pypto.set_cube_tile_shapes([128, 128], [128, 128], [128, 128])
                        k_rows = pypto.min(tile, length - j * tile)
                        qt = tile_of(q, row, h * dim, q_rows)
                        kt = tile_of(k, first + j * tile, kv, k_rows)
                        vt = tile_of(v, first + j * tile, kv, k_rows)
                        s = pypto.mul(pypto.matmul(qt, kt, pypto.DT_FP32, b_trans=True), scale)
                        if pypto.is_loop_end(j):          # the tile on the diagonal
                            past = pypto.tril(pypto.full([tile, tile], 1.0, pypto.DT_FP32), 0)
                            far = pypto.full([tile, tile], FAR, pypto.DT_FP32)
                            s = pypto.where(pypto.gt(past, 0.5), s, far)
                            s = pypto.view(s, [tile, tile], [0, 0], valid_shape=[q_rows, k_rows])
                        m = pypto.amax(s, -1, keepdim=True)
                        if pypto.is_loop_begin(j):
                            p = pypto.exp(pypto.sub(s, m))
                            mi[:], li[:], oi[:] = m, pypto.sum(p, -1, keepdim=True), weighted(p, vt)
                        else:
                            m = pypto.maximum(mi, m)
                            p = pypto.exp(pypto.sub(s, m))
                            fade = pypto.exp(pypto.sub(mi, m))
                            li[:] = pypto.add(pypto.mul(li, fade), pypto.sum(p, -1, keepdim=True))
                            oi[:] = pypto.add(pypto.mul(oi, fade), weighted(p, vt))
                            mi[:] = m
                        if pypto.is_loop_end(j):
                            pypto.set_vec_tile_shapes(64, dim)
                            pypto.assemble(pypto.cast(pypto.div(oi, li), pypto.DT_BF16), [row, h * dim], out)
                            pypto.assemble(pypto.mul(li, 1.0), [row, h], l_out)
                            pypto.assemble(pypto.mul(mi, 1.0), [row, h], m_out)
    return varlen_flash


def golden(q, k, v, cu_seqlens, cfg=QWEN3_8B):
    """(O, L, M) in float64."""
    q, k, v = wide(q, k, v)
    dim, group = cfg.head_dim, cfg.heads // cfg.kv_heads
    out, l_out, m_out = np.zeros_like(q), np.zeros((len(q), cfg.heads)), np.zeros((len(q), cfg.heads))
    for a, z in zip(cu_seqlens[:-1], cu_seqlens[1:], strict=True):
        future = np.triu(np.ones((z - a, z - a), bool), 1)
        for h in range(cfg.heads):
            at, kv = slice(h * dim, (h + 1) * dim), slice(h // group * dim, (h // group + 1) * dim)
            s = np.where(future, -np.inf, q[a:z, at] @ k[a:z, kv].T / math.sqrt(dim))
            m = s.max(-1, keepdims=True, initial=-np.inf)
            p = np.exp(s - m)
            total = p.sum(-1, keepdims=True)
            out[a:z, at], l_out[a:z, h:h + 1], m_out[a:z, h:h + 1] = p @ v[a:z, kv] / total, total, m
    return out, l_out, m_out


def inputs(lengths, cfg=QWEN3_8B, seed=0):
    """Arguments for packed sequences of these lengths."""
    cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    rows = int(cu[-1])
    q = normal(seed, rows, cfg.heads * cfg.head_dim)
    k, v = (normal(seed + n, rows, cfg.kv_heads * cfg.head_dim) for n in (1, 2))
    sums = [np.zeros((rows, cfg.heads), np.float32) for _ in range(2)]
    return [q, k, v, cu, np.zeros(q.shape, BF16), *sums]


def cases():
    """An empty sequence, one token, a cut tile, a whole tile, three tiles with a tail."""
    args = inputs([1, 0, 60, 128, 300])
    o, total, m = golden(*args[:4])
    allowed = 4 * BF16_STEP
    return [Case(make_varlen_flash(QWEN3_8B), args, {4: ("o", o, allowed), 5: ("l", total, 1e-3), 6: ("m", m, 1e-4)},
                 "sequences of 1, 0, 60, 128 and 300 tokens")]


def estimate(lengths=(4096, 1000, 300), cfg=QWEN3_8B, **options):
    """Predicted cost; only the sequence starts have data."""
    cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    q, kv = (pypto.Spec((int(cu[-1]), n * cfg.head_dim), "bf16") for n in (cfg.heads, cfg.kv_heads))
    sums = pypto.Spec((int(cu[-1]), cfg.heads), "fp32")
    return pypto.estimate(make_varlen_flash(cfg), q, kv, kv, cu, q, sums, sums, **options)


def main() -> float:
    return report("Varlen causal flash attention forward, Qwen3-8B", cases(),
                  {"sequences of 4096, 1000 and 300 tokens": estimate})


if __name__ == "__main__":
    main()
