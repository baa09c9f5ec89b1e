"""How far the calibrated model was from published kernel times, for the kind of work an estimate holds.

`accuracy.json` is written by `tools/accuracy.py --write`: {family: {chip: {rows, median, p90}}}.
"""
from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("accuracy.json")
OFFICIAL = "the public 0.2.0 simulator's model: it is compared with that simulator, not with hardware"
CUBE = frozenset({"A_MUL_B", "A_MULACC_B", "MATMUL_TILE"})
OTHER = ("GATHER", "SCATTER", "SORT", "MRG", "TRANSPOSE", "INDEX", "EXTRACT", "CUM_", "TRIUL", "INTERLEAVE", "TOPK")
LABELS = {"gemm": "matrix products", "decode_attention": "decode attention", "prefill_attention": "prefill attention",
          "reduction": "reductions and norms", "streaming": "streaming kernels",
          "other": "gathers, sorting and transposes"}


@functools.cache
def measured() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    return json.loads(DATA.read_text(encoding="utf-8"))


def families(operations: Iterable[str]) -> tuple[str, ...]:
    """Families of published rows that kernels of these tile operations resemble."""
    names = set(operations)
    rows = any(n.startswith(("ROW", "PAIR")) for n in names)
    if names & CUBE:                         # a softmax between products; an activation behind one has no row sums
        return ("decode_attention", "prefill_attention") if rows and "EXP" in names else ("gemm",)
    if any(n.startswith(OTHER) for n in names):
        return ("other",)
    return ("reduction",) if rows else ("streaming",)


def error_medians(model: str, chip: str, operations: Iterable[str]) -> dict[str, float]:
    """{family: median error} of published rows of the families that kernels of these operations resemble."""
    known = measured() if model == "calibrated" else {}
    return {family: known[family][chip]["median"] for family in families(operations) if chip in known.get(family, {})}


def error_band(model: str, chip: str, operations: Iterable[str], own_table: bool = False) -> str:
    """One sentence: median and 90th percentile of the error of published rows of the same family and chip."""
    if model != "calibrated":
        return OFFICIAL
    if own_table:
        return "the user's device table: nothing measured to compare with"
    parts = []
    for family in families(operations):
        found: Any = measured().get(family, {}).get(chip)
        label = f"{LABELS[family]} on {chip}"
        parts.append(f"{label}: median error {found['median']:.0%}, 90th percentile {found['p90']:.0%} "
                     f"({found['rows']} rows)" if found else f"{label}: no published row")
    return "published kernel times, " + "; ".join(parts)
