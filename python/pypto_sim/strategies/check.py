"""Numerics of a strategy against its float64 golden."""
from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import CapacityError, PyptoError, PyptoWarning
from . import inputs as inputs_
from .base import DTYPES, Config, Launch, Strategy, Tolerance

MANTISSA_BITS = {"bf16": 8, "fp16": 11, "fp32": 24}      # significand bits, the hidden one included
MIN_EXPONENT = {"bf16": -126, "fp16": -14, "fp32": -126}
BLOCK_ELEMENTS = 1 << 22                                 # comparison works in float64 blocks of this size


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a strategy does not do: kind "capacity", "rule", "accuracy" or "error"."""

    kind: str
    rule: str | None
    text: str
    line: str | None

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rule": self.rule, "text": self.text, "line": self.line}


@dataclass(slots=True)
class Accuracy:
    """Distance to the golden. `excess` is the largest err / allowed, `share` the part of the elements above 1."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    rtol: float = 0.0
    atol: float = 0.0
    excess: float = 0.0
    passed: bool = True
    what: str = ""
    extra: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, float]:
        numbers = {"max_abs": self.max_abs, "max_rel": self.max_rel, "max_ulp": self.max_ulp, "rtol": self.rtol,
                   "atol": self.atol, **self.extra}
        return {name: float(value) for name, value in numbers.items()}


def reason_of(error: BaseException) -> Reason:
    """The reason an exception stands for."""
    rule = getattr(error, "rule", "") or None
    kind = "capacity" if isinstance(error, CapacityError) else "rule" if rule else "error"
    text = str(error) if isinstance(error, PyptoError) else f"{type(error).__name__}: {error}"
    return Reason(kind, rule, text, getattr(error, "line", "") or None)


def ulp(values: np.ndarray, dtype: str) -> np.ndarray:
    """Spacing of `dtype` at float64 `values`."""
    _, exponent = np.frexp(values)
    floor = MIN_EXPONENT[dtype] + 1
    return np.ldexp(1.0, np.maximum(exponent, floor) - MANTISSA_BITS[dtype])


def measure(got: np.ndarray, golden: np.ndarray, dtype: str, tolerance: Tolerance) -> Accuracy:
    """Compare `got` (rounded to `dtype`) with the float64 `golden` of the same shape."""
    if got.shape != golden.shape:
        raise ValueError(f"result has shape {got.shape}, golden {golden.shape}")
    last = golden.shape[-1] if golden.ndim else 1
    wide = golden.reshape(-1, last)
    flat = got.reshape(-1, last)
    found = Accuracy(rtol=tolerance.rtol, atol=tolerance.atol)
    above = 0
    rows = max(1, BLOCK_ELEMENTS // last)
    for start in range(0, wide.shape[0], rows):
        g = wide[start:start + rows]
        error = np.abs(flat[start:start + rows].astype(np.float64) - g)
        error[np.isnan(error)] = np.inf
        size = np.abs(g)
        allowed = tolerance.atol + tolerance.rtol * size
        if tolerance.row_max:
            allowed = allowed + tolerance.row_max * size.max(axis=-1, keepdims=True)
        spacing = ulp(g, dtype) if dtype in MANTISSA_BITS else None
        floor = tolerance.atol + (tolerance.row_max * size.max(axis=-1, keepdims=True) if tolerance.row_max else 0.0)
        counted = size > floor        # relative figures of elements that the absolute part covers would say nothing
        if spacing is not None:
            found.max_ulp = max(found.max_ulp, float((error / spacing)[counted].max(initial=0.0)))
            allowed = allowed + tolerance.output_ulp * spacing
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(error > 0, error / allowed, 0.0)
        if counted.any():
            found.max_rel = max(found.max_rel, float((error[counted] / size[counted]).max()))
        found.max_abs = max(found.max_abs, float(error.max(initial=0.0)))
        found.excess = max(found.excess, float(excess.max(initial=0.0)))
        above += int((excess > 1).sum())
    outliers_fit = found.excess <= 2 and above <= tolerance.outliers * golden.size
    found.passed = above == 0 or outliers_fit
    return found


@dataclass(slots=True)
class Run:
    """Tensors after the launches, and what was warned about."""

    tensors: dict[str, np.ndarray]
    warnings: list[PyptoWarning]


@contextlib.contextmanager
def collected() -> Iterator[list[PyptoWarning]]:
    """Catch the package's warnings, silence prints of kernels, and hand all other warnings on."""
    found: list[PyptoWarning] = []
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always", PyptoWarning)
        yield found
    for item in caught:
        if isinstance(item.message, PyptoWarning):
            found.append(item.message)
        else:
            warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)


def launch(launches: tuple[Launch, ...], tensors: Mapping[str, np.ndarray]) -> list[PyptoWarning]:
    """Run kernels on arrays in order; returns the warnings."""
    with collected() as found:
        for one in launches:
            one.kernel(*(tensors[name] for name in one.args), *one.scalars)
    return found


def run(operator: Any, strategy: Strategy, config: Config, preset: str,
        cache: inputs_.InputCache | None = None, launches: tuple[Launch, ...] | None = None) -> Run:
    """Numerics of a strategy at one config. Raises what the kernels raise."""
    args = inputs_.tensors(operator, strategy, config)
    arrays = (cache or inputs_.InputCache()).arrays(preset, args) | inputs_.outputs(args)
    arrays = inputs_.aliased(arrays, args)
    found = launch(tuple(strategy.launches(config)) if launches is None else launches, arrays)
    return Run(arrays, found)


def check(module: Any, strategy: Strategy, config: Config, preset: str, cache: inputs_.InputCache | None = None,
          goldens: dict[Any, Any] | None = None, sample: Any = None) -> tuple[Accuracy, list[PyptoWarning]]:
    """Run every part of a strategy at one config and compare. Returns the worst accuracy and the warnings.

    goldens: kept between the strategies of one config. sample: rows to compare, see the module's `golden`.
    """
    operator = module.OPERATOR
    args = inputs_.tensors(operator, strategy, config)
    cache = cache or inputs_.InputCache()
    worst: Accuracy | None = None
    found: list[PyptoWarning] = []
    known: dict[Any, Any] = {} if goldens is None else goldens
    for part in strategy.parts(config):
        result = run(operator, strategy, config, preset, cache, part.launches or None)
        found += result.warnings
        if part.golden not in known:
            fed = {name: array for name, array in result.tensors.items() if args[name].role == "in"}
            known[part.golden] = module.golden(config, fed, part.golden, sample)
        golden = known[part.golden]
        if strategy.judge is not None:
            accuracy = strategy.judge(config, result.tensors, golden, part, sample)
        else:
            got = result.tensors[part.output]
            accuracy = measure(got if sample is None else sample.pick(got), golden, args[part.output].dtype,
                               part.tolerance)
        accuracy.what = part.golden
        if worst is None or accuracy.excess > worst.excess or (worst.passed and not accuracy.passed):
            worst = accuracy
    assert worst is not None, f"{strategy.id} has no part to judge"
    return worst, found


def as_float64(array: np.ndarray) -> np.ndarray:
    """float64 copy of an array of any element type."""
    return np.asarray(array).astype(np.float64)


def dtype_of(config: Config) -> Any:
    """pypto element type of config["dtype"]."""
    return DTYPES[config["dtype"]]


__all__ = ["Accuracy", "Reason", "Run", "as_float64", "check", "collected", "dtype_of", "launch", "measure",
           "reason_of", "run", "ulp"]
