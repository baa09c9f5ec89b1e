"""Linear layer with bias and GELU on bf16 arrays: the bias rides in the matrix product, GELU runs in fp32."""
import math

import ml_dtypes
import numpy as np

import pypto_sim as pypto

M, K, N = 64, 512, 1024
BF16, FP32 = pypto.DT_BF16, pypto.DT_FP32


@pypto.frontend.jit
def linear_gelu(x: pypto.Tensor([M, K], BF16), weight: pypto.Tensor([K, N], BF16), bias: pypto.Tensor([1, N], FP32),
                out: pypto.Tensor([M, N], BF16)):
    pypto.set_cube_tile_shapes([64, 64], [128, 256], [128, 128])      # [mL0, mL1], [kL0, kL1], [nL0, nL1]
    pypto.set_vec_tile_shapes(32, 128)
    y = pypto.matmul(x, weight, FP32, extend_params={"bias_tensor": bias})
    inner = (y + y * y * y * 0.044715) * (2 * math.sqrt(2 / math.pi))
    out[:] = pypto.cast(y * pypto.sigmoid(inner), BF16)               # the tanh form of GELU, written with sigmoid


def main() -> float:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((M, K)).astype(ml_dtypes.bfloat16)
    weight = (rng.standard_normal((K, N)) / math.sqrt(K)).astype(ml_dtypes.bfloat16)
    bias = rng.standard_normal((1, N)).astype(np.float32)
    out = np.zeros((M, N), ml_dtypes.bfloat16)
    linear_gelu(x, weight, bias, out)

    y = x.astype(np.float64) @ weight.astype(np.float64) + bias
    exact = y / 2 * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))
    error = float(np.max(np.abs(out.astype(np.float64) - exact) / np.maximum(1, np.abs(exact))))
    print(f"largest error against float64: {error:.2e} of max(1, |result|)")
    print(pypto.estimate(linear_gelu, x, weight, bias, out).explain())
    return error


if __name__ == "__main__":
    main()
