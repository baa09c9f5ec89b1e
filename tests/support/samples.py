"""Inputs and references of the contract tests: at least one sample for every operation of the registry."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto_sim.dtypes import DataType
from pypto_sim.registry import REGISTRY, OpSpec

D = {d.short: d for d in DataType}
BOOL = D["bool"].np_dtype
INT32 = np.dtype(np.int32)


@dataclass(frozen=True)
class Sample:
    """One call of one operation.

    call(f, *tensors): `f` is the public function. reference(*arrays): expected results in float64, or exact integers.
    shapes: of the tensor operands. fixed: {operand number: array} where the generated one will not do. bound: ULP of
    the fp32 result. result: element type of the results where it is not that of the first operand.
    """

    name: str
    call: Callable[..., Any]
    reference: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((8, 64),)
    low: float = -4.0
    high: float = 4.0
    bound: float = 0.5
    fixed: dict[int, np.ndarray] = field(default_factory=dict)
    result: tuple[str | None, ...] = (None,)
    tag: str = ""
    int_result: str = ""                 # element type of the result for integer operands, where it is another
    types: tuple[str, ...] = ()          # element types to run; () for all of the operation
    terms: Callable[..., Any] | None = None    # for sums: (count, sum of |terms|) widens the bound

    @property
    def spec(self) -> OpSpec:
        """Registry row."""
        return REGISTRY[self.name]

    def __str__(self) -> str:
        return f"{self.name}{'-' + self.tag if self.tag else ''}"

    def arrays(self, dtype: DataType, seed: int = 0) -> list[np.ndarray]:
        """Operands of `dtype`."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        return [self.fixed[i] if i in self.fixed else draw(rng, shape, dtype, self.low, self.high)
                for i, shape in enumerate(self.shapes)]


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: DataType, low: float, high: float) -> np.ndarray:
    """Values of `dtype`; integers cover small numbers, both signs where there are."""
    if dtype is D["bool"]:
        return rng.random(shape) < 0.5
    if dtype.is_float:
        return rng.uniform(low, high, shape).astype(dtype.np_dtype)
    return rng.integers(1 if low > 0 else 0 if dtype.is_unsigned else -9, 10, shape).astype(dtype.np_dtype)


def exact(*arrays: np.ndarray) -> list[np.ndarray]:
    """Operands for a reference: float64, or Python integers."""
    return [a.astype(np.float64) if a.dtype.kind in "fV" else a if a.dtype == BOOL else a.astype(object)
            for a in arrays]


FUNCTIONS = ("exp2", "expm1", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
             "asinh", "acosh", "atanh", "erfc", "cbrt")
UNARY = ("abs", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "erf", "relu", "floor", "ceil", "trunc",
         "round", "sigmoid", "logical_not", "sign", "signbit", "isnan", "isfinite", "lrelu", "bitwise_not", *FUNCTIONS)
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "fmod", "remainder", "floor_div", "ceil_div", "gcd",
          "bitwise_and", "bitwise_or", "bitwise_xor")
TWO_TENSORS = ("hypot", "atan2", "copysign", "expand_exp_dif")
SHIFTS = ("bitwise_left_shift", "bitwise_right_shift")
DIVIDES = ("div", "fmod", "remainder", "floor_div", "ceil_div")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge", "greater")
REDUCE = ("sum", "amax", "amin", "prod")
MASK_RESULTS = (*COMPARE, "logical_not", "logical_and", "signbit", "isnan", "isfinite")


def _sample(name: str, call: Callable[..., Any], reference: Callable[..., Any], **more: Any) -> Sample:
    spec = REGISTRY[name]
    low, high = spec.samples
    more.setdefault("low", low)
    more.setdefault("high", high)
    more.setdefault("bound", spec.ulp)
    if name in MASK_RESULTS:
        more["result"] = ("bool",)
    return Sample(name, call, reference, **more)


def _samples() -> list[Sample]:
    found: list[Sample] = []
    add = found.append
    rng = np.random.default_rng(7)
    for name in UNARY:
        reference = _whole if name == "round" else REGISTRY[name].reference
        if name in ("exp2", "expm1"):
            reference = (lambda x, r=reference: r(_real(x)))
        more = {"int_result": "fp32"} if name in ("exp2", "expm1") else {}
        add(_sample(name, lambda f, x: f(x), lambda x, r=reference: r(x), **more))
        add(_sample(name, lambda f, x: f(x), lambda x, r=reference: r(x), shapes=((3, 2, 5, 7),), tag="4d", **more))
    for name in BINARY:
        reference = REGISTRY[name].reference
        ordered = (lambda a, b, r=reference: r(a, b))
        scaled = (lambda s, r: lambda x: r(x, s))
        nonzero: dict[str, Any] = {"low": 0.5, "high": 4.0} if name in DIVIDES else {}
        if name == "div":
            nonzero["int_result"] = "fp32"
        add(_sample(name, lambda f, a, b: f(a, b), ordered, shapes=((8, 64), (8, 64)), **nonzero))
        add(_sample(name, lambda f, a, b: f(a, b), ordered, shapes=((8, 1), (64,)), tag="broadcast", **nonzero))
        for s in (3, -2):
            add(_sample(name, lambda f, a, s=s: f(a, s), scaled(s, reference), tag=f"scalar{s}", **nonzero))
    for name in COMPARE:
        reference = REGISTRY[name].reference
        both = rng.integers(-2, 3, (8, 64)).astype(np.float64)
        add(_sample(name, lambda f, a, b: f(a, b), lambda a, b, r=reference: r(a, b), shapes=((8, 64), (8, 1)),
                    low=-1.0, high=1.0))
        add(_sample(name, lambda f, a: f(a, 1.0), lambda a, r=reference: r(a, 1), tag="scalar",
                    fixed={0: both.astype(np.float32)}, shapes=((8, 64),)))
    for name in TWO_TENSORS:
        reference = REGISTRY[name].reference
        add(_sample(name, lambda f, a, b: f(a, b), lambda a, b, r=reference: r(_real(a), _real(b)),
                    shapes=((8, 64), (8, 1)), int_result="fp32",
                    types=("fp32", "bf16") if name == "expand_exp_dif" else ()))
    for name in SHIFTS:
        reference = REGISTRY[name].reference
        add(_sample(name, lambda f, a: f(a, 3), lambda a, r=reference: r(a, 3)))
        add(_sample(name, lambda f, a: f(5, a), lambda a, r=reference: r(5, a), low=1.0, tag="reverse"))
    for axis in (-1, 0):
        for name in ("cumsum", "cumprod"):
            reference = REGISTRY[name].reference
            add(_sample(name, lambda f, x, a=axis: f(x, a), lambda x, a=axis, r=reference: r(x, axis=a),
                        shapes=((8, 20),), tag=f"axis{axis}", bound=40.0, low=0.5, high=1.5,
                        int_result="int64"))
        for name in ("argmax", "argmin"):
            reference = REGISTRY[name].reference
            add(_sample(name, lambda f, x, a=axis: f(x, a, True),
                        lambda x, a=axis, r=reference: r(x, axis=a, keepdims=True), shapes=((16, 200),),
                        tag=f"axis{axis}", result=("int32",)))
        add(_sample("argsort", lambda f, x, a=axis: f(x, a), lambda x, a=axis: np.argsort(x, a, kind="stable"),
                    shapes=((8, 40),), tag=f"axis{axis}", result=("int32",)))
    add(_sample("argsort", lambda f, x: f(x, descending=True), lambda x: np.argsort(-x, -1, kind="stable"),
                shapes=((8, 40),), tag="descending", result=("int32",)))
    add(_sample("var", lambda f, x: f(x, -1), lambda x: x.var(-1, ddof=1)))
    add(_sample("var", lambda f, x: f(x, [0, 2], correction=0, keepdim=True), lambda x: x.var((0, 2), keepdims=True),
                shapes=((3, 4, 64),), tag="axes"))
    add(_sample("var", lambda f, x: f(x), lambda x: x.var(ddof=1).reshape(1), tag="all"))
    add(_sample("prelu", lambda f, x, w: f(x, w), lambda x, w: np.where(x >= 0, x, w.reshape(-1, 1) * x),
                shapes=((2, 3, 64), (3,)), bound=1.0))
    add(_sample("axpy_", lambda f, y, x: f(REGISTRY["clone"].function(y), x, 0.5), lambda y, x: y + 0.5 * x,
                shapes=((8, 64), (8, 1)), bound=1.5, low=0.5))
    signed = ("fp32", "fp16", "bf16", "int32", "int16", "int8")
    for p in (-2, 5):
        add(_sample("pow", lambda f, x, p=p: f(x, p), lambda x, p=p: _int_power(x, p), tag=str(p), types=signed))
    add(_sample("pow", lambda f, x: f(x, 2.5), lambda x: _real(x) ** 2.5, tag="2.5", low=0.5, int_result="fp32",
                types=("fp32", "fp16", "bf16", "int32")))
    add(_sample("pow", lambda f, x, y: f(x, y), lambda x, y: x ** y, shapes=((8, 64), (8, 64)), tag="tensor", low=0.5,
                high=3.0))
    add(_sample("remainder", lambda f, x: f(7, x), lambda x: np.mod(7, x), tag="reverse", low=0.5, high=4.0))
    scales = rng.uniform(5, 20, 8).astype(np.float32), rng.uniform(5, 20, (3, 64)).astype(np.float32)
    zeros = rng.uniform(100, 150, 8).astype(np.float32)
    add(_sample("quantize", lambda f, x, s: f(x, s, D["int8"], -1), lambda x, s: _whole_numbers(
        REGISTRY["quantize"].reference(np.float32(x) * np.float32(s[:, None]), 1)), shapes=((8, 64), (8,)),
                fixed={1: scales[0]}, result=("int8",), low=-20.0, high=20.0))
    add(_sample("quantize", lambda f, x, s: f(x, s, D["int8"], -2), lambda x, s: _whole_numbers(
        REGISTRY["quantize"].reference(np.float32(x) * np.float32(s[:, None]), 1)), shapes=((3, 8, 64), (3, 64)),
                fixed={1: scales[1]}, result=("int8",), tag="columns"))
    add(_sample("quantize", lambda f, x, s, z: f(x, s, D["uint8"], -1, z), lambda x, s, z: _whole_numbers(
        REGISTRY["quantize"].reference(np.float32(x) * np.float32(s[:, None]) + np.float32(z[:, None]), 1, 0)),
                shapes=((8, 64), (8,), (8,)), fixed={1: scales[0], 2: zeros}, result=("uint8",), tag="zeros"))
    add(_sample("dequantize", lambda f, x, s, z: f(x, s, D["fp32"], -1, z),
                lambda x, s, z: (_real(x) - z[:, None]) * s[:, None], shapes=((8, 64), (8,), (8,)),
                fixed={1: scales[0], 2: np.full(8, 3, np.float32)}, result=("fp32",)))
    add(_sample("round", lambda f, x: f(x, 2), lambda x: np.round(_real(x), 2), tag="2", bound=2.0, types=("fp32",)))
    add(_sample("round", lambda f, x: f(x, -1), lambda x: np.round(_real(x), -1), tag="-1", low=-400.0, high=400.0,
                types=("fp32", "int32", "int16")))
    add(_sample("logical_and", lambda f, a, b: f(a, b), lambda a, b: np.logical_and(a != 0, b != 0),
                shapes=((8, 64), (8, 64))))
    for name in REDUCE:
        reference = REGISTRY[name].reference
        for axis, keep in ((-1, True), (0, False)):
            more = {"terms": lambda x, a=axis, k=keep: (x.shape[a], np.abs(x).sum(axis=a, keepdims=k))}
            more = more if name == "sum" else {"bound": 100.0} if name == "prod" else {}
            add(_sample(name, lambda f, x, a=axis, k=keep: f(x, a, k),
                        lambda x, a=axis, k=keep, r=reference: r(x, axis=a, keepdims=k), shapes=((16, 200),),
                        tag=f"axis{axis}", **more))
    add(_sample("where", lambda f, c, a, b: f(c, a, b), np.where, shapes=((8, 64), (8, 64), (8, 64)),
                fixed={0: rng.random((8, 64)) < 0.5}))
    add(_sample("clip", lambda f, x: f(x, -1, 2), lambda x: np.clip(x, -1, 2)))
    add(_sample("clip", lambda f, x, a, b: f(x, a, b), lambda x, a, b: np.minimum(np.maximum(x, a), b),
                shapes=((8, 64), (8, 1), (1, 64)), tag="tensors"))
    for p in (1, 2, 3):
        add(_sample("pow", lambda f, x, p=p: f(x, p), lambda x, p=p: x ** p, tag=str(p)))
    add(_sample("softmax", lambda f, x: f(x, -1), lambda x: REGISTRY["softmax"].reference(x, -1)))
    add(_sample("softmax", lambda f, x: f(x, 0), lambda x: REGISTRY["softmax"].reference(x, 0), tag="axis0"))
    add(_sample("rms_norm", lambda f, x: f(x), REGISTRY["rms_norm"].reference, shapes=((4, 513),)))
    add(_sample("rms_norm", lambda f, x, g: f(x, g, 1e-5), _rms_norm, shapes=((4, 320), (320,)), tag="gamma"))
    add(_sample("topk", lambda f, x: f(x, 5), lambda x: _topk(x, 5, True), result=(None, "int32")))
    add(_sample("topk", lambda f, x: f(x, 5, largest=False), lambda x: _topk(x, 5, False), result=(None, "int32"),
                tag="smallest"))
    add(_sample("cast", lambda f, x: f(x, D["fp32"]), lambda x: x, result=("fp32",)))
    add(_sample("experimental.online_softmax", lambda f, x: f(x, 0.5), _online, result=("bf16", None, None),
                bound=8.0))
    add(_sample("experimental.online_softmax_update", lambda f, *t: f(*t), _online_update,
                shapes=((1, 64), (1, 64), (8, 64), (1, 64), (1, 64), (8, 64)), bound=8.0, low=0.5))
    return found


def _whole(x: Any) -> Any:
    return x if x.dtype == object else np.round(x)


def _whole_numbers(x: Any) -> Any:
    return x.astype(np.int64).astype(object)


def _real(x: Any) -> Any:
    return x.astype(np.float64)


def _int_power(x: Any, p: int) -> Any:
    if x.dtype != object:
        return x ** p
    return x ** p if p >= 0 else np.array([1 if v == 1 else (-1) ** p if v == -1 else 0 for v in x.ravel()],
                                          dtype=object).reshape(x.shape)


def _rms_norm(x: Any, g: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g


def _topk(x: Any, k: int, largest: bool) -> Any:
    order = np.argsort(-x if largest else x, -1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order


def _online(x: Any) -> Any:
    top = (0.5 * x).max(0, keepdims=True)
    e = np.exp(0.5 * x - top)
    return e, top, e.sum(0, keepdims=True)


def _online_update(m0: Any, s0: Any, o0: Any, m1: Any, s1: Any, o1: Any) -> Any:
    m = np.maximum(m0, m1)
    a, b = np.exp(m0 - m), np.exp(m1 - m)
    return m, s0 * a + s1 * b, o0 * a + o1 * b


SAMPLES = _samples()


def bound_of(sample: Sample, dtype: DataType, result: np.dtype) -> float:
    """ULP bound of a result of type `result`: `sample.bound` fp32 units, and half a unit of a 16-bit type."""
    bits = {"float32": 23, "bfloat16": 7, "float16": 10}.get(str(result))
    if bits is None:
        return 0.0
    if bits == 23:
        return sample.bound + 1e-9
    return 0.5 + math.ldexp(sample.bound, bits - 23) + 1e-9
