"""Distances in units of the last place of a storage format."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def ulp_size(expected: np.ndarray, dtype: Any) -> np.ndarray:
    """Spacing of the numbers of `dtype` at `expected` (float64), subnormals included."""
    info = ml_dtypes.finfo(np.dtype(dtype))
    magnitude = np.abs(np.asarray(expected, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.floor(np.log2(np.where(magnitude > 0, magnitude, 1.0)))
    exponent = np.where(magnitude > 0, exponent, info.minexp)
    return 2.0 ** (np.clip(exponent, info.minexp, info.maxexp - 1) - info.nmant)


def ulp_distance(result: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|result - expected| in units of the last place of result's type at `expected` (float64 or integers).

    NaN beside NaN and equal infinities count 0, so does inf where `expected` rounds to inf; other mismatches of NaN or
    inf count inf. Integer and bool results count the difference.
    """
    result, expected = np.asarray(result), np.asarray(expected)
    if result.dtype == np.bool_ or np.issubdtype(result.dtype, np.integer):
        return np.abs(result.astype(object) - expected.astype(object)).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = expected.astype(result.dtype).astype(np.float64)
        wide = result.astype(np.float64)
        distance = np.abs(wide - expected) / ulp_size(expected, result.dtype)
    special = ~np.isfinite(wide) | ~np.isfinite(expected) | ~np.isfinite(rounded)
    same = (np.isnan(wide) & np.isnan(expected)) | (wide == rounded)
    return np.where(special, np.where(same, 0.0, np.inf), distance)
