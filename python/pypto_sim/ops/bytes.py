"""Elements as bytes and back."""
from __future__ import annotations

import math

import numpy as np

from ..dtypes import DataType
from ..registry import Cost, internal_row, op, supported
from ..trace.tensor import Tensor
from ._checks import Check
from ._shapes import or_full, shape_of, valid_list

UINT8 = DataType.DT_UINT8
WIDE = supported("bf16 fp16 fp32 int8 int16 int32 int64 uint8 uint16 uint32 uint64")
BITCAST = internal_row("bitcast", cost=Cost.VIEW)
UNPACK_BITS = internal_row("unpack_bits", cost=Cost.VIEW)


def reinterpreted(check: Check, x: Tensor, dtype: DataType) -> Tensor:
    """The bits of `x` as `dtype`; the last axis is rescaled. Its bytes must be whole elements."""
    if x.dtype is dtype:
        return x
    shape, valid = shape_of(x), valid_list(x)
    size, to = x.dtype.size_bytes, dtype.size_bytes
    if shape[-1] * size % to:
        check.rule("shape.mismatch", f"the last axis of {shape} {x.dtype.name} has {shape[-1] * size} bytes, no whole "
                                     f"number of {dtype.name}")
    shape[-1] = shape[-1] * size // to
    valid[-1] = valid[-1] * size // to
    return check.emit(shape, dtype, or_full(valid, shape), [x], spec=BITCAST)


def mask_of_bits(check: Check, x: Tensor) -> Tensor:
    """A UINT8 mask of one bit per element, the first in bit 0, as BOOL."""
    shape, valid = shape_of(x), valid_list(x)
    shape[-1] *= 8
    valid[-1] = valid[-1] * 8
    return check.emit(shape, DataType.DT_BOOL, or_full(valid, shape), [x], spec=UNPACK_BITS)


@op(cost=Cost.COMPOSITE, dtypes=WIDE, versions=("master",), numerics="Bits are copied.",
    source="operation table: pack; semantics: Pack", constraints=("The tile has the rank of the input.",),
    torch="x.reshape(-1).view(torch.uint8).", reference=lambda x: np.ascontiguousarray(x).reshape(-1).view(np.uint8))
def pack(self: Tensor) -> Tensor:
    """The bytes of a tensor in row-major order, little endian.

    Parameters
    ----------
    self: tensor of rank 1 to 4.

    Returns
    -------
    UINT8 tensor of one axis.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    Current release only.

    Cost
    ----
    None of its own: bytes are read as another type.

    Examples
    --------
    >>> show(lambda a: pypto.pack(a), [1.0])
    [0, 0, 128, 63]
    """
    c = Check(pack.spec)
    x = c.tensor("self", self)
    shape = shape_of(x)
    if len(shape) == 1:
        return reinterpreted(c, x, UINT8)
    count = math.prod(shape) * x.dtype.size_bytes
    c.size("result", [count])
    return c.emit([count], UINT8, None, [x], spec=BITCAST)


@op(cost=Cost.COMPOSITE, dtypes=supported("uint8"), ranks=(1, 1), versions=("master",), numerics="Bits are copied.",
    source="operation table: unpack; semantics: UnPack",
    constraints=("The length is a multiple of the size of `dtype`.",), torch="x.view(dtype).")
def unpack(self: Tensor, dtype: DataType) -> Tensor:
    """Bytes read as elements of `dtype`, little endian.

    Parameters
    ----------
    self: UINT8 tensor of one axis.
    dtype: element type of 8 to 64 bits.

    Returns
    -------
    Tensor of one axis.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: the length is no multiple of the element size.

    Notes
    -----
    Current release only.

    Cost
    ----
    None of its own: bytes are read as another type.

    Examples
    --------
    >>> show(lambda a: pypto.unpack(pypto.pack(a), pypto.DT_FP32), [1.5, -2.0])
    [1.5, -2.0]
    """
    c = Check(unpack.spec)
    x = c.tensor("self", self)
    c.choice("dtype", dtype, DataType)
    c.dtype("dtype", dtype, WIDE)
    return reinterpreted(c, x, dtype)


