"""Single core rows that composites are made of. Arguments are checked before; only tiles are checked here."""
from __future__ import annotations

from typing import Any

from ..dtypes import DataType
from ..enums import CastMode
from ..registry import REGISTRY, OpSpec
from ..trace.scalar import SymbolicScalar
from ..trace.tensor import Tensor, static_shape
from ._checks import Check, valid_of


def unary_step(c: Check, spec: OpSpec, x: Tensor) -> Tensor:
    """A row with one operand and a result of its shape and type."""
    return c.emit(static_shape(x), x.dtype, valid_of(x), (x,), spec=spec)


def scalar_step(c: Check, spec: OpSpec, x: Tensor, value: Any, *, name: str = "other", symbolic: bool = True) -> Tensor:
    """A tensor-with-scalar row."""
    s = c.scalar(name, value, x.dtype, symbolic=symbolic)
    return c.emit(static_shape(x), x.dtype, valid_of(x), (x,), spec=spec, ints=s.ints, floats=s.floats,
                  scalars=s.scalars)


def binary_step(c: Check, spec: OpSpec, a: Tensor, b: Tensor) -> Tensor:
    """A broadcasting row of two tensors of one type."""
    shape, valid = c.broadcast(input=a, other=b)
    return c.emit(shape, a.dtype, valid, (a, b), spec=spec)


def cast_step(c: Check, x: Tensor, dtype: DataType) -> Tensor:
    """A cast with the default mode; nothing when `x` has the type already."""
    if x.dtype is dtype:
        return x
    mode = CastMode.CAST_TRUNC if x.dtype.is_float and dtype.is_int else CastMode.CAST_RINT
    return c.emit(static_shape(x), dtype, valid_of(x), (x,), spec=REGISTRY["cast"], ints=(mode.value, 0))


def reduce_step(c: Check, spec: OpSpec, x: Tensor, axis: int) -> Tensor:
    """A reduction along `axis` that keeps the axis."""
    shape, valid = static_shape(x), valid_of(x)
    out = (*shape[:axis], 1, *shape[axis + 1:])
    out_valid = None if valid is None else (*valid[:axis], 1, *valid[axis + 1:])
    c.reduce_tile(shape, x.dtype)
    return c.emit(out, x.dtype, out_valid, (x,), spec=spec, ints=(axis, 1))


def full_step(c: Check, like: Tensor, value: float) -> Tensor:
    """A tensor filled with `value`: shape, type and valid region of `like`."""
    valid = valid_of(like)
    scalars: tuple[int | SymbolicScalar, ...] = () if valid is None else tuple(valid)
    return c.emit(static_shape(like), like.dtype, valid, (), spec=REGISTRY["full"],
                  ints=(int(value), int(valid is not None), 0), floats=(value,), scalars=scalars)
