"""Every operator in both phases: the object behind `pypto-sim guide --json`, and its summary."""
from __future__ import annotations

from typing import Any

from . import catalogue
from .base import PHASES, Claim, Observation
from .comparison import SCHEMA, Comparison, Progress, compare
from .cost import gm_bytes


def presets_to_run(module: Any, phase: str, quick: bool) -> list[str]:
    """All presets of a phase; quick: the fewest, in order, that cover every strategy that some preset fits."""
    having = [p for p in module.PRESETS if phase in p.phases]
    if not quick:
        return [p.name for p in having]
    fits = {}
    for preset in having:
        size = preset.phases[phase].check[-1]
        config = {**module.OPERATOR.defaults, **preset.values, **preset.phases[phase].values, **size,
                  "preset": preset.name, "phase": phase}
        fits[preset.name] = {s.id for s in module.STRATEGIES if not s.misfit(config)}
    missing, chosen = set().union(*fits.values()), []
    while missing:
        name = max(fits, key=lambda n: len(fits[n] & missing))    # ties: the first listed
        chosen.append(name)
        missing -= fits.pop(name)
    return [p.name for p in having if p.name in chosen]


class Guide:
    """All comparisons and the summary over them."""

    def __init__(self, runs: list[Comparison]) -> None:
        self.runs = runs

    @property
    def passed(self) -> bool:
        """True when no applicable strategy fails its check in any run."""
        return all(run.passed for run in self.runs)

    def summary(self) -> list[dict[str, Any]]:
        """One entry per operator: recommendation per phase of its first preset, and the deciding numbers."""
        found = []
        for name in catalogue.OPERATORS:
            by_phase = {phase: next((r for r in self.runs if r.module.OPERATOR.name == name and r.phase == phase), None)
                        for phase in PHASES}
            chosen = {phase: run.recommendation["id"] if run else None for phase, run in by_phase.items()}
            numbers: dict[str, Any] = {}
            for phase, run in by_phase.items():
                if run is not None:
                    numbers[phase] = _numbers(run)
            criteria = {phase: _criterion(run) for phase, run in by_phase.items() if run}
            criterion = (next(iter(criteria.values())) if len(set(criteria.values())) == 1 else
                         "; ".join(f"{phase}: {text}" for phase, text in criteria.items()))
            others = [row.strategy.id for run in by_phase.values() if run for row in run.rows
                      if row.verdict == "pass" and row.strategy.id not in chosen.values()]
            found.append({"operator": name, "decode": chosen["decode"], "prefill": chosen["prefill"],
                          "alternative": others[0] if others else None, "criterion": criterion, "numbers": numbers})
        return found

    def to_dict(self) -> dict[str, Any]:
        """The schema of `guide --json`."""
        return {"schema": SCHEMA, "runs": [run.to_dict() for run in self.runs], "summary": self.summary()}


def _criterion(run: Comparison) -> str:
    """What decided a recommendation, in a few words."""
    because = run.recommendation["because"]
    text = next((t.split(";")[0].split(" between ")[0] for t in because if t.startswith(("decided by", "left open"))),
                next((t for t in because if "only candidate" in t), because[0] if because else "nothing to choose"))
    return "; ".join([text, *(t for t in because if "is a coarser form" in t)])


def _numbers(run: Comparison) -> dict[str, Any]:
    """Size, and time and bytes of every strategy at the last cost point."""
    found: dict[str, Any] = {"preset": run.preset.name}
    for row in run.rows:
        if not row.points:
            continue
        point = row.points[-1]
        found["size"] = point["size"]
        if point["estimate"] is not None:
            found[row.strategy.id] = {"time_us": point["estimate"]["time_us"], "gm_bytes": gm_bytes(point["estimate"]),
                                      "launches": point["estimate"]["launches"]}
        else:
            found[row.strategy.id] = {"reason": point["reason"]["text"].splitlines()[0]}
    return found


def guide(quick: bool = False, device: str | None = None, model: str | None = None,
          progress: Progress | None = None) -> Guide:
    """Compare the strategies of every operator in both phases.

    quick: fewer presets and cost points, still every operator, strategy and phase.
    """
    runs = []
    for name in catalogue.OPERATORS:
        module = catalogue.module(name)
        for phase in PHASES:
            for at, preset in enumerate(presets_to_run(module, phase, quick)):
                runs.append(compare(name, phase, preset, device=device, model=model, quick=quick,
                                    claims=not quick or at == 0, progress=progress))
    found = Guide(runs)
    for claim in CLAIMS:
        seen = claim.observe(found)
        owner = next(run for run in runs if run.module.OPERATOR.name == claim_owner(claim))
        owner.claims.append({"id": claim.id, "claim": claim.text, "observed": seen.observed, "agrees": seen.agrees,
                             "why_null": seen.why_null})
    return found


def claim_owner(claim: Claim) -> str:
    """Operator whose run carries a claim about the whole guide."""
    return {"guide.dynamic_axis": "linear", "guide.principles": "attention"}[claim.id]


def _principles(found: Guide) -> Observation:
    fewer = bytes_ = decided = apart = 0
    for run in found.runs:
        chosen = run.recommendation["id"]
        known = {row.strategy.id: row.points[-1]["estimate"] for row in run.rows
                 if row.verdict == "pass" and row.points and row.points[-1]["estimate"]}
        if chosen is None or chosen not in known or len(known) < 2:
            continue
        decided += 1
        fewer += sum(known[chosen]["tasks"].values()) <= min(sum(e["tasks"].values()) for e in known.values())
        bytes_ += gm_bytes(known[chosen]) <= min(gm_bytes(e) for e in known.values())
    summary = found.summary()
    apart = sum(s["decode"] != s["prefill"] for s in summary)
    failed = sum(row.verdict == "fail" for run in found.runs for row in run.rows)
    text = (f"of {decided} runs with a choice the recommended strategy has the fewest tasks in {fewer} and the least "
            f"GM traffic in {bytes_}; decode and prefill choose differently for {apart} of {len(summary)} operators; "
            f"{failed} strategies fail a constraint or their check")
    return Observation(text, decided > 0 and min(fewer, bytes_) * 2 > decided)


def _dynamic_axis(found: Guide) -> Observation:
    from .dynamic_axis import observe
    return observe(found.runs[0].device)


CLAIMS = (
    Claim("guide.dynamic_axis", "matmul and reductions refuse a dynamic axis (has invalid shape value: -1)",
          _dynamic_axis),
    Claim("guide.principles", "constraints first; fewer kernels and less GM traffic; decode and prefill apart; mature "
                              "fused kernels first", _principles),
)
