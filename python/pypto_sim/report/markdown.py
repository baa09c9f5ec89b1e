"""Reports as Markdown files that a team can commit."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .tables import agrees_text, claim_text, numbers_text
from .text import (
    advice_basis,
    bytes_text,
    command_of,
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


def grid(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """Lines of a Markdown table."""
    def cells(row: Iterable[Any]) -> str:
        return "| " + " | ".join(str(c).replace("|", "\\|").replace("\n", "<br>") for c in row) + " |"
    names = list(columns)
    return [cells(names), "|" + "---|" * len(names), *(cells(row) for row in rows), ""]


def guide_report(guide: Mapping[str, Any], language: str = "en", command: str = "pypto-sim guide") -> str:
    """API report of all operators: decision table, then every comparison."""
    w = words(language)
    lines = [f"# {w['title']}", "", f"{w['conditions']}: {conditions(guide['runs'])}; {error_line(guide['runs'])}", "",
             f"{w['reproduce']}: `{command}`", "",
             f"## {w['summary']}", ""]
    lines += grid((w["operator"], w["decode"], w["prefill"], w["alternative"], w["criterion"], w["because"]),
                  [(s["operator"], s["decode"] or w["none"], s["prefill"] or w["none"], s["alternative"] or "-",
                    s["criterion"], numbers_text(s["numbers"])) for s in guide["summary"]])
    for name in dict.fromkeys(r["operator"] for r in guide["runs"]):
        lines += [f"## {name}", ""]
        for run in guide["runs"]:
            if run["operator"] == name:
                lines += comparison_lines(run, w)
    return "\n".join(lines).rstrip() + "\n"


def comparison_report(run: Mapping[str, Any], language: str = "en") -> str:
    """API report of one comparison."""
    w = words(language)
    return "\n".join([f"# {run['operator']}", "", f"{w['conditions']}: {conditions([run])}; {error_line([run])}", "",
                      *comparison_lines(run, w)]).rstrip() + "\n"


def comparison_lines(run: Mapping[str, Any], w: Mapping[str, str]) -> list[str]:
    """The sections of one comparison."""
    lines = [f"### {w[run['phase']].split()[0]}: {run['config']['preset']} ({run['config']['dtype']})", "",
             f"{w['check']}: {size_text(run['config']['sizes'])}", ""]
    rows = []
    for s in run["strategies"]:
        e, a, c = s["estimate"], s["accuracy"], s["complexity"]
        rows.append((f"`{s['id']}` {s['label']}", verdict_of(s, w), f"{a['max_abs']:.2e}" if a else "-",
                     f"{a['rtol']:.3g}, {a['atol']:.3g}" if a else "-", time_text(e["time_us"]) if e else "-",
                     bytes_text(gm_bytes(e)), " ".join(f"{k} {v}" for k, v in e["tasks"].items()) if e else "-",
                     bytes_text(e["peak_bytes"]["UB"]) if e else "-", bytes_text(e["workspace_bytes"]) if e else "-",
                     c.get("ops", "-"), c.get("loops", "-"), c.get("state_tensors", "-"), c.get("maturity", "-")))
    lines += grid((w["strategy"], w["verdict"], w["error"], w["tolerance"], w["time"], w["bytes"], w["tasks"],
                   w["peak"], w["workspace"], w["ops"], w["loops"], w["state"], w["maturity"]), rows)
    for s in run["strategies"]:
        if s["reason"]:
            lines += [f"- `{s['id']}`: {first_line(s['reason']['text'])}"]
    lines += ["", f"#### {w['points']}", ""]
    active = [s for s in run["strategies"] if s["points"]]
    sizes = active[0]["points"] if active else []
    lines += grid((w["size"], *(f"{s['id']}" for s in active)),
                  [(size_text(p["size"]), *(_point(s["points"][at]) for s in active)) for at, p in enumerate(sizes)])
    lines += [f"#### {w['recommendation']}", "", f"**{run['recommendation']['id'] or w['none']}**", ""]
    lines += [f"- {text}" for text in run["recommendation"]["because"]] + [""]
    lines += _constraints(run, w)
    if run["claims"]:
        lines += [f"#### {w['claims']}", ""]
        lines += grid((w["claim"], "", w["agrees"], w["observed"]),
                      [(c["id"], c["claim"], agrees_text(c, w), claim_text(c)) for c in run["claims"]])
    missing = sorted({str(u) for s in run["strategies"] if s["estimate"] for u in s["estimate"].get("unmodelled", ())})
    if missing:
        lines += [f"{w['unmodelled']}: {'; '.join(missing)}", ""]
    return [*lines, f"{w['reproduce']}: `{command_of(run)}`", ""]


def _point(point: Mapping[str, Any]) -> str:
    e = point["estimate"]
    if e is None:
        return f"{point['reason']['kind']}: {first_line(point['reason']['text'], 120)}"
    return f"{time_text(e['time_us'])}, {bytes_text(gm_bytes(e))}"


def _constraints(run: Mapping[str, Any], w: Mapping[str, str]) -> list[str]:
    rows = []
    for s in run["strategies"]:
        for c in s["constraints"]:
            rows.append((s["id"], f"`{c['rule']}`", w["met"] if c["met"] else w["violated"], c["severity"],
                         first_line(c["text"], 200), c["line"] or "", (s["alternative"] or "") if not c["met"] else ""))
    if not rows:
        return []
    return [f"#### {w['constraints']}", "",
            *grid((w["strategy"], w["rule"], "", w["severity"], w["text"], w["where"], w["instead"]), rows)]


def profile_report(launches: Iterable[Mapping[str, Any]], device: str, command: str, language: str = "en") -> str:
    """Report of a profiled script: one row per launch, then what is not modelled and what was assumed."""
    w = words(language)
    listed = list(launches)
    lines = [f"# {w['estimate']}", "", f"{w['conditions']}: {device}", ""]
    lines += grid(("#", w["kernel"], w["time"], "bound by", w["bytes"], w["tasks"], w["peak"], w["workspace"]),
                  [(at, one["kernel"], time_text(e["time_us"]), e["bound_by"], bytes_text(gm_bytes(e)),
                    " ".join(f"{k} {v}" for k, v in e["tasks"].items()), bytes_text(e["peak_bytes"]["UB"]),
                    bytes_text(e["workspace_bytes"])) for at, one in enumerate(listed) for e in (one["estimate"],)])
    for heading, key in (("unmodelled", "unmodelled"), ("assumptions", "assumptions")):
        found = sorted({str(v) for one in listed for v in one["estimate"].get(key, ())})
        lines += [f"{w[heading]}: {'; '.join(found)}", ""] if found else []
    return "\n".join([*lines, f"{w['reproduce']}: `{command}`"]) + "\n"


def explore_report(found: Mapping[str, Any], language: str = "en") -> str:
    """Report on a user's kernel."""
    w = words(language)
    lines = [f"# {w['kernel']}: {found['kernel']}", "", f"{found['file']}", "", f"## {w['operations']}", ""]
    lines += grid((w["operations"], "#", "dtypes"), [(o["name"], o["count"], o["chips"]) for o in found["operations"]])
    lines += [f"## {w['profiles']}", ""]
    lines += grid(("profile", w["verdict"], w["text"]),
                  [(p, o["outcome"], "<br>".join(o["texts"])) for p, o in found["profiles"].items()])
    lines += [f"## {w['estimate']}", "", f"{size_text(found['arguments'])}", ""]
    e = found["estimate"]
    if e is None:
        lines += [f"{found['reason']['kind']}: {found['reason']['text']}", ""]
    else:
        lines += grid((w["time"], w["bytes"], w["tasks"], w["peak"], w["workspace"], "bound by"),
                      [(time_text(e["time_us"]), bytes_text(gm_bytes(e)),
                        " ".join(f"{k} {v}" for k, v in e["tasks"].items()), bytes_text(e["peak_bytes"]["UB"]),
                        bytes_text(e["workspace_bytes"]), e["bound_by"])])
    if found["tiles"] is not None:
        lines += [f"## {w['tiles']}", "", *grid((w["tiles"], ""), found["tiles"]["rows"])]
    lines += [f"## {w['matching']}", "", *(f"- {line}" for line in matching_lines(found, w)), ""]
    if found["recommendations"]:
        lines += [f"## {w['recommendation']}: {found['operator']}", "", advice_basis(found), ""]
    for phase, advice in found["recommendations"].items():
        lines += [f"- {phase}, {advice['preset']}: **{advice['id'] or w['none']}**"]
        lines += [f"  - {t}" for t in advice["because"]]
    return "\n".join([*lines, "", f"{w['reproduce']}: `{found['command']}`"]) + "\n"
