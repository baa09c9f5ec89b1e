"""Conversion between FP32 and 8-bit integers with a scale per row or column."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DataType
from ..enums import CastMode, SaturationMode
from ..registry import REGISTRY, Cost, op, supported
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check, valid_of
from .steps import binary_step, cast_step

FP32, INT8, UINT8 = DataType.DT_FP32, DataType.DT_INT8, DataType.DT_UINT8
PARAMETER = supported("fp32")
_FACTS: dict[str, Any] = dict(
    cost=Cost.COMPOSITE, versions=("master",), source=facts.API, torch="A scale per row or column, no observer.",
    constraints=("`axis` is one of the last two axes; -1 for a 1-D input.",
                 "axis -1: one scale per row, shape input.shape[:-1]; axis -2: one per column, input.shape without its "
                 "second last axis; [1] for a 1-D input.", *facts.VECTOR_RULES))


def _axis(c: Check, axis: Any, rank: int) -> int:
    found = c.dim("axis", axis, rank)
    if found < rank - 2 or (rank == 1 and found != 0):
        c.rule("shape.dim", f"`axis` is {axis}; allowed: the last two axes (-1 or -2)")
    return found


def _spread(c: Check, arg: str, value: Any, shape: tuple[int, ...], axis: int) -> Tensor:
    """A parameter with size 1 on `axis`, so that it broadcasts with a tensor of `shape`."""
    t = c.tensor(arg, value, PARAMETER)
    needed = [1] if len(shape) == 1 else [n for i, n in enumerate(shape) if i != axis]
    if list(static_shape(t)) != needed:
        c.rule("shape.mismatch", f"`{arg}` has shape {list(static_shape(t))}; it must be {needed} for axis "
                                 f"{axis - len(shape)} of `input` {list(shape)}")
    return t if len(shape) == 1 else REGISTRY["unsqueeze"].function(t, axis)


def _quantised(x: Any, scale: Any, zero: Any = None) -> Any:
    low, high = (-128, 127) if zero is None else (0, 255)
    return np.clip(np.rint(x * scale + (0 if zero is None else zero)), low, high)


@op(dtypes=supported("fp32"), reference=_quantised,
    numerics="x * scale [+ zero] in fp32, then one cast: nearest even, clamped to the 8-bit range.", **_FACTS)
def quantize(input: Tensor, scale: Tensor, otype: DataType, axis: int, zero_points: Tensor | None = None) -> Tensor:
    """round(x * scale [+ zero]) as INT8 (symmetric) or UINT8 (asymmetric).

    Parameters
    ----------
    input: FP32 tensor of rank 1 to 4.
    scale: FP32, one value per row (axis -1) or column (axis -2).
    otype: DT_INT8, or DT_UINT8 with `zero_points`.
    axis: axis that shares a scale: -1 or -2.
    zero_points: FP32 in the shape of `scale`; needed for UINT8, refused for INT8.

    Returns
    -------
    Tensor of the shape of `input` with type `otype`.

    Raises
    ------
    ShapeError: `scale` or `zero_points` has another shape, or `axis` is no axis of the last two.
    DTypeError: `otype` does not go with `zero_points`, or an operand is not FP32.

    Notes
    -----
    Halves go to the even neighbour. Absent in 0.2.

    Cost
    ----
    A product (and a sum) with an expanded operand and a cast per tile.

    Examples
    --------
    >>> show(lambda a, s: pypto.quantize(a, s, pypto.DT_INT8, -1), [1.25, -300.0], [2.0])
    [2, -128]
    """
    c = Check(quantize.spec)
    x = c.tensor("input", input)
    if otype is not (INT8 if zero_points is None else UINT8):
        c.rule("quantise.type", f"`otype` is {otype.name if isinstance(otype, DataType) else otype}; "
                                "DT_INT8 goes without `zero_points`, DT_UINT8 with them")
    shape = static_shape(x)
    axis = _axis(c, axis, len(shape))
    factor = _spread(c, "scale", scale, shape, axis)
    zero = None if zero_points is None else _spread(c, "zero_points", zero_points, shape, axis)
    with c.session.label("quantize"):
        x = binary_step(c, REGISTRY["mul"], x, factor)
        if zero is not None:
            x = binary_step(c, REGISTRY["add"], x, zero)
        return c.emit(shape, otype, valid_of(x), (x,), spec=REGISTRY["cast"],
                      ints=(CastMode.CAST_RINT.value, SaturationMode.ON.value))


@op(dtypes=supported("int8 int16", unlisted="uint8"),
    reference=lambda x, scale, zero=0.0: (x.astype(np.float64) - zero) * scale, ulp=1.0,
    numerics="(float(x) - zero) * scale in fp32.", **_FACTS)
def dequantize(input: Tensor, scale: Tensor, otype: DataType, axis: int, zero_points: Tensor | None = None) -> Tensor:
    """(x - zero) * scale in FP32.

    Parameters
    ----------
    input: INT8 or INT16 tensor of rank 1 to 4.
    scale: FP32, one value per row (axis -1) or column (axis -2).
    otype: DT_FP32.
    axis: axis that shares a scale: -1 or -2.
    zero_points: FP32 in the shape of `scale`, or None for 0.

    Returns
    -------
    FP32 tensor of the shape of `input`.

    Raises
    ------
    ShapeError: `scale` or `zero_points` has another shape, or `axis` is no axis of the last two.
    DTypeError: `otype` is not DT_FP32, or an operand has an unsupported type.

    Notes
    -----
    The zero point is subtracted. Absent in 0.2.

    Cost
    ----
    A cast, a product (and a difference) with an expanded operand per tile.

    Examples
    --------
    >>> show(lambda a, s: pypto.dequantize(pypto.cast(a, pypto.DT_INT8), s, pypto.DT_FP32, -1), [4.0, -6.0], [0.5])
    [2.0, -3.0]
    """
    c = Check(dequantize.spec)
    x = c.tensor("input", input)
    if otype is not FP32:
        c.rule("quantise.type", f"`otype` is {otype.name if isinstance(otype, DataType) else otype}; "
                                "it must be DT_FP32")
    shape = static_shape(x)
    axis = _axis(c, axis, len(shape))
    factor = _spread(c, "scale", scale, shape, axis)
    zero = None if zero_points is None else _spread(c, "zero_points", zero_points, shape, axis)
    with c.session.label("dequantize"):
        wide = cast_step(c, x, FP32)
        if zero is not None:
            wide = binary_step(c, REGISTRY["sub"], wide, zero)
        return binary_step(c, REGISTRY["mul"], wide, factor)
