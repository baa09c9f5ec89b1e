"""A test that starts itself again with sys.executable, once per case, and a pool of spawned workers."""
import multiprocessing
import os
import subprocess
import sys

CASES = ("add", "relu")


def worker(case):
    import pypto
    import torch
    import torch_npu

    torch.npu.set_device(int(os.environ.get("TILE_FWK_DEVICE_ID", 0)))

    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([8, 64], pypto.DT_FP32), out: pypto.Tensor([8, 64], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(8, 64)
        out[:] = x + 1.0 if case == "add" else pypto.relu(x)

    x = torch.randn(8, 64).npu()
    out = torch.empty_like(x)
    kernel(x, out)
    golden = x + 1 if case == "add" else torch.relu(x)
    assert torch.equal(out, golden)
    assert torch_npu.__version__
    return f"{case} on {out.device} in a process of its own"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(worker(sys.argv[1]))
        sys.exit(0)
    for case in CASES:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), case], capture_output=True, text=True)
        print(done.stdout.strip() or done.stderr)
        assert done.returncode == 0
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(worker, ["relu"])[0])
