"""One step of an LSTM cell on a batch.

    i, f, g, o = x W_x + h W_h + b;   c' = sigmoid(f) c + sigmoid(i) tanh(g);   h' = sigmoid(o) tanh(c')

The four gates are columns of one product, and h W_h + b starts from the bias. Sizes: GNMT (1024 units, gates in the
order of the usual deep-learning libraries: input, forget, cell, output).
"""
from dataclasses import dataclass

import numpy as np
from gallery_tools import BF16, BF16_STEP, Case, normal, report, wide

import pypto_sim as pypto


@dataclass(frozen=True)
class LstmConfig:
    """inputs, units: of the model; rows: batch entries of one step."""

    inputs: int = 1024
    units: int = 1024
    rows: int = 32


GNMT = LstmConfig()


def make_lstm_cell(cfg: LstmConfig):
    """The kernel of one configuration."""
    n, rows = cfg.units, cfg.rows
    bf16, fp32 = pypto.DT_BF16, pypto.DT_FP32

    def tanh(t):
        """2 sigmoid(2 t) - 1: the release 0.2 has no tanh."""
        return pypto.sub(pypto.mul(pypto.sigmoid(pypto.mul(t, 2.0)), 2.0), 1.0)

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def lstm_cell(
        x: pypto.Tensor([pypto.DYNAMIC, cfg.inputs], bf16),
        h: pypto.Tensor([pypto.DYNAMIC, n], bf16),
        c: pypto.Tensor([pypto.DYNAMIC, n], fp32),
        w_x: pypto.Tensor([cfg.inputs, 4 * n], bf16),
        w_h: pypto.Tensor([n, 4 * n], bf16),
        bias: pypto.Tensor([1, 4 * n], fp32),
        h_out: pypto.Tensor([pypto.DYNAMIC, n], bf16),
        c_out: pypto.Tensor([pypto.DYNAMIC, n], fp32),
    ):
        for b in pypto.loop((x.shape[0] + rows - 1) // rows, name="BATCH", idx_name="b"):
            valid = pypto.min(rows, x.shape[0] - b * rows)
            at = [b * rows, 0]
            pypto.set_cube_tile_shapes([32, 32], [128, 512], [128, 256])
            pypto.set_vec_tile_shapes(8, 1024)
            xt = pypto.view(x, [rows, cfg.inputs], at, valid_shape=[valid, cfg.inputs])
            ht = pypto.view(h, [rows, n], at, valid_shape=[valid, n])
            ct = pypto.view(c, [rows, n], at, valid_shape=[valid, n])
            gates = pypto.add(pypto.matmul(xt, w_x, fp32),
                              pypto.matmul(ht, w_h, fp32, extend_params={"bias_tensor": bias}))
            i, f, g, o = (gates[:, k * n:(k + 1) * n] for k in range(4))
            c_new = pypto.add(pypto.mul(pypto.sigmoid(f), ct), pypto.mul(pypto.sigmoid(i), tanh(g)))
            h_new = pypto.mul(pypto.sigmoid(o), tanh(c_new))
            pypto.assemble(c_new, at, c_out)
            pypto.assemble(pypto.cast(h_new, bf16), at, h_out)
    return lstm_cell


def golden(x, h, c, w_x, w_h, bias):
    """(h', c') in float64."""
    x, h, c, w_x, w_h, bias = wide(x, h, c, w_x, w_h, bias)
    i, f, g, o = np.split(x @ w_x + h @ w_h + bias, 4, -1)
    c_new = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    return np.tanh(c_new) / (1 + np.exp(-o)), c_new


def inputs(batch, cfg=GNMT, seed=0):
    """Arguments for this batch."""
    n = cfg.units
    return [normal(seed, batch, cfg.inputs), normal(seed + 1, batch, n), normal(seed + 2, batch, n, dtype=np.float32),
            normal(seed + 3, cfg.inputs, 4 * n, scale=cfg.inputs**-0.5), normal(seed + 4, n, 4 * n, scale=n**-0.5),
            normal(seed + 5, 1, 4 * n, dtype=np.float32), np.zeros((batch, n), BF16), np.zeros((batch, n), np.float32)]


def cases():
    """A step and a tail."""
    args = inputs(40)
    h, c = golden(*args[:6])
    return [Case(make_lstm_cell(GNMT), args, {6: ("h", h, BF16_STEP), 7: ("c", c, 1e-4)}, "batch of 40")]


def estimate(batch=128, cfg=GNMT, **options):
    """Predicted cost of one step."""
    n = cfg.units
    x, h, c = pypto.Spec((batch, cfg.inputs), "bf16"), pypto.Spec((batch, n), "bf16"), pypto.Spec((batch, n), "fp32")
    w_x, w_h = pypto.Spec((cfg.inputs, 4 * n), "bf16"), pypto.Spec((n, 4 * n), "bf16")
    return pypto.estimate(make_lstm_cell(cfg), x, h, c, w_x, w_h, pypto.Spec((1, 4 * n), "fp32"), h, c, **options)


def main() -> float:
    return report("LSTM cell, GNMT", cases(), {"batch of 128": estimate})


if __name__ == "__main__":
    main()
