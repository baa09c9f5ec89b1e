"""`pypto-sim diff BASE.json NEW.json --fail-over P%`: what became slower or moves more bytes."""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ..errors import PyptoKeyError, PyptoValueError
from . import shared

NAME, HELP = "diff", "compare two results of compare, guide or profile"
FIGURES = ("time_us", "gm_bytes")


def arguments(parser: Any) -> None:
    parser.add_argument("base", metavar="BASE.json")
    parser.add_argument("new", metavar="NEW.json")
    parser.add_argument("--fail-over", default="0%", metavar="P%",
                        help="fail when time or GM bytes of any matched key rise by more (default 0%%)")
    shared.json_option(parser)


def figures(estimate: dict[str, Any]) -> dict[str, float]:
    """time_us and gm_bytes of an estimate."""
    return {"time_us": estimate["time_us"], "gm_bytes": estimate["gm_read_bytes"] + estimate["gm_write_bytes"]}


def entries(document: Any) -> dict[str, dict[str, float]]:
    """Figures per key of any JSON form: guide, compare, profile, or a bare estimate.

    Raises PyptoValueError for anything else, and for such a form with entries missing.
    """
    try:
        return _entries(document)
    except (AttributeError, KeyError, TypeError) as e:
        raise PyptoValueError(f"a result of compare, guide or profile with entries missing ({type(e).__name__}: {e}); "
                              "give the file as it was written") from None


def _entries(document: Any) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    if isinstance(document, dict) and "runs" in document:
        for run in document["runs"]:
            found |= _entries(run)
    elif isinstance(document, dict) and "strategies" in document:
        head = f"{document['operator']}/{document['phase']}/{document['config']['preset']}"
        for one in document["strategies"]:
            if one["estimate"]:
                found[f"{head}/{one['id']}/check"] = figures(one["estimate"])
            for point in one["points"]:
                if point["estimate"]:
                    size = ",".join(f"{k}={v}" for k, v in sorted(point["size"].items()))
                    found[f"{head}/{one['id']}/{size}"] = figures(point["estimate"])
    elif isinstance(document, dict) and "launches" in document and isinstance(document["launches"], list):
        counts: dict[tuple[str, str], int] = {}    # launches of a kernel so far
        for one in document["launches"]:
            test, kernel = one.get("test", ""), one["kernel"]      # test: of a report of the pytest plugin
            at = counts[test, kernel] = counts.get((test, kernel), -1) + 1
            found[f"{test}/{at}/{kernel}".lstrip("/")] = figures(one["estimate"])
    elif isinstance(document, dict) and "time_us" in document:
        found["estimate"] = figures(document)
    else:
        raise PyptoValueError("not a result of compare, guide, profile or an estimate")
    return found


def percent(text: str) -> float:
    """ "5%" or "5" as 5.0. Raises PyptoKeyError for what is no number of at least 0."""
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise PyptoKeyError(f"--fail-over takes a percentage of at least 0, such as 5%, got {text!r}")
    return value


def read(path: str) -> Any:
    """A JSON file. Raises PyptoKeyError when there is none."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as e:
        raise PyptoKeyError(f"{path}: {e.strerror}") from None
    except ValueError as e:                  # no JSON, or no text
        raise PyptoKeyError(f"{path}: not a JSON file ({e}); give what --json printed, or estimate.json") from None


def _number(value: float) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def run(args: Any) -> int:
    from ..report.tables import table
    limit = percent(args.fail_over)
    base, new = entries(read(args.base)), entries(read(args.new))
    changes, failed = [], []
    for key in base:
        if key not in new:
            continue
        for name in FIGURES:
            a, b = base[key][name], new[key][name]
            rise = (b / a - 1) * 100 if a else (0.0 if b == a else float("inf"))
            if b != a:
                changes.append({"key": key, "figure": name, "base": a, "new": b, "percent": rise})
            if rise > limit:
                failed.append(changes[-1])
    only = {"base": sorted(set(base) - set(new)), "new": sorted(set(new) - set(base))}
    if args.json:
        shared.print_json({"schema": 1, "matched": len(set(base) & set(new)), "fail_over_percent": limit,
                           "changes": changes, "failed": failed, "only_in_base": only["base"],
                           "only_in_new": only["new"]})
    else:
        title = (f"{len(set(base) & set(new))} matched keys, {len(changes)} changes, {len(failed)} rise by more than "
                 f"{limit:g} %")
        shared.print_tables(table(title, ("key", "figure", "base", "new", "change"),
                                  [(c["key"], c["figure"], _number(c["base"]), _number(c["new"]),
                                    f"{c['percent']:+.1f} %") for c in changes]))
        for side, keys in only.items():
            if keys:
                print(f"only in {side}: {', '.join(keys)}")
    if not set(base) & set(new):
        print("no key is in both files: nothing was compared", file=sys.stderr)
        return 1
    return 1 if failed else 0
