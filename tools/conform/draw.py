"""Inputs of a case, drawn from its ranges with its name as the seed."""
from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

from .cases import Case, Spec

CHUNK = 1 << 22
FLT_MAX = float(np.finfo(np.float32).max)
WORDS = {"max": FLT_MAX, "min": -FLT_MAX, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def generator(case: Case) -> np.random.Generator:
    """Generator seeded by the case name."""
    return np.random.default_rng(zlib.crc32(case.name.encode()))


def number(word: Any) -> float | int:
    """A bound of a range; the words max and min are +-FLT_MAX."""
    return WORDS[word.lower()] if isinstance(word, str) else word


def limits(spec: Spec) -> tuple[Any, Any]:
    """(low, high) in order; the smallest integer for what an integer column cannot hold."""
    low, high = number(spec.low), number(spec.high)
    if spec.is_int:
        least = np.iinfo(spec.np_dtype).min
        low, high = (least if isinstance(w, str) or not math.isfinite(v) else v
                     for w, v in ((spec.low, low), (spec.high, high)))
    return (high, low) if high < low else (low, high)


def draw(rng: np.random.Generator, spec: Spec) -> np.ndarray:
    """Uniform in [low, high); integers truncated towards zero and wrapped; equal bounds give a constant."""
    shape = spec.stored
    if spec.raw:
        low, high = (0, 255) if spec.dtype != "fp8e8m0" else (max(0, int(number(spec.low))), 254)
        return rng.integers(low, high, shape, dtype=np.uint8, endpoint=True)
    low, high = limits(spec)
    if spec.dtype == "bool":
        return np.zeros(shape, bool) if low == high == 0 else rng.random(shape) < 0.5
    if spec.is_int:
        return _integers(rng, shape, low, high, spec.np_dtype)
    if low == high or low != low or math.isinf(low):
        return np.full(shape, low).astype(np.float32).astype(spec.np_dtype)
    out = np.empty(math.prod(shape), spec.np_dtype)
    for at in range(0, out.size, CHUNK):
        part = rng.random(min(CHUNK, out.size - at))
        with np.errstate(over="ignore"):
            out[at:at + CHUNK] = (low + part * (high - low)).astype(np.float32).astype(spec.np_dtype)
    return out.reshape(shape)


def _integers(rng: np.random.Generator, shape: tuple[int, ...], low: Any, high: Any, dtype: np.dtype) -> np.ndarray:
    if low == high:
        return np.full(shape, _wrap(int(low), dtype), dtype)
    if max(abs(low), abs(high)) >= 2**52:               # beyond the exact range of a double
        wide = np.uint64 if low >= 0 else np.int64
        low, high = int(low), min(int(high), int(np.iinfo(wide).max))
        return rng.integers(low, high, shape, dtype=wide, endpoint=high == np.iinfo(wide).max).astype(dtype)
    out = np.empty(math.prod(shape), dtype)
    for at in range(0, out.size, CHUNK):
        part = rng.random(min(CHUNK, out.size - at))
        out[at:at + CHUNK] = np.trunc(low + part * (high - low)).astype(np.int64).astype(dtype)
    return out.reshape(shape)


def _wrap(value: int, dtype: np.dtype) -> int:
    bits, unsigned = 8 * dtype.itemsize, dtype.kind == "u"
    value &= (1 << bits) - 1
    return value - (1 << bits) if not unsigned and value >> (bits - 1) else value


def draw_all(case: Case) -> list[np.ndarray]:
    """All inputs of a case."""
    rng = generator(case)
    return [draw(rng, t) for t in case.ins]


def distinct(rng: np.random.Generator, shape: tuple[int, ...], axis: int, low: int, high: int) -> np.ndarray:
    """Integers of [low, high) that differ along `axis`; falls back to any where the range is too short."""
    n, room = shape[axis], high - low
    if room < n:
        return rng.integers(low, high, shape)
    lines = math.prod(shape) // n if n else 0
    rows = np.empty((lines, n), np.int64)
    for r in range(lines):
        rows[r] = rng.permutation(room)[:n] + low
    moved = [s for i, s in enumerate(shape) if i != axis] + [n]
    return np.ascontiguousarray(np.moveaxis(rows.reshape(moved), -1, axis))
