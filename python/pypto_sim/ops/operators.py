"""Operators of tensors that are not one operation: `1 - t`, `1 / t`, `t // s`, `a @ b`."""
from __future__ import annotations

from typing import Any

from ..dtypes import DataType
from ..registry import REGISTRY, OpSpec
from ..trace.session import current
from ..trace.tensor import Tensor
from . import elementwise

COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")


def _rsub(self: Tensor, other: Any) -> Tensor:
    """`s - t` is neg(t - s)."""
    return elementwise.neg(elementwise.sub(self, other))


def _rtruediv(self: Tensor, other: Any) -> Tensor:
    """`s / t` is reciprocal(t) * s."""
    return elementwise.mul(elementwise.reciprocal(self), other)


def _floordiv(self: Tensor, other: Any) -> Tensor:
    """`t // s` is floor(t / s)."""
    return elementwise.floor(elementwise.div(self, other))


def _matmul(self: Tensor, other: Any) -> Tensor:
    """`a @ b` has the type of `b`, INT32 for INT8."""
    if not isinstance(other, Tensor):
        return NotImplemented
    dtype = DataType.DT_INT32 if other.dtype is DataType.DT_INT8 else other.dtype
    return REGISTRY["matmul"].function(self, other, dtype)


def _assemble(self: Tensor, input: Tensor, offsets: Any) -> None:
    """Write `input` into this tensor at `offsets`: pypto.assemble(input, offsets, self)."""
    REGISTRY["assemble"].function(input, offsets, self)


def _comparison(function: Any) -> Any:
    def compare(self: Tensor, other: Any) -> Any:
        return NotImplemented if other is None or isinstance(other, str) else function(self, other)
    compare.__doc__ = function.__doc__
    return compare


def _broken(name: str, use: str) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        current().rule("api.broken_method", f"Tensor.{name}: the method form forwards its arguments wrongly and cannot "
                                            f"work; use {use}")
        raise AssertionError("unreachable: the rule is an error in every profile")
    method.__name__ = name
    method.__doc__ = f"Cannot work in PyPTO: use {use}."
    return method


def attach(specs: dict[str, OpSpec]) -> None:
    """Give Tensor the method forms and operators of the registry."""
    for spec in specs.values():
        for name in spec.methods:
            setattr(Tensor, name, _comparison(spec.function) if name in COMPARISONS else spec.function)
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
    Tensor.__rsub__, Tensor.__rtruediv__ = _rsub, _rtruediv  # type: ignore[attr-defined]
    Tensor.__floordiv__, Tensor.__matmul__ = _floordiv, _matmul  # type: ignore[attr-defined]
    Tensor.assemble = _assemble  # type: ignore[attr-defined]
    Tensor.where = _broken("where", "pypto.where(condition, x, y)")  # type: ignore[attr-defined]
    Tensor.lrelu = _broken("lrelu", "pypto.lrelu(x, negative_slope)")  # type: ignore[attr-defined]
