"""Index of an extreme value, running sums and products, variance, sorting order."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..registry import REGISTRY, Cost, OpSpec, op, supported
from ..trace.session import Out
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check, valid_of
from .reduce import _TILE_RULES
from .steps import binary_step, cast_step, reduce_step, scalar_step

FP32, INT32, INT64 = DataType.DT_FP32, DataType.DT_INT32, DataType.DT_INT64


def _arg_call(spec: OpSpec, input: Any, dim: Any, keepdim: bool) -> Tensor:
    c = Check(spec)
    x = c.tensor("input", input)
    shape, valid = static_shape(x), valid_of(x)
    axis = c.dim("dim", dim, len(shape))
    keep = bool(keepdim) or len(shape) == 1
    c.reduce_tile(shape, x.dtype)
    middle = (1,) if keep else ()
    out_valid = None if valid is None else (*valid[:axis], *middle, *valid[axis + 1:])
    return c.emit((*shape[:axis], *middle, *shape[axis + 1:]), INT32, out_valid, (x,), ints=(axis, int(keep)))


_ARG: dict[str, Any] = dict(
    cost=Cost.VEC_REDUCE, instr="vcmax", dtypes=supported("fp32 fp16 bf16", unlisted="int32 int16"),
    versions=("master",), bf16_arith=False, constraints=_TILE_RULES, source=facts.API,
    numerics=facts.EXACT + " The first of equal values; the first NaN wins.", torch="The index is INT32.")


@op(kernel="argmax", methods=("argmax",), reference=np.argmax, **_ARG)
def argmax(input: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Index of the maximum along one axis, over the valid extent.

    Parameters
    ----------
    input: float tensor of rank 1 to 4, such as [B, N].
    dim: axis, negative from the end.
    keepdim: keep the axis with size 1; rank-1 tensors always do.

    Returns
    -------
    INT32 tensor, [B, 1] or [B].

    Raises
    ------
    ShapeError: `dim` out of range. DTypeError: unsupported element type. TileError: as `sum`.

    Notes
    -----
    Absent in 0.2.

    Cost
    ----
    One row reduction per row tile.

    Examples
    --------
    >>> show(lambda a: pypto.argmax(a, -1), [1.0, 3.5, 2.0])
    [1]
    """
    return _arg_call(argmax.spec, input, dim, keepdim)


@op(kernel="argmin", methods=("argmin",), reference=np.argmin, **_ARG)
def argmin(input: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Index of the minimum along one axis, over the valid extent.

    Parameters
    ----------
    input: float tensor of rank 1 to 4, such as [B, N].
    dim: axis, negative from the end.
    keepdim: keep the axis with size 1; rank-1 tensors always do.

    Returns
    -------
    INT32 tensor, [B, 1] or [B].

    Raises
    ------
    ShapeError: `dim` out of range. DTypeError: unsupported element type. TileError: as `sum`.

    Notes
    -----
    Absent in 0.2.

    Cost
    ----
    One row reduction per row tile.

    Examples
    --------
    >>> show(lambda a: pypto.argmin(a, -1), [1.0, 0.5, 2.0])
    [1]
    """
    return _arg_call(argmin.spec, input, dim, keepdim)


def _scan_call(spec: OpSpec, input: Any, dim: Any) -> Tensor:
    c = Check(spec)
    x = c.tensor("input", input)
    shape = static_shape(x)
    axis = c.dim("dim", dim, len(shape))
    return c.emit(shape, INT64 if x.dtype.is_int else x.dtype, valid_of(x), (x,), ints=(axis,))


_SCAN: dict[str, Any] = dict(
    cost=Cost.VEC_LONG, source=facts.API, constraints=("The axis is not split by a view.", *facts.VECTOR_RULES))


@op(kernel="cumsum", methods=("cumsum",), dtypes=supported("fp32 fp16 bf16 int32 int16"), reference=np.cumsum,
    numerics="One addition after the other in fp32, rounded once per element; integers in INT64.",
    torch="Same values; integers give INT64.", **_SCAN)
def cumsum(input: Tensor, dim: int) -> Tensor:
    """Running sum along one axis, over the valid extent.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    dim: axis, negative from the end.

    Returns
    -------
    Tensor of the shape of `input`; its type for floats, INT64 for integers.

    Raises
    ------
    ShapeError: `dim` out of range. DTypeError: unsupported element type.

    Notes
    -----
    The running value is kept in fp32 for 16-bit floats.

    Cost
    ----
    One pass per tile; tiles along the axis follow each other.

    Examples
    --------
    >>> show(lambda a: pypto.cumsum(a, 0), [1.0, 2.0, 3.5])
    [1.0, 3.0, 6.5]
    """
    return _scan_call(cumsum.spec, input, dim)


@op(kernel="cumprod", methods=("cumprod",), dtypes=facts.FLOATS, versions=("master",), reference=np.cumprod,
    numerics="One product after the other in fp32, rounded once per element.", torch="Same values.", **_SCAN)
def cumprod(input: Tensor, dim: int) -> Tensor:
    """Running product along one axis, over the valid extent.

    Parameters
    ----------
    input: float tensor of rank 1 to 4.
    dim: axis, negative from the end.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    ShapeError: `dim` out of range. DTypeError: unsupported element type.

    Notes
    -----
    Absent in 0.2.

    Cost
    ----
    One pass per tile; tiles along the axis follow each other.

    Examples
    --------
    >>> show(lambda a: pypto.cumprod(a, 0), [1.0, 2.0, 3.5])
    [1.0, 2.0, 7.0]
    """
    return _scan_call(cumprod.spec, input, dim)


@op(cost=Cost.COMPOSITE, dtypes=facts.FLOATS, methods=("var",), reference=np.var, ulp=8.0, source=facts.API,
    numerics="In fp32: mean, differences, squares, their sum over max(0, n - correction), then one cast.",
    constraints=("No axis twice.", "Reduced axes are not split by a view.", *_TILE_RULES[1:]),
    torch="Divides by max(0, n - correction); all axes give [1].")
def var(input: Tensor, dim: int | Sequence[int] | None = None, *, correction: float = 1,
        keepdim: bool = False) -> Tensor:
    """Variance over one, several or all axes.

    Parameters
    ----------
    input: float tensor of rank 1 to 4.
    dim: axis, list of axes, or None for all.
    correction: subtracted from the number of elements.
    keepdim: keep reduced axes with size 1.

    Returns
    -------
    Tensor of the type of `input`; [1] when every axis goes away.

    Raises
    ------
    ShapeError: an axis out of range or named twice. DTypeError: unsupported element type. TileError: as `sum`.

    Notes
    -----
    n <= correction gives inf, as a division by zero. The number of elements is the static one.

    Cost
    ----
    Two sums per axis and five elementwise operations per tile.

    Examples
    --------
    >>> show(lambda a: pypto.var(a, -1), [1.0, 3.0])
    [2.0]
    """
    c = Check(var.spec)
    x = c.tensor("input", input)
    shape = static_shape(x)
    given = list(range(len(shape))) if dim is None else list(dim) if isinstance(dim, list | tuple) else [dim]
    axes = [c.dim("dim", d, len(shape)) for d in given]
    if len(set(axes)) != len(axes) or not axes:
        c.rule("shape.dim", f"`dim` is {dim}; name every axis once, and at least one")
    if isinstance(correction, bool) or not isinstance(correction, int | float | np.number):
        c.rule("arg.type", f"`correction` must be a number, got {type(correction).__name__}")
    count = math.prod(shape[a] for a in axes)
    scaled = REGISTRY["mul"].forms["scalar"]
    with c.session.label("var"):
        wide = cast_step(c, x, FP32)
        mean = wide
        for a in axes:
            mean = reduce_step(c, REGISTRY["sum"], mean, a)
        apart = binary_step(c, REGISTRY["sub"], wide, scalar_step(c, scaled, mean, 1.0 / count))
        total = binary_step(c, REGISTRY["mul"], apart, apart)
        for a in axes:
            total = reduce_step(c, REGISTRY["sum"], total, a)
        total = scalar_step(c, REGISTRY["div"].forms["scalar"], total, float(max(0.0, count - correction)))
        result = cast_step(c, total, x.dtype)
        if keepdim:
            return result
        left = [n for i, n in enumerate(shape) if i not in axes]
        if not left:
            return result if len(shape) == 1 else REGISTRY["reshape"].function(result, [1])
        valid = [v for i, v in enumerate(result.valid_shape) if i not in axes]
        return REGISTRY["reshape"].function(result, left, valid_shape=valid)


@op(cost=Cost.COMPOSITE, dtypes=supported("fp32 fp16", unlisted="bf16 int32 int16"), source=facts.API,
    reference=lambda x, axis: np.argsort(x, axis, kind="stable"), numerics=facts.EXACT + " Stable.",
    constraints=("The axis is not split by a view.", "The tile entry of the axis is a multiple of 32.",
                 *facts.VECTOR_RULES), torch="The index is INT32; always stable.")
def argsort(input: Tensor, dim: int | None = None, descending: bool = False) -> Tensor:
    """Indices that sort an axis, equal values in their order.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    dim: axis, negative from the end; None is the last.
    descending: largest first.

    Returns
    -------
    INT32 tensor of the shape of `input`.

    Raises
    ------
    ShapeError: `dim` out of range. DTypeError: unsupported element type.

    Notes
    -----
    NaN counts as the largest value.

    Cost
    ----
    A full sort per row tile; another axis than the last adds two transposes.

    Examples
    --------
    >>> show(lambda a: pypto.argsort(a), [2.0, 1.0, 3.0])
    [1, 0, 2]
    """
    c = Check(argsort.spec)
    x = c.tensor("input", input)
    rank = len(static_shape(x))
    axis = rank - 1 if dim is None else c.dim("dim", dim, rank)
    order = [*(i for i in range(rank) if i != axis), axis]
    back = [order.index(i) for i in range(rank)]
    with c.session.label("argsort"):
        if axis != rank - 1:
            x = _permuted(c, x, order)
        shape, valid = static_shape(x), valid_of(x)
        outs = [Out(shape, x.dtype, valid), Out(shape, INT32, valid)]
        _, indices = c.emit_all(outs, (x,), spec=REGISTRY["topk"], ints=(shape[-1], int(bool(descending))))
        return indices if axis == rank - 1 else _permuted(c, indices, back)


def _permuted(c: Check, x: Tensor, order: Sequence[int]) -> Tensor:
    shape, valid = static_shape(x), valid_of(x)
    out_valid = None if valid is None else tuple(valid[i] for i in order)
    return c.emit([shape[i] for i in order], x.dtype, out_valid, (x,), spec=REGISTRY["transpose"], ints=order)
