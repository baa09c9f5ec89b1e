"""Signs, tests for special values, and activations that depend on the sign."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import DataType, Element
from ..registry import REGISTRY, Cost, op, supported
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check, valid_of
from .index import write_back
from .steps import binary_step, cast_step, scalar_step, unary_step

BOOL = DataType.DT_BOOL
SIGNED = supported("fp32 fp16 bf16 int8 int16 int32", unlisted="int64")
ANY_NUMBER = supported("fp32 fp16 bf16 uint8 int8 uint16 int16 uint32 int32 uint64 int64")
MASK_RULES = (*facts.VECTOR_RULES, "The last axis of tile and view is a multiple of 32 elements.")


def mask_step(c: Check, row: str, x: Tensor, value: float) -> Tensor:
    """x compared with a constant."""
    return c.emit(static_shape(x), BOOL, valid_of(x), (x,), spec=REGISTRY[row].forms["scalar"], ints=(int(value),)
                  if math.isfinite(value) else (0,), floats=(value,))


def select_step(c: Check, mask: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """mask ? a : b, all of one shape."""
    return c.emit(static_shape(a), a.dtype, valid_of(a), (mask, a, b), spec=REGISTRY["where"], ints=(0, 0, 0, 0),
                  floats=(0.0, 0.0))


@op(kernel="sign", cost=Cost.VEC_LONG, dtypes=SIGNED, methods=("sign",), bf16_arith=False, reference=np.sign,
    numerics=facts.EXACT, constraints=facts.VECTOR_RULES, torch="NaN stays NaN.", source=facts.API)
def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1 for every element.

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
    A sequence of vector instructions per tile.

    Examples
    --------
    >>> show(lambda a: pypto.sign(a), [-3.0, 0.0, 2.0])
    [-1.0, 0.0, 1.0]
    """
    c = Check(sign.spec)
    return unary_step(c, c.spec, c.tensor("input", input))


@op(cost=Cost.COMPOSITE, dtypes=SIGNED, methods=("signbit",), numerics=facts.EXACT, source=facts.API,
    reference=lambda x: x < 0 if x.dtype == object else np.signbit(x) & ~np.isnan(x), constraints=facts.VECTOR_RULES,
    torch="NaN is False.")
def signbit(input: Tensor) -> Tensor:
    """Mask of the negative elements; -0 and -inf count.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    BOOL tensor of the shape of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    NaN is False.

    Cost
    ----
    A reciprocal, a minimum and a compare per tile; for integers a compare.

    Examples
    --------
    >>> show(lambda a: pypto.signbit(a), [-0.0, 0.0])
    [True, False]
    """
    c = Check(signbit.spec)
    x = c.tensor("input", input)
    with c.session.label("signbit"):
        if x.dtype.is_float:                     # 1 / -0 is -inf, and -inf is below 1 / -inf
            x = binary_step(c, REGISTRY["minimum"], x, unary_step(c, REGISTRY["reciprocal"], x))
        return mask_step(c, "lt", x, 0.0)


@op(cost=Cost.COMPOSITE, dtypes=facts.FLOATS, versions=("master",), reference=np.isnan, numerics=facts.EXACT,
    constraints=MASK_RULES, torch="Same values.", source=facts.API)
def isnan(input: Tensor) -> Tensor:
    """Mask of the elements that are NaN.

    Parameters
    ----------
    input: float tensor of rank 1 to 4.

    Returns
    -------
    BOOL tensor of the shape of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    Absent in 0.2.

    Cost
    ----
    One compare per tile.

    Examples
    --------
    >>> show(lambda a: pypto.isnan(a), [float("nan"), 1.0])
    [True, False]
    """
    c = Check(isnan.spec)
    x = c.tensor("input", input)
    with c.session.label("isnan"):
        return c.emit(static_shape(x), BOOL, valid_of(x), (x, x), spec=REGISTRY["ne"])


@op(cost=Cost.COMPOSITE, dtypes=ANY_NUMBER, numerics=facts.EXACT, constraints=MASK_RULES, torch="Same values.",
    reference=lambda x: np.full(x.shape, True) if x.dtype == object else np.isfinite(x), source=facts.API)
def isfinite(input: Tensor) -> Tensor:
    """Mask of the elements that are neither inf nor NaN.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    BOOL tensor of the shape of `input`, true for every integer.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    Only the valid region of `input` becomes valid.

    Cost
    ----
    An absolute value and a compare per tile.

    Examples
    --------
    >>> show(lambda a: pypto.isfinite(a), [float("inf"), 1.0])
    [False, True]
    """
    c = Check(isfinite.spec)
    x = c.tensor("input", input)
    with c.session.label("isfinite"):
        if x.dtype.is_float:
            return mask_step(c, "lt", unary_step(c, REGISTRY["abs"], x), math.inf)
        return c.emit(static_shape(x), BOOL, valid_of(x), (x, x), spec=REGISTRY["eq"])


@op(cost=Cost.COMPOSITE, dtypes=facts.FLOATS, bf16_arith=False, source=facts.API, ulp=1.0,
    reference=lambda x: np.where(x >= 0, x, x * 0.01), numerics="The product is rounded once; x >= 0 is exact.",
    constraints=(*facts.VECTOR_RULES, "The slope is finite and not negative."), torch="The slope must not be negative.")
def lrelu(input: Tensor, negative_slope: float | Element = 0.01) -> Tensor:
    """x where x >= 0, negative_slope * x elsewhere.

    Parameters
    ----------
    input: float tensor of rank 1 to 4.
    negative_slope: finite and not negative.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    PyptoValueError: a negative or infinite slope. DTypeError: unsupported element type.

    Notes
    -----
    NaN stays NaN. The method form of PyPTO cannot work.

    Cost
    ----
    A product, a compare and a select per tile.

    Examples
    --------
    >>> show(lambda a: pypto.lrelu(a, 0.5), [-2.0, 2.0])
    [-1.0, 2.0]
    """
    c = Check(lrelu.spec)
    x = c.tensor("input", input)
    slope: Any = negative_slope.value if isinstance(negative_slope, Element) else negative_slope
    if isinstance(slope, bool) or not isinstance(slope, int | float | np.floating):
        c.rule("arg.type", f"`negative_slope` must be a float or an Element, got {type(slope).__name__}")
    if not 0 <= slope < math.inf:
        c.rule("arg.value", f"`negative_slope` is {slope}; allowed: finite numbers from 0")
    with c.session.label("lrelu"):
        return select_step(c, mask_step(c, "ge", x, 0.0), x, scalar_step(c, REGISTRY["mul"].forms["scalar"], x,
                                                                         float(slope)))


@op(cost=Cost.COMPOSITE, dtypes=facts.FLOATS, methods=("prelu",), bf16_arith=False, source=facts.API, ulp=1.0,
    numerics="The product is rounded once; x >= 0 is exact.", torch="Same values.",
    constraints=(facts.ONE_DTYPE, "`weight` is 1-D: one value per channel (axis 1; length 1 for a 1-D input).",
                 *facts.VECTOR_RULES))
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x >= 0, weight[channel] * x elsewhere; the channel is axis 1.

    Parameters
    ----------
    input: float tensor of rank 1 to 4, such as [N, C, H, W].
    weight: [C], of the type of `input`; [1] for a rank-1 input.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    ShapeError: `weight` is not [C]. DTypeError: unsupported or mixed element types.

    Notes
    -----
    NaN stays NaN.

    Cost
    ----
    An expanded product, a compare and a select per tile.

    Examples
    --------
    >>> show(lambda a, w: pypto.prelu(a, w), [[-2.0, -2.0]], [0.5, 0.25])
    [[-1.0, -0.5]]
    """
    c = Check(prelu.spec)
    x, w = c.tensor("input", input), c.tensor("weight", weight)
    c.same_dtype(input=x, weight=w)
    shape = static_shape(x)
    channels = shape[1] if len(shape) > 1 else 1
    if static_shape(w) != (channels,):
        c.rule("shape.mismatch", f"`weight` has shape {list(static_shape(w))}; it must be [{channels}]")
    with c.session.label("prelu"):
        if len(shape) > 2:
            w = REGISTRY["reshape"].function(w, [channels] + [1] * (len(shape) - 2))
        return select_step(c, mask_step(c, "ge", x, 0.0), x, binary_step(c, REGISTRY["mul"], x, w))


@op(cost=Cost.COMPOSITE, dtypes=supported("fp32 fp16"), methods=("axpy_",), versions=("master",), source=facts.API,
    numerics="alpha * x + y in fp32, rounded to the type of y.", torch="No counterpart.",
    constraints=("`x` has the rank of `y` and broadcasts to it; FP16 `x` may go with FP32 `y`.", *facts.VECTOR_RULES))
def axpy_(y: Tensor, x: Tensor, alpha: int | float = 1.0) -> Tensor:
    """alpha * x + y, written back into y.

    Parameters
    ----------
    y: FP32 or FP16 tensor of rank 1 to 4; it is overwritten.
    x: tensor of the same rank that broadcasts to `y`, of its type or FP16.
    alpha: factor.

    Returns
    -------
    `y`.

    Raises
    ------
    ShapeError: `x` does not broadcast to `y`. DTypeError: unsupported element types.

    Notes
    -----
    Absent in 0.2. In place: later reads of `y` see the result.

    Cost
    ----
    A product and a sum per tile.

    Examples
    --------
    >>> show(lambda a, b: pypto.axpy_(pypto.clone(a), b, 2.0), [1.0, 1.0], [1.0, 2.0])
    [3.0, 5.0]
    """
    c = Check(axpy_.spec)
    to, by = c.tensor("y", y), c.tensor("x", x)
    if by.dtype is not to.dtype and (to.dtype, by.dtype) != (DataType.DT_FP32, DataType.DT_FP16):
        c.same_dtype(y=to, x=by)
    if len(static_shape(to)) != len(static_shape(by)) or c.broadcast(y=to, x=by)[0] != static_shape(to):
        c.rule("shape.broadcast", f"`x` {list(static_shape(by))} must have the rank of `y` {list(static_shape(to))} "
                                  "and broadcast to it")
    with c.session.label("axpy_"):
        wide = DataType.DT_FP32
        scaled = scalar_step(c, REGISTRY["mul"].forms["scalar"], cast_step(c, by, wide), alpha, name="alpha")
        result = cast_step(c, binary_step(c, REGISTRY["add"], cast_step(c, to, wide), scaled), to.dtype)
    write_back(c, to, result)
    return to
