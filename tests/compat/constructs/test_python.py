"""Python inside kernels: comprehensions, ranges, zips, dictionaries of tiles, nested functions, helpers elsewhere."""
import math

import numpy as np
import pytest
from support import helpers
from support.both import both, close, rng

import pypto_sim as pypto

FP32 = pypto.DT_FP32


def f32(*shape, seed=0):
    return rng(seed).standard_normal(shape).astype(np.float32)


def kernel_of(body, *notes):
    """jit kernel of a function with every parameter annotated."""
    body.__annotations__ = dict(zip(body.__code__.co_varnames, notes or [pypto.Tensor()] * body.__code__.co_argcount,
                                    strict=False))
    return pypto.frontend.jit(body)


def test_comprehensions_and_unpacking():
    def kernel(x, out):
        pypto.set_vec_tile_shapes(8, 16)
        parts = [pypto.view(x, [8, 16], [0, 16 * n]) for n in range(4)]
        scaled = {f"part{n}": p * float(n + 1) for n, p in enumerate(parts)}
        first, *rest = (scaled[k] for k in sorted(scaled))
        pairs = [pypto.add(first, r) for r in rest]
        out[:] = pypto.concat([first, *pairs], dim=-1)
    x = f32(8, 64)
    p = [x[:, 16 * n:16 * n + 16].astype(np.float64) * (n + 1) for n in range(4)]
    close(both(kernel_of(kernel), x, np.zeros_like(x))[1], np.concatenate([p[0]] + [p[0] + q for q in p[1:]], -1))


def test_ranges_lists_and_zip_unroll():
    def kernel(x, out):
        pypto.set_vec_tile_shapes(4, 16)
        total = None
        for n, (weight, col) in enumerate(zip([0.5, 1.5, -1.0], (0, 16, 32), strict=True)):
            part = x[:, col:col + 16] * weight
            total = part if total is None else total + part
            if n == 2:
                continue
            out[:, 16 * n:16 * n + 16] = total
        out[:, 32:48] = total
    x = f32(4, 48)
    w = x.astype(np.float64)
    s = np.cumsum([w[:, :16] * 0.5, w[:, 16:32] * 1.5, -w[:, 32:]], 0)
    close(both(kernel_of(kernel), x, np.zeros_like(x))[1], np.concatenate(list(s), -1))


def test_range_in_a_loop_of_the_kernel():
    def kernel(x, out):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(x.shape[0], name="I", idx_name="i"):
            acc = pypto.full([1, 16], 0.0, FP32)
            for j in range(4):
                acc = acc + pypto.view(x, [1, 16], [i, 16 * j])
            heads = [pypto.view(x, [1, 16], [i, 16 * j]) - acc for j in range(4)]
            for j, h in enumerate(heads):
                pypto.assemble(h, [i, j * 16], out)
    x = f32(6, 64)
    w = x.astype(np.float64).reshape(6, 4, 16)
    close(both(kernel_of(kernel), x, np.zeros_like(x))[1], (w - w.sum(1, keepdims=True)).reshape(6, 64))


def test_nested_functions_and_lambdas():
    def kernel(x, out):
        def silu(t):
            return t / (pypto.exp(-t) + 1.0)
        scale = lambda t: t * (1 / math.sqrt(16))  # noqa: E731
        pypto.set_vec_tile_shapes(8, 16)
        for i in pypto.loop(2):
            out[i * 4:i * 4 + 4, :] = scale(silu(x[i * 4:i * 4 + 4, :]))
    x = f32(8, 16)
    w = x.astype(np.float64)
    close(both(kernel_of(kernel), x, np.zeros_like(x))[1], w / (1 + np.exp(-w)) / 4)


def test_helpers_of_another_module():
    def kernel(x, out):
        pypto.set_vec_tile_shapes(1, 16)
        helpers.add_rows(x, out, x.shape[0])
    x = f32(5, 16)
    close(both(kernel_of(kernel), x, np.zeros_like(x))[1], x.astype(np.float64) + 1)


class Block:
    """A layer as a class: sizes in attributes, steps in methods."""

    def __init__(self, cols, eps=1e-6):
        self.cols, self.eps = cols, eps

    def __call__(self, x):
        y = pypto.mul(x, x)
        mean = pypto.sum(y, -1, keepdim=True) * (1.0 / self.cols)
        return pypto.mul(x, pypto.rsqrt(mean + self.eps))

    @staticmethod
    def tile(rows, cols):
        pypto.set_vec_tile_shapes(rows, cols)


def test_methods_of_a_layer_object():
    block = Block(32)

    def kernel(x, out):
        Block.tile(4, 32)
        out[:] = block(x)
    x = f32(4, 32)
    w = x.astype(np.float64)
    close(both(kernel_of(kernel), x, np.zeros_like(x))[1], w / np.sqrt((w * w).mean(-1, keepdims=True) + 1e-6))


def test_conditional_expressions_and_f_strings():
    def kernel(x, out):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(x.shape[0], name=f"ROWS_{x.shape[1]}", idx_name="i"):
            acc = pypto.tensor([1, 16], FP32, f"acc_{x.shape[1]}")
            offset = 0 if i < 2 else 16
            acc[:] = pypto.view(x, [1, 16], [i, offset])
            for h in range(2):
                name = f"part_{h}"
                part = pypto.tensor([1, 16], FP32, name)
                part[:] = acc * float(h + 1)
                out[i:i + 1, h * 16:(h + 1) * 16] = part
    x = f32(5, 32)
    w = np.where(np.arange(5)[:, None] < 2, x[:, :16], x[:, 16:]).astype(np.float64)
    close(both(kernel_of(kernel), x, np.zeros_like(x))[1], np.concatenate([w, 2 * w], -1))


def test_tile_tables_by_key_and_star_arguments():
    tiles = {"vec": (4, 32), "cube": ([16, 16], [32, 32], [32, 32])}

    def kernel(x, w, out):
        pypto.set_cube_tile_shapes(*tiles["cube"], enable_split_k=False)
        pypto.set_vec_tile_shapes(*tiles["vec"])
        y = pypto.matmul(x, w, FP32)
        out[:] = y + 1.0
    x, w = f32(16, 32), f32(32, 32, seed=1)
    close(both(kernel_of(kernel), x, w, np.zeros((16, 32), np.float32))[2],
          x.astype(np.float64) @ w.astype(np.float64) + 1, atol=1e-4)


def test_boolean_logic_on_scalars():
    def kernel(x, out):
        pypto.set_vec_tile_shapes(1, 16)
        n = x.shape[0]
        for i in pypto.loop(n, name="I", idx_name="i"):
            row = pypto.view(x, [1, 16], [i, 0])
            if i > 0 and i < n - 1:
                y = row * 2.0
            elif i == 0 or not i < n:
                y = row * 3.0
            else:
                y = row * 4.0
            if (i % 2 == 0) & (i // 2 > 0):
                y = y + 1.0
            pypto.assemble(y, [i, 0], out)
    note = pypto.Tensor([pypto.DYNAMIC, 16], FP32)
    for rows in (1, 2, 7):
        x = f32(rows, 16)
        i = np.arange(rows)
        f = np.where(i == 0, 3.0, np.where(i < rows - 1, 2.0, 4.0))
        want = x.astype(np.float64) * f[:, None] + ((i % 2 == 0) & (i // 2 > 0))[:, None]
        close(both(kernel_of(kernel, note, note), x, np.zeros_like(x))[1], want)


def test_operators_and_methods_on_tensors():
    def kernel(x, y, out):
        pypto.set_vec_tile_shapes(8, 16)
        a = 1.0 - x
        b = 2.0 / (y.abs() + 1.0) if hasattr(y, "abs") else 2.0 / (pypto.abs(y) + 1.0)
        a += b
        a -= 0.5
        a *= x
        a /= 2.0
        mask = x > y
        a = pypto.where(mask, a, -a)
        a = pypto.where(x == y, pypto.full([8, 16], 0.0, FP32), a)
        out[:] = a.maximum(pypto.full([8, 16], -1.0, FP32)).add(x ** 2)
    x, y = f32(8, 16), f32(8, 16, seed=1)
    a, b = x.astype(np.float64), y.astype(np.float64)
    v = (1 - a + 2 / (np.abs(b) + 1) - 0.5) * a / 2
    v = np.where(a > b, v, -v)
    close(both(kernel_of(kernel), x, y, np.zeros_like(x))[2], np.maximum(v, -1) + a * a)


@pytest.mark.parametrize("last", [True, False])
def test_optional_tensor_argument(last):
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([], FP32), out: pypto.Tensor([], FP32), bias: pypto.Tensor([], FP32) = None):
        pypto.set_vec_tile_shapes(4, 16)
        out[:] = x + bias if bias is not None else x * 1.0
    x, bias = f32(4, 16), f32(1, 16, seed=2)
    args = (x, np.zeros_like(x), bias) if last else (x, np.zeros_like(x))
    close(both(kernel, *args)[1], x.astype(np.float64) + (bias if last else 0))
