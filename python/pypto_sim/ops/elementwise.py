"""Elementwise operations on two or three tensors; scalars take the place of the second operand."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DataType, Element
from ..enums import PrecisionType
from ..registry import REGISTRY, Cost, OpSpec, op, supported
from ..trace.scalar import SymbolicScalar
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check, valid_of
from .steps import cast_step, scalar_step

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
