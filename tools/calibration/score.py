"""Scores of predictions: errors per family, device and tier, order of pairs, rank correlation, sources left out."""
from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .table import Row

SHORT_US = 8.0          # rows below are scored in microseconds
APART = 1.15            # pairs that differ by less say nothing about order
Records = list[dict[str, Any]]


def error(record: dict[str, Any]) -> float:
    """Relative error; 1 where nothing is predicted."""
    return 1.0 if record["predicted_us"] is None else record["predicted_us"] / record["measured_us"] - 1


def timed(records: Iterable[dict[str, Any]], tiers: str = "AB") -> Records:
    return [r for r in records if r["measured_us"] and r["tier"] in tiers]


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(q * len(ordered)) - 1)] if ordered else math.nan


def errors(records: Records) -> dict[str, Any]:
    """rows, predicted, median and 90th percentile of the absolute error, share within a factor of two, bias."""
    sizes = [abs(error(r)) for r in records]
    if not sizes:
        return {"rows": 0}
    ratios = [r["predicted_us"] / r["measured_us"] for r in records if r["predicted_us"] is not None]
    short = [abs(r["predicted_us"] - r["measured_us"]) for r in records
             if r["predicted_us"] is not None and r["measured_us"] < SHORT_US]
    return {"rows": len(records), "predicted": len(ratios), "median": statistics.median(sizes),
            "p90": quantile(sizes, 0.9), "within_2x": sum(0.5 <= x <= 2 for x in ratios) / len(records),
            "bias": statistics.median(ratios) - 1 if ratios else None, "short_rows": len(short),
            "short_median_us": statistics.median(short) if short else None}


def ranks(values: list[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    for _, group in itertools.groupby(enumerate(order), key=lambda e: values[e[1]]):
        members = list(group)
        mean = sum(at for at, _ in members) / len(members)
        for _, i in members:
            out[i] = mean
    return out


def rank_correlation(records: Records) -> float | None:
    """Spearman's coefficient of measured and predicted times."""
    known = [r for r in records if r["predicted_us"] is not None]
    if len(known) < 3:
        return None
    a = ranks([r["measured_us"] for r in known])
    b = ranks([r["predicted_us"] for r in known])
    try:
        return statistics.correlation(a, b)
    except statistics.StatisticsError:
        return None


def group_of(row: Row) -> str:
    """Where the rows come from: repository and file or pull request, without the case number."""
    text = row.source.partition("#")[0]
    return text.split(" + ")[0] if " + " in text else text


def pairs(rows: list[Row], records: Records) -> dict[str, Any]:
    """Pairs of one device, operator and type, more than 15 % apart, that do not differ in the implementation only."""
    groups: dict[tuple, list[tuple[Row, dict[str, Any]]]] = defaultdict(list)
    for row, record in zip(rows, records, strict=True):
        if record["measured_us"] and row.tier in "AB":
            groups[(record["device"], row.operator, row.dtype)].append((row, record))
    right = total = 0
    equal_shape = []
    for members in groups.values():
        for (a, x), (b, y) in itertools.combinations(members, 2):
            low, high = sorted((x["measured_us"], y["measured_us"]))
            same = (a.shape, a.attrs_text, a.tile_config, a.cache_state, a.cores) == (
                b.shape, b.attrs_text, b.tile_config, b.cache_state, b.cores)
            if high < APART * low or (same and a.n_kernels == b.n_kernels):
                continue
            known = x["predicted_us"] is not None and y["predicted_us"] is not None
            ok = known and (x["predicted_us"] - y["predicted_us"]) * (x["measured_us"] - y["measured_us"]) > 0
            total += 1
            right += ok
            if a.shape == b.shape:
                equal_shape.append({"ids": [a.id, b.id], "shape": a.shape,
                                    "tile_config": [a.tile_config, b.tile_config],
                                    "measured_us": [x["measured_us"], y["measured_us"]],
                                    "predicted_us": [x["predicted_us"], y["predicted_us"]], "right": ok})
    return {"pairs": total, "right": right, "share": right / total if total else None, "equal_shape": equal_shape}


def left_out(rows: list[Row], records: Records) -> dict[str, dict[str, float | int]]:
    """Median error of the scored rows without those of one source, and of that source alone."""
    by_source: dict[str, Records] = defaultdict(list)
    for row, record in zip(rows, records, strict=True):
        if record["measured_us"] and row.tier in "AB":
            by_source[group_of(row)].append(record)
    out = {}
    for source in sorted(by_source):
        rest = [r for name, group in by_source.items() if name != source for r in group]
        alone = [abs(error(r)) for r in by_source[source]]
        out[source] = {"rows": len(alone), "alone": statistics.median(alone),
                       "others": statistics.median([abs(error(r)) for r in rest]) if rest else math.nan}
    return out


def summary(rows: list[Row], records: Records) -> dict[str, Any]:
    """Every score of a run."""
    scored = timed(records)
    tables: dict[str, Any] = {}
    for name, key in (("family", lambda r: r["family"]), ("operator", lambda r: r["operator"]),
                      ("device", lambda r: r["device"]),
                      ("family_device_tier", lambda r: f"{r['family']} {r['device']} {r['tier']}")):
        groups: dict[str, Records] = defaultdict(list)
        for r in timed(records, "ABC") if name == "family_device_tier" else scored:
            groups[str(key(r))].append(r)
        tables[name] = {k: errors(groups[k]) for k in sorted(groups)}
    known = {r["id"] for r in records}
    tiled = [r for row, r in zip(rows, records, strict=True)
             if row.family == "gemm" and row.tile_config and r["measured_us"] and row.tier == "A"]
    named = {r["id"] for r in tiled}
    plain = [r for r in scored if r["family"] == "gemm" and r["id"] not in named]
    return {
        "rows": len(known), "scored": errors(scored), "gemm_known_tiles": errors(tiled), "gemm_other": errors(plain),
        **tables, "pairs": pairs(rows, records),
        "rank_correlation": {op: rank_correlation([r for r in scored if r["operator"] == op])
                             for op in sorted({r["operator"] for r in scored})},
        "left_out": left_out(rows, records),
        "unpredicted": {r["id"]: r["reason"] for r in records if r["predicted_us"] is None},
    }


def show(rows: list[Row], result: dict[str, Any]) -> None:
    """Tables for a terminal."""
    from rich.console import Console
    from rich.table import Table
    console = Console()
    s = result["summary"]
    for name in ("family", "operator", "family_device_tier"):
        table = Table(title=name.replace("_", ", "))
        for column in ("", "rows", "predicted", "median", "p90", "within 2x", "bias", "< 8 us: median"):
            table.add_column(column, justify="left" if not column else "right")
        entries = dict(s[name])
        if name == "family":
            entries |= {"gemm, known tiles": s["gemm_known_tiles"], "gemm, other": s["gemm_other"], "all": s["scored"]}
        for key, e in entries.items():
            if not e["rows"]:
                continue
            table.add_row(key, str(e["rows"]), str(e["predicted"]), *(percent(e[c]) for c in (
                "median", "p90", "within_2x", "bias")), "" if e["short_median_us"] is None else
                f"{e['short_median_us']:.2f} us ({e['short_rows']})")
        console.print(table)
    p = s["pairs"]
    console.print(f"pairs in the right order: {p['right']} of {p['pairs']}")
    for pair in p["equal_shape"]:
        console.print(f"  {pair['ids']} {pair['shape'][:60]}: {pair['measured_us']} -> {pair['predicted_us']} "
                      f"{'right' if pair['right'] else 'WRONG'}")
    for key, reason in s["unpredicted"].items():
        console.print(f"not predicted: {key}: {reason}", markup=False)


def percent(x: float | None) -> str:
    return "" if x is None or math.isnan(x) else f"{100 * x:.0f} %"
