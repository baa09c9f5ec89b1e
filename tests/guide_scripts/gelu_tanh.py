"""GELU in its tanh form, the guide's skeleton: one row a step, every constant a `full` in the input's dtype."""
import ml_dtypes
import numpy as np

import pypto_sim as pypto

sl = [4, 512]
batch, inner = sl[0], sl[1:]
pypto_dtype = pypto.DT_BF16


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def gelu_tanh_kernel(a: pypto.Tensor(sl, pypto_dtype), out: pypto.Tensor(sl, pypto_dtype)):
    for i in pypto.loop(batch, name="batch", unroll_list=[1]):
        a_s = pypto.view(a, [1] + inner, [i] + [0] * len(inner))
        pypto.set_vec_tile_shapes(1, *inner)
        r = pypto.mul(a_s, pypto.mul(pypto.full([1] + inner, 0.5, a_s.dtype), pypto.add(
            pypto.full([1] + inner, 1.0, a_s.dtype), pypto.tanh(pypto.mul(
                pypto.full([1] + inner, 0.7978845608, a_s.dtype), pypto.add(a_s, pypto.mul(
                    pypto.full([1] + inner, 0.044715, a_s.dtype), pypto.mul(a_s, pypto.mul(a_s, a_s)))))))))
        pypto.assemble(r, [i] + [0] * len(inner), out)


def run() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, result, float64 golden) of one launch."""
    a = np.random.default_rng(0).standard_normal(sl).astype(ml_dtypes.bfloat16)
    out = np.zeros(sl, ml_dtypes.bfloat16)
    gelu_tanh_kernel(a, out)
    x = a.astype(np.float64)
    return [("gelu", out, 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))))]


if __name__ == "__main__":
    for name, got, want in run():
        print(f"{name}: largest error {np.abs(got.astype(np.float64) - want).max():.2e}")
