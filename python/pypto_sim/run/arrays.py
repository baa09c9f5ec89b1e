"""Arrays of the caller: numpy, ml_dtypes and torch, without copies."""
from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DataType, from_numpy, from_short, from_torch
from ..enums import TileOpFormat
from ..errors import DTypeError, PyptoRuntimeError, PyptoTypeError, PyptoValueError, ShapeError
from ..trace.tensor import INT32_MAX, Tensor

MAX_RANK = 6
NPU_NZ = 29                       # torch_npu's number of the format NZ
FORMATS = {"ND": TileOpFormat.TILEOP_ND, "NZ": TileOpFormat.TILEOP_NZ}


class Spec:
    """Shape and element type of an argument for cost-only runs.

    Spec(shape, dtype, data=None, format="ND"): dtype is a DataType, a numpy dtype or a short name such as "bf16"; data
    is an integer array that the kernel reads elements of.
    """

    __slots__ = ("shape", "dtype", "data", "format")

    def __init__(self, shape: Any, dtype: Any, data: Any = None, format: str | TileOpFormat = "ND") -> None:
        if isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
            raise PyptoTypeError(f"Spec: shape must be a list of ints, got {shape!r}")
        self.shape = tuple(shape)
        if not all(hasattr(n, "__index__") and not isinstance(n, bool) for n in self.shape):
            raise PyptoTypeError(f"Spec: shape must be a list of ints, got {list(self.shape)}")
        self.shape = tuple(int(n) for n in self.shape)
        if any(n < 0 for n in self.shape):
            raise ShapeError(f"Spec: sizes must not be negative, got {list(self.shape)}")
        self.dtype = _dtype_of(dtype)
        if isinstance(format, str) and format not in FORMATS:
            raise PyptoValueError(f"Spec: format must be one of {', '.join(FORMATS)}, got {format!r}")
        self.format = FORMATS[format] if isinstance(format, str) else format
        self.data = None if data is None else memory_of("data", data)[0]
        if self.data is not None and (self.data.shape != self.shape or from_numpy(self.data.dtype) is not self.dtype):
            raise ShapeError(f"Spec: data is {list(self.data.shape)} {self.data.dtype}, expected {list(self.shape)} "
                             f"{self.dtype.name}")

    def __repr__(self) -> str:
        return f"Spec({list(self.shape)}, {self.dtype.name}" + (", data=..." if self.data is not None else "") + ")"


@dataclass(slots=True)
class Argument:
    """One tensor argument. array: the caller's memory with numpy's shape and type, None for a Spec without data."""

    name: str
    shape: tuple[int, ...]
    dtype: DataType
    array: np.ndarray | None
    format: TileOpFormat = TileOpFormat.TILEOP_ND
    axes: tuple[Any, ...] | None = None          # with SymbolicScalars for dynamic axes

    @property
    def writable(self) -> bool:
        """False for read-only memory."""
        return self.array is None or self.array.flags.writeable

    @property
    def bytes_view(self) -> np.ndarray:
        """The memory as uint8."""
        assert self.array is not None
        return self.array.reshape(-1).view(np.uint8)

    @property
    def signature(self) -> tuple[Any, ...]:
        """What a Program depends on."""
        dynamic = None if self.axes is None else tuple(not isinstance(n, int) for n in self.axes)
        return (self.shape, self.dtype, self.format, self.writable, dynamic)


def is_array(value: Any) -> bool:
    """True for what can be a tensor argument: an array, a torch tensor, a Spec, a pypto tensor."""
    return isinstance(value, (np.ndarray, Spec, Tensor)) or _is_torch(value)


def argument(name: str, value: Any) -> Argument:
    """Argument of a caller's object. Raises naming the parameter when its memory cannot be used."""
    if isinstance(value, Spec):
        if not value.dtype.in_core:
            raise DTypeError(f"argument `{name}` is {value.dtype.name}, which is known by name only")
        _check_size(name, value.shape)
        return Argument(name, value.shape or (1,), value.dtype, value.data, value.format)
    format_ = torch_format(value)
    if isinstance(value, Tensor):
        if value.data is None:
            raise PyptoRuntimeError(f"argument `{name}` is a pypto.Tensor without data; pass the array itself, or "
                                    "pypto.from_torch(array)")
        format_, value = value.format, value.data
    array, dtype = memory_of(name, value)
    return Argument(name, array.shape, dtype, array, format_)


def memory_of(name: str, value: Any) -> tuple[np.ndarray, DataType]:
    """(numpy view of at least rank 1, element type) of an array or torch tensor, sharing its memory."""
    if _is_torch(value):
        array, dtype = _torch_memory(name, value)
    elif isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise PyptoTypeError(f"argument `{name}` is a masked array, whose mask would be ignored: pass "
                                 f"{name}.filled(...) or {name}.data")
        if not value.dtype.isnative:
            raise DTypeError(f"argument `{name}` has byte order {value.dtype.byteorder!r}: convert it with "
                             "a.astype(a.dtype.newbyteorder('='))")
        array, dtype = value.view(np.ndarray), from_numpy(value.dtype)
        if not array.flags.aligned:
            raise PyptoRuntimeError(f"argument `{name}` starts at an address that is no multiple of "
                                    f"{array.dtype.itemsize} bytes: pass {name}.copy()")
        if not array.flags.c_contiguous:
            raise PyptoRuntimeError(f"not all tensors are contiguous: argument `{name}` has strides {array.strides} "
                                    f"for shape {list(array.shape)}; pass np.ascontiguousarray({name})")
    else:
        raise PyptoRuntimeError(f"argument `{name}` must be a numpy array or a torch tensor, got "
                                f"{type(value).__name__}")
    if not array.ndim:
        array = array.reshape(1)
    if not dtype.in_core:
        raise DTypeError(f"argument `{name}` is {dtype.name}, which is known by name only: nothing computes on it here")
    _check_size(name, array.shape)
    return array, dtype


def _check_size(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) > MAX_RANK:
        raise ShapeError(f"argument `{name}` has rank {len(shape)} (shape {list(shape)}); allowed: 1 to {MAX_RANK}",
                         rule="shape.rank")
    if math.prod(shape) > INT32_MAX or max(shape, default=1) > INT32_MAX:
        raise ShapeError(f"argument `{name}` has {math.prod(shape)} elements, more than INT32_MAX ({INT32_MAX}): pass "
                         "slices of it", rule="shape.count")


def check_overlap(arguments: list[Argument]) -> list[tuple[str, str]]:
    """Pairs of names that are the same memory. Raises for memory that overlaps partly (rule arg.overlap)."""
    same = []
    ranges = [(a, _address(a.array), a.array.nbytes) for a in arguments if a.array is not None and a.array.size]
    for (a, at, size), (b, other, other_size) in itertools.combinations(ranges, 2):
        if (at, size) == (other, other_size):
            same.append((a.name, b.name))
        elif at < other + other_size and other < at + size:
            raise PyptoRuntimeError(f"arguments `{a.name}` and `{b.name}` overlap partly in memory: pass copies",
                                    rule="arg.overlap")
    return same


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "Tensor") and isinstance(value, torch.Tensor)


def torch_format(value: Any) -> TileOpFormat:
    """Format of a tensor on the stood-in NPU as torch_npu.npu_format_cast has set it; ND for everything else."""
    return TileOpFormat.TILEOP_NZ if getattr(value, "npu_format", None) == NPU_NZ else TileOpFormat.TILEOP_ND


def _torch_memory(name: str, value: Any) -> tuple[np.ndarray, DataType]:
    with sys.modules["torch"]._C.DisableTorchFunctionSubclass():     # memory of subclasses, and no detour through them
        return _plain_memory(name, value)


def _plain_memory(name: str, value: Any) -> tuple[np.ndarray, DataType]:
    torch = sys.modules["torch"]
    dtype = from_torch(value.dtype)
    if value.layout is not torch.strided:
        raise PyptoRuntimeError(f"argument `{name}` has layout {value.layout}; only dense tensors are taken")
    if value.device.type != "cpu":
        raise PyptoRuntimeError(f"argument `{name}` is on {value.device}; pass a CPU tensor")
    if not value.is_contiguous():
        raise PyptoRuntimeError(f"not all tensors are contiguous: argument `{name}` has strides {value.stride()} for "
                                f"shape {list(value.shape)}; pass {name}.contiguous()")
    value = value.detach()
    shape = tuple(value.shape)
    carrier = torch.int16 if dtype is DataType.DT_BF16 else None if dtype.arithmetic else torch.uint8
    try:
        flat = value.reshape(-1)
        array = (flat if carrier is None else flat.view(carrier)).numpy()
    except (RuntimeError, TypeError) as e:     # a lazy negation, a tensor subclass without memory
        raise PyptoRuntimeError(f"argument `{name}` gives no plain memory: {e}") from None
    return (array.view(dtype.np_dtype) if carrier is torch.int16 else array).reshape(shape), dtype


def _dtype_of(dtype: Any) -> DataType:
    if isinstance(dtype, DataType):
        return dtype
    if isinstance(dtype, str):
        try:
            return from_short(dtype)
        except KeyError:
            pass
    if dtype is None:                               # numpy takes it for float64
        raise DTypeError("Spec: dtype is None; pass a pypto.DT_* constant, a numpy dtype or a short name as 'bf16'")
    if type(dtype).__module__.partition(".")[0] == "torch":
        return from_torch(dtype)
    try:
        return from_numpy(dtype)
    except TypeError:
        raise DTypeError(f"{dtype!r} is no element type: pass a pypto.DT_* constant, a numpy dtype or a short name "
                         "such as 'bf16'") from None
