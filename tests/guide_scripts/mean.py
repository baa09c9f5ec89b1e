"""Mean over the last axis as sum / N: fp32 as the skeleton has it, and bf16 cast to fp32 before the sum."""
import ml_dtypes
import numpy as np

import pypto_sim as pypto

sl, ol = [6, 512], [6, 1]
batch, inner, inner_out = sl[0], sl[1:], ol[1:]
pypto_dtype = pypto.DT_FP32


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def mean_kernel(a: pypto.Tensor(sl, pypto_dtype), out: pypto.Tensor(ol, pypto_dtype)):
    for i in pypto.loop(batch, name="batch", unroll_list=[1]):
        a_s = pypto.view(a, [1] + inner, [i] + [0] * len(inner))
        pypto.set_vec_tile_shapes(1, *inner)
        s = pypto.sum(a_s, dim=-1, keepdim=True)
        n = pypto.full([1] + inner_out, float(inner[-1]), pypto_dtype)
        r = pypto.div(s, n)
        pypto.assemble(r, [i] + [0] * (len(ol) - 1), out)


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def mean_bf16_kernel(a: pypto.Tensor(sl, pypto.DT_BF16), out: pypto.Tensor(ol, pypto.DT_BF16)):
    for i in pypto.loop(batch, name="batch", unroll_list=[1]):
        a_s = pypto.view(a, [1] + inner, [i] + [0] * len(inner))
        pypto.set_vec_tile_shapes(1, *inner)
        s = pypto.sum(pypto.cast(a_s, pypto.DT_FP32), dim=-1, keepdim=True)
        n = pypto.full([1] + inner_out, float(inner[-1]), pypto.DT_FP32)
        r = pypto.cast(pypto.div(s, n), pypto.DT_BF16)
        pypto.assemble(r, [i] + [0] * (len(ol) - 1), out)


def run() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, result, float64 golden) of two launches."""
    a = np.random.default_rng(5).standard_normal(sl).astype(np.float32)
    half = a.astype(ml_dtypes.bfloat16)
    out, half_out = np.zeros(ol, np.float32), np.zeros(ol, ml_dtypes.bfloat16)
    mean_kernel(a, out)
    mean_bf16_kernel(half, half_out)
    return [("mean fp32", out, a.astype(np.float64).mean(-1, keepdims=True)),
            ("mean bf16", half_out, half.astype(np.float64).mean(-1, keepdims=True))]


if __name__ == "__main__":
    for name, got, want in run():
        print(f"{name}: largest error {np.abs(got.astype(np.float64) - want).max():.2e}")
