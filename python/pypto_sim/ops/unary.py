"""Elementwise operations on one tensor."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..enums import PrecisionType
from ..registry import REGISTRY, Cost, OpSpec, op, supported
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check, valid_of
from .elementwise import FP32, PRECISION_TYPE, div, precision
from .steps import cast_step, full_step, scalar_step, unary_step


def unary_call(spec: OpSpec, input: Any) -> Tensor:
    """One tensor, same shape and type."""
    c = Check(spec)
    return unary_step(c, spec, c.tensor("input", input))


_UNARY: dict[str, Any] = dict(
    source=facts.API, constraints=facts.VECTOR_RULES)


@op(kernel="neg", instr="vmuls", cost=Cost.VEC_SCALAR, dtypes=facts.FLOATS_INTS, methods=("__neg__",),
    bf16_arith=False, reference=np.negative, numerics=facts.EXACT + " " + facts.WRAPS, torch="No method form.",
    **_UNARY)
def neg(input: Tensor) -> Tensor:
    """Negative of every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    A product with -1 on the chip; the smallest integer stays as it is.

    Cost
    ----
    One vmuls per tile.

    Examples
    --------
    >>> show(lambda a: -a, [1.0, -2.0])
    [-1.0, 2.0]
    """
    return unary_call(neg.spec, input)


@op(kernel="abs", instr="vabs", dtypes=supported("fp32 fp16 bf16", only_950="int8 int16 int32", unlisted="int64"),
    bf16_arith=False, reference=np.abs, numerics=facts.EXACT, torch="No method form.", **_UNARY)
def abs(input: Tensor) -> Tensor:
    """Absolute value of every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    The sign bit is cleared; the smallest integer stays as it is.

    Cost
    ----
    One vabs per tile.

    Examples
    --------
    >>> show(lambda a: pypto.abs(a), [1.0, -2.0])
    [1.0, 2.0]
    """
    return unary_call(abs.spec, input)


@op(new_arguments=PRECISION_TYPE,
    kernel="exp", instr="vexp", dtypes=facts.FLOATS, methods=("exp",), bf16_arith=False, reference=np.exp, ulp=1.0,
    numerics=facts.BF16_WIDENED + " fp32 within 1 ULP.", torch="Same values within rounding.", **_UNARY)
def exp(input: Tensor, precision_type: PrecisionType = PrecisionType.INTRINSIC) -> Tensor:
    """Exponential function of every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    precision_type: HIGH_PRECISION exists on the 950 only; results are the same for both.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    exp(-inf) = 0, exp(inf) = inf, NaN stays NaN.

    Cost
    ----
    One vexp per tile, two cycles a repeat.

    Examples
    --------
    >>> show(lambda a: pypto.exp(a), [0.0])
    [1.0]
    """
    precision(Check(exp.spec), precision_type)
    return unary_call(exp.spec, input)


@op(new_arguments=PRECISION_TYPE,
    kernel="log", instr="vln", dtypes=facts.FLOATS, methods=("log",), reference=np.log, ulp=1.0,
    samples=(0.001, 50.0), numerics="16-bit floats are cast to fp32, and the result is cast back: one rounding here.",
    torch="Same values within rounding.", **_UNARY)
def log(input: Tensor, precision_type: PrecisionType = PrecisionType.INTRINSIC) -> Tensor:
    """Natural logarithm of every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    precision_type: HIGH_PRECISION exists on the 950 only; results are the same for both.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    log(0) = -inf; negative arguments give NaN.

    Cost
    ----
    One vln per tile; 16-bit types add two casts.

    Examples
    --------
    >>> show(lambda a: pypto.log(a), [1.0])
    [0.0]
    """
    c = Check(log.spec)
    precision(c, precision_type)
    x = c.tensor("input", input)
    with c.session.label("log"):
        return cast_step(c, unary_step(c, log.spec, cast_step(c, x, FP32)), x.dtype)


@op(new_arguments=PRECISION_TYPE,
    kernel="sqrt", instr="vsqrt", dtypes=facts.FLOATS, methods=("sqrt",), bf16_arith=False, reference=np.sqrt,
    samples=(0.0, 50.0), numerics=facts.BF16_WIDENED + " Correctly rounded.", torch="Same values.", **_UNARY)
def sqrt(input: Tensor, precision_type: PrecisionType = PrecisionType.INTRINSIC) -> Tensor:
    """Square root of every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    precision_type: HIGH_PRECISION exists on the 950 only; results are the same for both.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    Negative arguments give NaN; -0 stays -0.

    Cost
    ----
    One vsqrt per tile, two cycles a repeat.

    Examples
    --------
    >>> show(lambda a: pypto.sqrt(a), [4.0])
    [2.0]
    """
    precision(Check(sqrt.spec), precision_type)
    return unary_call(sqrt.spec, input)


@op(new_arguments=PRECISION_TYPE,
    cost=Cost.COMPOSITE, dtypes=facts.FLOATS, methods=("rsqrt",), reference=lambda x: 1 / np.sqrt(x), ulp=1.5,
    samples=(0.01, 50.0), numerics="[cast to fp32,] sqrt, full 1, div[, cast back]: two fp32 roundings.",
    torch="Not the correctly rounded value: sqrt is rounded before the division.", **_UNARY)
def rsqrt(input: Tensor, precision_type: PrecisionType = PrecisionType.INTRINSIC) -> Tensor:
    """Reciprocal square root of every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    precision_type: HIGH_PRECISION exists on the 950 only; results are the same for both.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    Zero gives inf, negative arguments give NaN.

    Cost
    ----
    vsqrt, vector_dup and vdiv per tile; 16-bit types add two casts.

    Examples
    --------
    >>> show(lambda a: pypto.rsqrt(a), [4.0])
    [0.5]
    """
    c = Check(rsqrt.spec)
    precision(c, precision_type)
    x = c.tensor("input", input)
    with c.session.label("rsqrt"):
        root = unary_step(c, sqrt.spec, cast_step(c, x, FP32))
        one = full_step(c, root, 1.0)
        return cast_step(c, c.emit(static_shape(x), FP32, valid_of(x), (one, root), spec=div.spec), x.dtype)


@op(new_arguments=PRECISION_TYPE,
    kernel="reciprocal", instr="vdiv", dtypes=facts.FLOATS, methods=("reciprocal",), bf16_arith=False,
    reference=np.reciprocal, numerics=facts.BF16_WIDENED + " A division 1 / x, correctly rounded.",
    torch="Same values.", **_UNARY)
def reciprocal(input: Tensor, precision_type: PrecisionType = PrecisionType.HIGH_PRECISION) -> Tensor:
    """1 / x for every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    precision_type: HIGH_PRECISION exists on the 950 only; results are the same for both.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    `s / t` with a scalar `s` is `reciprocal(t) * s`, two roundings in fp32.

    Cost
    ----
    One vdiv per tile.

    Examples
    --------
    >>> show(lambda a: 1.0 / a, [4.0])
    [0.25]
    """
    precision(Check(reciprocal.spec), precision_type)
    return unary_call(reciprocal.spec, input)


@op(kernel="tanh", instr="", cost=Cost.VEC_LONG, dtypes=facts.FLOATS, methods=("tanh",), versions=("master",),
    reference=np.tanh, ulp=4.0, source=facts.API,
    numerics="fp32 inside the operation: an odd polynomial below 0.55, else (e^2x - 1) / (e^2x + 1) with x clipped at "
             "20. bf16 arrives rounded and leaves rounded.",
    constraints=(*facts.VECTOR_RULES, "UB holds two fp32 scratch tiles (four for 16-bit types) and a mask."),
    torch="Up to 4 fp32 ULP from the exact value.")
def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent of every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.
    CapacityError: operand, result and scratch do not fit UB.

    Notes
    -----
    Absent in 0.2. A rounding point for bf16 chains.

    Cost
    ----
    About 19 vector instructions per tile.

    Examples
    --------
    >>> show(lambda a: pypto.tanh(a), [0.0])
    [0.0]
    """
    return unary_call(tanh.spec, input)


@op(kernel="erf", instr="", cost=Cost.VEC_LONG, dtypes=facts.FLOATS, versions=("master",), ulp=4.0, source=facts.API,
    reference=np.vectorize(math.erf, otypes=[np.float64]),
    numerics="A polynomial sequence in fp32; bf16 arrives rounded and leaves rounded.",
    constraints=(*facts.VECTOR_RULES, "Five fp32 tiles must fit UB."), torch="Up to 4 fp32 ULP from the exact value.")
def erf(input: Tensor) -> Tensor:
    """Gauss error function of every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.
    CapacityError: five fp32 tiles do not fit UB.

    Notes
    -----
    Absent in 0.2; not a single instruction on any chip.

    Cost
    ----
    A sequence of vector instructions per tile.

    Examples
    --------
    >>> show(lambda a: pypto.erf(a), [0.0])
    [0.0]
    """
    Check(erf.spec).rule("guide.unverified", "erf is not verified on the chip by the guide; the tanh form is")
    return unary_call(erf.spec, input)


@op(kernel="relu", instr="vrelu", dtypes=facts.FLOATS_INTS, methods=("relu",), bf16_arith=False,
    reference=lambda x: np.maximum(x, 0), numerics=facts.EXACT, torch="Same values.", **_UNARY)
def relu(input: Tensor) -> Tensor:
    """max(0, x) for every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    NaN stays NaN.

    Cost
    ----
    One vrelu per tile.

    Examples
    --------
    >>> show(lambda a: pypto.relu(a), [-1.0, 2.0])
    [0.0, 2.0]
    """
    return unary_call(relu.spec, input)


_ROUND: dict[str, Any] = dict(
    dtypes=facts.FLOATS_INTS, cost=Cost.VEC_UNARY, instr="vconv", source=facts.API,
    numerics=facts.EXACT + " Integers are returned unchanged.", constraints=facts.VECTOR_RULES)


def _round_call(spec: OpSpec, input: Any) -> Tensor:
    c = Check(spec)
    x = c.tensor("input", input)
    return unary_step(c, REGISTRY["clone"] if x.dtype.is_int else spec, x)


@op(kernel="floor", methods=("floor",), reference=np.floor, torch="Same values.", **_ROUND)
def floor(input: Tensor) -> Tensor:
    """Largest integer not above each element, in the type of `input`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    Integers are unchanged.

    Cost
    ----
    One vconv per tile.

    Examples
    --------
    >>> show(lambda a: pypto.floor(a), [1.5, -1.5])
    [1.0, -2.0]
    """
    return _round_call(floor.spec, input)


@op(kernel="ceil", methods=("ceil",), reference=np.ceil, torch="Same values.", **_ROUND)
def ceil(input: Tensor) -> Tensor:
    """Smallest integer not below each element, in the type of `input`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    Integers are unchanged.

    Cost
    ----
    One vconv per tile.

    Examples
    --------
    >>> show(lambda a: pypto.ceil(a), [1.5, -1.5])
    [2.0, -1.0]
    """
    return _round_call(ceil.spec, input)


@op(kernel="trunc", methods=("trunc",), reference=np.trunc, torch="Same values.", **_ROUND)
def trunc(input: Tensor) -> Tensor:
    """Each element without its fraction, in the type of `input`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    Integers are unchanged.

    Cost
    ----
    One vconv per tile.

    Examples
    --------
    >>> show(lambda a: pypto.trunc(a), [1.5, -1.5])
    [1.0, -1.0]
    """
    return _round_call(trunc.spec, input)


@op(kernel="round", methods=("round",), reference=np.round, torch="Same values for decimals=0.", **_ROUND)
def round(input: Tensor, decimals: int = 0) -> Tensor:
    """Each element rounded to `decimals` places, halves to even, in the type of `input`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    decimals: number of places after the point; negative ones round to tens, hundreds, ...

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    PyptoTypeError: `decimals` is no int. DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    Other than 0 places: scaled by 10^decimals in fp32, rounded, divided again.

    Cost
    ----
    One vconv per tile; other than 0 places add a product and a quotient.

    Examples
    --------
    >>> show(lambda a: pypto.round(a), [0.5, 1.5, -2.5])
    [0.0, 2.0, -2.0]
    """
    c = Check(round.spec)
    if isinstance(decimals, bool) or not isinstance(decimals, int):
        c.rule("arg.type", f"`decimals` must be an int, got {type(decimals).__name__}")
    x = c.tensor("input", input)
    if decimals == 0 or x.dtype.is_int and decimals > 0:
        return _round_call(round.spec, input)
    with c.session.label("round"):
        wide = cast_step(c, x, FP32)
        power = 10.0 ** (decimals if decimals > 0 else -decimals)
        up, down = ("mul", "div") if decimals > 0 else ("div", "mul")
        whole = unary_step(c, round.spec, scalar_step(c, REGISTRY[up].forms["scalar"], wide, power))
        return cast_step(c, scalar_step(c, REGISTRY[down].forms["scalar"], whole, power), x.dtype)
