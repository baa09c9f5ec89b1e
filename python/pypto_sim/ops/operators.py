"""Operators of tensors that are not one operation: `1 - t`, `1 / t`, `t // s`, `a @ b`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DataType
from ..registry import REGISTRY, OpSpec
from ..trace.scalar import SymbolicScalar
from ..trace.session import current
from ..trace.tensor import Tensor
from . import elementwise, unary
from ._checks import Check
from .index import write_back

COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")


def _rsub(self: Tensor, other: Any) -> Tensor:
    """`s - t` is neg(t - s)."""
    return unary.neg(elementwise.sub(self, other))


def _rtruediv(self: Tensor, other: Any) -> Tensor:
    """`s / t` is reciprocal(t) * s."""
    return elementwise.mul(unary.reciprocal(self), other)


def _floordiv(self: Tensor, other: Any) -> Tensor:
    """`t // s` is floor(t / s)."""
    return unary.floor(elementwise.div(self, other))


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


def _refuse(name: str, use: str) -> Tensor:
    current().rule("api.broken_method", f"Tensor.{name}: the method form forwards its arguments wrongly and cannot "
                                        f"work; use {use}")
    raise AssertionError("unreachable: the rule is an error in every profile")


def _where(self: Tensor, condition: Tensor, x: Any, y: Any) -> Tensor:
    """Cannot work in PyPTO: use pypto.where(condition, x, y)."""
    return _refuse("where", "pypto.where(condition, x, y)")


def _lrelu(self: Tensor, other: Tensor, negative_slope: Any = 0.01) -> Tensor:
    """Cannot work in PyPTO: use pypto.lrelu(x, negative_slope)."""
    return _refuse("lrelu", "pypto.lrelu(x, negative_slope)")


def _fill_(self: Tensor, other: int | float) -> None:
    """Fill the tensor with a number: `t[:] = pypto.full(shape, other, dtype)`."""
    self.move(REGISTRY["full"].function(list(self.static_shape), other, self.dtype))


def _tril_(self: Tensor, diagonal: int | SymbolicScalar = 0) -> Tensor:
    """Lower triangle in place; returns the tensor."""
    return _replaced(self, REGISTRY["tril"].function(self, diagonal))


def _triu_(self: Tensor, diagonal: int | SymbolicScalar = 0) -> Tensor:
    """Upper triangle in place; returns the tensor."""
    return _replaced(self, REGISTRY["triu"].function(self, diagonal))


def _replaced(t: Tensor, value: Tensor) -> Tensor:
    write_back(Check(REGISTRY["clone"]), t, value)
    return t


def _concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Documented, but no release has it (rule api.extension): pypto.concat(tensors, dim)."""
    current().rule("api.extension", "Tensor.concat is documented but in no release; use pypto.concat(tensors, dim)")
    return REGISTRY["concat"].function(tensors, dim)


def attach(specs: dict[str, OpSpec]) -> None:
    """Give Tensor the method forms and operators of the registry."""
    for spec in specs.values():
        for name in spec.methods:
            setattr(Tensor, name, _comparison(spec.function) if name in COMPARISONS else spec.function)
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
    Tensor.__rsub__, Tensor.__rtruediv__ = _rsub, _rtruediv  # type: ignore[attr-defined]
    Tensor.__floordiv__, Tensor.__matmul__ = _floordiv, _matmul  # type: ignore[attr-defined]
    Tensor.assemble = _assemble  # type: ignore[attr-defined]
    for name, method in (("where", _where), ("lrelu", _lrelu), ("fill_", _fill_), ("tril_", _tril_), ("triu_", _triu_),
                         ("concat", staticmethod(_concat))):
        setattr(Tensor, name, method)
