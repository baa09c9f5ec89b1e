"""Does a dynamic axis reach a matrix product and a reduction? The direct form, and the form with a loop and tiles."""
import functools

import pypto_sim as pypto

from .base import Arg, Launch, Observation
from .outcomes import under_profile

NPU = {"run_mode": pypto.RunMode.NPU}
ROWS, WIDTH = 64, 128


@functools.cache
def kernels():
    """(matmul direct, sum direct, matmul in a loop, sum in a loop) on x [DYNAMIC, 128]."""
    @pypto.frontend.jit(runtime_options=NPU)
    def matmul_direct(x: pypto.Tensor([pypto.DYNAMIC, WIDTH], pypto.DT_FP16),
                      w: pypto.Tensor([WIDTH, WIDTH], pypto.DT_FP16),
                      out: pypto.Tensor([pypto.DYNAMIC, WIDTH], pypto.DT_FP16)):
        pypto.set_cube_tile_shapes([64, 64], [64, 64], [64, 64])
        out[:] = pypto.matmul(x, w, pypto.DT_FP16)

    @pypto.frontend.jit(runtime_options=NPU)
    def sum_direct(x: pypto.Tensor([pypto.DYNAMIC, WIDTH], pypto.DT_FP32),
                   out: pypto.Tensor([pypto.DYNAMIC, 1], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(16, WIDTH)
        out[:] = pypto.sum(x, dim=-1, keepdim=True)

    @pypto.frontend.jit(runtime_options=NPU)
    def matmul_tiled(x: pypto.Tensor([pypto.DYNAMIC, WIDTH], pypto.DT_FP16),
                     w: pypto.Tensor([WIDTH, WIDTH], pypto.DT_FP16),
                     out: pypto.Tensor([pypto.DYNAMIC, WIDTH], pypto.DT_FP16)):
        for i in pypto.loop((x.shape[0] + 31) // 32, name="rows", idx_name="i"):
            pypto.set_cube_tile_shapes([32, 32], [64, 64], [64, 64])
            t = pypto.view(x, [32, WIDTH], [i * 32, 0])
            pypto.assemble(pypto.matmul(t, w, pypto.DT_FP16), [i * 32, 0], out)

    @pypto.frontend.jit(runtime_options=NPU)
    def sum_tiled(x: pypto.Tensor([pypto.DYNAMIC, WIDTH], pypto.DT_FP32),
                  out: pypto.Tensor([pypto.DYNAMIC, 1], pypto.DT_FP32)):
        for i in pypto.loop((x.shape[0] + 31) // 32, name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(16, WIDTH)
            t = pypto.view(x, [32, WIDTH], [i * 32, 0])
            pypto.assemble(pypto.sum(t, dim=-1, keepdim=True), [i * 32, 0], out)
    return matmul_direct, sum_direct, matmul_tiled, sum_tiled


def outcomes(device: str) -> dict[str, dict[str, str]]:
    """{kernel: {profile: outcome}} of the four kernels."""
    found = {}
    for kernel, name in zip(kernels(), ("matmul direct", "sum direct", "matmul tiled", "sum tiled"), strict=True):
        dtype = "fp16" if "matmul" in name else "fp32"
        args = {"x": Arg(shape=(ROWS, WIDTH), dtype=dtype),
                "out": Arg(shape=(ROWS, WIDTH if "matmul" in name else 1), dtype=dtype, role="out")}
        names = ("x", "out")
        if "matmul" in name:
            args["w"], names = Arg(shape=(WIDTH, WIDTH), dtype=dtype), ("x", "w", "out")
        found[name] = {p: str(under_profile(p, [Launch(kernel, names)], args, "guide", device))
                       for p in ("lenient", "0.2", "master", "guide")}
    return found


def observe(device: str) -> Observation:
    """The claim's experiment."""
    found = outcomes(device)
    text = "; ".join(f"{name}: " + ", ".join(f"{p} {o}" for p, o in by.items()) for name, by in found.items())
    refused = all(found[f"{op} direct"][p].startswith("error") for op in ("matmul", "sum") for p in ("master", "guide"))
    tiled = all(not o.startswith("error") for op in ("matmul", "sum") for o in found[f"{op} tiled"].values())
    return Observation(text, refused and tiled)
