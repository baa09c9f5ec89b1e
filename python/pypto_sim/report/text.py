"""Numbers and sizes as text, shared by all reports."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..run.error_band import LABELS


def bytes_text(count: float | None) -> str:
    """1536 -> "1.5 KiB"; powers of 1024."""
    if count is None:
        return "-"
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def time_text(us: float | None) -> str:
    """Microseconds as "12.3 us" or "4.56 ms"."""
    if us is None:
        return "-"
    return f"{us / 1e3:.2f} ms" if us >= 1e4 else f"{us:.1f} us"


def size_text(size: Mapping[str, Any]) -> str:
    """ "kv 4096, heads 16"."""
    return ", ".join(f"{k} {v}" for k, v in size.items())


def gm_bytes(estimate: Mapping[str, Any] | None) -> int | None:
    """Global-memory traffic both ways, None without an estimate."""
    return None if estimate is None else int(estimate["gm_read_bytes"] + estimate["gm_write_bytes"])


def first_line(text: str, limit: int = 0) -> str:
    """First line of a message, cut to `limit` characters if given."""
    line = text.splitlines()[0] if text else ""
    return line if not limit or len(line) <= limit else line[:limit - 3] + "..."


def verdict_of(row: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """Verdict with the reason behind it."""
    text = words[row["verdict"]]
    if row["reason"] and row["verdict"] != "pass":
        text += f" ({row['reason']['kind']})" if row["verdict"] == "fail" else ""
    return text + (f", {words['recommended']}" if row["recommended"] else "")


def command_of(run: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> str:
    """The command that makes this comparison again."""
    what, preset = run.get("file", run["operator"]), run["config"]["preset"]
    return (f"pypto-sim compare {what} --phase {run['phase']} --preset {preset} --device {run['device']} --model "
            f"{run['model']}")


def matching_lines(found: Mapping[str, Any], words: Mapping[str, str]) -> list[str]:
    """Operators of the guide seen in an explored kernel with what shows them, or that there is none."""
    lines = [f"{m['operator']}: {', '.join(m['evidence'])}" for m in found["matches"]]
    return lines or [words["no_match"]]


def advice_basis(found: Mapping[str, Any]) -> str:
    """What the recommendations of an explored kernel's operator are made from."""
    return (f"predicted cost of the guide's strategies at the sizes of a preset on {found['device']}, not of this "
            f"kernel; `pypto-sim compare {found['operator']}` runs and checks them")


def conditions(runs: Iterable[Mapping[str, Any]]) -> str:
    """What the numbers of comparisons are for: device and model."""
    first = next(iter(runs))
    return f"{first['device']}, model {first['model']}"


def error_line(runs: Iterable[Mapping[str, Any]]) -> str:
    """How far the model was from published times, for the kinds of kernels in the comparisons."""
    errors: dict[str, float] = {}
    for run in runs:
        for s in run["strategies"]:
            errors |= (s["estimate"] or {}).get("error_medians", {})
    found = ", ".join(f"{LABELS[name]} {100 * share:.0f} %" for name, share in errors.items())
    return f"median error against published times: {found}" if found else "not held against measured times"
