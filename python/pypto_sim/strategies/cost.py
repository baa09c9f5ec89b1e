"""Cost of a strategy: one estimate per launch, added up."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pypto_sim as pypto

from . import inputs as inputs_
from .base import Config, Launch, Operator, Strategy
from .check import Reason, collected, reason_of

LARGEST = ("workspace_bytes",)     # launches run one after another: the larger counts, everything else adds up


def combine(estimates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Estimate of several launches in a row. Times, counts and traffic add up; peaks and workspace take the larger."""
    if len(estimates) == 1:
        return dict(estimates[0])
    total: dict[str, Any] = dict(estimates[0])
    for extra in estimates[1:]:
        for key, value in extra.items():
            total[key] = _merge(key, total.get(key), value)
    longest = max(estimates, key=lambda e: e["time_us"])
    total["bound_by"] = longest["bound_by"]
    return total


def _merge(key: str, a: Any, b: Any) -> Any:
    if key == "peak_bytes":
        return {k: max(a.get(k, 0), b.get(k, 0)) for k in {**a, **b}}
    if key in LARGEST:
        return max(a, b)
    if key == "error_medians":
        return {**a, **b}
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return {k: a.get(k, 0) + b.get(k, 0) if _is_number(a.get(k, 0)) else a.get(k, b.get(k)) for k in {**a, **b}}
    if isinstance(a, (list, tuple)):
        return list(a) + [item for item in b if item not in a]
    return a + b if _is_number(a) and _is_number(b) else a


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def launches_cost(launches: Sequence[Launch], specs: Mapping[str, Any], device: str, model: str) -> dict[str, Any]:
    """Estimate of given launches on given specs. Raises what the planner raises."""
    found = []
    with collected():
        for one in launches:
            estimate = pypto.estimate(one.kernel, *(specs[name] for name in one.args), *one.scalars, device=device,
                                      model=model)
            found.append({**estimate.to_dict(), "error_medians": dict(estimate.error_medians)})
    return combine(found)


def cost(operator: Operator, strategy: Strategy, config: Config, preset: str, device: str,
         model: str) -> dict[str, Any]:
    """Estimate of one call of a strategy. Raises what the planner raises, such as CapacityError."""
    args = inputs_.tensors(operator, strategy, config)
    return launches_cost(strategy.launches(config), inputs_.specs(preset, args), device, model)


def try_cost(operator: Operator, strategy: Strategy, config: Config, preset: str, device: str,
             model: str) -> tuple[dict[str, Any] | None, Reason | None]:
    """Estimate, or the reason there is none."""
    try:
        return cost(operator, strategy, config, preset, device, model), None
    except Exception as error:    # a strategy that fails is a result of the comparison, whatever the reason
        return None, reason_of(error)


def gm_bytes(estimate: Mapping[str, Any]) -> int:
    """Global-memory traffic, both ways."""
    return int(estimate["gm_read_bytes"] + estimate["gm_write_bytes"])
