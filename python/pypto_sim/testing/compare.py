"""Comparisons of kernel results with goldens: ULP, relative with an outlier budget. NaN must stand where it should.

`compare_*` return a Comparison, `assert_*` raise AssertionError with its text: how many elements are wrong, a table of
the worst, and the operation that first produced an unexpected NaN.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import PyptoValueError
from .arrays import as_array, wide
from .launches import origin_of_nan
from .ulp import ulp_distance

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Comparison:
    """Outcome. wrong: elements outside the limit; allowed: outliers that may be; worst: largest excess over the limit
    (1 is the limit); rows: table of the worst elements, largest first; notes: further lines."""

    passed: bool
    title: str
    count: int
    wrong: int
    allowed: int
    worst: float
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        lines = [self.title]
        if self.rows:
            widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
            lines += ["  " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True))
                      for row in (self.columns, *self.rows)]
            if self.wrong > len(self.rows):
                lines.append(f"  ... and {self.wrong - len(self.rows)} more")
        return "\n".join([*lines, *self.notes])


def compare_ulp(actual: Any, expected: Any, max_ulp: float = 1.0, *, atol: float = 0.0,
                outliers: float = 0.0) -> Comparison:
    """|actual - expected| in units of the last place of actual's element type, at `expected`.

    actual: result, any element type; expected: golden of the same shape, best in float64. An element is right within
    `max_ulp` or within `atol`. outliers: share of the elements that may be further off; never NaN or inf.
    """
    got, want = _pair(actual, expected)
    distance = ulp_distance(got, wide(want) if want.dtype.kind not in "iub" else want)
    with np.errstate(invalid="ignore"):
        error = np.abs(wide(got) - wide(want))
    ratio = np.where(error <= atol, 0.0, distance / max_ulp if max_ulp else np.where(distance > 0, np.inf, 0.0))
    return _judged("ulp", got, want, ratio, outliers, actual,
                   f"{max_ulp:g} ULP of {got.dtype}" + (f" and {atol:g}" if atol else ""),
                   ("|error|", "ULP"), (error, distance))


def compare_relative(actual: Any, expected: Any, rtol: float, atol: float = 0.0, *, outliers: float = 0.0,
                     outlier_factor: float | None = None) -> Comparison:
    """|actual - expected| <= atol + rtol |expected|, element by element.

    outliers: share of the elements that may be further off, at most `outlier_factor` times the limit (None: any
    distance); never NaN or inf.
    """
    got, want = _pair(actual, expected)
    a, b = wide(got), wide(want)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.abs(a - b)
        limit = atol + rtol * np.abs(b)
        ratio = np.where(error == 0, 0.0, error / limit)
        relative = np.where(error == 0, 0.0, error / np.abs(b))
    same = (np.isnan(a) & np.isnan(b)) | (a == b)
    special = ~np.isfinite(a) | ~np.isfinite(b)
    ratio = np.where(same, 0.0, np.where(special, np.inf, ratio))
    text = f"{rtol:g} relative" + (f" + {atol:g}" if atol else "")
    return _judged("relative", got, want, ratio, outliers, actual, text, ("|error|", "relative"), (error, relative),
                   outlier_factor)


def assert_ulp(actual: Any, expected: Any, max_ulp: float = 1.0, *, atol: float = 0.0, outliers: float = 0.0) -> None:
    """Raises AssertionError with a table unless `compare_ulp` passes."""
    _require(compare_ulp(actual, expected, max_ulp, atol=atol, outliers=outliers))


def assert_relative(actual: Any, expected: Any, rtol: float, atol: float = 0.0, *, outliers: float = 0.0,
                    outlier_factor: float | None = None) -> None:
    """Raises AssertionError with a table unless `compare_relative` passes."""
    _require(compare_relative(actual, expected, rtol, atol, outliers=outliers, outlier_factor=outlier_factor))


def _require(found: Comparison) -> None:
    __tracebackhide__ = True
    if not found.passed:
        raise AssertionError(str(found))


def _pair(actual: Any, expected: Any) -> tuple[np.ndarray, np.ndarray]:
    got, want = as_array(actual), as_array(expected)
    if got.shape != want.shape:
        if want.ndim:
            raise AssertionError(f"shapes differ: the result is {list(got.shape)}, the golden {list(want.shape)}")
        want = np.broadcast_to(want, got.shape)
    return got, want


def _judged(kind: str, got: np.ndarray, want: np.ndarray, ratio: np.ndarray, outliers: float, actual: Any, limit: str,
            columns: tuple[str, ...], figures: tuple[np.ndarray, ...], factor: float | None = None) -> Comparison:
    if not 0 <= outliers <= 1:
        raise PyptoValueError(f"outliers is a share between 0 and 1, got {outliers!r}")
    flat = np.asarray(ratio, np.float64).reshape(-1)
    wrong = int((flat > 1).sum())
    allowed = int(outliers * flat.size + 1e-6)
    beyond = np.isinf(flat) if factor is None else flat > factor
    passed = wrong <= allowed and not bool(beyond.any())
    order = np.argsort(-flat, kind="stable")[:min(SHOWN, wrong)]
    rows = tuple((str([int(i) for i in np.unravel_index(at, got.shape)]), _text(got.reshape(-1)[at]),
                  _text(want.reshape(-1)[at]), *(_text(f.reshape(-1)[at]) for f in figures)) for at in order)
    worst = float(flat.max(initial=0.0))
    title = (f"{wrong} of {flat.size} elements are further off than {limit}, {allowed} may be; worst {worst:.3g} x the "
             "limit")
    if wrong <= allowed and not passed:
        title += f"; {int(beyond.sum())} too far for an outlier"
    notes = () if passed else _nan_notes(got, want, actual)
    return Comparison(passed, f"compare_{kind}: {title}", flat.size, wrong, allowed, worst,
                      ("index", "result", "golden", *columns), rows, notes)


def _nan_notes(got: np.ndarray, want: np.ndarray, actual: Any) -> tuple[str, ...]:
    a, b = np.isnan(wide(got)), np.isnan(wide(want))
    unexpected, missing = int((a & ~b).sum()), int((b & ~a).sum())
    if not unexpected and not missing:
        return ()
    notes = [f"NaN: {unexpected} where the golden has none, {missing} missing"]
    if unexpected and (origin := origin_of_nan(actual)):
        notes.append(origin)
    return tuple(notes)


def _text(value: Any) -> str:
    return str(int(value)) if np.asarray(value).dtype.kind in "iub" else f"{float(value):.7g}"
