"""Feed-forward layers of the experts of a mixture-of-experts block, on tokens sorted by expert.

    y = (silu(x W_gate[e]) * (x W_up[e])) W_down[e]  for the rows starts[e] .. starts[e + 1] of expert e

An expert may have any number of tokens, also none: the loop over its row tiles then has no iteration. Sizes:
Qwen3-30B-A3B (128 experts, hidden 2048, inner 768, top 8).
"""
from dataclasses import dataclass

import numpy as np
from gallery_tools import BF16, BF16_STEP, Case, normal, report, wide

import pypto_sim as pypto


@dataclass(frozen=True)
class ExpertConfig:
    """experts on this device, hidden and inner size of the model; rows: tokens of one step."""

    experts: int = 128
    hidden: int = 2048
    inner: int = 768
    rows: int = 64


QWEN3_30B = ExpertConfig()


def make_expert_ffn(cfg: ExpertConfig):
    """The kernel of one configuration."""
    h, inner, rows = cfg.hidden, cfg.inner, cfg.rows

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU, "device_sched_mode": 1},
                        pass_options={"cube_l1_reuse_setting": {"DEFAULT": 4}})
    def expert_ffn(
        x: pypto.Tensor([pypto.DYNAMIC, h], pypto.DT_BF16),
        starts: pypto.Tensor([cfg.experts + 1], pypto.DT_INT32),
        w_gate_up: pypto.Tensor([cfg.experts * h, 2 * inner], pypto.DT_BF16),
        w_down: pypto.Tensor([cfg.experts * inner, h], pypto.DT_BF16),
        out: pypto.Tensor([pypto.DYNAMIC, h], pypto.DT_BF16),
    ):
        for e in pypto.loop(cfg.experts, name="EXPERT", idx_name="e"):
            first = starts[e]
            count = starts[e + 1] - first
            count.as_variable()
            for t in pypto.loop((count + rows - 1) // rows, name="ROWS", idx_name="t"):
                valid = pypto.min(rows, count - t * rows)
                row = first + t * rows
                xt = pypto.view(x, [rows, h], [row, 0], valid_shape=[valid, h])
                w1 = pypto.view(w_gate_up, [h, 2 * inner], [e * h, 0])
                w2 = pypto.view(w_down, [inner, h], [e * inner, 0])
                pypto.set_cube_tile_shapes([64, 64], [128, 512], [128, 256])
                pypto.set_vec_tile_shapes(32, 256)
                gate_up = pypto.matmul(xt, w1, pypto.DT_FP32)
                gate, up = gate_up[:, :inner], gate_up[:, inner:]
                hidden = pypto.mul(pypto.mul(gate, pypto.sigmoid(gate)), up)
                y = pypto.matmul(pypto.cast(hidden, pypto.DT_BF16), w2, pypto.DT_BF16)
                pypto.assemble(y, [row, 0], out)
    return expert_ffn


def golden(x, starts, w_gate_up, w_down, cfg):
    """The formula in float64."""
    x, w1, w2 = wide(x, w_gate_up.reshape(cfg.experts, cfg.hidden, -1), w_down.reshape(cfg.experts, cfg.inner, -1))
    out = np.zeros_like(x)
    for e in range(cfg.experts):
        rows = slice(starts[e], starts[e + 1])
        gate, up = np.split(x[rows] @ w1[e], 2, -1)
        out[rows] = gate / (1 + np.exp(-gate)) * up @ w2[e]
    return out


def inputs(counts, cfg, seed=0):
    """Arguments for these token counts of the experts."""
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    w1 = normal(seed + 1, cfg.experts * cfg.hidden, 2 * cfg.inner, scale=cfg.hidden**-0.5)
    w2 = normal(seed + 2, cfg.experts * cfg.inner, cfg.hidden, scale=cfg.inner**-0.5)
    x = normal(seed, int(starts[-1]), cfg.hidden)
    return [x, starts, w1, w2, np.zeros(x.shape, BF16)]


def cases():
    """Four experts of the model: none, one, some and more tokens than a step takes."""
    cfg = ExpertConfig(experts=4)
    args = inputs([0, 1, 20, 70], cfg)
    return [Case(make_expert_ffn(cfg), args, {4: ("y", golden(*args[:4], cfg), 4 * BF16_STEP)},
                 "4 experts with 0, 1, 20 and 70 tokens")]


def estimate(tokens=512, top=8, cfg=QWEN3_30B, **options):
    """Predicted cost of a batch whose tokens are spread evenly, every tenth expert having none."""
    busy = np.array([e % 10 != 9 for e in range(cfg.experts)])
    counts = np.where(busy, tokens * top // int(busy.sum()), 0)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    x = pypto.Spec((int(starts[-1]), cfg.hidden), "bf16")
    w1 = pypto.Spec((cfg.experts * cfg.hidden, 2 * cfg.inner), "bf16")
    w2 = pypto.Spec((cfg.experts * cfg.inner, cfg.hidden), "bf16")
    return pypto.estimate(make_expert_ffn(cfg), x, starts, w1, w2, x, **options)


def main() -> float:
    return report("Grouped expert FFN, Qwen3-30B-A3B", cases(), {"512 tokens, top 8 of 128 experts": estimate})


if __name__ == "__main__":
    main()
