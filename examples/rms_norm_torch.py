"""RMSNorm over a dynamic batch of torch tensors, four rows at a time, run under the rules of a real version."""
import torch

import pypto_sim as pypto

WIDTH, ROWS = 2048, 4
BF16, FP32 = pypto.DT_BF16, pypto.DT_FP32


@pypto.frontend.jit
def rms_norm(x: pypto.Tensor([pypto.DYNAMIC, WIDTH], BF16), gamma: pypto.Tensor([1, WIDTH], BF16),
             out: pypto.Tensor([pypto.DYNAMIC, WIDTH], BF16), epsilon: float = 1e-6):
    pypto.set_vec_tile_shapes(ROWS, WIDTH)
    batch = x.shape[0]
    for i in pypto.loop((batch + ROWS - 1) // ROWS):
        valid = pypto.min(ROWS, batch - i * ROWS)
        rows = pypto.cast(pypto.view(x, [ROWS, WIDTH], [i * ROWS, 0], valid_shape=[valid, WIDTH]), FP32)
        mean = pypto.sum(rows * rows, -1, keepdim=True) * (1.0 / WIDTH)
        result = rows * pypto.rsqrt(mean + epsilon) * pypto.cast(gamma, FP32)
        pypto.assemble(pypto.cast(result, BF16), [i * ROWS, 0], out)


def main() -> float:
    torch.manual_seed(0)
    gamma = torch.randn(1, WIDTH, dtype=torch.bfloat16)
    worst = 0.0
    with pypto.config(profile="0.2"):           # refuse what release 0.2 refuses
        for batch in (1, 3, 10):
            x = torch.randn(batch, WIDTH, dtype=torch.bfloat16)
            out = torch.zeros_like(x)
            rms_norm(x, gamma, out)
            exact = x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + 1e-6) * gamma.double()
            relative = ((out.double() - exact).abs() / exact.abs().clamp_min(1e-3)).max().item()
            print(f"batch {batch}: largest relative error against float64 {relative:.2e}")
            worst = max(worst, relative)
    for device in ("910b1", "910b4", "950pr"):
        x = pypto.Spec((4096, WIDTH), BF16)
        print(device, pypto.estimate(rms_norm, x, gamma, x, device=device).rows()[0][1])
    return worst


if __name__ == "__main__":
    main()
