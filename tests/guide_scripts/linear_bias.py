"""Linear layer with the bias fused into the matmul: 1-D bias in the kernel's dtype, no vector tile set.

The batch axis is stepped over, so each step multiplies a 3-D block with the 2-D weight.
"""
import ml_dtypes
import numpy as np

import pypto_sim as pypto

M, K, N = 16, 64, 48
sl, ol = [2, M, K], [2, M, N]
batch, inner = sl[0], sl[1:]
pypto_dtype = pypto.DT_BF16


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def linear_kernel(a: pypto.Tensor(sl, pypto_dtype), b: pypto.Tensor([N, K], pypto_dtype),
                  bias: pypto.Tensor([N], pypto_dtype), out: pypto.Tensor(ol, pypto_dtype)):
    for i in pypto.loop(batch, name="batch", unroll_list=[1]):
        a_s = pypto.view(a, [1] + inner, [i] + [0] * len(inner))
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        r = pypto.matmul(a_s, b, pypto_dtype, b_trans=True, extend_params={"bias_tensor": bias})
        pypto.assemble(r, [i] + [0] * (len(ol) - 1), out)


def run() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, result, float64 golden) of one launch."""
    rng = np.random.default_rng(3)
    a, b, bias = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in (sl, [N, K], [N]))
    out = np.zeros(ol, ml_dtypes.bfloat16)
    linear_kernel(a, b, bias, out)
    return [("linear", out, a.astype(np.float64) @ b.astype(np.float64).T + bias.astype(np.float64))]


if __name__ == "__main__":
    for name, got, want in run():
        print(f"{name}: largest error {np.abs(got.astype(np.float64) - want).max():.2e}")
