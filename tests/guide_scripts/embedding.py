"""Embedding look-up of ids [B, S] written with `gather`; no vector tile set."""
import numpy as np

import pypto_sim as pypto

wl, il = [64, 32], [3, 5]            # vocabulary and width; rows and ids a row
ol = il + wl[1:]
batch, idx_inner = il[0], il[1:]


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def embedding_kernel(weight: pypto.Tensor(wl, pypto.DT_FP32), indices: pypto.Tensor(il, pypto.DT_INT32),
                     out: pypto.Tensor(ol, pypto.DT_FP32)):
    for i in pypto.loop(batch, name="row", unroll_list=[1]):
        idx_s = pypto.view(indices, [1] + idx_inner, [i] + [0] * len(idx_inner))
        r = pypto.gather(weight, 0, idx_s)
        pypto.assemble(r, [i] + [0] * (len(ol) - 1), out)


def run() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, result, golden) of one launch."""
    rng = np.random.default_rng(4)
    weight = rng.standard_normal(wl).astype(np.float32)
    ids = rng.integers(0, wl[0], il).astype(np.int32)
    out = np.zeros(ol, np.float32)
    embedding_kernel(weight, ids, out)
    return [("embedding", out, weight[ids])]


if __name__ == "__main__":
    for name, got, want in run():
        print(f"{name}: equal {np.array_equal(got, want)}")
