"""MoE gate: sigmoid written as exp, add, div, then renormalised over the experts.

The skeleton stores the fp32 weights into an output of the kernel's dtype.
"""
import ml_dtypes
import numpy as np

import pypto_sim as pypto

sl = [8, 160]                        # tokens, experts
batch, inner = sl[0], sl[1:]
pypto_dtype = pypto.DT_BF16


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def moe_routing_kernel(a: pypto.Tensor(sl, pypto_dtype), out: pypto.Tensor(sl, pypto_dtype)):
    for i in pypto.loop(batch, name="token", unroll_list=[1]):
        a_s = pypto.view(a, [1] + inner, [i] + [0] * len(inner))
        pypto.set_vec_tile_shapes(1, *inner)
        x = pypto.cast(a_s, pypto.DT_FP32)
        e = pypto.add(pypto.exp(pypto.mul(x, -1.0)), 1.0)
        ones = pypto.full([1] + inner, 1.0, pypto.DT_FP32)
        w = pypto.div(ones, e, pypto.PrecisionType.INTRINSIC)
        s = pypto.sum(w, dim=-1, keepdim=True)
        r = pypto.div(w, s)
        pypto.assemble(r, [i] + [0] * len(inner), out)


def run() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, result, float64 golden) of one launch."""
    a = np.random.default_rng(2).standard_normal(sl).astype(ml_dtypes.bfloat16)
    out = np.zeros(sl, ml_dtypes.bfloat16)
    moe_routing_kernel(a, out)
    w = 1 / (1 + np.exp(-a.astype(np.float64)))
    return [("gate", out, w / w.sum(-1, keepdims=True))]


if __name__ == "__main__":
    for name, got, want in run():
        print(f"{name}: largest error {np.abs(got.astype(np.float64) - want).max():.2e}")
