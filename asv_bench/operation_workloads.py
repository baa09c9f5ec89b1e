"""Every operation at [1024, 1024] on one thread, and the same by torch (numpy where torch has none)."""
from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import pypto_sim as pypto
from pypto_sim.registry import REGISTRY
from pypto_sim.testing import evaluate

N = 1024
F32, F16, BF16, I32, I16, I8 = (pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16, pypto.DT_INT32, pypto.DT_INT16,
                                pypto.DT_INT8)
LIMIT, SORT_LIMIT = 3.0, 2.0


class Case(NamedTuple):
    """arrays(): operands. ours(f, *tensors). other(torch, *torch tensors): the counterpart."""

    arrays: Callable[[], list[np.ndarray]]
    ours: Callable[..., Any]
    other: Callable[..., Any]
    device: str = "910b1"
    tile: tuple[int, ...] = (2, N)
    limit: float = LIMIT
    numpy: bool = False                    # `other` gets numpy and numpy arrays


def normal(*shape: int, low: float = -4.0, high: float = 4.0) -> np.ndarray:
    """fp32 numbers, uniform in [low, high)."""
    return np.random.default_rng(0).uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, dtype: Any = np.int32, low: int = -100, high: int = 100) -> np.ndarray:
    """Whole numbers."""
    return np.random.default_rng(1).integers(low, high, shape).astype(dtype)


def f(low: float = -4.0, high: float = 4.0, count: int = 1) -> Callable[[], list[np.ndarray]]:
    """`count` fp32 operands."""
    return lambda: [normal(N, N, low=low, high=high) + i for i in range(count)]


def i(dtype: Any = np.int32, low: int = -100, high: int = 100, count: int = 1) -> Callable[[], list[np.ndarray]]:
    """`count` integer operands."""
    return lambda: [whole(N, N, dtype=dtype, low=low, high=high) for _ in range(count)]


def unary(name: str, low: float = -4.0, high: float = 4.0, **more: Any) -> Case:
    """A function that torch has under the same name."""
    return Case(f(low, high), lambda g, x: g(x), lambda t, x: getattr(t, name)(x), **more)


def binary(name: str, **more: Any) -> Case:
    """Two fp32 operands."""
    return Case(f(0.5, 4.0, 2), lambda g, x, y: g(x, y), lambda t, x, y: getattr(t, name)(x, y), **more)


def bits(name: str) -> Case:
    """Two INT16 operands."""
    return Case(i(np.int16, 0, 8, 2), lambda g, x, y: g(x, y), lambda t, x, y: getattr(t, name)(x, y))


def updated(g: Any, t: Any, *more: Any, **named: Any) -> Any:
    """Copy of `t` after an operation in place."""
    copy = pypto.clone(t)
    g(copy, *more, **named)
    return copy


def made(call: Callable[..., Any]) -> Callable[..., Any]:
    """A creation: the operand is not used."""
    return lambda g, x: call(g)


ROWS = lambda: [normal(N, N), np.random.default_rng(2).permutation(N).astype(np.int32), normal(N, N)]
CUBE = ([128, 128], [64, 256], [128, 256])


def cube(call: Callable[..., Any]) -> Callable[..., Any]:
    """A product under a cube tile."""
    def with_tile(g: Any, *t: Any) -> Any:
        pypto.set_cube_tile_shapes(*CUBE)
        return call(g, *t)
    return with_tile


def _conv(g: Any, x: Any, w: Any) -> Any:
    pypto.set_conv_tile_shapes(pypto.TileL1Info(16, 16, 32, 32, 16, 16, 16))
    return g(x, w, F32, [1, 1], [1, 1], [1, 1])


def _codes(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.float8_e4m3fn)


def _mx(t: Any, x: Any) -> Any:
    groups = x.reshape(N, N // 32, 32)
    exponent = groups.abs().amax(-1, keepdim=True).log2().floor() - 8
    return (groups * (-exponent).exp2()).to(t.float8_e4m3fn), exponent


def _philox(np_: Any, x: Any) -> Any:
    return np_.random.Generator(np_.random.Philox(7)).random(x.shape, np_.float32)


def descending(t: Any, x: Any) -> Any:
    """torch's stable sort of the last axis."""
    return t.sort(x, dim=-1, descending=True, stable=True)


same = lambda g, *t: g(*t)
CASES: dict[str, Case] = {
    **{n: unary(n) for n in ("abs", "neg", "exp", "tanh", "erf", "erfc", "relu", "floor", "ceil", "trunc", "round",
                             "sigmoid", "sign", "signbit", "isnan", "isfinite", "exp2", "expm1", "sin", "cos", "tan",
                             "atan", "sinh", "cosh", "asinh", "reciprocal", "logical_not")},
    **{n: unary(n, 0.1, 50.0) for n in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt")},
    **{n: unary(n, -0.9, 0.9) for n in ("asin", "acos", "atanh")}, "acosh": unary("acosh", 1.0, 50.0),
    "cbrt": Case(f(), same, lambda np_, x: np_.cbrt(x), numpy=True),
    **{n: binary(n) for n in ("add", "sub", "mul", "div", "maximum", "minimum", "fmod", "remainder", "hypot",
                              "copysign", "atan2", "eq", "ne", "lt", "le", "gt", "ge", "greater", "logical_and",
                              "pow")},
    "floor_div": binary("floor_divide"),
    "ceil_div": Case(i(low=1, count=2), same, lambda t, x, y: -(-x).div(y, rounding_mode="floor")),
    "gcd": Case(i(low=1, count=2), same, lambda t, x, y: t.gcd(x, y)),
    **{n: bits(n) for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")},
    "bitwise_not": Case(i(np.int16), same, lambda t, x: t.bitwise_not(x)),
    "expand_exp_dif": Case(f(count=2), same, lambda t, x, y: t.exp(x - y)),
    "where": Case(f(count=2), lambda g, x, y: g(pypto.gt(x, y), x, y), lambda t, x, y: t.where(x > y, x, y)),
    "axpy_": Case(f(count=2), lambda g, y, x: updated(g, y, x, 2.0), lambda t, y, x: y.clone().add_(x, alpha=2.0)),
    "clip": Case(f(), lambda g, x: g(x, -1.0, 1.0), lambda t, x: t.clip(x, -1.0, 1.0)),
    "lrelu": Case(f(), lambda g, x: g(x, 0.01), lambda t, x: t.nn.functional.leaky_relu(x, 0.01)),
    "prelu": Case(lambda: [normal(N, N), normal(N)], same, lambda t, x, w: t.nn.functional.prelu(x, w)),
    "sum": Case(f(), lambda g, x: g(x, -1), lambda t, x: x.sum(-1)),
    "amax": Case(f(), lambda g, x: g(x, -1), lambda t, x: x.amax(-1)),
    "amin": Case(f(), lambda g, x: g(x, -1), lambda t, x: x.amin(-1)),
    "prod": Case(f(0.9, 1.1), lambda g, x: g(x, -1), lambda t, x: x.prod(-1)),
    "argmax": Case(f(), lambda g, x: g(x, -1), lambda t, x: x.argmax(-1)),
    "argmin": Case(f(), lambda g, x: g(x, -1), lambda t, x: x.argmin(-1)),
    "var": Case(f(), lambda g, x: g(x, -1), lambda t, x: x.var(-1)),
    "cumsum": Case(f(), lambda g, x: g(x, -1), lambda t, x: x.cumsum(-1)),
    "cumprod": Case(f(0.9, 1.1), lambda g, x: g(x, -1), lambda t, x: x.cumprod(-1)),
    "softmax": Case(f(), lambda g, x: g(x, -1), lambda t, x: x.softmax(-1)),
    "rms_norm": Case(lambda: [normal(N, N), normal(N)], lambda g, x, w: g(x, w),
                     lambda t, x, w: t.nn.functional.rms_norm(x, (N,), w, 1e-6)),
    "topk": Case(f(), lambda g, x: g(x, 8), lambda t, x: x.topk(8), limit=SORT_LIMIT),
    "argsort": Case(f(), lambda g, x: g(x, -1, True), lambda t, x: descending(t, x)[1], limit=SORT_LIMIT),
    "sort32": Case(f(), same, lambda t, x: descending(t, x.reshape(N, N // 32, 32)), limit=SORT_LIMIT),
    "mrgsort": Case(f(), lambda g, x: g(x, 32), lambda t, x: descending(t, x.reshape(N, N // 128, 128)),
                    limit=SORT_LIMIT),
    "cast": Case(f(), lambda g, x: g(x, BF16), lambda t, x: x.to(t.bfloat16)),
    "quantize": Case(lambda: [normal(N, N), normal(N)], lambda g, x, s: g(x, s, I8, -1),
                     lambda t, x, s: (x * s[:, None]).round().clamp(-128, 127).to(t.int8)),
    "dequantize": Case(lambda: [whole(N, N, dtype=np.int8), normal(N)], lambda g, x, s: g(x, s, F32, -1),
                       lambda t, x, s: x.to(t.float32) * s[:, None]),
    "quant_mx": Case(f(), same, _mx, "950pr"),
    "pack": Case(f(), same, lambda t, x: x.reshape(-1).view(t.uint8).clone(), tile=(N * N,)),
    "unpack": Case(lambda: [whole(4 * N * N, dtype=np.uint8, low=0, high=256)], lambda g, x: g(x, I32),
                   lambda t, x: x.view(t.int32).clone(), tile=(16384,)),
    "matmul": Case(f(count=2), cube(lambda g, a, b: g(a, b, F32)), lambda t, a, b: a @ b),
    "scaled_mm": Case(lambda: [_codes(normal(N, N)), _codes(normal(N, N)),
                               np.full((N, N // 64, 2), 127, np.uint8).view(ml_dtypes.float8_e8m0fnu),
                               np.full((N // 64, N, 2), 127, np.uint8).view(ml_dtypes.float8_e8m0fnu)],
                      cube(lambda g, a, b, p, q: g(a, b, F32, p, q)),
                      lambda t, a, b, p, q: (a.to(t.float32) * p.to(t.float32).reshape(N, -1).repeat_interleave(32, 1))
                      @ (b.to(t.float32) * q.to(t.float32).transpose(1, 2).reshape(-1, N).repeat_interleave(32, 0)),
                      "950pr"),
    "conv": Case(lambda: [normal(1, 16, 256, 256), normal(16, 16, 3, 3)], _conv,
                 lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1), tile=(1, 1, 16, 256)),
    "view": Case(lambda: [normal(N + 8, N + 8)], lambda g, x: g(x, [N, N], [8, 0]),
                 lambda t, x: x[8:, :N].clone()),
    "assemble": Case(f(), lambda g, x: updated(lambda c: g(x, [0, 0], c), x), lambda t, x: x.clone().copy_(x)),
    "atomic_add": Case(f(), lambda g, x: updated(lambda c: g(x, [0, 0], c), x), lambda t, x: x.clone().add_(x),
                       "950pr"),
    "reshape": Case(f(), lambda g, x: g(x, [512, 2048]), lambda t, x: x.reshape(512, 2048).clone()),
    "unsqueeze": Case(f(), lambda g, x: g(x, 0), lambda t, x: x.unsqueeze(0).clone()),
    "squeeze": Case(lambda: [normal(1, N, N)], lambda g, x: g(x, 0), lambda t, x: x.squeeze(0).clone(), tile=(1, 2, N)),
    "transpose": Case(f(), lambda g, x: g(x, 0, 1), lambda t, x: x.T.contiguous(), tile=(64, 64)),
    "permute": Case(f(), lambda g, x: g(x, [1, 0]), lambda t, x: x.permute(1, 0).contiguous(), tile=(64, 64)),
    "concat": Case(f(count=2), lambda g, x, y: g([x, y], 0), lambda t, x, y: t.cat([x, y], 0)),
    "expand_clone": Case(lambda: [normal(N, 1)], lambda g, x: g(x, [N, N]), lambda t, x: x.expand(N, N).clone()),
    "clone": Case(f(), same, lambda t, x: x.clone()),
    "pad": Case(f(), lambda g, x: g(x, [0, 8, 0, 8]), lambda t, x: t.nn.functional.pad(x, (0, 8, 0, 8))),
    "fillpad": Case(f(), lambda g, x: g(pypto.view(x, [N, N], [0, 0], valid_shape=[1000, 1000])),
                    lambda t, x: t.nn.functional.pad(x[:1000, :1000], (0, 24, 0, 24))),
    "interleave": Case(f(count=2), same, lambda t, x, y: t.stack([x, y], -1).reshape(N, 2 * N).chunk(2, -1)[0].clone(),
                       "950pr"),
    "deinterleave": Case(f(), same, lambda t, x: (x[:, ::2].clone(), x[:, 1::2].clone()), "950pr"),
    "gathermask": Case(f(), lambda g, x: g(x, 1), lambda t, x: x[:, ::2].clone()),
    "tril": Case(f(), same, lambda t, x: x.tril()), "triu": Case(f(), same, lambda t, x: x.triu()),
    "gather": Case(lambda: [normal(N, N), whole(N, N, low=0, high=N)], lambda g, x, k: g(x, 0, k),
                   lambda t, x, k: x.gather(0, k.long()), tile=(1, 16)),
    "index_select": Case(lambda: ROWS()[:2], lambda g, x, k: g(x, 0, k), lambda t, x, k: x.index_select(0, k)),
    "scatter": Case(lambda: [normal(N, N), whole(64, N, low=0, high=N), normal(64, N)],
                    lambda g, x, k, s: g(x, 0, k, s), lambda t, x, k, s: x.scatter(0, k.long(), s), tile=(64, 16)),
    "scatter_": Case(lambda: [normal(N, N), whole(64, N, low=0, high=N), normal(64, N)],
                     lambda g, x, k, s: updated(g, x, 0, k, s), lambda t, x, k, s: x.clone().scatter_(0, k.long(), s),
                     tile=(64, 16)),
    "scatter_update": Case(lambda: [ROWS()[0], ROWS()[1].reshape(1, N), ROWS()[2]],
                           lambda g, x, k, s: updated(g, x, -2, k, s),
                           lambda t, x, k, s: x.clone().index_copy_(0, k.reshape(-1).long(), s)),
    "index_put_": Case(ROWS, lambda g, x, k, s: updated(g, x, (k,), s),
                       lambda t, x, k, s: x.clone().index_put_((k.long(),), s)),
    **{n: Case(ROWS, (lambda g, x, k, s: updated(g, x, 0, k, s)) if "add_" in n.replace("add_ub", "") else
               (lambda g, x, k, s: g(x, 0, k, s)), lambda t, x, k, s: x.index_add(0, k, s))
       for n in ("index_add", "index_add_", "index_add_ub", "index_add__ub")},
    "one_hot": Case(lambda: [whole(N, low=0, high=N)], lambda g, x: g(x, N),
                    lambda t, x: t.nn.functional.one_hot(x.long(), N)),
    "full": Case(f(), made(lambda g: g([N, N], 1.5, F32)), lambda t, x: t.full((N, N), 1.5)),
    "zeros": Case(f(), made(lambda g: g([N, N])), lambda t, x: t.zeros(N, N)),
    "ones": Case(f(), made(lambda g: g([N, N])), lambda t, x: t.ones(N, N)),
    "arange": Case(f(), made(lambda g: g(float(N * N))), lambda t, x: t.arange(float(N * N)), tile=(16384,)),
    "uniform": Case(f(), made(lambda g: g([N, N], [7], [0, 1], [1], F32)), _philox, "950pr", numpy=True),
    "normal": Case(f(), made(lambda g: g([N, N], [7], [0, 1], [1], F32)),
                   lambda np_, x: np_.random.Generator(np_.random.Philox(7)).standard_normal(x.shape, np_.float32),
                   "950pr", numpy=True),
    "uniform_impl": Case(f(), made(lambda g: g(7, 0, 1, [N * N], 10, F32)), _philox, "950pr", (16384,), numpy=True),
    "experimental.nop": Case(f(), lambda g, x: g([x]), lambda t, x: x.clone()),
    "experimental.online_softmax": Case(
        f(), lambda g, x: g(x, 0.1), lambda t, x: ((x * 0.1 - (x * 0.1).amax(0)).exp().to(t.bfloat16),
                                                   (x * 0.1).amax(0), (x * 0.1).exp().sum(0)), "950pr", (N, 16)),
    "experimental.online_softmax_update": Case(
        lambda: [normal(1, N), normal(1, N), normal(N, N), normal(1, N), normal(1, N), normal(N, N)], same,
        lambda t, m, l, o, m2, l2, o2: (t.maximum(m, m2), l * (m - t.maximum(m, m2)).exp()
                                        + l2 * (m2 - t.maximum(m, m2)).exp(),
                                        o * (m - t.maximum(m, m2)).exp() + o2 * (m2 - t.maximum(m, m2)).exp()),
        "950pr", (N, 16)),
    "experimental.gather_in_ub": Case(
        lambda: [normal(N, N), ROWS()[1].reshape(1, N), np.arange(N // 16, dtype=np.int32).reshape(1, -1)],
        lambda g, x, k, b: g(x, k, b, 16, -2), lambda t, x, k, b: x[b[0, k[0] // 16].long() * 16 + k[0] % 16]),
    "experimental.gather_in_l1": Case(
        lambda: [normal(N, N), ROWS()[1].reshape(1, N), np.arange(N // 16, dtype=np.int32).reshape(1, -1)],
        lambda g, x, k, b: g(x, k, b, 16, N, False, False), lambda t, x, k, b: x[b[0, k[0] // 16].long() * 16
                                                                                + k[0] % 16]),
    "experimental.transposed_batchmatmul": Case(
        lambda: [normal(256, 4, 1024).astype(np.float16), normal(4, 1024, 256).astype(np.float16)],
        cube(lambda g, a, b: g(a, b, F16)),
        lambda t, a, b: (a.transpose(0, 1).float() @ b.float()).transpose(0, 1).to(t.float16), tile=(8, 1, 256)),
}


def best_of_both(ours: Callable[[], Any], other: Callable[[], Any], repeat: int = 7) -> tuple[float, float]:
    """Shortest seconds of both, called in turns so that both meet the same machine; one call each goes before."""
    ours(), other()
    found = [float("inf"), float("inf")]
    spent = 0.0
    for _ in range(repeat):
        for side, call in enumerate((ours, other)):
            start = time.perf_counter()
            call()
            seconds = time.perf_counter() - start
            found[side] = min(found[side], seconds)
            spent += seconds
        if spent > 1.5:
            break
    return found[0], found[1]


def missing() -> list[str]:
    """Operations without a benchmark; the list is empty."""
    return sorted(set(REGISTRY) - set(CASES))


def pair(name: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """(one replayed launch, one call of the counterpart) on the same operands."""
    import torch
    case, function = CASES[name], REGISTRY[name].function
    arrays = case.arrays()
    pypto.config(device=case.device, threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = evaluate(lambda *t: case.ours(function, *t), *arrays, tile=case.tile, device=case.device)
    count = len(arrays)

    names = [f"x{k}" for k in range(count)]
    outs = [f"y{k}" for k in range(len(results))]
    scope: dict[str, Any] = {"call": case.ours, "f": function, "tile": case.tile, "pypto": pypto, "t": pypto.Tensor()}
    lines = [f"def operation({', '.join(f'{n}: t' for n in names + outs)}):", "    pypto.set_vec_tile_shapes(*tile)",
             f"    {', '.join(f'r{k}' for k in range(len(outs)))} = call({', '.join(['f', *names])})",
             *(f"    {out}.move(r{k})" for k, out in enumerate(outs))]
    exec("\n".join(lines) + "\n", scope)
    kernel = pypto.frontend.jit(device=case.device, threads=1)(scope["operation"])

    def ours() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel(*arrays, *results)

    if case.numpy:
        return ours, lambda: case.other(np, *arrays)
    tensors = [_torch(torch, a) for a in arrays]
    return ours, lambda: case.other(torch, *tensors)


def _torch(torch: Any, a: np.ndarray) -> Any:
    names = {ml_dtypes.float8_e4m3fn: "float8_e4m3fn", ml_dtypes.float8_e8m0fnu: "float8_e8m0fnu"}
    if a.dtype.type in names:
        return torch.from_numpy(a.view(np.uint8)).view(getattr(torch, names[a.dtype.type]))
    return torch.from_numpy(a)
