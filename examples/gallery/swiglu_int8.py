"""Feed-forward layer with SwiGLU in int8: weights quantised per output channel, activations per token at run time.

    quantise(t): s = max|t| / 127 per row, codes = round(t / s)
    gate, up = (codes W_gate_up) * s * s_w;   hidden = silu(gate) * up;   y = (codes(hidden) W_down) * s' * s_w'

Products are exact in int32. Sizes: Qwen2.5-7B (hidden 3584, inner 18944).
"""
from dataclasses import dataclass

import numpy as np
from gallery_tools import BF16, BF16_STEP, Case, normal, report, wide

import pypto_sim as pypto


@dataclass(frozen=True)
class Int8Config:
    """hidden, inner: of the model; rows: tokens of one step."""

    hidden: int = 3584
    inner: int = 18944
    rows: int = 16


QWEN25_7B = Int8Config()
CHECKED = Int8Config(inner=1024)           # the same layer with fewer inner columns


def make_swiglu_int8(cfg: Int8Config):
    """The kernel of one configuration."""
    h, inner, rows = cfg.hidden, cfg.inner, cfg.rows
    fp32, int8, int32 = pypto.DT_FP32, pypto.DT_INT8, pypto.DT_INT32

    def quantise(t):
        """(codes int8, scale [rows, 1]) of an fp32 tile; int8 is reached through fp16 as on the device."""
        top = pypto.amax(pypto.abs(t), -1, keepdim=True)
        scale = pypto.mul(top, 1.0 / 127.0)
        codes = pypto.cast(pypto.div(t, scale), int32, mode=pypto.CastMode.CAST_RINT)
        codes = pypto.cast(codes, pypto.DT_FP16, mode=pypto.CastMode.CAST_ROUND)
        return pypto.cast(codes, int8, mode=pypto.CastMode.CAST_TRUNC), scale

    def dequantise(products, scale, of_channel):
        return pypto.mul(pypto.mul(pypto.cast(products, fp32), of_channel), scale)

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU},
                        pass_options={"cube_l1_reuse_setting": {"DEFAULT": 2}})
    def swiglu_int8(
        x: pypto.Tensor([pypto.DYNAMIC, h], pypto.DT_BF16),
        w_gate_up: pypto.Tensor([h, 2 * inner], int8),
        s_gate_up: pypto.Tensor([1, 2 * inner], fp32),
        w_down: pypto.Tensor([inner, h], int8),
        s_down: pypto.Tensor([1, h], fp32),
        out: pypto.Tensor([pypto.DYNAMIC, h], pypto.DT_BF16),
    ):
        for t in pypto.loop((x.shape[0] + rows - 1) // rows, name="ROWS", idx_name="t"):
            valid = pypto.min(rows, x.shape[0] - t * rows)
            pypto.set_vec_tile_shapes(4, 2048)
            pypto.set_cube_tile_shapes([16, 16], [256, 512], [128, 256])
            xt = pypto.cast(pypto.view(x, [rows, h], [t * rows, 0], valid_shape=[valid, h]), fp32)
            codes, scale = quantise(xt)
            gate_up = dequantise(pypto.matmul(codes, w_gate_up, int32), scale, s_gate_up)
            gate, up = gate_up[:, :inner], gate_up[:, inner:]
            hidden = pypto.mul(pypto.mul(gate, pypto.sigmoid(gate)), up)
            codes, scale = quantise(hidden)
            y = dequantise(pypto.matmul(codes, w_down, int32), scale, s_down)
            out[t * rows:, :] = pypto.cast(y, pypto.DT_BF16)
    return swiglu_int8


def golden(x, w_gate_up, s_gate_up, w_down, s_down):
    """The same quantised layer in float64."""
    def quantised(t):
        scale = np.abs(t).max(-1, keepdims=True) / 127
        return np.rint(t / scale), scale

    x, w1, s1, w2, s2 = wide(x, w_gate_up, s_gate_up, w_down, s_down)
    codes, scale = quantised(x)
    gate, up = np.split(codes @ w1 * scale * s1, 2, -1)
    codes, scale = quantised(gate / (1 + np.exp(-gate)) * up)
    return codes @ w2 * scale * s2


def quantised_weight(seed, rows, columns):
    """(codes int8, scale [1, columns]) of normal weights of variance 1 / rows."""
    w = normal(seed, rows, columns, scale=rows**-0.5, dtype=np.float32)
    scale = np.abs(w).max(0, keepdims=True) / 127
    return np.rint(w / scale).astype(np.int8), scale.astype(np.float32)


def inputs(tokens, cfg, seed=0):
    """Arguments for this many tokens."""
    x = normal(seed, tokens, cfg.hidden)
    w1, w2 = (cfg.hidden, 2 * cfg.inner), (cfg.inner, cfg.hidden)
    return [x, *quantised_weight(seed + 1, *w1), *quantised_weight(seed + 2, *w2), np.zeros(x.shape, BF16)]


def cases():
    """A step and a tail. A code on the other side of a rounding tie moves a result by up to 2 % of the rms."""
    args = inputs(21, CHECKED)
    return [Case(make_swiglu_int8(CHECKED), args, {5: ("y", golden(*args[:5]), 8 * BF16_STEP)},
                 "21 tokens, inner 1024")]


def estimate(tokens=16, cfg=QWEN25_7B, **options):
    """Predicted cost of the whole layer."""
    x = pypto.Spec((tokens, cfg.hidden), "bf16")
    w1, s1 = pypto.Spec((cfg.hidden, 2 * cfg.inner), "int8"), pypto.Spec((1, 2 * cfg.inner), "fp32")
    w2, s2 = pypto.Spec((cfg.inner, cfg.hidden), "int8"), pypto.Spec((1, cfg.hidden), "fp32")
    return pypto.estimate(make_swiglu_int8(cfg), x, w1, s1, w2, s2, x, **options)


def main() -> float:
    return report("SwiGLU in int8, Qwen2.5-7B", cases(), {"16 tokens": estimate})


if __name__ == "__main__":
    main()
