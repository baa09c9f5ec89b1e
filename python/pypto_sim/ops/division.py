"""Remainders, rounded quotients, integer and two-argument float functions."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import DataType, Element, wrap_int
from ..enums import PrecisionType
from ..registry import REGISTRY, Cost, OpSpec, op, supported
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check, valid_of
from .elementwise import PRECISION_TYPE, Number, binary_call, precision
from .steps import binary_step, cast_step, scalar_step, unary_step

FP32, INT32 = DataType.DT_FP32, DataType.DT_INT32
_PAIR: dict[str, Any] = dict(
    cost=Cost.VEC_LONG, form_cost=Cost.VEC_LONG, source=facts.API)
_RULES = (facts.ONE_DTYPE, facts.NUMPY_BROADCAST, facts.SCALAR_RULE, *facts.VECTOR_RULES)
_EXACT_DOUBLE = "Computed without intermediate rounding, then rounded once."
DOC = """{summary}

Parameters
----------
{names[0]}: {first}
{names[1]}: {second}{more}

Returns
-------
Tensor of the common shape and {result}.

Raises
------
PyptoTypeError: no operand is a tensor, or a float scalar meets an integer tensor.
DTypeError: unsupported or mixed element types. ShapeError: shapes do not broadcast.

Notes
-----
{notes}

Cost
----
A sequence of vector instructions per tile.

Examples
--------
{example}
"""
TENSOR = "tensor of rank 1 to 4."
OTHER = "tensor of the same element type that broadcasts with `input`, or a scalar."
OTHER_TENSOR = "tensor of the same element type that broadcasts with `input`."
HIGH = PrecisionType.HIGH_PRECISION
PRECISION = "\nprecision_type: HIGH_PRECISION exists on the 950 only; results are the same for both."


def _doc(summary: str, notes: str, example: str, *, first: str = TENSOR, second: str = OTHER, more: str = "",
         result: str = "", names: tuple[str, str] = ("input", "other")) -> Any:
    def attach(function: Any) -> Any:
        function.__doc__ = DOC.format(summary=summary, notes=notes, example=example, first=first, second=second,
                                      more=more, result=result or f"the type of `{names[0]}`", names=names)
        return function
    return attach


def _nonzero_scalar(c: Check, other: Any, dtype: DataType) -> None:
    value = other.value if isinstance(other, Element) else other
    if dtype.is_int and not isinstance(value, Tensor) and isinstance(value, int | float) and value == 0:
        c.rule("scalar.zero", "`other` is 0: an integer division by zero has no result; pass another divisor")


def _finite_scalar(c: Check, other: Any) -> None:
    value = other.value if isinstance(other, Element) else other
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        c.rule("scalar.nonfinite", f"`other` is {value}; pass a finite number")


@op(new_arguments=PRECISION_TYPE,
    kernel="fmod", forms={"scalar": ("fmods", "")}, dtypes=facts.FLOATS,
    methods=("fmod",), bf16_arith=False, fp16_arith=False, reference=np.fmod, numerics=_EXACT_DOUBLE,
    constraints=(*_RULES, "A scalar divisor is finite (current release)."), torch="Same values.", **_PAIR)
@_doc("Remainder of a division with the sign of the dividend.", "fmod(x, inf) is x; fmod(x, 0) is NaN.",
      ">>> show(lambda a: pypto.fmod(a, 3.0), [7.5, -7.5])\n[1.5, -1.5]", more=PRECISION)
def fmod(input: Tensor, other: Tensor | Number, precision_type: PrecisionType = HIGH) -> Tensor:
    c = Check(fmod.spec)
    precision(c, precision_type)
    _finite_scalar(c, other)
    return binary_call(fmod.spec, input, other)


@op(new_arguments=PRECISION_TYPE,
    kernel="remainder", forms={"scalar": ("remainders", ""), "reverse": ("rremainders", "")},
    dtypes=supported("fp32 fp16 bf16 int32 int16", unlisted="int8 uint8 int64"), methods=("remainder", "__mod__"),
    bf16_arith=False, fp16_arith=False, reference=np.mod, numerics=_EXACT_DOUBLE,
    constraints=(*_RULES, "An integer divisor must not be 0."), torch="Same values.", **_PAIR)
@_doc("Remainder of a division with the sign of the divisor.", "x - y * floor(x / y); one operand may be a scalar.",
      ">>> show(lambda a: a % 3.0, [7.5, -7.5])\n[1.5, 1.5]", first="tensor of rank 1 to 4, or a scalar.",
      more=PRECISION)
def remainder(input: Tensor | Number, other: Tensor | Number, precision_type: PrecisionType = HIGH) -> Tensor:
    c = Check(remainder.spec)
    precision(c, precision_type)
    if isinstance(other, Tensor) and not isinstance(input, Tensor):
        return scalar_step(c, c.spec.forms["reverse"], c.tensor("other", other), input, name="input")
    if isinstance(input, Tensor):
        _nonzero_scalar(c, other, input.dtype)
    return binary_call(remainder.spec, input, other)


@op(kernel="floor_div", forms={"scalar": ("floor_divs", "")}, versions=("master",), bf16_arith=False,
    dtypes=supported("fp32 fp16 bf16 int32 int8 uint8", unlisted="int16 int64"), reference=np.floor_divide,
    numerics="Floor of the true quotient.", constraints=_RULES, torch="Same values.", **_PAIR)
@_doc("Quotient rounded down.", "Integers are exact. `t // s` is floor(div(t, s)) instead.",
      ">>> show(lambda a: pypto.floor_div(a, 2.0), [7.0, -7.0])\n[3.0, -4.0]")
def floor_div(input: Tensor, other: Tensor | Number) -> Tensor:
    if isinstance(input, Tensor):
        _nonzero_scalar(Check(floor_div.spec), other, input.dtype)
    return binary_call(floor_div.spec, input, other)


@op(kernel="ceil_div", forms={"scalar": ("ceil_divs", "")}, dtypes=supported("int32", unlisted="int16 int64"),
    reference=lambda a, b: -(-a // b), numerics="Exact (the chip: within +-2^24).", constraints=_RULES,
    torch="No counterpart.", **_PAIR)
@_doc("Integer quotient rounded up.", "The chip goes through fp32 and is exact within +-2^24 only.",
      ">>> show(lambda a: pypto.ceil_div(pypto.cast(a, pypto.DT_INT32), 2), [7.0, -7.0])\n[4, -3]",
      first="INT32 tensor of rank 1 to 4.", names=("self", "other"))
def ceil_div(self: Tensor, other: Tensor | int) -> Tensor:
    if isinstance(self, Tensor):
        _nonzero_scalar(Check(ceil_div.spec), other, self.dtype)
    return binary_call(ceil_div.spec, self, other, name="self")


@op(new_arguments=PRECISION_TYPE,
    kernel="pow", forms={"scalar": ("pows", "")}, dtypes=supported("fp32 fp16 bf16 int32 int16 int8 uint8"),
    methods=("__pow__",), reference=np.power, samples=(0.1, 3.0), ulp=1.5,
    numerics="An exponent of 2 is one product, 3 are two, 0.5 is a square root; others are rounded once. Integer "
             "powers wrap around.",
    constraints=("INT8, UINT8 and INT16 pairs must share their type; other pairs become the first of FP32, FP16, BF16, "
                 "INT32 among them (FP16 with BF16: FP32).", facts.NUMPY_BROADCAST, *facts.VECTOR_RULES),
    torch="Pairs of FP16 and BF16 give FP32.", **_PAIR)
@_doc("Power, element by element.", "A negative integer exponent gives 0 unless the base is 1 or -1.",
      ">>> show(lambda a: a ** 2, [3.0, -2.0])\n[9.0, 4.0]", second="tensor that broadcasts with `input`, or a scalar.",
      more=PRECISION, result="the type of `input`; FP32 for an integer base with a float exponent")
def pow(input: Tensor, other: Tensor | int | float, precision_type: PrecisionType = HIGH) -> Tensor:
    c = Check(pow.spec)
    precision(c, precision_type)
    x = c.tensor("input", input)
    if isinstance(other, Tensor):
        return _tensor_power(c, x, c.tensor("other", other))
    exponent = other.value if isinstance(other, Element) else other
    if isinstance(exponent, float) and x.dtype.is_int:
        if x.dtype is not INT32:
            c.rule("arg.type", f"`other` is the float {exponent} next to a base of {x.dtype.name}; pass an int, or "
                               "cast the base to FP32")
        x = cast_step(c, x, FP32)
    if isinstance(exponent, int) and x.dtype.is_int and wrap_int(exponent, x.dtype) != exponent:
        c.rule("scalar.range", f"`other` is {exponent}, which {x.dtype.name} does not have")
    with c.session.label("pow"):
        if exponent == 0.5 and x.dtype.is_float:
            return unary_step(c, REGISTRY["sqrt"], x)
        if exponent == 1:
            return unary_step(c, REGISTRY["clone"], x)
        if exponent in (2, 3):
            square = c.emit(static_shape(x), x.dtype, valid_of(x), (x, x), spec=REGISTRY["mul"])
            return square if exponent == 2 else binary_step(c, REGISTRY["mul"], square, x)
        return scalar_step(c, c.spec.forms["scalar"], x, exponent)


_POWER_ORDER = (FP32, DataType.DT_FP16, DataType.DT_BF16, INT32)


def _tensor_power(c: Check, a: Tensor, b: Tensor) -> Tensor:
    kinds = {a.dtype, b.dtype}
    if len(kinds) > 1:
        if not kinds <= set(_POWER_ORDER):
            c.same_dtype(input=a, other=b)
        both_half = kinds == {DataType.DT_FP16, DataType.DT_BF16}
        common = FP32 if both_half else next(d for d in _POWER_ORDER if d in kinds)
        a, b = cast_step(c, a, common), cast_step(c, b, common)
    with c.session.label("pow"):
        return binary_step(c, c.spec, a, b)


@op(kernel="hypot", dtypes=facts.FLOATS, methods=("hypot",), reference=np.hypot, numerics=_EXACT_DOUBLE,
    constraints=_RULES[:2] + facts.VECTOR_RULES, torch="Same values.", **_PAIR)
@_doc("sqrt(x^2 + y^2) without overflow inside.", "inf with NaN gives inf.",
      ">>> show(lambda a, b: pypto.hypot(a, b), [3.0], [4.0])\n[5.0]", second=OTHER_TENSOR)
def hypot(input: Tensor, other: Tensor) -> Tensor:
    return _tensors_only(hypot.spec, input, other)


@op(kernel="atan2", dtypes=facts.FLOATS, versions=("master",), reference=np.arctan2, numerics=_EXACT_DOUBLE,
    constraints=_RULES[:2] + facts.VECTOR_RULES + ("7 fp32 tiles must fit UB.",), torch="Same values.", **_PAIR)
@_doc("Angle of the point (x, y), in -pi to pi.", "The first operand is y.",
      ">>> show(lambda a, b: pypto.atan2(a, b), [0.0], [1.0])\n[0.0]",
      second="tensor of the same element type that broadcasts with `y`.", names=("y", "x"))
def atan2(y: Tensor, x: Tensor) -> Tensor:
    return _tensors_only(atan2.spec, y, x)


@op(kernel="copysign", dtypes=supported("fp32 fp16 bf16 int16 int32"), bf16_arith=False, reference=np.copysign,
    numerics=facts.EXACT, constraints=_RULES[:2] + facts.VECTOR_RULES, torch="Integers give FP32.", **_PAIR)
@_doc("Magnitude of the first operand with the sign of the second.", "The sign of -0 counts.",
      ">>> show(lambda a, b: pypto.copysign(a, b), [3.0, 3.0], [1.0, -1.0])\n[3.0, -3.0]", second=OTHER_TENSOR,
      result="the type of `input`, FP32 for integers")
def copysign(input: Tensor, other: Tensor) -> Tensor:
    c = Check(copysign.spec)
    a, b = c.tensor("input", input), c.tensor("other", other)
    c.same_dtype(input=a, other=b)
    with c.session.label("copysign"):
        if a.dtype.is_int:
            a, b = cast_step(c, a, FP32), cast_step(c, b, FP32)
        return binary_step(c, c.spec, a, b)


@op(cost=Cost.COMPOSITE, dtypes=facts.FLOATS, reference=lambda a, b: np.exp(a - b), ulp=8.0, source=facts.API,
    numerics="A difference and an exponential; bf16 is rounded once.", constraints=_RULES[:2] + facts.VECTOR_RULES,
    torch="No counterpart.")
@_doc("exp(x - y), the numerator of a softmax.", "The difference is rounded before the exponential.",
      ">>> show(lambda a, b: pypto.expand_exp_dif(a, b), [1.0], [1.0])\n[1.0]", second=OTHER_TENSOR)
def expand_exp_dif(input: Tensor, other: Tensor) -> Tensor:
    c = Check(expand_exp_dif.spec)
    a, b = c.tensor("input", input), c.tensor("other", other)
    c.same_dtype(input=a, other=b)
    with c.session.label("expand_exp_dif"):
        return unary_step(c, REGISTRY["exp"], binary_step(c, REGISTRY["sub"], a, b))


def _tensors_only(spec: OpSpec, a: Any, b: Any) -> Tensor:
    c = Check(spec)
    x, y = c.tensor("input", a), c.tensor("other", b)
    c.same_dtype(input=x, other=y)
    return binary_step(c, spec, x, y)
