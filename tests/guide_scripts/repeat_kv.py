"""repeat_kv as unsqueeze, expand_clone and reshape: every KV head copied G times."""
import ml_dtypes
import numpy as np

import pypto_sim as pypto

B, N_kv, G, S, D = 2, 4, 2, 1, 128   # decode: one new token
N_q = N_kv * G


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def repeat_kv_kernel(kv_in: pypto.Tensor([B, N_kv, S, D], pypto.DT_BF16),
                     out: pypto.Tensor([B, N_q, S, D], pypto.DT_BF16)):
    pypto.set_vec_tile_shapes(1, 1, 1, S, D)
    kv = pypto.unsqueeze(kv_in, 2)                    # [B, N_kv, 1, S, D]
    kv = pypto.expand_clone(kv, [B, N_kv, G, S, D])
    kv = pypto.reshape(kv, [B, N_q, S, D])
    pypto.set_vec_tile_shapes(1, 1, S, D)
    pypto.assemble(kv, [0, 0, 0, 0], out)


def run() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, result, golden) of one launch."""
    kv = np.random.default_rng(6).standard_normal([B, N_kv, S, D]).astype(ml_dtypes.bfloat16)
    out = np.zeros([B, N_q, S, D], ml_dtypes.bfloat16)
    repeat_kv_kernel(kv, out)
    return [("repeat_kv", out, np.repeat(kv, G, axis=1))]


if __name__ == "__main__":
    for name, got, want in run():
        print(f"{name}: equal {np.array_equal(got, want)}")
