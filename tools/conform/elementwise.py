"""Elementwise operations of the cases."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

import pypto_sim as pypto
from pypto_sim.dtypes import from_short

from .blocks import Layout, Scaled, aligned, block_of
from .cases import HALVES, Case, rounded, scalar_of
from .compare import Expected
from .draw import FLT_MAX, draw_all, number
from .row import TABLE, Arrays, Row, f64, fp32_rounding, half_ulp, units, wrapped

FLOAT_STEPS = 2.0**-24


# --- functions of one tensor -----------------------------------------------------------------------------------------
def unary(op: str, name: str, function: Callable[..., Any], fp32: float, half: float = 1, *, effect: bool = False,
          extra: Callable[[np.ndarray], np.ndarray] | None = None, words: str = "", **facts: Any) -> None:
    """A float function; `extra` is the further error of 16-bit results."""
    def expect(case: Case, arrays: Arrays) -> list[Expected]:
        x = f64(arrays[0])
        with np.errstate(all="ignore"):
            value = function(x)
        more: Any = None
        if case.outs[0].dtype in HALVES:
            more = fp32_rounding(function, x) if effect else (lambda: extra(x)) if extra else None
        return [Expected(value, units(case, fp32, half), more)]

    text = f"fp32 {fp32:g} ulp; fp16, bf16 {half:g} ulp" + (" + one fp32 rounding of x" if effect else words)
    TABLE[op] = Row(lambda case: getattr(pypto, name), expect, text, **facts)


def exact_unary(op: str, name: str, function: Callable[..., Any], **facts: Any) -> None:
    """A function whose results are exact: the stored values, or integers."""
    def expect(case: Case, arrays: Arrays) -> list[Expected]:
        x = arrays[0]
        with np.errstate(all="ignore"):
            return [Expected(function(f64(x) if case.ins[0].is_float else x))]
    TABLE[op] = Row(lambda case: getattr(pypto, name), expect, "exact", **facts)


def _trig_error(scale: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.nan_to_num(np.abs(scale(x)) * 2.0**-22, nan=0, posinf=0)


unary("ACosh", "acosh", np.arccosh, 4, effect=True)
unary("ASinh", "asinh", np.arcsinh, 4)
unary("Acos", "acos", np.arccos, 4, effect=True)
unary("Asin", "asin", np.arcsin, 4, effect=True)
unary("Atan", "atan", np.arctan, 4)
unary("Atanh", "atanh", np.arctanh, 4, effect=True)
unary("Cbrt", "cbrt", np.cbrt, 4)
unary("Cos", "cos", np.cos, 4, extra=_trig_error(lambda x: x), words=" + |x| 2^-22")
unary("Sin", "sin", np.sin, 4, extra=_trig_error(lambda x: x), words=" + |x| 2^-22")
unary("Tan", "tan", np.tan, 4, extra=_trig_error(lambda x: x * (1 + np.tan(x)**2)), words=" + |x(1+tan^2 x)| 2^-22")
unary("Cosh", "cosh", np.cosh, 4)
unary("Sinh", "sinh", np.sinh, 4)
unary("Tanh", "tanh", np.tanh, 4)
unary("Erf", "erf", scipy.special.erf, 4)
unary("Erfc", "erfc", scipy.special.erfc, 4, effect=True)
unary("Exp", "exp", np.exp, 2)
unary("Exp2", "exp2", np.exp2, 2)
unary("Expm1", "expm1", np.expm1, 4)
unary("Log1p", "log1p", np.log1p, 4)
unary("Log2", "log2", np.log2, 2)
unary("Log10", "log10", np.log10, 2)
unary("Reciprocal", "reciprocal", lambda x: 1 / x, 2)
unary("Rsqrt", "rsqrt", lambda x: 1 / np.sqrt(x), 4)
unary("Sqrt", "sqrt", np.sqrt, 1)

LOGARITHMS = {"e": ("log", np.log), "2": ("log2", np.log2), "10": ("log10", np.log10)}


def _logarithm(case: Case) -> tuple[str, Callable[..., Any]]:
    return LOGARITHMS[str(case.attrs["base"])]


def _log(case: Case, arrays: Arrays) -> list[Expected]:
    with np.errstate(all="ignore"):
        return [Expected(_logarithm(case)[1](f64(arrays[0])), units(case, 2, 1))]


TABLE["Log"] = Row(lambda case: getattr(pypto, _logarithm(case)[0]), _log, "fp32 2 ulp; fp16, bf16 1 ulp")

exact_unary("Abs", "abs", np.abs, only_950=("int16", "int32", "int8"))
exact_unary("BitwiseNot", "bitwise_not", np.invert)
exact_unary("Ceil", "ceil", lambda x: np.ceil(x) if x.dtype.kind == "f" else x)
exact_unary("Floor", "floor", lambda x: np.floor(x) if x.dtype.kind == "f" else x)
exact_unary("Trunc", "trunc", lambda x: np.trunc(x) if x.dtype.kind == "f" else x)
exact_unary("IsFinite", "isfinite", np.isfinite)
exact_unary("IsNan", "isnan", np.isnan)
exact_unary("LogicalNot", "logical_not", lambda x: x == 0, refused=("int64", "uint64"))
exact_unary("Neg", "neg", lambda x: -x)
exact_unary("Relu", "relu", lambda x: np.maximum(x, 0))
exact_unary("Sign", "sign", np.sign)
exact_unary("Signbit", "signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0)


# --- two tensors, tensor and scalar ----------------------------------------------------------------------------------
def binary(op: str, name: str, expect: Callable[[Case, Arrays], list[Expected]], tolerance: str,
           **facts: Any) -> None:
    """Two tensors."""
    TABLE[op] = Row(lambda case: getattr(pypto, name), expect, tolerance, **facts)


def scalar(op: str, name: str, expect: Callable[[Case, Arrays], list[Expected]], tolerance: str, *,
           first: bool = False, **facts: Any) -> None:
    """A tensor and a scalar; `first`: the scalar comes first. `expect` gets the scalar as the other array."""
    def call(case: Case) -> Callable[..., Any]:
        function, s = getattr(pypto, name), scalar_of(case)
        return (lambda x: function(s, x)) if first else (lambda x: function(x, s))

    def expected(case: Case, arrays: Arrays) -> list[Expected]:
        x, s = arrays[0], scalar_of(case)
        if case.ins[0].is_int and isinstance(s, int):
            other = np.array(s & (1 << 8 * x.itemsize) - 1, f"u{x.itemsize}").view(x.dtype)
        else:
            other = np.asarray(s, np.float64)
        return expect(case, [other, x] if first else [x, other])

    TABLE[op] = Row(call, expected, tolerance, **facts)


def simple(function: Callable[..., Any], ulp: float = 1) -> Callable[[Case, Arrays], list[Expected]]:
    """Exact integers that wrap, floats within `ulp`."""
    def expect(case: Case, arrays: Arrays) -> list[Expected]:
        a, b = arrays
        if case.ins[0].is_int:
            return [Expected(wrapped(function, a, b))]
        with np.errstate(all="ignore"):
            return [Expected(function(f64(a), f64(b)), ulp)]
    return expect


ADDED = "integers exact; floats 1 ulp"
for _op, _name, _function in (("Add", "add", np.add), ("Sub", "sub", np.subtract), ("Mul", "mul", np.multiply)):
    binary(_op, _name, simple(_function), ADDED, only_950=() if _op == "Mul" else ("int8", "uint8"),
           refused=("uint16", "uint32"))
    scalar(_op + "s", _name, simple(_function), "1 ulp")


def _divide(case: Case, arrays: Arrays) -> list[Expected]:
    a, b = map(f64, arrays)
    with np.errstate(all="ignore"):
        half = np.dtype(from_short(case.ins[0].dtype).np_dtype) if case.ins[0].dtype in HALVES else None
        value = a / b
        # A 16-bit tensor over an int scalar stays 16-bit here, also where the case states FP32.
        return [Expected(value if half is None else rounded(value, half), 3 if case.ins[0].is_int else 2, unit=half)]


binary("Div", "div", _divide, "floats 2 ulp; integer operands 3 ulp")
scalar("Divs", "div", _divide, "2 ulp; integer input 3 ulp")

for _op, _name, _function in (("BitwiseAnd", "bitwise_and", np.bitwise_and), ("BitwiseOr", "bitwise_or", np.bitwise_or),
                              ("BitwiseXor", "bitwise_xor", np.bitwise_xor)):
    binary(_op, _name, simple(_function), "exact")
    scalar(_op + "s", _name, simple(_function), "exact")


def _shifted(left: bool) -> Callable[[Case, Arrays], list[Expected]]:
    def expect(case: Case, arrays: Arrays) -> list[Expected]:
        a, n = np.broadcast_arrays(*arrays)
        bits = 8 * a.dtype.itemsize
        undefined = (n < 0) | (n >= bits)
        safe = np.where(undefined, 0, n).astype(a.dtype)
        return [Expected(wrapped(np.left_shift if left else np.right_shift, a, safe), skip=undefined)]
    return expect


SHIFT = "exact; counts below 0 or not below the width are not compared"
WIDE_SHIFTS = ("int32", "int8", "uint32", "uint8")
for _side in ("Left", "Right"):
    _name, _expect = f"bitwise_{_side.lower()}_shift", _shifted(_side == "Left")
    binary(f"Bitwise{_side}Shift", _name, _expect, SHIFT, only_950=WIDE_SHIFTS)
    scalar(f"Bitwise{_side}Shifts", _name, _expect, SHIFT, only_950=WIDE_SHIFTS)
    scalar(f"SBitwise{_side}Shift", _name, _expect, SHIFT, first=True, only_950=WIDE_SHIFTS)


# --- quotients -------------------------------------------------------------------------------------------------------
def _divisors(case: Case) -> list[np.ndarray]:
    """Inputs with the zeros of the divisor replaced by 1."""
    x, y = draw_all(case)
    return [x, np.where(y == 0, np.ones(1, y.dtype), y)]


def _quotient(up: bool) -> Callable[[Case, Arrays], list[Expected]]:
    def expect(case: Case, arrays: Arrays) -> list[Expected]:
        if case.ins[0].is_int:
            a, b = (v.astype(np.int64) for v in np.broadcast_arrays(*arrays))
            value = (-(-a // b) if up else a // b).astype(arrays[0].dtype)
            large = lambda: np.where(np.maximum(np.abs(a), np.abs(b)) >= 2**24, np.abs(f64(value)) * 2.0**-22, 0)
            return [Expected(value, extra=large)]
        a, b = map(f64, arrays)
        with np.errstate(all="ignore"):
            true = a / b
            near = lambda: np.where(np.abs(true - np.rint(true)) <= np.abs(true) * 2.0**-22, 1.0, 0.0)
            return [Expected((np.ceil if up else np.floor)(true), 1, near)]
    return expect


QUOTIENT = "integers exact (from 2^24 on 2^-22 relative); floats 1 ulp, or one step next to a whole quotient"
binary("CeilDiv", "ceil_div", _quotient(True), QUOTIENT, inputs=_divisors)
scalar("CeilDivs", "ceil_div", _quotient(True), QUOTIENT)


def _zero_divisor(case: Case) -> str:
    zero = case.attrs["scalar"] == 0 if "scalar" in case.attrs else number(case.ins[1].low) == number(
        case.ins[1].high) == 0
    return "an integer divided by zero has no result" if zero and case.ins[0].is_int else ""


binary("FloorDiv", "floor_div", _quotient(False), QUOTIENT, inputs=_divisors, skip=_zero_divisor)
scalar("FloorDivs", "floor_div", _quotient(False), QUOTIENT, skip=_zero_divisor)


def _modulo(function: Callable[..., Any]) -> Callable[[Case, Arrays], list[Expected]]:
    def expect(case: Case, arrays: Arrays) -> list[Expected]:
        a, b = np.broadcast_arrays(*arrays)
        if case.ins[0].is_int:
            wide = function(a.astype(np.int64), np.where(b == 0, 1, b).astype(np.int64))
            return [Expected(wide.astype(arrays[-1 if np.ndim(arrays[0]) == 0 else 0].dtype), skip=b == 0)]
        x, y = f64(a), f64(b)
        with np.errstate(all="ignore"):
            value = function(x, y)
            undefined = lambda: (y == 0) | ~(np.abs(x / y) <= 2.0**23)
            error = lambda: 4 * FLOAT_STEPS * np.maximum(np.abs(x), np.abs(y))
            return [Expected(value, 1 if case.outs[0].dtype in HALVES else 0, error, undefined, step=y)]
    return expect


MODULO = "integers exact; floats 4 2^-24 max(|x|, |y|), or one divisor off; |x/y| > 2^23 and y = 0 not compared"
binary("Fmod", "fmod", _modulo(np.fmod), MODULO)
scalar("Fmods", "fmod", _modulo(np.fmod), MODULO)
binary("Remainder", "remainder", _modulo(np.mod), MODULO)
scalar("RemainderS", "remainder", _modulo(np.mod), MODULO)
scalar("RemainderRS", "remainder", _modulo(np.mod), MODULO, first=True)
binary("Gcd", "gcd", simple(np.gcd), "exact")
scalar("Gcds", "gcd", simple(np.gcd), "exact")


def _power(case: Case, arrays: Arrays) -> list[Expected]:
    a, b = np.broadcast_arrays(*arrays)
    if not case.outs[0].is_float:
        return [Expected(_integer_power(a, b).astype(a.dtype))]
    x, y = f64(a), f64(b)
    with np.errstate(all="ignore"):
        value = np.power(x, y)
        error = lambda: np.nan_to_num((4 + 2 * np.abs(y * np.log(np.abs(x)))) * FLOAT_STEPS * np.abs(value), nan=0,
                                      posinf=0)
        top = {"fp16": 65504.0}.get(case.outs[0].dtype, FLT_MAX)
        edge = lambda: (np.abs(value) > 0.99 * top) & (np.abs(value) < 1.01 * top)
    return [Expected(value, 1, error, edge)]


def _integer_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    base, left = a.astype(np.int64), np.maximum(b.astype(np.int64), 0)
    result = np.ones_like(base)
    with np.errstate(over="ignore"):
        while left.any():
            result = np.where(left & 1, result * base, result)
            base, left = base * base, left >> 1
    odd = (b.astype(np.int64) & 1) != 0
    below = np.where(a == 1, 1, np.where(a.astype(np.int64) == -1, np.where(odd, -1, 1), 0))
    return np.where(b.astype(np.int64) < 0, below, result)


POWER = "(4 + 2 |y ln|x||) 2^-24 relative + 1 ulp; within 1 % of overflow not compared; integers exact"
binary("Pow", "pow", _power, POWER)
scalar("Pows", "pow", _power, POWER)


# --- others with two tensors -----------------------------------------------------------------------------------------
def _two(function: Callable[..., Any], ulp32: float, half: float) -> Callable[[Case, Arrays], list[Expected]]:
    def expect(case: Case, arrays: Arrays) -> list[Expected]:
        with np.errstate(all="ignore"):
            return [Expected(function(f64(arrays[0]), f64(arrays[1])), units(case, ulp32, half))]
    return expect


binary("Atan2", "atan2", _two(np.arctan2, 4, 1), "fp32 4 ulp; fp16, bf16 1 ulp")
binary("Hypot", "hypot", _two(np.hypot, 4, 1), "fp32 4 ulp; fp16, bf16 1 ulp")
binary("CopySign", "copysign", _two(np.copysign, 0, 0), "exact")
binary("LogicalAnd", "logical_and", lambda case, arrays: [Expected((arrays[0] != 0) & (arrays[1] != 0))], "exact")


def _exp_difference(case: Case, arrays: Arrays) -> list[Expected]:
    x, y = map(f64, arrays)
    with np.errstate(all="ignore"):
        d = x - y
        value = np.exp(d)
        step = np.float16 if case.outs[0].dtype == "fp16" else np.float32
        error = lambda: value * np.expm1(half_ulp(d, np.dtype(step)))
        top = 65504.0 if case.outs[0].dtype == "fp16" else FLT_MAX
        edge = lambda: (value > 0.97 * top) & (value < 1.03 * top)
    return [Expected(value, units(case, 2, 1), error, edge)]


binary("ExpandExpDif", "expand_exp_dif", _exp_difference,
       "fp32 2 ulp, 16-bit 1 ulp, + one rounding of the difference (fp16: in fp16); 3 % around overflow not compared")


def _extreme(op: str, name: str, function: Callable[..., Any]) -> None:
    def call(case: Case) -> Callable[..., Any]:
        f = getattr(pypto, name)
        if len(case.ins) == 2:
            return f
        s = scalar_of(case)
        return lambda x: f(x, s)

    def expect(case: Case, arrays: Arrays) -> list[Expected]:
        a = arrays[0] if case.ins[0].is_int else f64(arrays[0])
        b = np.asarray(scalar_of(case)) if len(arrays) == 1 else arrays[1] if case.ins[0].is_int else f64(arrays[1])
        return [Expected(function(a, b).astype(a.dtype))]

    TABLE[op] = Row(call, expect, "exact", only_950=("int8", "uint16", "uint32", "uint8"))


_extreme("Maximum", "maximum", np.maximum)
_extreme("Minimum", "minimum", np.minimum)


def _axpy(case: Case, arrays: Arrays) -> list[Expected]:
    y, x, alpha = f64(arrays[0]), f64(arrays[1]), float(np.float32(case.attrs["alpha"]))
    size = lambda: 2 * half_ulp(np.abs(y) + np.abs(alpha * x), np.dtype(from_short(case.outs[0].dtype).np_dtype))
    return [Expected(y + alpha * x, 0, size)]


TABLE["Axpy"] = Row(lambda case: lambda y, x: pypto.axpy_(y, x, case.attrs["alpha"]), _axpy,
                    "2 half-ulps of |y| + |alpha x|")


def _prelu(case: Case, arrays: Arrays) -> list[Expected]:
    x, w = map(f64, arrays)
    shape = (1, -1, *[1] * (x.ndim - 2)) if x.ndim > 1 else (-1,)
    return [Expected(np.where(x > 0, x, w.reshape(shape) * x), 1)]


def _prelu_layout(case: Case) -> Layout:
    grid = case.outs[0].shape
    return Layout(grid, block_of(grid, case.view), (tuple(range(len(grid))), (min(1, len(grid) - 1),)),
                  (tuple(range(len(grid))),))


TABLE["PReLU"] = Row(lambda case: pypto.prelu, _prelu, "1 ulp", layout=_prelu_layout)


def _lrelu(case: Case, arrays: Arrays) -> list[Expected]:
    x, s = f64(arrays[0]), float(np.float32(case.attrs["scalar"]))
    half = np.dtype(from_short(case.ins[0].dtype).np_dtype)
    slope = lambda: np.where(x > 0, 0, np.abs(x) * half_ulp(np.asarray(s), half))
    return [Expected(np.where(x > 0, x, x * s), 1, slope)]


TABLE["LReLU"] = Row(lambda case: lambda x: pypto.lrelu(x, negative_slope=case.attrs["scalar"]), _lrelu,
                     "1 ulp + rounding of the slope")


# --- comparison and choice -------------------------------------------------------------------------------------------
COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
               "ge": np.greater_equal}


def _bit_mode(case: Case) -> str:
    return "no public call gives a bit mask" if case.attrs["mode"] == "bit" else ""


def _compare(case: Case) -> Callable[..., Any]:
    function = getattr(pypto, case.attrs["compare_op"])
    if len(case.ins) == 2:
        return function
    value = scalar_of(case, "scalar", "scalar_dtype")
    return lambda x: function(x, pypto.Element(case.ins[0].type, value))


def _compared(case: Case, arrays: Arrays) -> list[Expected]:
    other = f64(arrays[1]) if len(arrays) == 2 else scalar_of(case, "scalar", "scalar_dtype")
    return [Expected(COMPARISONS[case.attrs["compare_op"]](f64(arrays[0]), other))]


TABLE["Compare"] = Row(_compare, _compared, "exact", skip=_bit_mode, only_950=("int16",), refused=("bf16",))
TABLE["Cmps"] = Row(_compare, _compared, "exact", skip=_bit_mode, only_950=("int16",))


def _limits(case: Case) -> tuple[bool, bool]:
    """(has a lower limit, has an upper limit)."""
    kind = case.attrs["test_type"]
    return (kind not in (3, 6, 4, 8), kind not in (3, 6, 5, 7))


def _limit(case: Case, which: str) -> Any:
    return scalar_of(case, f"{which}_value", f"{which}_dtype")


def _clip_call(case: Case) -> Callable[..., Any]:
    low, high = _limits(case)
    if len(case.ins) == 3:
        return lambda x, a, b: pypto.clip(x, a if low else None, b if high else None)
    bounds = (_limit(case, "min") if low else None, _limit(case, "max") if high else None)
    return lambda x: pypto.clip(x, *bounds)


def _clipped(case: Case, arrays: Arrays) -> list[Expected]:
    low, high = _limits(case)
    x = arrays[0] if case.ins[0].is_int else f64(arrays[0])
    limits = [f64(a) for a in arrays[1:]] or [_limit(case, "min"), _limit(case, "max")]
    if low:
        x = np.maximum(x, limits[0])
    if high:
        x = np.minimum(x, limits[1])
    return [Expected(x.astype(arrays[0].dtype) if case.ins[0].is_int else x)]


TABLE["Clip"] = Row(_clip_call, _clipped, "exact")


def _where_layout(case: Case) -> Layout:
    grid = case.outs[0].shape
    maps = [aligned(t.shape, grid) for t in case.ins]
    block = block_of(grid, case.view)
    if case.ins[0].dtype == "uint8":                 # a bit mask: eight elements a byte
        last = len(grid) - 1
        maps[0] = (*maps[0][:-1], Scaled(last, 1, 8))
        block = (*block[:-1], -(-block[-1] // 8) * 8)
    return Layout(grid, block, tuple(maps), (aligned(case.outs[0].shape, grid),))


def _where_scalars(case: Case) -> tuple[Any, Any]:
    kind = case.ins[1].type
    convert = int if case.ins[1].is_int else float
    return tuple(pypto.Element(kind, convert(case.attrs[f"{n}_scalar"])) for n in "xy")    # type: ignore[return-value]


def _where_call(case: Case) -> Callable[..., Any]:
    flag, (a, b) = case.attrs["flag"], _where_scalars(case)
    return lambda c, x, y: pypto.where(c, a if flag in (2, 3) else x, b if flag in (1, 3) else y)


def _chosen(case: Case, arrays: Arrays) -> list[Expected]:
    c, x, y = arrays
    flag, (a, b) = case.attrs["flag"], _where_scalars(case)
    if c.dtype == np.uint8:
        c = np.unpackbits(c, -1, bitorder="little").astype(bool)
    wide = (lambda v: v) if case.ins[1].is_int else f64
    return [Expected(np.where(c, wide(x) if flag in (0, 1) else a.value, wide(y) if flag in (0, 2) else b.value))]


TABLE["Where"] = Row(_where_call, _chosen, "exact", layout=_where_layout, only_950=("int8", "uint8"))


# --- rounding to decimals, conversion --------------------------------------------------------------------------------
def _rounded(case: Case, arrays: Arrays) -> list[Expected]:
    x, d = arrays[0], case.attrs["decimals"]
    if case.ins[0].is_int:
        if d >= 0:
            return [Expected(x)]
        scale = 10 ** -d
        return [Expected((np.rint(f64(x) / scale) * scale).astype(x.dtype))]
    wide = x.astype(np.float32)
    with np.errstate(all="ignore"):
        power = np.float32(10) ** np.float32(abs(d))
        scaled = wide * power if d >= 0 else wide / power
        value = np.rint(scaled) / power if d >= 0 else np.rint(scaled) * power
        exact = f64(wide) * 10.0 ** d
        tie = np.abs(np.abs(exact - np.floor(exact)) - 0.5) <= np.abs(exact) * 2.0**-22
    undefined = (wide == 0) & ~np.isfinite(value)
    return [Expected(f64(value), 2, np.where(tie, 10.0 ** -d, 0.0), undefined)]


TABLE["Round"] = Row(lambda case: lambda x: pypto.round(x, decimals=case.attrs["decimals"]), _rounded,
                     "2 ulp; one step next to a tie; 0 times inf not compared")

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E1M2 = np.arange(8) * 0.25


def nibbles(data: np.ndarray, dtype: str) -> np.ndarray:
    """Values of packed 4-bit floats, the low nibble first."""
    grid = E2M1 if dtype == "fp4_e2m1x2" else E1M2
    codes = np.stack((data & 15, data >> 4), -1).reshape(*data.shape[:-1], -1)
    return np.where(codes & 8, -grid[codes & 7], grid[codes & 7])


def packed(values: np.ndarray, dtype: str) -> np.ndarray:
    """Bytes of 4-bit floats nearest to `values`, two of the last axis a byte."""
    return joined(codes4(values, dtype))


def joined(code: np.ndarray) -> np.ndarray:
    """Codes of 4 bits as bytes, the low nibble first."""
    return (code[..., ::2] | code[..., 1::2] << 4).astype(np.uint8)


def codes4(values: np.ndarray, dtype: str) -> np.ndarray:
    """Codes of 4-bit floats nearest to `values`, ties to the even code, saturating."""
    grid = E2M1 if dtype == "fp4_e2m1x2" else E1M2
    size = np.minimum(np.abs(values), grid[-1])
    upper = np.clip(np.searchsorted(grid, size), 1, 7)
    lower = upper - 1
    below, above = size - grid[lower], grid[upper] - size
    code = np.where((below < above) | ((below == above) & (lower % 2 == 0)), lower, upper)
    return np.where(np.isnan(values), 7, code | np.where(np.signbit(values), 8, 0))


def _cast_layout(case: Case) -> Layout:
    grid = case.ins[0].shape
    axes = tuple(range(len(grid)))
    half = (*axes[:-1], Scaled(axes[-1], 1, 2))
    fp4 = [t.stored != t.shape for t in (case.ins[0], case.outs[0])]
    return Layout(grid, block_of(grid, case.view), (half if fp4[0] else axes,), (half if fp4[1] else axes,))


def _cast(case: Case, arrays: Arrays) -> list[Expected]:
    x, source, target = arrays[0], case.ins[0], case.outs[0]
    if source.stored != source.shape:
        return [Expected(nibbles(x, source.dtype))]
    if target.stored != target.shape:
        return [Expected(packed(f64(x), target.dtype))]
    if target.is_int:
        return [Expected((np.trunc(f64(x)).astype(np.int64) if source.is_float else x).astype(target.np_dtype))]
    return [Expected(f64(x))]


TABLE["Cast"] = Row(
    lambda case: lambda x: pypto.cast(x, case.outs[0].type, pypto.CastMode(case.attrs["mode"])), _cast, "exact",
    layout=_cast_layout, only_950=("fp4_e2m1x2", "fp4_e1m2x2", "uint32", "uint16"))
