"""Comparisons and logical operations: the result is a BOOL mask."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DataType, Element
from ..registry import Cost, OpSpec, op, supported
from ..trace.scalar import SymbolicScalar
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check, valid_of

BOOL = DataType.DT_BOOL
Comparand = Tensor | float | Element


def compare_call(spec: OpSpec, input: Any, other: Any) -> Tensor:
    """Tensor with tensor (broadcasting) or tensor with scalar, to BOOL."""
    c = Check(spec)
    a = c.tensor("input", input)
    if isinstance(other, Tensor):
        b = c.tensor("other", other)
        c.same_dtype(input=a, other=b)
        shape, valid = c.broadcast(input=a, other=b)
        return c.emit(shape, BOOL, valid, (a, b))
    if isinstance(other, int | SymbolicScalar | np.integer):
        c.rule("scalar.int_compare", f"`other` is the int {other}; comparisons take a float or "
                                     f"Element(pypto.{a.dtype.name}, {other})")
    s = c.scalar("other", other, a.dtype, symbolic=False)
    floats = s.floats
    if a.dtype.is_float:                         # a compare meets the scalar in the tensor's type
        with np.errstate(over="ignore"):
            floats = (float(np.array(s.floats[0]).astype(a.dtype.np_dtype)),)
    return c.emit(static_shape(a), BOOL, valid_of(a), (a,), spec=spec.forms["scalar"], ints=s.ints, floats=floats)


_COMPARE: dict[str, Any] = dict(
    cost=Cost.VEC_COMPARE, form_cost=Cost.VEC_COMPARE, instr="vcmpv_ge", dtypes=facts.COMPARABLE, source=facts.API,
    numerics=facts.EXACT + " A scalar is rounded to the tensor's type. Comparisons with NaN are false, `ne` is true.",
    constraints=(facts.ONE_DTYPE, facts.NUMPY_BROADCAST, "A scalar is a float or an Element, not an int.",
                 *facts.VECTOR_RULES),
    torch="The scalar must be a float or an Element.")


@op(kernel="eq", forms={"scalar": ("eqs", "vcmpv_ge")}, methods=("__eq__",), reference=np.equal, **_COMPARE)
def eq(input: Tensor, other: Comparand) -> Tensor:
    """Mask of the elements where `input` equals `other`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    other: tensor of the same type that broadcasts with `input`, a float or an Element.

    Returns
    -------
    BOOL tensor of the common shape.

    Raises
    ------
    DTypeError: unsupported or mixed element types. ShapeError: shapes do not broadcast, or a tensor is empty.
    PyptoTypeError: an int scalar (0.2 and current release).

    Notes
    -----
    NaN equals nothing; 0 equals -0.

    Cost
    ----
    One compare per tile and 12,448 bytes of scratch.

    Examples
    --------
    >>> show(lambda a: a == 1.0, [1.0, 2.0])
    [True, False]
    """
    return compare_call(eq.spec, input, other)


@op(kernel="ne", forms={"scalar": ("nes", "vcmpv_ge")}, methods=("__ne__",), reference=np.not_equal, **_COMPARE)
def ne(input: Tensor, other: Comparand) -> Tensor:
    """Mask of the elements where `input` differs from `other`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    other: tensor of the same type that broadcasts with `input`, a float or an Element.

    Returns
    -------
    BOOL tensor of the common shape.

    Raises
    ------
    DTypeError, ShapeError, PyptoTypeError: as `eq`.

    Notes
    -----
    NaN differs from everything, itself included.

    Cost
    ----
    One compare per tile and 12,448 bytes of scratch.

    Examples
    --------
    >>> show(lambda a: a != 1.0, [1.0, 2.0])
    [False, True]
    """
    return compare_call(ne.spec, input, other)


@op(kernel="lt", forms={"scalar": ("lts", "vcmpv_ge")}, methods=("__lt__",), reference=np.less, **_COMPARE)
def lt(input: Tensor, other: Comparand) -> Tensor:
    """Mask of the elements where `input` is less than `other`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    other: tensor of the same type that broadcasts with `input`, a float or an Element.

    Returns
    -------
    BOOL tensor of the common shape.

    Raises
    ------
    DTypeError, ShapeError, PyptoTypeError: as `eq`.

    Notes
    -----
    False where an operand is NaN.

    Cost
    ----
    One compare per tile and 12,448 bytes of scratch.

    Examples
    --------
    >>> show(lambda a: a < 1.5, [1.0, 2.0])
    [True, False]
    """
    return compare_call(lt.spec, input, other)


@op(kernel="le", forms={"scalar": ("les", "vcmpv_ge")}, methods=("__le__",), reference=np.less_equal, **_COMPARE)
def le(input: Tensor, other: Comparand) -> Tensor:
    """Mask of the elements where `input` is at most `other`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    other: tensor of the same type that broadcasts with `input`, a float or an Element.

    Returns
    -------
    BOOL tensor of the common shape.

    Raises
    ------
    DTypeError, ShapeError, PyptoTypeError: as `eq`.

    Notes
    -----
    False where an operand is NaN.

    Cost
    ----
    One compare per tile and 12,448 bytes of scratch.

    Examples
    --------
    >>> show(lambda a: a <= 1.0, [1.0, 2.0])
    [True, False]
    """
    return compare_call(le.spec, input, other)


@op(kernel="gt", forms={"scalar": ("gts", "vcmpv_ge")}, methods=("__gt__",), reference=np.greater, **_COMPARE)
def gt(input: Tensor, other: Comparand) -> Tensor:
    """Mask of the elements where `input` is greater than `other`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    other: tensor of the same type that broadcasts with `input`, a float or an Element.

    Returns
    -------
    BOOL tensor of the common shape.

    Raises
    ------
    DTypeError, ShapeError, PyptoTypeError: as `eq`.

    Notes
    -----
    False where an operand is NaN.

    Cost
    ----
    One compare per tile and 12,448 bytes of scratch.

    Examples
    --------
    >>> show(lambda a: a > 1.5, [1.0, 2.0])
    [False, True]
    """
    return compare_call(gt.spec, input, other)


@op(kernel="ge", forms={"scalar": ("ges", "vcmpv_ge")}, methods=("__ge__",), reference=np.greater_equal, **_COMPARE)
def ge(input: Tensor, other: Comparand) -> Tensor:
    """Mask of the elements where `input` is at least `other`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    other: tensor of the same type that broadcasts with `input`, a float or an Element.

    Returns
    -------
    BOOL tensor of the common shape.

    Raises
    ------
    DTypeError, ShapeError, PyptoTypeError: as `eq`.

    Notes
    -----
    False where an operand is NaN.

    Cost
    ----
    One compare per tile and 12,448 bytes of scratch.

    Examples
    --------
    >>> show(lambda a: a >= 2.0, [1.0, 2.0])
    [False, True]
    """
    return compare_call(ge.spec, input, other)


@op(kernel="gt", forms={"scalar": ("gts", "vcmpv_ge")}, methods=("greater",), reference=np.greater, **_COMPARE)
def greater(input: Tensor, other: Comparand) -> Tensor:
    """Other name of `gt`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    other: tensor of the same type that broadcasts with `input`, a float or an Element.

    Returns
    -------
    BOOL tensor of the common shape.

    Raises
    ------
    DTypeError, ShapeError, PyptoTypeError: as `eq`.

    Notes
    -----
    False where an operand is NaN.

    Cost
    ----
    One compare per tile and 12,448 bytes of scratch.

    Examples
    --------
    >>> show(lambda a: a.greater(1.5), [1.0, 2.0])
    [False, True]
    """
    return compare_call(greater.spec, input, other)


_LOGICAL: dict[str, Any] = dict(
    source=facts.API, cost=Cost.VEC_COMPARE, bf16_arith=False, numerics=facts.EXACT)


@op(kernel="logical_and", instr="vand", dtypes=supported("fp32 fp16 bf16 int8 uint8 bool int16 int32"),
    reference=np.logical_and, torch="Same values.",
    constraints=("The operands' types may differ.", facts.NUMPY_BROADCAST, *facts.VECTOR_RULES), **_LOGICAL)
def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """Mask of the elements where both operands are nonzero.

    Parameters
    ----------
    input, other: tensors of rank 1 to 4 that broadcast; their element types may differ.

    Returns
    -------
    BOOL tensor of the common shape.

    Raises
    ------
    PyptoTypeError: an operand is no tensor. DTypeError, ShapeError: as `eq`.

    Notes
    -----
    NaN counts as nonzero.

    Cost
    ----
    One vand per tile and 1,216 bytes of scratch.

    Examples
    --------
    >>> show(lambda a, b: pypto.logical_and(a, b), [1.0, 2.0, 0.0], [1.0, 0.0, 0.0])
    [True, False, False]
    """
    c = Check(logical_and.spec)
    a, b = c.tensor("input", input), c.tensor("other", other)
    shape, valid = c.broadcast(input=a, other=b)
    return c.emit(shape, BOOL, valid, (a, b))


@op(kernel="logical_not", instr="vnot", methods=("logical_not",), reference=np.logical_not, torch="Same values.",
    dtypes=supported("fp32 fp16 bf16 bool int8 uint8 int16 uint16 int32 uint32"),
    constraints=facts.VECTOR_RULES, **_LOGICAL)
def logical_not(input: Tensor) -> Tensor:
    """Mask of the elements that are zero.

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
    NaN counts as nonzero.

    Cost
    ----
    One vnot per tile and up to 20,736 bytes of scratch.

    Examples
    --------
    >>> show(lambda a: pypto.logical_not(a), [0.0, 2.0])
    [True, False]
    """
    c = Check(logical_not.spec)
    x = c.tensor("input", input)
    return c.emit(static_shape(x), BOOL, valid_of(x), (x,))
