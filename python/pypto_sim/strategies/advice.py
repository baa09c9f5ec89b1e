"""From costed strategies to a recommendation; and a recommendation from costs alone, for `pypto-sim explore`."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pypto_sim as pypto

from . import cost
from . import inputs as inputs_
from .base import Config, Strategy
from .complexity import written_operations
from .outcomes import constraints
from .recommend import Candidate, ModelError, recommend


@dataclass(frozen=True, slots=True)
class Offer:
    """A strategy to choose from. points: {"size", "estimate", "reason"} per cost point; ops, refusals: as of
    Candidate."""

    strategy: Strategy
    points: Sequence[dict[str, Any]]
    ops: int
    refusals: Callable[[], int]


def advice(offers: Sequence[Offer], sizes: Sequence[dict[str, Any]], config: Config) -> dict[str, Any]:
    """{"id", "because"}: what to use, and the deciding numbers. Strategies that compute another function are named, not
    chosen; a form that is coarser than another of them says by how much."""
    candidates, excluded, notes = [], {}, []
    for offer in offers:
        one = offer.strategy
        if why := one.other_function(config):
            notes.append(f"{one.id} computes another function: {why}")
            continue
        found = [p["estimate"] for p in offer.points]
        costs = tuple((e["time_us"], cost.gm_bytes(e)) if e else None for e in found)
        candidates.append(Candidate(one.id, costs, offer.ops, offer.refusals,
                                    found[-1]["workspace_bytes"] if found and found[-1] else 0,
                                    one.form_error() if one.form_error else None))
        missing = next((at for at, e in enumerate(found) if e is None), None)
        if missing is not None:
            excluded[one.id] = missing, offer.points[missing]["reason"]["text"].splitlines()[0]
    estimates = [p["estimate"] for offer in offers for p in offer.points if p["estimate"]]
    chosen, because = recommend(candidates, sizes, excluded, ModelError.of(estimates, config["phase"]))
    return {"id": chosen, "because": [*because, *_forms(candidates, chosen), *notes]}


def _forms(candidates: Sequence[Candidate], chosen: str | None) -> list[str]:
    """How far each form is from the exact function, where they differ, and whether the chosen one is coarser."""
    forms = {c.id: c.form_error for c in candidates if c.form_error is not None}
    if chosen not in forms or len(set(forms.values())) < 2:
        return []
    least = min(forms.values())
    coarser = [f"{chosen} is a coarser form: up to {forms[chosen]:.1e} from the exact result"] \
        if forms[chosen] > least else []
    return [*coarser, "distance of each form from the exact function in float64: " +
            ", ".join(f"{name} {error:.1e}" for name, error in forms.items())]


def refusals_of(found: Sequence[dict[str, Any]]) -> int:
    """Rules among constraints that some profile refuses."""
    return sum(not c["met"] and c["severity"] == "error" for c in found)


def by_cost(module: Any, phase: str, device: str, model: str) -> dict[str, Any]:
    """Recommendation of an operator's first preset from costs at its first and last cost point; nothing is run."""
    from .comparison import cost_sizes, find_preset, resolve
    preset = find_preset(module, None, phase)
    operator, sizes = module.OPERATOR, cost_sizes(preset, phase, {}, True)
    configs = [resolve(module, preset, phase, size, {}) for size in sizes]
    offers = []
    with pypto.config(device=device):
        for strategy in module.STRATEGIES:
            if any(strategy.misfit(c) for c in configs):
                continue
            points = []
            for size, config in zip(sizes, configs, strict=True):
                estimate, why = cost.try_cost(operator, strategy, config, preset.name, device, model)
                points.append({"size": size, "estimate": estimate, "reason": why.to_dict() if why else None})
            if any(p["estimate"] for p in points):
                args = inputs_.tensors(operator, strategy, configs[0])
                launches = tuple(strategy.launches(configs[0]))
                specs = inputs_.specs(preset.name, args)
                offers.append(Offer(strategy, points, sum(len(written_operations(one, specs)) for one in launches),
                                    lambda launches=launches, args=args: refusals_of(
                                        constraints(launches, args, preset.name, device, (), ()))))
        return {"preset": preset.name, **advice(offers, sizes, configs[-1])}
