"""Layer normalisation, forward and backward.

    forward:  y = (x - mean) r * gamma + beta,  r = 1 / sqrt(var + eps); mean and r are kept
    backward: n = (x - mean) r;  a = dy gamma;  dx = r (a - mean(a) - n mean(a n))
              dgamma = sum over rows of dy n;   dbeta = sum over rows of dy

The sums over rows are state of the loop, written at its end. Sizes: GPT-2 XL (width 1600, eps 1e-5).
"""
from dataclasses import dataclass

import numpy as np
from gallery_tools import BF16_STEP, Case, normal, report, wide

import pypto_sim as pypto


@dataclass(frozen=True)
class NormConfig:
    """width, eps: of the model; rows: rows of one step."""

    width: int = 1600
    eps: float = 1e-5
    rows: int = 8


GPT2_XL = NormConfig()


def make_layer_norm(cfg: NormConfig):
    """(forward kernel, backward kernel) of one configuration."""
    d, rows = cfg.width, cfg.rows
    bf16, fp32 = pypto.DT_BF16, pypto.DT_FP32
    Rows, Row, Column = (pypto.Tensor([pypto.DYNAMIC, d], bf16), pypto.Tensor([1, d], fp32),
                         pypto.Tensor([pypto.DYNAMIC, 1], fp32))

    def mean(t):
        return pypto.mul(pypto.sum(t, -1, keepdim=True), 1.0 / d)

    def load(x, i, columns, valid):
        return pypto.view(x, [rows, columns], [i * rows, 0], valid_shape=[valid, columns])

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def layer_norm(x: Rows, gamma: Row, beta: Row, y: Rows, mean_out: Column, r_out: Column):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="ROWS", idx_name="i"):
            valid = pypto.min(rows, x.shape[0] - i * rows)
            pypto.set_vec_tile_shapes(rows, d)
            xt = pypto.cast(load(x, i, d, valid), fp32)
            m = mean(xt)
            centred = pypto.sub(xt, m)
            r = pypto.rsqrt(pypto.add(mean(pypto.mul(centred, centred)), cfg.eps))
            out = pypto.add(pypto.mul(pypto.mul(centred, r), gamma), beta)
            pypto.assemble(pypto.cast(out, bf16), [i * rows, 0], y)
            pypto.assemble(m, [i * rows, 0], mean_out)
            pypto.assemble(r, [i * rows, 0], r_out)

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def layer_norm_backward(x: Rows, dy: Rows, gamma: Row, mean_in: Column, r_in: Column, dx: Rows, dgamma: Row,
                            dbeta: Row):
        sum_gamma, sum_beta = pypto.tensor([1, d], fp32, "sum_gamma"), pypto.tensor([1, d], fp32, "sum_beta")
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="ROWS", idx_name="i"):
            valid = pypto.min(rows, x.shape[0] - i * rows)
            pypto.set_vec_tile_shapes(rows, 800)
            xt, g = pypto.cast(load(x, i, d, valid), fp32), pypto.cast(load(dy, i, d, valid), fp32)
            m, r = load(mean_in, i, 1, valid), load(r_in, i, 1, valid)
            n = pypto.mul(pypto.sub(xt, m), r)
            a = pypto.mul(g, gamma)
            inner = pypto.sub(pypto.sub(a, mean(a)), pypto.mul(n, mean(pypto.mul(a, n))))
            pypto.assemble(pypto.cast(pypto.mul(inner, r), bf16), [i * rows, 0], dx)
            of_gamma, of_beta = pypto.sum(pypto.mul(g, n), 0, keepdim=True), pypto.sum(g, 0, keepdim=True)
            if pypto.is_loop_begin(i):
                sum_gamma[:], sum_beta[:] = of_gamma, of_beta
            else:
                sum_gamma[:], sum_beta[:] = pypto.add(sum_gamma, of_gamma), pypto.add(sum_beta, of_beta)
            if pypto.is_loop_end(i):
                dgamma[:], dbeta[:] = sum_gamma, sum_beta
    return layer_norm, layer_norm_backward


def golden(x, gamma, beta, dy, cfg=GPT2_XL):
    """(y, mean, r, dx, dgamma, dbeta) in float64."""
    x, gamma, beta, dy = wide(x, gamma, beta, dy)
    m = x.mean(-1, keepdims=True)
    r = 1 / np.sqrt(np.mean((x - m) ** 2, -1, keepdims=True) + cfg.eps)
    n, a = (x - m) * r, dy * gamma
    dx = r * (a - a.mean(-1, keepdims=True) - n * np.mean(a * n, -1, keepdims=True))
    return n * gamma + beta, m, r, dx, (dy * n).sum(0, keepdims=True), dy.sum(0, keepdims=True)


def cases(rows=45, cfg=GPT2_XL, seed=0):
    """Forward and backward over steps and a tail; the backward pass takes mean and r of the golden."""
    forward, backward = make_layer_norm(cfg)
    x, dy = normal(seed, rows, cfg.width, scale=2.0), normal(seed + 1, rows, cfg.width)
    gamma, beta = (normal(seed + n, 1, cfg.width, dtype=np.float32) for n in (2, 3))
    y, m, r, dx, dgamma, dbeta = golden(x, gamma, beta, dy, cfg)
    column, row = np.zeros((rows, 1), np.float32), np.zeros((1, cfg.width), np.float32)
    return [
        Case(forward, [x, gamma, beta, np.zeros_like(x), column.copy(), column.copy()],
             {3: ("y", y, BF16_STEP), 4: ("mean", m, 1e-5), 5: ("r", r, 1e-5)}, f"forward, {rows} rows"),
        Case(backward, [x, dy, gamma, m.astype(np.float32), r.astype(np.float32), np.zeros_like(x), row.copy(),
                        row.copy()],
             {5: ("dx", dx, BF16_STEP), 6: ("dgamma", dgamma, 1e-5), 7: ("dbeta", dbeta, 1e-5)},
             f"backward, {rows} rows")]


def estimate(rows=4096, cfg=GPT2_XL, backward=False, **options):
    """Predicted cost of one pass."""
    x, row, column = (pypto.Spec((rows, cfg.width), "bf16"), pypto.Spec((1, cfg.width), "fp32"),
                      pypto.Spec((rows, 1), "fp32"))
    args = [x, x, row, column, column, x, row, row] if backward else [x, row, row, x, column, column]
    return pypto.estimate(make_layer_norm(cfg)[backward], *args, **options)


def main() -> float:
    return report("Layer normalisation, GPT-2 XL", cases(), {
        "forward, 4096 rows": estimate, "backward, 4096 rows": lambda: estimate(backward=True)})


if __name__ == "__main__":
    main()
