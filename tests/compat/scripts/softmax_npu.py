"""As a kernel author has it for the device: a factory, a golden, argparse with a run mode, exit code by the result."""
import argparse
import os
import sys
from dataclasses import dataclass

import pypto
import torch
import torch_npu  # noqa: F401
from numpy.testing import assert_allclose


def get_device_id():
    if "TILE_FWK_DEVICE_ID" not in os.environ:
        print("Please set TILE_FWK_DEVICE_ID")
        return None
    return int(os.environ["TILE_FWK_DEVICE_ID"])


@dataclass
class Config:
    cols: int = 128
    tile_rows: int = 4


def create_softmax_kernel(config, run_mode="npu"):
    mode = {"npu": pypto.RunMode.NPU, "sim": pypto.RunMode.SIM}[run_mode]

    @pypto.frontend.jit(runtime_options={"run_mode": mode})
    def softmax_kernel(
        x: pypto.Tensor([pypto.DYNAMIC, config.cols], pypto.DT_FP32),
        out: pypto.Tensor([pypto.DYNAMIC, config.cols], pypto.DT_FP32),
    ):
        rows = x.shape[0]
        for idx in pypto.loop(0, (rows + config.tile_rows - 1) // config.tile_rows, 1, name="LOOP_ROW", idx_name="idx"):
            pypto.set_vec_tile_shapes(config.tile_rows, config.cols)
            start = idx * config.tile_rows
            valid = pypto.min(config.tile_rows, rows - start)
            tile = pypto.view(x, [config.tile_rows, config.cols], [start, 0], valid_shape=[valid, config.cols])
            shifted = pypto.exp(tile - pypto.amax(tile, dim=-1, keepdim=True))
            pypto.assemble(shifted / pypto.sum(shifted, dim=-1, keepdim=True), [start, 0], out)

    return softmax_kernel


def test_softmax(device_id=0, run_mode="npu"):
    device = f"npu:{device_id}" if run_mode == "npu" else "cpu"
    x = torch.rand(10, 128, dtype=torch.float32, device=device)
    out = torch.zeros_like(x)
    create_softmax_kernel(Config(), run_mode)(x, out)
    if run_mode == "npu":
        torch.npu.synchronize()
    golden = torch.softmax(x, dim=-1)
    assert_allclose(out.cpu().numpy(), golden.cpu().numpy(), rtol=1e-5, atol=1e-6)
    print(f"softmax on {out.device}: max diff {(out - golden).abs().max().item():.1e}")


def main():
    parser = argparse.ArgumentParser(description="softmax")
    parser.add_argument("example_id", nargs="?", default="softmax::test_softmax")
    parser.add_argument("--run_mode", "--run-mode", choices=["npu", "sim"], default="npu")
    args = parser.parse_args()
    device_id = None
    if args.run_mode == "npu":
        device_id = get_device_id()
        if device_id is None:
            sys.exit(2)
        torch.npu.set_device(device_id)
    test_softmax(device_id, args.run_mode)
    print(f"{args.example_id} passed")


if __name__ == "__main__":
    main()
