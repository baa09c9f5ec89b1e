"""rich tables of comparisons, guides, operations and devices."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .text import (
    advice_basis,
    bytes_text,
    conditions,
    error_line,
    first_line,
    gm_bytes,
    matching_lines,
    size_text,
    time_text,
    verdict_of,
)
from .words import words

_STYLE = {"pass": "green", "fail": "red", "not_applicable": "dim"}


def console(stderr: bool = False) -> Any:
    """A rich console; plain text and at least 120 columns wide when it is not a terminal."""
    from rich.console import Console
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made = Console(stderr=stderr, highlight=False, width=160)
    return made


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Any:
    """A rich table of text, below its title."""
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text
    made = Table(header_style="bold", show_edge=False, pad_edge=False)
    for name in columns:
        made.add_column(escape(name), overflow="fold")
    for row in rows:
        made.add_row(*(escape(str(cell)) for cell in row))
    return Group(Text(title, style="bold"), made) if title else made


def compare_tables(run: Mapping[str, Any], language: str = "en") -> list[Any]:
    """Strategies, sizes, recommendation and claims of one comparison."""
    w = words(language)
    title = (f"{run['operator']} {run['phase']}, preset {run['config']['preset']}, {run['config']['dtype']}, "
             f"{run['device']}, model {run['model']}")
    rows = []
    for s in run["strategies"]:
        e = s["estimate"]
        rows.append((s["id"], verdict_of(s, w), f"{s['accuracy']['max_abs']:.2e}" if s["accuracy"] else "-",
                     time_text(e["time_us"]) if e else "-", bytes_text(gm_bytes(e)),
                     "/".join(str(v) for v in e["tasks"].values()) if e else "-", e["launches"] if e else "-",
                     bytes_text(e["peak_bytes"]["UB"]) if e else "-", s["complexity"].get("ops", "-"),
                     s["complexity"].get("maturity", "-")))
    made = [table(title, (w["strategy"], w["verdict"], w["error"], w["time"], w["bytes"], w["tasks"] + " AIC/AIV",
                          w["launches"], w["peak"], w["ops"], w["maturity"]), rows)]
    reasons = [(s["id"], first_line(s["reason"]["text"])) for s in run["strategies"] if s["reason"]]
    if reasons:
        made.append(table("", (w["strategy"], w["text"]), reasons))
    made.append(points_table(run, w))
    chosen = run["recommendation"]["id"] or w["none"]
    made.append(table("", (w["recommendation"], w["because"]),
                      [(chosen, "\n".join(run["recommendation"]["because"]))]))
    if run["claims"]:
        made.append(table("", (w["claim"], w["agrees"], w["observed"]),
                          [(claim_name(c), agrees_text(c, w), claim_text(c)) for c in run["claims"]]))
    return made


def points_table(run: Mapping[str, Any], w: Mapping[str, str]) -> Any:
    """Time and bytes of every strategy over the cost points."""
    active = [s for s in run["strategies"] if s["points"]]
    rows = []
    for at, point in enumerate(active[0]["points"] if active else ()):
        cells = []
        for s in active:
            e = s["points"][at]["estimate"]
            cells.append(f"{time_text(e['time_us'])}, {bytes_text(gm_bytes(e))}" if e
                         else s["points"][at]["reason"]["kind"])
        rows.append((size_text(point["size"]), *cells))
    return table(w["points"], (w["size"], *(s["id"] for s in active)), rows)


def agrees_text(claim: Mapping[str, Any], w: Mapping[str, str]) -> str:
    """ "yes", "no" or "open"."""
    return {True: w["yes"], False: w["no"], None: w["open"]}[claim["agrees"]]


def claim_name(claim: Mapping[str, Any]) -> str:
    """Id of a claim and what it says."""
    return f"{claim['id']}: {claim['claim']}"


def claim_text(claim: Mapping[str, Any]) -> str:
    """What was observed, and why the outcome is open."""
    return claim["observed"] + (f" ({claim['why_null']})" if claim["why_null"] else "")


def guide_tables(guide: Mapping[str, Any], language: str = "en") -> list[Any]:
    """The decision table, the guide's claims with what was observed, and strategies that failed."""
    w = words(language)
    made = [summary_table(guide, language)]
    if claims := [(claim_name(c), w[run["phase"]].split()[0], agrees_text(c, w), claim_text(c))
                  for run in guide["runs"] for c in run["claims"]]:
        made.append(table(w["claims"], (w["claim"], "", w["agrees"], w["observed"]), claims))
    if failed := [(run["operator"], run["phase"], run["config"]["preset"], s["id"], first_line(s["reason"]["text"]))
                  for run in guide["runs"] for s in run["strategies"] if s["verdict"] == "fail"]:
        made.append(table(w["fail"], (w["operator"], "", "preset", w["strategy"], w["text"]), failed))
    return made


def summary_table(guide: Mapping[str, Any], language: str = "en") -> Any:
    """The decision table."""
    w = words(language)
    title = f"{w['summary']}: {conditions(guide['runs'])}\n{error_line(guide['runs'])}"
    rows = [(s["operator"], s["decode"] or w["none"], s["prefill"] or w["none"], s["alternative"] or "-",
             s["criterion"], numbers_text(s["numbers"])) for s in guide["summary"]]
    return table(title, (w["operator"], w["decode"], w["prefill"], w["alternative"], w["criterion"],
                                w["because"]), rows)


def numbers_text(numbers: Mapping[str, Any]) -> str:
    """Deciding numbers of one operator, a line per phase."""
    lines = []
    for phase, values in numbers.items():
        costs = {name: v for name, v in values.items() if isinstance(v, Mapping) and name != "size"}
        cells = [f"{name} {time_text(v['time_us'])} {bytes_text(v['gm_bytes'])}" if "time_us" in v
                 else f"{name} does not plan" for name, v in costs.items()]
        lines.append(f"{phase} ({values['preset']}, {size_text(values.get('size', {}))}): {'; '.join(cells)}")
    return "\n".join(lines)


def explore_tables(found: Mapping[str, Any], language: str = "en") -> list[Any]:
    """Report on a user's kernel."""
    w = words(language)
    made = [table(f"{found['kernel']} ({found['file']})", ("argument", ""), found["arguments"].items()),
            table("", (w["operations"], "#", "chips"),
                  [(o["name"], o["count"], o["chips"]) for o in found["operations"]]),
            table("", (w["profiles"], w["verdict"], w["text"]),
                  [(p, o["outcome"], "\n".join(o["texts"])) for p, o in found["profiles"].items()])]
    e = found["estimate"]
    if e is not None:
        made.append(table("", (w["time"], w["bytes"], w["tasks"] + " AIC/AIV", w["peak"], w["workspace"], "bound by"),
                          [(time_text(e["time_us"]), bytes_text(gm_bytes(e)),
                            "/".join(str(v) for v in e["tasks"].values()), bytes_text(e["peak_bytes"]["UB"]),
                            bytes_text(e["workspace_bytes"]), e["bound_by"])]))
    else:
        made.append(table("", (w["estimate"],), [(found["reason"]["text"],)]))
    if found["tiles"] is not None:
        made.append(table("", (w["tiles"], ""), found["tiles"]["rows"]))
    if found["assumed"]:
        made.append(table("", (w["assumptions"],), [("; ".join(found["assumed"]),)]))
    made.append(table("", (w["matching"],), [(line,) for line in matching_lines(found, w)]))
    if found["recommendations"]:
        made.append(table(f"{found['operator']}: {advice_basis(found)}", ("", w["recommendation"], w["because"]),
                          [(f"{phase}, {r['preset']}", r["id"] or w["none"], "\n".join(r["because"]))
                           for phase, r in found["recommendations"].items()]))
    return made
