"""What `tools/accuracy.py --write` makes of a run: docs/accuracy.md with its plot, the README's figures, and the data
behind `Estimate.error_band`."""
from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from pypto_sim.device import Device

from .score import errors, percent, timed
from .table import Row

BAND = Path("python") / "pypto_sim" / "run" / "accuracy.json"
BLOCK = re.compile(r"<!-- accuracy -->\n.*?<!-- /accuracy -->", re.S)
GOALS = {"gemm_known_tiles": ("gemm, tiles known", 0.12), "gemm_other": ("gemm, other", 0.25),
         "streaming": ("streaming", 0.12), "decode_attention": ("decode attention", 0.10),
         "prefill_attention": ("prefill attention", 0.20), "reduction": ("reductions and norms", 0.25)}
HEAD = """# Accuracy of the `calibrated` model

Made by `python tools/accuracy.py TABLE.csv --write .`; do not edit. {rows} rows of published on-hardware kernel
timings, each simulated by one kernel of its operator (`tools/calibration`).

* Tiles: those that the row names; else one rule per kind of work: `tools/calibration/tiles.py` for vector work, the
  heads of `products.py` and `attention.py` for the rest. `impl` is never read. Library and hand-written kernels run as
  one program per core (`planner.static`), PyPTO kernels under the AICPU.
* Read from a row beside shape and type: `cores`, `cache_state` (warm: operands start in L2), `n_kernels`. Where that
  count was recorded on the row's own chip, elementwise steps are launched one by one; on the 950 they count as fused.
  The further kernels of rope (tables, transposes) and gather (transposes) are launched on both. Each launch finds its
  operands in HBM unless the row is warm: in rows S0038-S0041 the later kernels take as long as cold ones. Every operand
  that a row lists is a tensor of its own: the values of latent attention are read beside its keys.
* Tiers: A tiles known, B library kernels, C framework timing with host cost (listed, never scored).
* Constants that are fitted stand in `tools/fitted.toml` with the rows they were fitted on and are marked `fitted` in
  the device tables; all others have a source. No constant belongs to a row.
* Kernels and tile rules were chosen looking at this table: expect an unseen one to come out somewhat worse.
* A row that cannot be predicted counts as 100 % error.

Error: |predicted / measured - 1|. Bias: median of predicted / measured - 1.
"""


def table(columns: list[str], lines: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns),
            *("| " + " | ".join(line) + " |" for line in lines), ""]


def line(name: str, e: dict[str, Any]) -> list[str]:
    return [name, str(e["rows"]), str(e["predicted"]), percent(e["median"]), percent(e["p90"]), percent(e["within_2x"]),
            percent(e["bias"])]


COLUMNS = ["", "rows", "predicted", "median error", "90th percentile", "within 2x", "bias"]


def page(rows: list[Row], result: dict[str, Any]) -> str:
    """docs/accuracy.md."""
    s = result["summary"]
    out = [HEAD.format(rows=s["rows"]), "## Goals", ""]
    goals = []
    for key, (name, goal) in GOALS.items():
        e = s[key] if key in s else s["family"].get(key)
        if e and e["rows"]:
            goals.append([name, str(e["rows"]), percent(e["median"]), percent(goal),
                          "yes" if e["median"] <= goal else "no"])
    short = s["scored"]
    if short["short_rows"]:
        goals.append(["rows under 8 us, median", str(short["short_rows"]),
                      f"{short['short_median_us']:.2f} us", "1.5 us",
                      "yes" if short["short_median_us"] <= 1.5 else "no"])
    p = s["pairs"]
    if p["pairs"]:
        goals.append(["pairs in the right order", str(p["pairs"]), percent(p["share"]), "90 %",
                      "yes" if p["share"] >= 0.9 else "no"])
    goals.append(["rows predicted", str(short["rows"]), percent(short["predicted"] / max(1, short["rows"])), "95 %",
                  "yes" if short["predicted"] >= 0.95 * short["rows"] else "no"])
    out += table(["tiers A and B", "rows", "measured", "goal", "met"], goals)
    out += ["![predicted against measured](accuracy.png)", "", "## Family", ""]
    out += table(COLUMNS, [line(k, e) for k, e in s["family"].items()] + [line("all", s["scored"])])
    out += ["## Family, device and tier", ""]
    out += table(COLUMNS, [line(k, e) for k, e in s["family_device_tier"].items()])
    out += ["## Operator", "", "Rank correlation: Spearman's coefficient of measured and predicted times.", ""]
    out += table([*COLUMNS, "rank correlation"],
                 [[*line(k, e), "" if s["rank_correlation"].get(k) is None else f"{s['rank_correlation'][k]:.2f}"]
                  for k, e in s["operator"].items()])
    out += ["## Order of pairs", "",
            f"{p['right']} of {p['pairs']} pairs of one device, operator and element type that differ by more than 15 "
            "% in time, and not in the implementation only, are in the right order. Pairs of equal shape:", ""]
    out += table(["rows", "shape", "measured us", "predicted us", "right"],
                 [[" ".join(x["ids"]), x["shape"], *(" / ".join("-" if v is None else f"{v:.1f}" for v in x[k])
                                                     for k in ("measured_us", "predicted_us")),
                   "yes" if x["right"] else "no"] for x in p["equal_shape"]])
    out += ["## Sources", "", "Median error of a source's rows, and of all other rows without it.", ""]
    out += table(["source", "rows", "its median", "without it"],
                 [[k, str(e["rows"]), percent(e["alone"]), percent(e["others"])] for k, e in s["left_out"].items()])
    if s["unpredicted"]:
        out += ["## Not predicted", "", *(f"* {k}: {reason}" for k, reason in s["unpredicted"].items()), ""]
    return "\n".join(out).rstrip() + "\n"


def band(records: list[dict[str, Any]]) -> dict[str, Any]:
    """{family: {chip: {rows, median, p90}}} of the scored rows, for `Estimate.error_band`."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for r in timed(records):
        if r["device"]:
            groups[r["family"], Device.load(r["device"]).chip].append(r)
    out: dict[str, Any] = {}
    for (family, chip), members in sorted(groups.items()):
        e = errors(members)
        out.setdefault(family, {})[chip] = {"rows": e["rows"], "median": round(e["median"], 3),
                                            "p90": round(e["p90"], 3)}
    return out


def quote(result: dict[str, Any]) -> str:
    """The README's sentence on accuracy."""
    s = result["summary"]
    parts = []
    for key, (name, _) in GOALS.items():
        e = s[key] if key in s else s["family"].get(key)
        if e and e["rows"]:
            parts.append(f"{name} {percent(e['median'])} ({e['rows']})")
    text = (f"Against {s['scored']['rows']} published kernel times, median error (rows): {', '.join(parts)}; "
            f"{s['pairs']['right']} of {s['pairs']['pairs']} pairs of one operator in the right order. "
            "`docs/accuracy.md` has every family, device, operator and source.")
    words, lines = text.split(" "), [" "]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > 116:
            lines.append(" ")
        lines[-1] += f" {word}"
    return "<!-- accuracy -->\n" + "\n".join(lines) + "\n  <!-- /accuracy -->"


def plot(rows: list[Row], result: dict[str, Any], path: Path) -> None:
    """Scatter of predicted over measured times, one colour a family, open marks for tier C."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(6, 6), dpi=90)
    families = sorted({r["family"] for r in result["rows"]})
    for i, family in enumerate(families):
        for tiers, filled in (("AB", True), ("C", False)):
            points = [r for r in timed(result["rows"], tiers) if r["family"] == family and r["predicted_us"]]
            if points:
                colour = f"C{i}"
                axes.scatter([r["measured_us"] for r in points], [r["predicted_us"] for r in points], s=12,
                             label=family if filled else None, facecolors=colour if filled else "none",
                             edgecolors=colour, linewidths=0.8)
    low, high = 1, 2e5
    axes.plot([low, high], [low, high], color="black", linewidth=0.8)
    for factor in (0.5, 2):
        axes.plot([low, high], [low * factor, high * factor], color="grey", linewidth=0.6, linestyle="--")
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), xlabel="measured us",
             ylabel="predicted us")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Software": None})
    pyplot.close(figure)


def write(root: Path, rows: list[Row], result: dict[str, Any]) -> None:
    """The page, the plot, the band data and the README's figures below `root`."""
    (root / "docs").mkdir(parents=True, exist_ok=True)
    (root / "docs" / "accuracy.md").write_text(page(rows, result), encoding="utf-8")
    plot(rows, result, root / "docs" / "accuracy.png")
    if (root / BAND).parent.is_dir():
        (root / BAND).write_text(json.dumps(band(result["rows"]), indent=1) + "\n", encoding="utf-8")
    readme = root / "README.md"
    if readme.is_file():
        text = readme.read_text(encoding="utf-8")
        readme.write_text(BLOCK.sub(lambda _: quote(result), text), encoding="utf-8")
