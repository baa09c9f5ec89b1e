"""Elementwise operations on one, two or three tensors; scalars take the place of the second operand."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import DataType, Element
from ..enums import PrecisionType
from ..registry import REGISTRY, Cost, OpSpec, op, supported
from ..trace.scalar import SymbolicScalar
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check, valid_of
from .steps import cast_step, full_step, scalar_step, unary_step

FP32 = DataType.DT_FP32
Number = int | float | Element | SymbolicScalar


def binary_call(spec: OpSpec, input: Any, other: Any, *, symbolic: bool = True, name: str = "input") -> Tensor:
    """Tensor with tensor (broadcasting) or tensor with scalar. `name`: what messages call the first operand."""
    c = Check(spec)
    a = c.tensor(name, input)
    if isinstance(other, Tensor):
        b = c.tensor("other", other)
        c.same_dtype(**{name: a, "other": b})
        shape, valid = c.broadcast(**{name: a, "other": b})
        return c.emit(shape, a.dtype, valid, (a, b))
    return scalar_step(c, spec.forms["scalar"], a, other, symbolic=symbolic)


def unary_call(spec: OpSpec, input: Any) -> Tensor:
    """One tensor, same shape and type."""
    c = Check(spec)
    return unary_step(c, spec, c.tensor("input", input))


PRECISION_TYPE = ("precision_type",)


def precision(c: Check, value: Any) -> None:
    """Check `precision_type`: results are those of the instruction on every chip."""
    if value is not None:
        c.choice("precision_type", value, PrecisionType)


_ARITHMETIC: dict[str, Any] = dict(
    bf16_arith=False, fp16_arith=False, numerics=facts.ONCE_PER_CHAIN + " " + facts.WRAPS,
    constraints=(facts.ONE_DTYPE, facts.NUMPY_BROADCAST, facts.SCALAR_RULE, *facts.VECTOR_RULES), source=facts.API,
    cost=Cost.VEC_BINARY)


@op(kernel="add", instr="vadd", forms={"scalar": ("adds", "vadds")}, dtypes=facts.FLOATS_INTS_950,
    methods=("add", "__add__", "__radd__"), reference=np.add,
    torch="alpha= is accepted as in 0.2; no type promotion.", **_ARITHMETIC)
def add(input: Tensor, other: Tensor | Number, *, alpha: int | float = 1) -> Tensor:
    """Sum of two tensors, or of a tensor and a scalar, element by element.

    Parameters
    ----------
    input: first operand, rank 1 to 4.
    other: tensor of the same element type that broadcasts with `input`, or a scalar.
    alpha: factor of `other` (0.2 only): `input + alpha * other`.

    Returns
    -------
    Tensor of the common shape and the type of `input`.

    Raises
    ------
    PyptoTypeError: `input` is no tensor, or a float scalar meets an integer tensor.
    DTypeError: unsupported or mixed element types. ShapeError: shapes do not broadcast.

    Notes
    -----
    One rounding per chain of additions, subtractions and products of 16-bit floats; integers wrap around.

    Cost
    ----
    One vadd (or vadds) per tile; a broadcast operand is expanded first.

    Examples
    --------
    >>> show(lambda a, b: pypto.add(a, b), [1.0, 2.0], [0.5, 0.25])
    [1.5, 2.25]
    """
    return _with_alpha(add.spec, input, other, alpha)


@op(kernel="sub", instr="vsub", forms={"scalar": ("subs", "vadds")}, dtypes=facts.FLOATS_INTS_950,
    methods=("sub", "__sub__"), reference=np.subtract,
    torch="alpha= is accepted as in 0.2; no type promotion.", **_ARITHMETIC)
def sub(input: Tensor, other: Tensor | Number, *, alpha: int | float = 1) -> Tensor:
    """Difference of two tensors, or of a tensor and a scalar, element by element.

    Parameters
    ----------
    input: first operand, rank 1 to 4.
    other: tensor of the same element type that broadcasts with `input`, or a scalar.
    alpha: factor of `other` (0.2 only): `input - alpha * other`.

    Returns
    -------
    Tensor of the common shape and the type of `input`.

    Raises
    ------
    PyptoTypeError: `input` is no tensor, or a float scalar meets an integer tensor.
    DTypeError: unsupported or mixed element types. ShapeError: shapes do not broadcast.

    Notes
    -----
    `s - t` with a scalar `s` is `neg(t - s)`.

    Cost
    ----
    One vsub (or vadds) per tile; a broadcast operand is expanded first.

    Examples
    --------
    >>> show(lambda a: a - 1.0, [1.0, 2.5])
    [0.0, 1.5]
    """
    return _with_alpha(sub.spec, input, other, alpha)


def _with_alpha(spec: OpSpec, input: Any, other: Any, alpha: Any) -> Tensor:
    if isinstance(alpha, int) and alpha == 1:
        return binary_call(spec, input, other)
    c = Check(spec)
    c.rule("alpha.removed", f"alpha={alpha!r} exists in 0.2 only; multiply `other` by it instead")
    if not isinstance(alpha, int | float):
        c.rule("arg.type", f"`alpha` must be a number, got {type(alpha).__name__}")
    if isinstance(other, Tensor):
        c.tensor("other", other)
        return binary_call(spec, input, scalar_step(c, REGISTRY["mul"].forms["scalar"], other, alpha))
    value = other.value if isinstance(other, Element) else other
    return binary_call(spec, input, value * alpha)


@op(kernel="mul", instr="vmul", forms={"scalar": ("muls", "vmuls")}, dtypes=facts.FLOATS_INTS,
    methods=("mul", "__mul__", "__rmul__"), reference=np.multiply, torch="No type promotion.", **_ARITHMETIC)
def mul(input: Tensor, other: Tensor | Number) -> Tensor:
    """Product of two tensors, or of a tensor and a scalar, element by element.

    Parameters
    ----------
    input: first operand, rank 1 to 4.
    other: tensor of the same element type that broadcasts with `input`, or a scalar.

    Returns
    -------
    Tensor of the common shape and the type of `input`.

    Raises
    ------
    PyptoTypeError: `input` is no tensor, or a float scalar meets an integer tensor.
    DTypeError: unsupported or mixed element types. ShapeError: shapes do not broadcast.

    Notes
    -----
    One rounding per chain of additions, subtractions and products of 16-bit floats; integers wrap around.

    Cost
    ----
    One vmul (or vmuls) per tile; a broadcast operand is expanded first.

    Examples
    --------
    >>> show(lambda a: a * 2, [1.5, -2.0])
    [3.0, -4.0]
    """
    return binary_call(mul.spec, input, other)


@op(new_arguments=PRECISION_TYPE,
    kernel="div", instr="vdiv", forms={"scalar": ("divs", "vdiv")},
    dtypes=supported("fp32 fp16 bf16 int32 int16"), methods=("div", "__truediv__"),
    reference=np.divide, bf16_arith=False, cost=Cost.VEC_BINARY, source=facts.API,
    numerics=facts.BF16_WIDENED + " Integers are converted to fp32 first: exact within +-2^24 only.",
    constraints=(facts.ONE_DTYPE, facts.NUMPY_BROADCAST, facts.SCALAR_RULE, *facts.VECTOR_RULES),
    torch="Integer operands give FP32 (torch: the default float type).")
def div(input: Tensor, other: Tensor | Number, precision_type: PrecisionType = PrecisionType.HIGH_PRECISION) -> Tensor:
    """Quotient of two tensors, or of a tensor and a scalar, element by element.

    Parameters
    ----------
    input: dividend, rank 1 to 4.
    other: tensor of the same element type that broadcasts with `input`, or a scalar.
    precision_type: HIGH_PRECISION exists on the 950 only; results are the same for both.

    Returns
    -------
    Tensor of the common shape: the type of `input` for floats, FP32 for integers (INT32, truncated, in profile 0.2).

    Raises
    ------
    PyptoTypeError: `input` is no tensor (a scalar dividend is `reciprocal(t) * s`).
    DTypeError: unsupported or mixed element types. ShapeError: shapes do not broadcast.

    Notes
    -----
    Division by zero gives inf or NaN as in IEEE 754.

    Cost
    ----
    One vdiv per tile, four cycles a repeat; integers add one cast per operand.

    Examples
    --------
    >>> show(lambda a, b: pypto.div(a, b), [1.0, 3.0], [4.0, 2.0])
    [0.25, 1.5]
    """
    c = Check(div.spec)
    precision(c, precision_type)
    if isinstance(input, Tensor) and input.dtype.is_int:
        return _divide_ints(c, c.tensor("input", input), other)
    return binary_call(div.spec, input, other)


def _divide_ints(c: Check, a: Tensor, other: Any) -> Tensor:
    c.rule("div.int_result", f"integer operands ({a.dtype.name}) give FP32 in the current release, INT32 in 0.2; "
                             "cast explicitly to have the same in both")
    with c.session.label("div"):
        x = cast_step(c, a, FP32)
        if isinstance(other, Tensor):
            b = c.tensor("other", other)
            c.same_dtype(input=a, other=b)
            y = cast_step(c, b, FP32)
            shape, valid = c.broadcast(input=x, other=y)
            result = c.emit(shape, FP32, valid, (x, y))
        else:
            value = other.value if isinstance(other, Element) else other
            result = scalar_step(c, c.spec.forms["scalar"], x, value)
        if c.session.config.profile == "0.2":
            result = cast_step(c, result, DataType.DT_INT32)
    return result


_MINMAX: dict[str, Any] = dict(
    dtypes=facts.MINMAX, bf16_arith=False, cost=Cost.VEC_BINARY, source=facts.API,
    numerics=facts.EXACT + " NaN in either operand gives NaN.",
    constraints=(facts.ONE_DTYPE, facts.NUMPY_BROADCAST, facts.SCALAR_RULE, *facts.VECTOR_RULES))


def _minmax_call(spec: OpSpec, input: Any, other: Any) -> Tensor:
    if not isinstance(input, Tensor) and isinstance(other, Tensor):
        input, other = other, input
    return binary_call(spec, input, other, symbolic=False)


@op(kernel="maximum", instr="vmax", forms={"scalar": ("maxs", "vmaxs")}, methods=("maximum",), reference=np.maximum,
    torch="One operand may be a scalar.", **_MINMAX)
def maximum(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """Larger of two values, element by element.

    Parameters
    ----------
    input, other: one of them a tensor of rank 1 to 4, the other a tensor that broadcasts with it or a scalar.

    Returns
    -------
    Tensor of the common shape and the tensor's type.

    Raises
    ------
    PyptoTypeError: neither is a tensor. DTypeError, ShapeError: as `add`.

    Notes
    -----
    NaN wins over every number.

    Cost
    ----
    One vmax (or vmaxs) per tile.

    Examples
    --------
    >>> show(lambda a: pypto.maximum(a, 0.0), [-1.0, 2.0])
    [0.0, 2.0]
    """
    return _minmax_call(maximum.spec, input, other)


@op(kernel="minimum", instr="vmin", forms={"scalar": ("mins", "vmins")}, reference=np.minimum,
    torch="One operand may be a scalar.", **_MINMAX)
def minimum(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """Smaller of two values, element by element.

    Parameters
    ----------
    input, other: one of them a tensor of rank 1 to 4, the other a tensor that broadcasts with it or a scalar.

    Returns
    -------
    Tensor of the common shape and the tensor's type.

    Raises
    ------
    PyptoTypeError: neither is a tensor. DTypeError, ShapeError: as `add`.

    Notes
    -----
    NaN wins over every number.

    Cost
    ----
    One vmin (or vmins) per tile.

    Examples
    --------
    >>> show(lambda a: pypto.minimum(a, 0.0), [-1.0, 2.0])
    [-1.0, 0.0]
    """
    return _minmax_call(minimum.spec, input, other)


def _condition(c: Check, condition: Any) -> Tensor:
    """The condition of where as BOOL; one of bits is a rule and is taken apart."""
    if not isinstance(condition, Tensor) or condition.dtype is not DataType.DT_UINT8:
        return c.tensor("condition", condition, _MASK)
    from .bytes import mask_of_bits
    c.rule("where.bit_mask", "`condition` is UINT8: it counts as a mask of one bit per element, the first in bit 0, "
                             "which only the C++ interface takes. Pass BOOL")
    return mask_of_bits(c, c.tensor("condition", condition, _BITS))


@op(kernel="where", instr="vsel", cost=Cost.VEC_SELECT, bf16_arith=False,
    dtypes=facts.FLOATS_INTS_950, reference=np.where, numerics=facts.EXACT, source=facts.API,
    constraints=("`condition` is BOOL; all three have one rank and broadcast over one axis.", facts.ONE_DTYPE,
                 "A float scalar counts as FP32: beside FP16 or BF16 pass Element(dtype, value).", *facts.VECTOR_RULES),
    torch="Scalars need an Element beside 16-bit tensors in the current release.")
def where(condition: Tensor, input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """Select `input` where `condition` is true, `other` elsewhere.

    Parameters
    ----------
    condition: BOOL tensor of rank 1 to 4.
    input, other: tensors of one element type, or scalars.

    Returns
    -------
    Tensor of the common shape with the type of the tensor operands; of the Element or FP32 when both are scalars.

    Raises
    ------
    DTypeError: `condition` is not BOOL, or the operands' types differ. ShapeError: shapes do not broadcast.
    PyptoTypeError: a plain scalar beside a 16-bit tensor (current release).

    Notes
    -----
    Values of the side not chosen have no effect, not even NaN.

    Cost
    ----
    One vsel per tile plus 12,448 bytes of scratch.

    Examples
    --------
    >>> show(lambda a: pypto.where(a > 0.0, a, 0.0), [-1.0, 2.0])
    [0.0, 2.0]
    """
    c = Check(where.spec)
    cond = _condition(c, condition)
    tensors = {"condition": cond}
    for name, value in (("input", input), ("other", other)):
        if isinstance(value, Tensor):
            tensors[name] = c.tensor(name, value)
    values = {k: t for k, t in tensors.items() if k != "condition"}
    if len(values) == 2:
        c.same_dtype(**values)
    if len({len(static_shape(t)) for t in tensors.values()}) > 1:
        c.rule("shape.rank_differs", "`condition`, `input` and `other` must have the same rank, got " +
               ", ".join(f"`{n}` {list(static_shape(t))}" for n, t in tensors.items()))
    dtype = next((t.dtype for t in values.values()), None) or _scalar_dtype(c, input, other)
    shape, valid = c.broadcast(**tensors)
    ints, floats = [0, 0, 0, 0], [0.0, 0.0]
    for i, (name, value) in enumerate((("input", input), ("other", other))):
        if isinstance(value, Tensor):
            continue
        s = _where_scalar(c, name, value, dtype, bool(values))
        ints[i], ints[2 + i], floats[i] = 1, s.ints[0], s.floats[0]
    return c.emit(shape, dtype, valid, tuple(tensors.values()), ints=ints, floats=floats)


_BITS = supported("uint8")
_MASK = supported("bool")


def _scalar_dtype(c: Check, *values: Any) -> DataType:
    elements = {v.dtype for v in values if isinstance(v, Element)}
    if len(elements) > 1:
        c.rule("dtype.mixed", f"`input` is {values[0]!r} but `other` is {values[1]!r}; give both one dtype")
    dtype = next(iter(elements), FP32)
    c.dtype("input", dtype, c.spec.dtypes)
    return dtype


def _where_scalar(c: Check, name: str, value: Any, dtype: DataType, beside_tensor: bool) -> Any:
    if isinstance(value, float) and beside_tensor and dtype in (DataType.DT_FP16, DataType.DT_BF16):
        c.rule("scalar.dtype", f"`{name}` is the float {value}, which counts as FP32 next to a tensor of {dtype.name}; "
                               f"pass Element(pypto.{dtype.name}, {value})")
    if dtype.is_unsigned and isinstance(value, int | float) and value < 0:
        c.rule("scalar.range", f"`{name}` is {value}, negative next to a tensor of {dtype.name}")
    return c.scalar(name, value, dtype, symbolic=False)


@op(cost=Cost.COMPOSITE, dtypes=supported("fp32 fp16 bf16 int32 int16", unlisted="int8 int64"), reference=np.clip,
    source=facts.API, numerics=facts.EXACT + " A NaN bound gives NaN; lo > hi gives hi.",
    constraints=("`min` and `max` are both tensors or both scalars; either may be None.", *facts.VECTOR_RULES),
    torch="Mixing a tensor bound with a scalar bound is refused.")
def clip(input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None) -> Tensor:
    """Limit every element to [min, max].

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    min, max: tensors of the same type that broadcast to `input`, or scalars; None leaves that side open.

    Returns
    -------
    New tensor of the shape and type of `input`; `input` itself when both bounds are None.

    Raises
    ------
    PyptoTypeError: one bound is a tensor, the other a scalar. DTypeError, ShapeError: as `add`.

    Notes
    -----
    Computed as min(max(x, lo), hi).

    Cost
    ----
    One vmaxs and one vmins per tile (vmax and vmin for tensor bounds).

    Examples
    --------
    >>> show(lambda a: pypto.clip(a, 0.0, 1.0), [-1.0, 0.5, 2.0])
    [0.0, 0.5, 1.0]
    """
    c = Check(clip.spec)
    x = c.tensor("input", input)
    given = [b for b in (min, max) if b is not None]
    if len({isinstance(b, Tensor) for b in given}) > 1:
        c.rule("arg.type", "`min` and `max` must both be tensors or both be scalars")
    with c.session.label("clip"):
        for name, bound, row in (("min", min, "maximum"), ("max", max, "minimum")):
            if bound is None:
                continue
            spec = REGISTRY[row]
            if isinstance(bound, Tensor):
                c.tensor(name, bound)
                c.same_dtype(input=x, **{name: bound})
                shape, valid = c.broadcast(input=x, **{name: bound})
                if shape != static_shape(x):
                    c.rule("shape.broadcast", f"`{name}` {list(static_shape(bound))} does not broadcast to `input` "
                                              f"{list(static_shape(x))}")
                x = c.emit(shape, x.dtype, valid_of(x), (x, bound), spec=spec)
            else:
                x = scalar_step(c, spec.forms["scalar"], x, bound, name=name, symbolic=False)
    return x


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
