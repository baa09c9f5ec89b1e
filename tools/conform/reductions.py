"""Reductions, scans and sorting of the cases."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import pypto_sim as pypto

from .blocks import WHOLE, Layout, block_of
from .cases import HALVES, Case
from .compare import Expected
from .row import TABLE, Arrays, Row, f64

EPS = 2.0**-24


def axis_of(case: Case, key: str = "dims") -> int:
    """The axis, not negative."""
    value = case.attrs[key]
    axis = value[0] if isinstance(value, list) else value
    return axis % len(case.ins[0].shape)


def _out_map(case: Case, axes: tuple[int, ...], keep: bool) -> tuple[Any, ...]:
    rank = len(case.ins[0].shape)
    if keep:
        return tuple(WHOLE if a in axes else a for a in range(rank))
    left = tuple(a for a in range(rank) if a not in axes)
    return left or (WHOLE,)


def along(case: Case, axes: tuple[int, ...], keep: bool) -> Layout:
    """The grid is the input; `axes` are whole."""
    grid = case.ins[0].shape
    ins = tuple(WHOLE if a in axes else a for a in range(len(grid)))
    out = _out_map(case, axes, keep)
    return Layout(grid, block_of(grid, case.view, axes), (ins,), tuple(out for _ in case.outs))


def _reduce_layout(case: Case) -> Layout:
    return along(case, (axis_of(case),), case.attrs["keepDim"] or len(case.ins[0].shape) == 1)


def _contradicts(case: Case) -> str:
    """The stated output shape is not that of the input."""
    axis, shape = axis_of(case), case.ins[0].shape
    keep = case.attrs["keepDim"] or len(shape) == 1
    want = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1:])
    stated = case.outs[0].shape
    return "" if stated == want else f"the stated output {list(stated)} contradicts the input {list(shape)}"


def _reduction(op: str, name: str, expect: Callable[[Case, Arrays], list[Expected]], tolerance: str,
               **facts: Any) -> None:
    def call(case: Case) -> Callable[..., Any]:
        function, dim, keep = getattr(pypto, name), case.attrs["dims"][0], case.attrs["keepDim"]
        return lambda x: function(x, dim, keep)
    TABLE[op] = Row(call, expect, tolerance, layout=_reduce_layout, skip=_contradicts, **facts)


def _keep(case: Case) -> bool:
    return case.attrs["keepDim"] or len(case.ins[0].shape) == 1


def _extreme(function: Callable[..., Any]) -> Callable[[Case, Arrays], list[Expected]]:
    def expect(case: Case, arrays: Arrays) -> list[Expected]:
        x = f64(arrays[0]) if case.ins[0].is_float else arrays[0]
        return [Expected(function(x, axis=axis_of(case), keepdims=_keep(case)))]
    return expect


_reduction("Amax", "amax", _extreme(np.max), "exact", only_950=("int8", "uint8"))
_reduction("Amin", "amin", _extreme(np.min), "exact", only_950=("int8", "uint8"))


def _index(function: Callable[..., Any]) -> Callable[[Case, Arrays], list[Expected]]:
    def expect(case: Case, arrays: Arrays) -> list[Expected]:
        return [Expected(function(f64(arrays[0]), axis=axis_of(case), keepdims=_keep(case)).astype(np.int32))]
    return expect


_reduction("ArgMax", "argmax", _index(np.argmax), "exact")
_reduction("ArgMin", "argmin", _index(np.argmin), "exact")


def _sum(case: Case, arrays: Arrays) -> list[Expected]:
    x, axis, keep = arrays[0], axis_of(case), _keep(case)
    if case.ins[0].is_int:
        return [Expected(x.astype(np.int64).sum(axis, keepdims=keep).astype(case.outs[0].np_dtype))]
    terms = max(1.0, math.log2(max(2, x.shape[axis])))
    size = lambda: 2 * terms * EPS * np.abs(f64(x)).sum(axis, keepdims=keep)
    return [Expected(f64(x).sum(axis, keepdims=keep), 1, size)]


_reduction("Sum", "sum", _sum, "integers exact; floats 2 log2(n) 2^-24 sum|x| + 1 ulp")


def _leaves_fp32(x: np.ndarray, axis: int, keep: bool) -> np.ndarray:
    """Some order of the factors may overflow or fall into the subnormal numbers."""
    with np.errstate(divide="ignore"):
        sizes = np.log2(np.abs(x))
    up = np.where(sizes > 0, sizes, 0).sum(axis, keepdims=keep)
    down = np.where((sizes < 0) & np.isfinite(sizes), sizes, 0).sum(axis, keepdims=keep)
    return (up >= 127.9) | (down <= -125.9)


def _prod(case: Case, arrays: Arrays) -> list[Expected]:
    x, axis, keep = arrays[0], axis_of(case), _keep(case)
    if case.ins[0].is_int:
        with np.errstate(over="ignore"):
            return [Expected(np.multiply.reduce(x.astype(np.int64), axis=axis, keepdims=keep).astype(
                case.outs[0].np_dtype))]
    with np.errstate(all="ignore"):
        value = np.multiply.reduce(f64(x), axis=axis, keepdims=keep)
    error = lambda: 2 * x.shape[axis] * EPS * np.nan_to_num(np.abs(value), posinf=0)
    half = 1 if case.outs[0].dtype in HALVES else 0
    return [Expected(value, half, error, lambda: _leaves_fp32(f64(x), axis, keep))]


_reduction("Prod", "prod", _prod, "integers exact; floats 2 n 2^-24 relative; products outside FP32 not compared")


# --- scans -----------------------------------------------------------------------------------------------------------
def _scan_layout(case: Case) -> Layout:
    return along(case, (axis_of(case, "axis"),), True)


def _scan_maps(case: Case) -> Layout:
    layout = _scan_layout(case)
    return Layout(layout.grid, layout.block, layout.ins, layout.ins)


def _cumsum(case: Case, arrays: Arrays) -> list[Expected]:
    x, axis = arrays[0], axis_of(case, "axis")
    if case.ins[0].is_int:
        return [Expected(np.cumsum(x.astype(np.int64), axis))]
    place = np.arange(1, x.shape[axis] + 1).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    half = 1 if case.outs[0].dtype in HALVES else 0
    return [Expected(np.cumsum(f64(x), axis), half, lambda: place * EPS * np.cumsum(np.abs(f64(x)), axis))]


def _cumprod(case: Case, arrays: Arrays) -> list[Expected]:
    x, axis = f64(arrays[0]), axis_of(case, "axis")
    with np.errstate(all="ignore"):
        value = np.cumprod(x, axis)
        sizes = np.cumsum(np.log2(np.abs(x)), axis)
    place = np.arange(1, x.shape[axis] + 1).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    undefined = lambda: (np.maximum.accumulate(sizes, axis) >= 127.9) | (np.minimum.accumulate(sizes, axis) <= -125.9)
    half = 1 if case.outs[0].dtype in HALVES else 0
    return [Expected(value, half, lambda: 2 * place * EPS * np.nan_to_num(np.abs(value), posinf=0), undefined)]


TABLE["CumSum"] = Row(lambda case: lambda x: pypto.cumsum(x, case.attrs["axis"]), _cumsum,
                      "integers exact; floats k 2^-24 of the running sum of |x|", layout=_scan_maps)
TABLE["CumProd"] = Row(lambda case: lambda x: pypto.cumprod(x, case.attrs["axis"]), _cumprod, "as Prod",
                       layout=_scan_maps)


# --- variance --------------------------------------------------------------------------------------------------------
def _var_axes(case: Case) -> list[int] | None:
    dim = case.attrs.get("dim")
    if dim is None:
        return None
    return [int(d) for d in str(dim).split(",")]


def _var_layout(case: Case) -> Layout:
    rank = len(case.ins[0].shape)
    axes = tuple(sorted({d % rank for d in _var_axes(case) or range(rank)}))
    return along(case, axes, case.attrs["keepDim"])


def _var_call(case: Case) -> Callable[..., Any]:
    axes = _var_axes(case)
    dim = axes[0] if axes is not None and len(axes) == 1 else axes
    return lambda x: pypto.var(x, dim, correction=case.attrs["correction"], keepdim=case.attrs["keepDim"])


def _var(case: Case, arrays: Arrays) -> list[Expected]:
    x = f64(arrays[0])
    axes = tuple(d % x.ndim for d in _var_axes(case) or range(x.ndim))
    keep, n = case.attrs["keepDim"], math.prod(x.shape[a] for a in axes)
    with np.errstate(all="ignore"):
        mean = x.mean(axes, keepdims=True)
        value = ((x - mean) ** 2).sum(axes, keepdims=keep) / max(0, n - case.attrs["correction"])
        size = (x * x).mean(axes, keepdims=keep)
    shape = case.outs[0].shape
    error = lambda: (8 * math.log2(max(2, n)) * EPS * size).reshape(shape)
    huge = lambda: (np.abs(x).max(axes, keepdims=keep) > 1e18).reshape(shape)
    return [Expected(value.reshape(shape), 1, error, huge)]


def _error_test(case: Case) -> bool:
    return case.attrs.get("skip") == 1


TABLE["Var"] = Row(_var_call, _var, "8 log2(n) 2^-24 mean(x^2) + 1 ulp; sums beyond FP32 not compared",
                   layout=_var_layout, must_raise=_error_test)


# --- sorting ---------------------------------------------------------------------------------------------------------
def _sort_layout(case: Case) -> Layout:
    layout = along(case, (axis_of(case),), True)
    return Layout(layout.grid, layout.block, layout.ins, tuple(layout.ins[0] for _ in case.outs))


def _order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    return np.argsort(-f64(x) if descending else f64(x), axis, kind="stable")


def _argsort(case: Case, arrays: Arrays) -> list[Expected]:
    return [Expected(_order(arrays[0], axis_of(case), case.attrs["descending"][0] == 1).astype(np.int32))]


def _argsort_call(case: Case) -> Callable[..., Any]:
    return lambda x: pypto.argsort(x, case.attrs["dims"][0], case.attrs["descending"][0] == 1)


TABLE["ArgSort"] = Row(_argsort_call, _argsort, "exact, equal values in their order", layout=_sort_layout)


def _topk_call(case: Case) -> Callable[..., Any]:
    a = case.attrs
    return lambda x: pypto.topk(x, a["count"][0], a["dims"][0], a["islargest"][0] == 1)


def _topk(case: Case, arrays: Arrays) -> list[Expected]:
    order = _order(arrays[0], -1, case.attrs["islargest"][0] == 1)[..., :case.attrs["count"][0]]
    return [Expected(np.take_along_axis(f64(arrays[0]), order, -1)), Expected(order.astype(np.int32))]


TABLE["TopK"] = Row(_topk_call, _topk, "exact, ties by ascending index", layout=_sort_layout)
