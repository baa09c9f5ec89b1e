"""Tensors from nothing: constants and sequences."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DataType, Element
from ..registry import Cost, op, supported
from ..trace.scalar import SymbolicScalar, known, value_of
from ..trace.tensor import Tensor
from ._checks import Check
from ._shapes import or_full, rank_range, shape_arg, valid_arg

FP32, INT32 = DataType.DT_FP32, DataType.DT_INT32
FILLABLE = supported("fp32 fp16 bf16 int8 int16 int32 uint8 uint16 uint32 bool", unlisted="int64 uint64 fp64")
NUMBERED = supported("fp32 int32 int16 fp16 bf16")
INT32_RANGE = (-2**31, 2**31 - 1)
SMALLEST_STEP = 1e-8


def _filled(spec: Any, size: Any, value: Any, dtype: Any, valid_shape: Any = None) -> Tensor:
    check = Check(spec)
    if not isinstance(dtype, DataType):
        check.rule("arg.type", f"`dtype` must be a DataType such as pypto.DT_FP32, got {dtype!r}")
    check.dtype("dtype", dtype, spec.dtypes)
    shape = shape_arg(check, "size", size)
    check.rank("size", shape, rank_range(check))
    given = valid_arg(check, valid_shape, shape)
    if isinstance(value, Element):
        value = value.value
    if isinstance(value, int | float) and dtype.is_unsigned and value < 0:
        check.rule("arg.value", f"`fill_value` is {value} for {dtype.name}, which has no negative numbers")
    if dtype is DataType.DT_BOOL and isinstance(value, int | float):
        value = int(value != 0)
    elif isinstance(value, float) and not dtype.is_float and math.isfinite(value):
        value = int(value)          # the front end converts to the dtype
    number = check.scalar("fill_value", value, dtype)
    return check.emit(shape, dtype, or_full(given or shape, shape), [], spec=full.spec, floats=number.floats,
                      ints=(number.ints[0], given is not None, bool(number.scalars)),
                      scalars=(*number.scalars, *(given or ())))


@op(kernel="full", cost=Cost.VEC_FILL, instr="vector_dup", dtypes=FILLABLE, reference=np.full,
    source="operation table: full",
    constraints=("The vector tile follows size.",), numerics="The value is rounded to the type once.",
    torch="dtype is required.")
def full(size: Sequence[int], fill_value: int | float | SymbolicScalar | Element, dtype: DataType, *,
         valid_shape: Sequence[int | SymbolicScalar] | None = None) -> Tensor:
    """Tensor filled with one value.

    Parameters
    ----------
    size: sizes, ints.
    fill_value: number, Element or SymbolicScalar.
    dtype: element type.
    valid_shape: default the full shape.

    Returns
    -------
    Tensor of `size`.

    Raises
    ------
    PyptoValueError: a negative value of an unsigned type. PyptoTypeError: `dtype` is no DataType.

    Notes
    -----
    A bf16 constant is rounded: full(0.7978845608, bf16) is 0.796875.

    Cost
    ----
    One fill per tile.

    Examples
    --------
    >>> show(lambda a: a + pypto.full([2], 0.5, pypto.DT_FP32), [1.0, 2.0])
    [1.5, 2.5]
    """
    return _filled(full.spec, size, fill_value, dtype, valid_shape)


def _sizes(spec: Any, size: tuple[Any, ...]) -> Any:
    if len(size) > 1 and isinstance(size[-1], DataType):
        Check(spec).rule("arg.type", f"{size[-1].name} stands among the sizes; write dtype=pypto.{size[-1].name}")
    return size[0] if len(size) == 1 and isinstance(size[0], list | tuple) else size


@op(cost=Cost.COMPOSITE, dtypes=NUMBERED, reference=np.zeros, source="operation table: zeros",
    constraints=("The vector tile follows size.",), numerics="Exact.", torch="dtype is keyword only.")
def zeros(*size: int | Sequence[int], dtype: DataType | None = None) -> Tensor:
    """Tensor of 0.

    Parameters
    ----------
    size: ints, or one list of them.
    dtype: keyword only; default FP32.

    Returns
    -------
    Tensor of `size`.

    Raises
    ------
    PyptoTypeError: a positional dtype, which would be a size.

    Notes
    -----
    The same as full(size, 0, dtype).

    Cost
    ----
    One fill per tile.

    Examples
    --------
    >>> show(lambda a: a + pypto.zeros(2), [1.0, 2.0])
    [1.0, 2.0]
    """
    return _filled(zeros.spec, _sizes(zeros.spec, size), 0, dtype or FP32)


@op(cost=Cost.COMPOSITE, dtypes=NUMBERED, reference=np.ones, source="operation table: ones",
    constraints=("The vector tile follows size.",), numerics="Exact.", torch="dtype is keyword only.")
def ones(*size: int | Sequence[int], dtype: DataType | None = None) -> Tensor:
    """Tensor of 1.

    Parameters
    ----------
    size: ints, or one list of them.
    dtype: keyword only; default FP32.

    Returns
    -------
    Tensor of `size`.

    Raises
    ------
    PyptoTypeError: a positional dtype, which would be a size.

    Notes
    -----
    The same as full(size, 1, dtype).

    Cost
    ----
    One fill per tile.

    Examples
    --------
    >>> show(lambda a: a + pypto.ones(2), [1.0, 2.0])
    [2.0, 3.0]
    """
    return _filled(ones.spec, _sizes(ones.spec, size), 1, dtype or FP32)


@op(kernel="arange", cost=Cost.VEC_FILL, instr="vci", ranks=(1, 1), reference=np.arange,
    source="operation table: arange; semantics: Range",
    constraints=("All numbers are known when the kernel is traced.",),
    numerics="start + i * step: int32, or fp32.", torch="FP32 or INT32 only.",
    dtypes=supported("fp32 int32"))
def arange(*args: int | float | SymbolicScalar) -> Tensor:
    """Arithmetic sequence: `arange(end)`, `arange(start, end)`, `arange(start, end, step)`.

    Parameters
    ----------
    args: ints or floats.

    Returns
    -------
    Tensor of ceil((end - start) / step) elements start + i * step; FP32 when an argument is a float, else INT32.

    Raises
    ------
    PyptoValueError: a wrong number of arguments, step 0, an empty sequence, ints beyond INT32.

    Notes
    -----
    A size of the kernel's arguments is a known number.

    Cost
    ----
    One instruction per tile.

    Examples
    --------
    >>> show(lambda a: a + pypto.arange(1.0, 3.0), [1.0, 2.0])
    [2.0, 4.0]
    """
    check = Check(arange.spec)
    if not 1 <= len(args) <= 3:
        check.rule("arg.value", f"{len(args)} arguments; allowed: (end), (start, end) or (start, end, step)")
    numbers = []
    for a in args:
        if isinstance(a, SymbolicScalar):
            if not known(a):
                check.rule("arg.type", "an argument depends on a run-time value; the length must be known")
            a = value_of(a)
        if isinstance(a, np.generic):
            a = a.item()
        if isinstance(a, bool) or not isinstance(a, int | float):
            check.rule("arg.type", f"arguments must be ints or floats, got {type(a).__name__}")
        numbers.append(a)
    start, end, step = (numbers if len(numbers) == 3 else (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1))
    dtype = FP32 if any(isinstance(a, float) for a in numbers) else INT32
    if not all(math.isfinite(a) for a in numbers) or abs(step) <= SMALLEST_STEP:
        check.rule("arg.value", f"start {start}, end {end}, step {step}: all must be finite and |step| > "
                                f"{SMALLEST_STEP}")
    count = math.ceil((end - start) / step) if dtype is FP32 else -(-(end - start) // step)
    if count <= 0:
        check.rule("arg.value", f"start {start}, end {end}, step {step} give no element")
    if dtype is INT32 and not all(INT32_RANGE[0] <= a <= INT32_RANGE[1] for a in numbers):
        check.rule("arg.value", f"start {start}, end {end}, step {step}: ints must be within INT32")
    check.size("result", [count])
    ints = (int(start), int(step)) if dtype is INT32 else (0, 0)
    return check.emit([count], dtype, None, [], ints=ints, floats=(float(start), float(step)))
