"""RoPE by view, neg, concat, mul and add; the last axis is split in halves."""
import ml_dtypes
import numpy as np

import pypto_sim as pypto

sl = [6, 8, 128]                     # tokens, heads, head size
batch, inner = sl[0], sl[1:]
half = inner[-1] // 2
pypto_dtype = pypto.DT_BF16


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def rope_kernel(a: pypto.Tensor(sl, pypto_dtype), cos: pypto.Tensor(sl, pypto_dtype),
                sin: pypto.Tensor(sl, pypto_dtype), out: pypto.Tensor(sl, pypto_dtype)):
    for i in pypto.loop(batch, name="batch", unroll_list=[1]):
        a_s = pypto.view(a, [1] + inner, [i] + [0] * len(inner))
        cos_s = pypto.view(cos, [1] + inner, [i] + [0] * len(inner))
        sin_s = pypto.view(sin, [1] + inner, [i] + [0] * len(inner))
        pypto.set_vec_tile_shapes(1, *inner)
        neg_a2 = pypto.neg(pypto.view(a_s, [1] + inner[:-1] + [half], [0] * len([1] + inner[:-1]) + [half]))
        a1 = pypto.view(a_s, [1] + inner[:-1] + [half], [0] * len([1] + inner))
        rot = pypto.concat([neg_a2, a1], dim=-1)
        r = pypto.add(pypto.mul(a_s, cos_s), pypto.mul(rot, sin_s))
        pypto.assemble(r, [i] + [0] * len(inner), out)


def run() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, result, float64 golden) of one launch."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal(sl).astype(ml_dtypes.bfloat16)
    angle = np.arange(batch)[:, None, None] * np.tile(10000.0 ** (-np.arange(half) / half), 2)
    cos, sin = (np.ascontiguousarray(np.broadcast_to(f(angle), sl)).astype(ml_dtypes.bfloat16)
                for f in (np.cos, np.sin))
    out = np.zeros(sl, ml_dtypes.bfloat16)
    rope_kernel(a, cos, sin, out)
    x, c, s = (v.astype(np.float64) for v in (a, cos, sin))
    return [("rope", out, x * c + np.concatenate([-x[..., half:], x[..., :half]], -1) * s)]


if __name__ == "__main__":
    for name, got, want in run():
        print(f"{name}: largest error {np.abs(got.astype(np.float64) - want).max():.2e}")
