"""Top-k results, where equal scores may come in any order."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import PyptoValueError
from .arrays import as_array, wide
from .compare import SHOWN, Comparison, _require
from .launches import origin_of_nan


def compare_topk(values: Any, indices: Any, scores: Any, *, largest: bool = True, sorted: bool = True, dim: int = -1,
                 rtol: float = 0.0, atol: float = 0.0) -> Comparison:
    """Whether `values` and `indices` are the top k of `scores` along `dim`, ties in any order.

    values, indices: [..., k], one of them may be None; scores: [..., n]. Per row: the indices lie in range and differ,
    `scores` at them are `values`, the values are the k best, and in order if `sorted`. rtol, atol: how far a value may
    be from its score, and a chosen score from the k-th best (for scores that the kernel computed itself). NaN counts
    as the largest score, as in torch.
    """
    if values is None and indices is None:
        raise PyptoValueError("compare_topk needs values, indices or both")
    table = np.moveaxis(wide(as_array(scores)), dim, -1)
    found = None if values is None else np.moveaxis(wide(as_array(values)), dim, -1)
    places = None if indices is None else np.moveaxis(as_array(indices).astype(np.int64), dim, -1)
    shapes = {a.shape for a in (found, places) if a is not None}
    shape = shapes.pop()
    if shapes or shape[:-1] != table.shape[:-1] or not 0 < shape[-1] <= table.shape[-1]:
        raise AssertionError(f"shapes do not fit: values {None if found is None else list(found.shape)}, indices "
                             f"{None if places is None else list(places.shape)}, scores {list(table.shape)} (the axis "
                             "of the choice last)")
    k, n = shape[-1], table.shape[-1]
    rows = []
    wrong = 0
    for at in np.ndindex(shape[:-1]):
        problem = _problem(None if found is None else found[at], None if places is None else places[at], table[at],
                           k, n, largest, sorted, rtol, atol)
        if problem:
            wrong += 1
            if len(rows) < SHOWN:
                rows.append((str(list(at)), *problem))
    total = int(np.prod(shape[:-1]))
    notes = ()
    if found is not None and np.isnan(found).any() and not np.isnan(table).any():
        notes = (f"NaN: {int(np.isnan(found).sum())} where the scores have none", origin_of_nan(values))
    return Comparison(not wrong, f"compare_topk: {wrong} of {total} rows are no top {k} of {n}", total, wrong, 0,
                      float(bool(wrong)), ("row", "problem", "result", "golden"), tuple(rows), notes)


def assert_topk(values: Any, indices: Any, scores: Any, *, largest: bool = True, sorted: bool = True, dim: int = -1,
                rtol: float = 0.0, atol: float = 0.0) -> None:
    """Raises AssertionError with a table unless `compare_topk` passes."""
    _require(compare_topk(values, indices, scores, largest=largest, sorted=sorted, dim=dim, rtol=rtol, atol=atol))


def _problem(found: Any, places: Any, row: np.ndarray, k: int, n: int, largest: bool, ordered: bool, rtol: float,
             atol: float) -> tuple[str, str, str] | None:
    """(what, got, expected) of a wrong row."""
    best = _best(row, k, largest)
    if places is not None:
        if ((places < 0) | (places >= n)).any():
            return f"index out of 0..{n - 1}", _few(places), ""
        if len(set(places.tolist())) < k:
            return "an index twice", _few(places), ""
        chosen = row[places]
        if found is not None and not _close(found, chosen, rtol, atol).all():
            return "values are not the scores at the indices", _few(found), _few(chosen)
    else:
        chosen = found
    if not _close(_best(chosen, k, largest), best, rtol, atol).all():
        return "not the best", _few(chosen), _few(best)
    given = chosen if found is None else found
    if ordered and not _close(given, _best(given, k, largest), rtol, atol).all():
        return "not in order", _few(given), _few(best)
    return None


def _best(row: np.ndarray, k: int, largest: bool) -> np.ndarray:
    ascending = np.sort(row)                     # NaN last
    return ascending[::-1][:k] if largest else ascending[:k]


def _close(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    return np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)


def _few(values: np.ndarray) -> str:
    shown = ", ".join(f"{v:.6g}" for v in values[:6])
    return f"[{shown}{', ...' if len(values) > 6 else ''}]"
