"""One decode step of attention over a KV cache of any length: online softmax in blocks, the last block cut short."""
import math

import ml_dtypes
import numpy as np

import pypto_sim as pypto

HEADS, WIDTH, BLOCK = 8, 128, 512          # query heads that share a KV head, head width, KV rows per step
BF16, FP32, ROWS = pypto.DT_BF16, pypto.DT_FP32, pypto.DYNAMIC


@pypto.frontend.jit
def decode_attention(q: pypto.Tensor([HEADS, WIDTH], BF16), k: pypto.Tensor([ROWS, WIDTH], BF16),
                     v: pypto.Tensor([ROWS, WIDTH], BF16), out: pypto.Tensor([HEADS, WIDTH], BF16)):
    pypto.set_cube_tile_shapes([16, 16], [128, 128], [128, 128])
    pypto.set_vec_tile_shapes(HEADS, BLOCK)
    rows = k.shape[0]
    largest = pypto.full([HEADS, 1], -1e30, FP32)
    total = pypto.full([HEADS, 1], 0.0, FP32)
    product = pypto.full([HEADS, WIDTH], 0.0, FP32)
    for i in pypto.loop((rows + BLOCK - 1) // BLOCK):
        valid = pypto.min(BLOCK, rows - i * BLOCK)
        keys = pypto.view(k, [BLOCK, WIDTH], [i * BLOCK, 0], valid_shape=[valid, WIDTH])
        values = pypto.view(v, [BLOCK, WIDTH], [i * BLOCK, 0], valid_shape=[valid, WIDTH])
        scores = pypto.matmul(q, keys, FP32, b_trans=True) * (1 / math.sqrt(WIDTH))
        now = pypto.maximum(largest, pypto.amax(scores, -1, keepdim=True))
        weights, fade = pypto.exp(scores - now), pypto.exp(largest - now)
        total[:] = total * fade + pypto.sum(weights, -1, keepdim=True)
        product[:] = product * fade + pypto.matmul(pypto.cast(weights, BF16), values, FP32)
        largest[:] = now
    out[:] = pypto.cast(product / total, BF16)


def reference(q, k, v):
    """Softmax attention in float64."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    scores = q @ k.T / math.sqrt(WIDTH)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


def main() -> float:
    rng = np.random.default_rng(0)
    worst = 0.0
    for rows in (1, 512, 1300):
        q, k, v = (rng.standard_normal((n, WIDTH)).astype(ml_dtypes.bfloat16) for n in (HEADS, rows, rows))
        out = np.zeros_like(q)
        decode_attention(q, k, v, out)
        error = float(np.max(np.abs(out.astype(np.float64) - reference(q, k, v))))
        print(f"kv {rows}: largest error against float64 {error:.2e}")
        worst = max(worst, error)
    for rows in (1024, 8192, 131072):           # shapes are enough for a cost
        cache, query = pypto.Spec((rows, WIDTH), "bf16"), pypto.Spec((HEADS, WIDTH), "bf16")
        cost = pypto.estimate(decode_attention, query, cache, cache, query)
        print(f"kv {rows}: {cost.time_us:.1f} us, {cost.gm_read_bytes:,} B read, bound by {cost.bound_by}")
    return worst


if __name__ == "__main__":
    main()
