"""Results against expected values, within a tolerance of the table."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from pypto_sim.testing.ulp import ulp_size

from .cases import rounded

CHUNK = 1 << 22
Lazy = Callable[[], Any]


@dataclass(slots=True)
class Expected:
    """One expected result.

    value: float64, or exact integers, or bytes. ulp: allowed units of the output type at the rounded value. extra:
    further absolute error, an array or a function that makes it (asked only where `ulp` alone fails). skip: elements
    without a defined result, likewise. step: a difference that passes as well. share: part of the elements that may
    be off by one unit. unit: type whose units count where it is not the output's.
    """

    value: np.ndarray
    ulp: float = 0.0
    extra: Any = None
    skip: Any = None
    step: Any = None
    share: float = 0.0
    unit: np.dtype | None = None
    nan_free: bool = False            # bytes of an 8-bit float: NaN of either sign is the same
    bits: bool = False                # compare bit patterns


def _made(lazy: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.asarray(lazy() if callable(lazy) else lazy), shape).reshape(-1)


def check(got: np.ndarray, expected: Expected) -> str:
    """"" when `got` passes, else the worst element and how many fail."""
    want = np.asarray(expected.value)
    if expected.bits:
        got, want = (x.view(f"u{x.dtype.itemsize}") for x in (got, want))
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    flat, goal = got.reshape(-1), want.reshape(-1)
    bad = np.concatenate([np.flatnonzero(_wrong(flat[i:i + CHUNK], goal[i:i + CHUNK], expected)) + i
                          for i in range(0, flat.size, CHUNK)] or [np.empty(0, np.int64)])
    if bad.size and expected.skip is not None:
        bad = bad[~_made(expected.skip, want.shape)[bad]]
    if bad.size and expected.extra is not None:
        extra = _made(expected.extra, want.shape)[bad]
        bad = bad[~(_distance(flat[bad], goal[bad], expected) <= extra)]
    if bad.size and expected.step is not None:
        step = _made(expected.step, want.shape)[bad]
        units = ulp_size(step, expected.unit or got.dtype) if got.dtype.kind not in "iub" else 0.0
        with np.errstate(invalid="ignore"):
            off = np.abs(np.abs(flat[bad].astype(np.float64) - goal[bad].astype(np.float64)) - np.abs(step))
        bad = bad[~(off <= 2 * units)]
    if bad.size and expected.share:
        near = np.abs(flat[bad].astype(np.int64) - goal[bad].astype(np.int64)) <= 1
        if near.all() and bad.size <= max(1, expected.share * flat.size):
            bad = bad[:0]
    if not bad.size:
        return ""
    at = int(bad[0])
    place = [int(i) for i in np.unravel_index(at, got.shape)]
    return f"{bad.size} of {flat.size} differ, first at {place}: {flat[at]!r}, expected {goal[at]!r}"


def _wrong(got: np.ndarray, want: np.ndarray, expected: Expected) -> np.ndarray:
    if got.dtype.kind in "iub":
        wrong = got != want
        if expected.nan_free:
            wrong &= ~(((got & 0x7F) == 0x7F) & ((want & 0x7F) == 0x7F))
        return wrong
    near = rounded(want, got.dtype)
    wide = got.astype(np.float64)
    wrong = ~((wide == near) | (np.isnan(wide) & np.isnan(near)))
    if wrong.any() and expected.ulp:
        some = np.flatnonzero(wrong)
        keep = _distance(got[some], want[some], expected) <= 0
        wrong[some[keep]] = False
    return wrong


def _distance(got: np.ndarray, want: np.ndarray, expected: Expected) -> np.ndarray:
    """|got - rounded want| less the allowed units; inf counts as the number after the largest one."""
    if got.dtype.kind in "iub":
        return np.abs(got.astype(np.float64) - want.astype(np.float64))
    top = 2.0 ** ml_dtypes.finfo(got.dtype).maxexp
    near, wide = rounded(want, got.dtype), got.astype(np.float64)
    exact = np.isinf(want) | np.isnan(want) | np.isnan(wide)          # these have to be equal
    finite = lambda x: np.where(np.isinf(x), np.copysign(top, x), x)
    with np.errstate(invalid="ignore"):
        allowed = expected.ulp * ulp_size(finite(near), expected.unit or got.dtype)
        distance = np.abs(finite(wide) - finite(near)) - allowed
    return np.where(exact, np.where((wide == near) | (np.isnan(wide) & np.isnan(near)), -np.inf, np.inf), distance)
