"""What a strategy, a preset and a claim are. Data only; running is in `check`, `cost` and `compare`.

An operator module offers `OPERATOR`, `STRATEGIES`, `PRESETS`, `CLAIMS` and `golden(config)`. A *config* is a plain
dict: the operator's defaults, the preset's values, one point's sizes, then what the user set.
"""
from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..errors import PyptoKeyError

Config = dict[str, Any]
PHASES = ("decode", "prefill")
DTYPES = {"bf16": DataType.DT_BF16, "fp16": DataType.DT_FP16, "fp32": DataType.DT_FP32, "int32": DataType.DT_INT32}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arg:
    """One tensor of an operator. role: "in", "out", or "temp" (written by one launch, read by the next).

    Inputs are N(0,1) x scale, or what `make(rng)` returns. alias: the tensor is another one's memory in this shape.
    """

    shape: tuple[int, ...]
    dtype: str
    role: str = "in"
    scale: float = 1.0
    make: Callable[[np.random.Generator], np.ndarray] | None = None
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a kernel: names of its tensors in argument order, and scalars after them."""

    kernel: Any
    args: tuple[str, ...]
    scalars: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """|err| <= atol + rtol |golden| + row_max max(|golden| of the row) + output_ulp ulp(golden in the output type).

    outliers: share of the elements that may go up to twice that.
    """

    rtol: float = 0.0
    atol: float = 0.0
    row_max: float = 0.0
    output_ulp: float = 0.0
    outliers: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One result to judge: output tensor, key of the golden, tolerance, and the launches that make it."""

    output: str
    golden: str
    tolerance: Tolerance
    launches: tuple[Launch, ...] = ()   # empty: the strategy's own launches


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to build an operator.

    tensors(config): tensors this strategy adds to the operator's. launches(config): the kernels of one call.
    parts(config): what is judged. misfit(config): why a preset does not fit, or "". maturity: the guide's word.
    judge: replaces the elementwise comparison (routing compares expert sets). other_function(config): how it
    differs from what the model asks for, or ""; such a strategy is compared but not recommended. form_error(): largest
    distance of an approximate formula from the exact function, in float64.
    """

    id: str
    label: str
    launches: Callable[[Config], Sequence[Launch]]
    parts: Callable[[Config], Sequence[Part]]
    tensors: Callable[[Config], Mapping[str, Arg]] = lambda config: {}
    misfit: Callable[[Config], str] = lambda config: ""
    maturity: str = "reference"
    judge: Callable[..., Any] | None = None
    other_function: Callable[[Config], str] = lambda config: ""
    form_error: Callable[[], float] | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """Sizes of one phase: where numerics are checked, and where cost is swept."""

    check: tuple[Mapping[str, int], ...]
    cost: tuple[Mapping[str, int], ...]
    values: Mapping[str, Any] = field(default_factory=dict)   # tiles and options of this phase


@dataclass(frozen=True, slots=True)
class Preset:
    """A model's sizes. `values` override the operator's defaults; a phase that a preset does not have is absent."""

    name: str
    values: Mapping[str, Any]
    phases: Mapping[str, Phase]


@dataclass(frozen=True, slots=True)
class Observation:
    """What a claim's experiment showed. agrees None needs why_null."""

    observed: str
    agrees: bool | None
    why_null: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the strategy guide and the experiment that tests it."""

    id: str
    text: str
    observe: Callable[[Any], Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Name, defaults of every config key, the tensors all strategies share, and help for the keys."""

    name: str
    title: str
    defaults: Mapping[str, Any]
    tensors: Callable[[Config], Mapping[str, Arg]]
    size_keys: tuple[str, ...]


def unknown(kind: str, word: str, known: Sequence[str]) -> PyptoKeyError:
    """Error for an unknown word; lists the known ones."""
    close = difflib.get_close_matches(word, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return PyptoKeyError(f"unknown {kind} {word!r}; known: {', '.join(known)}.{hint}")


def parse_value(key: str, text: Any, default: Any) -> Any:
    """Value of `key` given as text or as a Python value, in the type of the default. Raises PyptoKeyError."""
    if not isinstance(text, str):
        return tuple(text) if isinstance(text, list) else text
    try:
        if isinstance(default, bool):
            return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.lower()]
        if isinstance(default, tuple):
            return tuple(int(part) for part in text.strip("()[]").split(",") if part.strip())
        if isinstance(default, int):
            return int(text)
        if isinstance(default, float):
            return float(text)
    except (ValueError, KeyError):
        kind = type(default).__name__
        raise PyptoKeyError(f"{key}={text!r}: a value of type {kind} is needed, such as {default!r}") from None
    return text


def powers(first: int, last: int) -> tuple[int, ...]:
    """first, 2 first, 4 first, ... up to last, both included."""
    sizes = [first]
    while sizes[-1] * 2 <= last:
        sizes.append(sizes[-1] * 2)
    return tuple(sizes)


def points(key: str, *values: int, **fixed: int) -> tuple[dict[str, int], ...]:
    """One size per value of `key`."""
    return tuple({key: value, **fixed} for value in values)
