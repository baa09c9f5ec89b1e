"""Operation cases: one JSON object a line, see README of the case collection for the form."""
from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from pypto_sim.dtypes import DataType, from_short

MOST_ELEMENTS = 2**26           # inputs and outputs together; larger cases are cut
ALIASES = {"bfloat": "fp32", "float32": "fp32"}
FP8 = ("fp8e4m3", "fp8e5m2", "fp8e8m0", "hf8")
FP4 = ("fp4_e2m1x2", "fp4_e1m2x2")
HALVES = ("fp16", "bf16")


@dataclass(frozen=True, slots=True)
class Spec:
    """One tensor of a case. `shape` counts elements; types of 4 bits are stored two elements a byte."""

    shape: tuple[int, ...]
    dtype: str
    format: str = "ND"
    low: Any = 0
    high: Any = 0

    @property
    def type(self) -> DataType:
        """Element type of the kernel's argument."""
        return from_short(self.dtype)

    @property
    def np_dtype(self) -> np.dtype:
        """numpy type of the array; bytes for the 8-bit and 4-bit floats."""
        return np.dtype(np.uint8) if self.raw else self.type.np_dtype

    @property
    def raw(self) -> bool:
        """True for the formats handled as bytes."""
        return self.dtype in FP8 + FP4

    @property
    def stored(self) -> tuple[int, ...]:
        """Shape of the array."""
        return (*self.shape[:-1], self.shape[-1] // 2) if self.dtype in FP4 else self.shape

    @property
    def is_float(self) -> bool:
        """True for fp32, fp16 and bf16."""
        return self.dtype in ("fp32", *HALVES)

    @property
    def is_int(self) -> bool:
        """True for integers (not bool)."""
        return "int" in self.dtype


@dataclass(frozen=True, slots=True)
class Case:
    """One case; `line` is its line in the file, from 1."""

    op: str
    name: str
    line: int
    ins: tuple[Spec, ...]
    outs: tuple[Spec, ...]
    view: tuple[int, ...]
    tile: tuple[Any, ...]
    attrs: dict[str, Any]
    reduced: bool = False

    @property
    def elements(self) -> int:
        """Elements of all tensors."""
        return sum(math.prod(t.shape) for t in self.ins + self.outs)

    @property
    def empty(self) -> bool:
        """True when an input has no element."""
        return any(0 in t.shape for t in self.ins)


def _spec(record: dict[str, Any]) -> Spec:
    low, high = record.get("range", [0, 0])
    dtype = record["dtype"]
    return Spec(tuple(record["shape"]), ALIASES.get(dtype, dtype), record.get("format", "ND"), low, high)


def read_cases(path: Path) -> list[Case]:
    """All cases of a file. Raises ValueError naming the line of a record that is not of the form."""
    cases = []
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not text.strip():
            continue
        try:
            r = json.loads(text)
            cases.append(Case(r["op"], r["case"], line, tuple(map(_spec, r["inputs"])), tuple(map(_spec, r["outputs"])),
                              tuple(r["view_shape"]), tuple(r["tile_shape"]), r["attrs"]))
        except (KeyError, TypeError, ValueError) as e:
            raise ValueError(f"{path}:{line}: not an operation case: {type(e).__name__}: {e}") from e
    return cases


def scalar_of(case: Case, key: str = "scalar", type_key: str = "scalar_type") -> int | float:
    """The scalar operand as a value of its type: fp32 beside a 16-bit tensor is rounded to the tensor's type first."""
    value, kind = case.attrs[key], ALIASES.get(case.attrs.get(type_key, "fp32"), case.attrs.get(type_key, "fp32"))
    tensor = case.ins[0].dtype
    if "int" in kind:
        return int(value)
    if tensor in HALVES:
        return float(np.float64(rounded(np.float32(value), np.dtype(from_short(tensor).np_dtype))))
    if "int" in tensor:
        return int(value) if float(value).is_integer() else float(value)
    return float(np.float32(value))


def rounded(value: Any, dtype: np.dtype) -> np.ndarray:
    """`value` (float64 or integers) rounded once to `dtype`, as float64; half-even, overflow to inf."""
    value = np.asarray(value)
    if value.dtype != np.float64:
        value = value.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype in (np.float64, np.float32, np.float16):
            return value.astype(dtype).astype(np.float64)
        info = ml_dtypes.finfo(dtype)
        finite = np.isfinite(value)
        _, exponent = np.frexp(np.where(finite, value, 0.0))
        step = np.maximum(exponent - 1, info.minexp) - info.nmant
        near = np.ldexp(np.rint(np.ldexp(value, -step)), step)
        top = float(info.max)
        return np.where(finite, np.where(np.abs(near) > top, np.copysign(np.inf, value), near), value)


def cut(case: Case, sizes: dict[tuple[int, int, str], int]) -> Case:
    """The case with the axes {(tensor number, axis, "in" or "out"): size} shortened."""
    def tensors(specs: tuple[Spec, ...], side: str) -> tuple[Spec, ...]:
        return tuple(replace(t, shape=tuple(sizes.get((i, a, side), n) for a, n in enumerate(t.shape)))
                     for i, t in enumerate(specs))
    return replace(case, ins=tensors(case.ins, "in"), outs=tensors(case.outs, "out"), reduced=True)
