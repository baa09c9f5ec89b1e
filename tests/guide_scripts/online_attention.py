"""GQA decode attention with an online softmax over KV blocks: running max, sum and output, begin and end of the loop,
a tail block by valid_shape and P split into two bf16 parts for the second product."""
import ml_dtypes
import numpy as np

import pypto_sim as pypto

Nkv, GROUPS, D, BLOCK, KV = 2, 4, 128, 64, 200
scale = D ** -0.5


def _local_softmax(sij, s2_valid):
    """Block statistics: max, unnormalised probabilities and their sum over the valid columns."""
    pypto.set_vec_tile_shapes(Nkv, GROUPS, BLOCK)
    s = pypto.mul(sij, scale)
    s = pypto.view(s, [Nkv, GROUPS, BLOCK], [0, 0, 0], valid_shape=[Nkv, GROUPS, s2_valid])
    m = pypto.amax(s, dim=-1, keepdim=True)
    p = pypto.exp(pypto.sub(s, m))
    return m, p, pypto.sum(p, dim=-1, keepdim=True)


def _compensated_pv(p, v_tile):
    """P V with P as a high and a low bf16 part, so that the product keeps the bits bf16 would drop."""
    high = pypto.cast(p, pypto.DT_BF16)
    low = pypto.cast(pypto.sub(p, pypto.cast(high, pypto.DT_FP32)), pypto.DT_BF16)
    pypto.set_cube_tile_shapes([16, 16], [64, 64], [128, 128])
    o = pypto.add(pypto.matmul(high, v_tile, pypto.DT_FP32), pypto.matmul(low, v_tile, pypto.DT_FP32))
    return o


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def decode_kernel(
    q: pypto.Tensor([Nkv, GROUPS, D], pypto.DT_BF16), k: pypto.Tensor([Nkv, pypto.DYNAMIC, D], pypto.DT_BF16),
    v: pypto.Tensor([Nkv, pypto.DYNAMIC, D], pypto.DT_BF16), out: pypto.Tensor([Nkv, GROUPS, D], pypto.DT_FP32),
):
    kv_len = k.shape[1]
    s2_loop = (kv_len + BLOCK - 1) // BLOCK
    oi = pypto.tensor([Nkv, GROUPS, D], pypto.DT_FP32, "oi")
    li = pypto.tensor([Nkv, GROUPS, 1], pypto.DT_FP32, "li")
    mi = pypto.tensor([Nkv, GROUPS, 1], pypto.DT_FP32, "mi")
    for s2_idx in pypto.loop(s2_loop, name="LOOP_S2", idx_name="s2_idx", unroll_list=[2, 1]):
        s2_valid = pypto.min(BLOCK, kv_len - s2_idx * BLOCK)
        at = [0, s2_idx * BLOCK, 0]
        k_tile = pypto.view(k, [Nkv, BLOCK, D], at, valid_shape=[Nkv, s2_valid, D])
        v_tile = pypto.view(v, [Nkv, BLOCK, D], at, valid_shape=[Nkv, s2_valid, D])
        pypto.set_vec_tile_shapes(Nkv, GROUPS, BLOCK)
        pypto.set_cube_tile_shapes([16, 16], [128, 128], [64, 64])
        sij = pypto.matmul(q, k_tile, pypto.DT_FP32, b_trans=True)
        m_ij, p_ij, l_ij = _local_softmax(sij, s2_valid)
        o_ij = _compensated_pv(p_ij, v_tile)
        pypto.set_vec_tile_shapes(Nkv, GROUPS, D)
        if pypto.is_loop_begin(s2_idx):
            if pypto.is_loop_end(s2_idx):
                out[:] = pypto.div(o_ij, l_ij)
            else:
                oi[:] = o_ij
                li[:] = l_ij
                mi[:] = m_ij
        else:
            mi_new = pypto.maximum(mi, m_ij)
            alpha = pypto.exp(pypto.sub(mi, mi_new))
            beta = pypto.exp(pypto.sub(m_ij, mi_new))
            li_new = pypto.add(pypto.mul(alpha, li), pypto.mul(beta, l_ij))
            oi_new = pypto.add(pypto.mul(oi, alpha), pypto.mul(o_ij, beta))
            if pypto.is_loop_end(s2_idx):
                out[:] = pypto.div(oi_new, li_new)
            else:
                oi[:] = oi_new
                li[:] = li_new
                mi[:] = mi_new


def golden(q, k, v) -> np.ndarray:
    """softmax(q k^T / sqrt(D)) v in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = np.einsum("hgd,hsd->hgs", q, k) * scale
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hgs,hsd->hgd", p / p.sum(-1, keepdims=True), v)


def run() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, result, float64 golden): one block, a whole number of blocks, a tail."""
    rng = np.random.default_rng(7)
    found = []
    for length in (40, 2 * BLOCK, KV):
        q, k, v = ((rng.standard_normal(s) * 0.3).astype(ml_dtypes.bfloat16)
                   for s in ((Nkv, GROUPS, D), (Nkv, length, D), (Nkv, length, D)))
        out = np.zeros((Nkv, GROUPS, D), np.float32)
        decode_kernel(q, k, v, out)
        found.append((f"attention KV {length}", out, golden(q, k, v)))
    return found


if __name__ == "__main__":
    for name, got, want in run():
        print(f"{name}: largest error {np.abs(got.astype(np.float64) - want).max():.2e}")
