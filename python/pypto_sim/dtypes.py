"""Element types. Values are the codes of `npu::DType`; the core does arithmetic on the first 13 of them only."""
from __future__ import annotations

import enum
from typing import Any

import ml_dtypes
import numpy as np

from .errors import DTypeError, PyptoTypeError, PyptoValueError

# name: (short name, bytes of one storage element, numpy dtype of the storage or None, torch name or "")
_FACTS: dict[str, tuple[str, int, Any, str]] = {
    "DT_FP32": ("fp32", 4, np.float32, "float32"),
    "DT_FP16": ("fp16", 2, np.float16, "float16"),
    "DT_BF16": ("bf16", 2, ml_dtypes.bfloat16, "bfloat16"),
    "DT_DOUBLE": ("fp64", 8, np.float64, "float64"),
    "DT_INT8": ("int8", 1, np.int8, "int8"),
    "DT_INT16": ("int16", 2, np.int16, "int16"),
    "DT_INT32": ("int32", 4, np.int32, "int32"),
    "DT_INT64": ("int64", 8, np.int64, "int64"),
    "DT_UINT8": ("uint8", 1, np.uint8, "uint8"),
    "DT_UINT16": ("uint16", 2, np.uint16, "uint16"),
    "DT_UINT32": ("uint32", 4, np.uint32, "uint32"),
    "DT_UINT64": ("uint64", 8, np.uint64, "uint64"),
    "DT_BOOL": ("bool", 1, np.bool_, "bool"),
    "DT_INT4": ("int4", 1, np.uint8, ""),
    "DT_FP8": ("fp8", 1, np.uint8, ""),
    "DT_HF4": ("hf4", 1, np.uint8, ""),
    "DT_HF8": ("hf8", 1, np.uint8, ""),
    "DT_FP8E4M3": ("fp8e4m3", 1, ml_dtypes.float8_e4m3fn, "float8_e4m3fn"),
    "DT_FP8E5M2": ("fp8e5m2", 1, ml_dtypes.float8_e5m2, "float8_e5m2"),
    "DT_FP8E8M0": ("fp8e8m0", 1, ml_dtypes.float8_e8m0fnu, "float8_e8m0fnu"),
    "DT_FP4_E2M1": ("fp4_e2m1", 1, np.uint8, ""),
    "DT_FP4_E2M1X2": ("fp4_e2m1x2", 1, np.uint8, "float4_e2m1fn_x2"),
    "DT_FP4_E1M2": ("fp4_e1m2", 1, np.uint8, ""),
    "DT_FP4_E1M2X2": ("fp4_e1m2x2", 1, np.uint8, ""),
    "DT_BOTTOM": ("bottom", 0, None, ""),
}
CORE_DTYPES = 13
STORED = (13, 16, 17, 18, 19, 21, 23)      # moved, converted and multiplied, but no vector arithmetic


class DataType(enum.Enum):
    """Element type of a tensor. INT4 and the ..X2 types hold two numbers a byte, the first in the low four bits; their
    shapes count bytes.
    """

    DT_FP32 = 0
    DT_FP16 = 1
    DT_BF16 = 2
    DT_DOUBLE = 3
    DT_INT8 = 4
    DT_INT16 = 5
    DT_INT32 = 6
    DT_INT64 = 7
    DT_UINT8 = 8
    DT_UINT16 = 9
    DT_UINT32 = 10
    DT_UINT64 = 11
    DT_BOOL = 12
    DT_INT4 = 13
    DT_FP8 = 14
    DT_HF4 = 15
    DT_HF8 = 16
    DT_FP8E4M3 = 17
    DT_FP8E5M2 = 18
    DT_FP8E8M0 = 19
    DT_FP4_E2M1 = 20
    DT_FP4_E2M1X2 = 21
    DT_FP4_E1M2 = 22
    DT_FP4_E1M2X2 = 23
    DT_BOTTOM = 24

    @property
    def code(self) -> int:
        """Code of `npu::DType`. Raises DTypeError for types that tensors cannot have here."""
        if not self.in_core:
            raise DTypeError(f"{self.name} is known by name only: no operation of this version takes it")
        return self.value

    @property
    def in_core(self) -> bool:
        """True for the types that tensors can have here."""
        return self.value < CORE_DTYPES or self.value in STORED

    @property
    def arithmetic(self) -> bool:
        """True for the types of 8 and more bits that vector operations compute on."""
        return self.value < CORE_DTYPES

    @property
    def short(self) -> str:
        """Short name for tables, such as "fp32"."""
        return _FACTS[self.name][0]

    @property
    def size_bytes(self) -> int:
        """Bytes of one storage element (1 for the types that pack two in a byte)."""
        return _FACTS[self.name][1]

    @property
    def np_dtype(self) -> np.dtype[Any]:
        """numpy dtype of the storage; ml_dtypes types for bfloat16 and the 8-bit floats that it has."""
        kind = _FACTS[self.name][2]
        if kind is None:
            raise DTypeError(f"{self.name} has no storage")
        return np.dtype(kind)

    @property
    def torch_name(self) -> str:
        """Name of the torch dtype ("bfloat16"), or "" where torch has none."""
        return _FACTS[self.name][3]

    @property
    def is_float(self) -> bool:
        """True for fp32, fp16, bf16 and double."""
        return self.value <= 3

    @property
    def is_int(self) -> bool:
        """True for the integer types of the core, signed and unsigned (not bool)."""
        return 4 <= self.value <= 11

    @property
    def is_unsigned(self) -> bool:
        """True for uint8 to uint64."""
        return 8 <= self.value <= 11


_BY_SHORT = {d.short: d for d in DataType}
_BY_NUMPY = {d.np_dtype: d for d in DataType
             if d.value < CORE_DTYPES or _FACTS[d.name][2] not in (np.uint8, None)}
_BY_TORCH = {d.torch_name: d for d in DataType if d.torch_name}


def from_short(name: str) -> DataType:
    """DataType of a short name such as "bf16"."""
    return _BY_SHORT[name]


def short_list(dtypes: Any) -> str:
    """Readable list of DataTypes in member order: "FP32, FP16, BF16"."""
    return ", ".join(d.name.removeprefix("DT_") for d in sorted(dtypes, key=lambda d: d.value))


def from_numpy(dtype: Any) -> DataType:
    """DataType of a numpy (or ml_dtypes) dtype. Raises DTypeError for any other."""
    found = _BY_NUMPY.get(np.dtype(dtype))
    if found is None:
        raise DTypeError(f"numpy dtype {dtype} has no PyPTO element type; known: {sorted(map(str, _BY_NUMPY))}")
    return found


def from_torch(dtype: Any) -> DataType:
    """DataType of a torch dtype, found by its name without importing torch. Raises DTypeError for any other."""
    found = _BY_TORCH.get(str(dtype).removeprefix("torch."))
    if found is None:
        raise DTypeError(f"{dtype} has no PyPTO element type; known: {sorted(_BY_TORCH)}")
    return found


def bytes_of(dtype: DataType) -> int:
    """Bytes of one storage element of `dtype` (1 for every 4-bit and 8-bit type)."""
    return dtype.size_bytes


def wrap_int(value: int, dtype: DataType) -> int:
    """`value` modulo 2^n in the range of an integer `dtype` (bool: 0 or 1)."""
    if dtype is DataType.DT_BOOL:
        return int(value != 0)
    bits = 8 * dtype.size_bytes
    value &= (1 << bits) - 1
    if not dtype.is_unsigned and value >> (bits - 1):
        value -= 1 << bits
    return value


class Element:
    """A typed scalar constant: `Element(pypto.DT_FP16, 0.0)`.

    The value is kept as given; arithmetic on 16-bit tensors meets it unrounded in fp32, `full` rounds it to its type.
    Raises PyptoTypeError for a dtype that is no DataType, PyptoValueError for a value that is no number.
    """

    __slots__ = ("_dtype", "_value")

    def __init__(self, dtype: DataType, value: int | float) -> None:
        if not isinstance(dtype, DataType):
            raise PyptoTypeError(f"pypto.Element: `dtype` must be a DataType such as pypto.DT_FP16, got {dtype!r}")
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, int | float):
            raise PyptoValueError(f"pypto.Element: `value` must be an int or a float, got {value!r}")
        self._dtype, self._value = dtype, value

    @property
    def dtype(self) -> DataType:
        """Element type."""
        return self._dtype

    @property
    def value(self) -> int | float:
        """The number."""
        return self._value

    def __repr__(self) -> str:
        return f"Element({self._dtype.name}, {self._value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Element) and (self._dtype, self._value) == (other._dtype, other._value)

    def __hash__(self) -> int:
        return hash((self._dtype, self._value))
