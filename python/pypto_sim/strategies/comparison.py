"""Compare the strategies of one operator at one preset and phase: the object behind `pypto-sim compare --json`."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pypto_sim as pypto

from ..config import active
from ..device import Device
from . import catalogue, cost
from . import inputs as inputs_
from .advice import Offer, advice, refusals_of
from .base import PHASES, Config, Preset, Strategy, parse_value, unknown
from .check import Accuracy, Reason, check, reason_of
from .complexity import complexity_of, operations_of, unknown_complexity
from .context import Context
from .outcomes import constraints

SCHEMA = 1
MODELS = ("calibrated", "official")
FULL_ARGUMENT_BYTES = 2 << 30      # --full runs cost points whose arguments fit this
SAMPLE_ROWS, SAMPLE_HEADS = 16, 2
Progress = Callable[[str], None]


@dataclass(slots=True)
class Sample:
    """Rows (and heads) whose golden is computed at large points."""

    rows: np.ndarray
    heads: np.ndarray | None = None
    row_axis: int = 0

    @staticmethod
    def of(module: Any, config: Config) -> Sample:
        """16 rows x 2 heads of the first output; rows only where the operator has no heads."""
        rng = np.random.default_rng([*config["preset"].encode(), 1])
        if "heads" in config and module.OPERATOR.name in ("attention", "repeat_kv") and config["phase"] == "prefill" \
                and not config["topk"]:
            heads = np.sort(rng.choice(config["heads"], min(SAMPLE_HEADS, config["heads"]), replace=False))
            rows = np.sort(rng.choice(config["seq"], min(SAMPLE_ROWS, config["seq"]), replace=False))
            return Sample(rows, heads, 1)
        args = module.OPERATOR.tensors(config)
        length = next(a.shape[0] for a in args.values() if a.role == "out")
        return Sample(np.sort(rng.choice(length, min(SAMPLE_ROWS, length), replace=False)))

    def pick(self, array: np.ndarray) -> np.ndarray:
        """The sampled part of a result."""
        if self.heads is not None:
            return array[np.ix_(self.heads, self.rows)]
        return array[self.rows]

    def rows_and_heads(self, seq: int, heads: int) -> tuple[np.ndarray, list[int]]:
        """What the blocked attention golden needs."""
        if self.heads is None:
            return self.rows, list(range(heads))
        return self.rows, self.heads.tolist()


@dataclass(slots=True)
class Row:
    """Everything found out about one strategy."""

    strategy: Strategy
    verdict: str = "pass"
    reason: Reason | None = None
    accuracy: Accuracy | None = None
    estimate: dict[str, Any] | None = None
    points: list[dict[str, Any]] = field(default_factory=list)
    constraints: list[dict[str, Any]] = field(default_factory=list)
    complexity: dict[str, Any] = field(default_factory=dict)
    recommended: bool = False
    alternative: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.strategy.id, "label": self.strategy.label, "verdict": self.verdict,
                "reason": self.reason.to_dict() if self.reason else None, "recommended": self.recommended,
                "accuracy": self.accuracy.to_dict() if self.accuracy else None, "estimate": self.estimate,
                "points": self.points, "constraints": self.constraints, "alternative": self.alternative,
                "complexity": self.complexity}


def resolve(module: Any, preset: Preset, phase: str, size: Mapping[str, Any], user: Mapping[str, Any]) -> Config:
    """Config of one point: defaults, preset, phase, sizes, then the user's values."""
    return {**module.OPERATOR.defaults, **preset.values, **preset.phases[phase].values, **size, **user,
            "preset": preset.name, "phase": phase}


def cost_sizes(preset: Preset, phase: str, user: Mapping[str, Any], few: bool) -> list[dict[str, Any]]:
    """Sizes of the cost sweep: the user's values replace the sweep's; `few`: the first and the last."""
    found: list[dict[str, Any]] = []
    for size in preset.phases[phase].cost:
        merged = {k: user.get(k, v) for k, v in size.items()}
        if merged not in found:
            found.append(merged)
    return found[:1] + found[-1:] if few and len(found) > 2 else found


class Comparison:
    """Result of comparing the strategies of an operator. Frozen once made; `to_dict()` is the JSON form."""

    def __init__(self, module: Any, preset: Preset, phase: str, user: Mapping[str, Any], device: str, model: str,
                 full: bool, quick: bool, with_claims: bool, progress: Progress | None) -> None:
        self.module, self.preset, self.phase, self.user = module, preset, phase, dict(user)
        self.device, self.model, self.full, self.quick = device, model, full, quick
        self.rows: list[Row] = []
        self.recommendation: dict[str, Any] = {"id": None, "because": []}
        self.claims: list[dict[str, Any]] = []
        self.file = "" if module.__name__.startswith("pypto_sim.") else getattr(module, "__file__", None) or ""
        self._say = progress or (lambda text: None)
        with pypto.config(device=device):
            self._run(with_claims)

    # --- the run
    def _run(self, with_claims: bool) -> None:
        self._cache = inputs_.InputCache()
        points = self.check_configs()
        goldens: list[dict[Any, Any]] = [{} for _ in points]
        for strategy in self.module.STRATEGIES:
            self._say(f"{self.module.OPERATOR.name} {self.phase} {self.preset.name}: {strategy.id}")
            self.rows.append(self._row(strategy, points, goldens))
        self._recommend()
        context = Context(self, self._cache, goldens)
        if with_claims:
            for claim in self.module.CLAIMS:
                self._say(f"{self.module.OPERATOR.name} {self.phase} {self.preset.name}: claim {claim.id}")
                seen = context.observe(claim)
                self.claims.append({"id": claim.id, "claim": claim.text, "observed": seen.observed,
                                    "agrees": seen.agrees, "why_null": seen.why_null})
        del self._cache

    def check_configs(self) -> list[Config]:
        """Configs of the check points."""
        return [resolve(self.module, self.preset, self.phase, size, self.user)
                for size in self.preset.phases[self.phase].check]

    def _row(self, strategy: Strategy, points: list[Config], goldens: list[dict[Any, Any]]) -> Row:
        row = Row(strategy)
        misfit = strategy.misfit(points[-1])
        if misfit:
            row.verdict, row.reason = "not_applicable", Reason("rule", None, misfit, None)
            row.complexity = self._complexity_elsewhere(strategy)
            return row
        warned = []
        for config, known in zip(points, goldens, strict=True):
            try:
                accuracy, found = check(self.module, strategy, config, self.preset.name, self._cache, known)
            except Exception as error:    # a strategy that fails is a result of the comparison
                row.verdict, row.reason = "fail", reason_of(error)
                break
            warned += found
            if row.accuracy is None or accuracy.excess > row.accuracy.excess or not accuracy.passed:
                row.accuracy = accuracy
            if not accuracy.passed:
                row.verdict = "fail"
                row.reason = Reason("accuracy", None, f"{accuracy.what}: error {accuracy.max_abs:.3e} is "
                                    f"{accuracy.excess:.2f} times what the tolerance allows", None)
                break
        operator, config = self.module.OPERATOR, points[-1]
        row.estimate, reason = cost.try_cost(operator, strategy, config, self.preset.name, self.device, self.model)
        if reason is not None and row.verdict == "pass":
            row.verdict, row.reason = "fail", reason
        for size in cost_sizes(self.preset, self.phase, self.user, self.quick):
            at = resolve(self.module, self.preset, self.phase, size, self.user)
            estimate, why = cost.try_cost(operator, strategy, at, self.preset.name, self.device, self.model)
            row.points.append({"size": size, "estimate": estimate, "reason": why.to_dict() if why else None})
        if self.full and row.verdict == "pass":
            self._check_large(row)
        try:
            launches = tuple(strategy.launches(config))
            args = inputs_.tensors(operator, strategy, config)
            specs = inputs_.specs(self.preset.name, args)
            used = {name for one in launches for name in operations_of(one, specs)}
            row.constraints = constraints(launches, args, self.preset.name, self.device, warned, used)
            row.complexity = complexity_of(launches, specs, strategy.maturity)
        except Exception as error:    # sizes the strategy cannot even build a kernel for
            row.complexity = unknown_complexity(strategy)
            if row.reason is None:
                row.verdict, row.reason = "fail", reason_of(error)
        return row

    def _complexity_elsewhere(self, strategy: Strategy) -> dict[str, Any]:
        """Complexity of a strategy that the preset does not fit, at a preset that it does."""
        for preset in self.module.PRESETS:
            for phase in (self.phase, *PHASES):
                if phase not in preset.phases:
                    continue
                config = resolve(self.module, preset, phase, preset.phases[phase].check[-1], {})
                if not strategy.misfit(config):
                    args = inputs_.tensors(self.module.OPERATOR, strategy, config)
                    return complexity_of(strategy.launches(config), inputs_.specs(preset.name, args),
                                         strategy.maturity)
        return unknown_complexity(strategy)

    def _check_large(self, row: Row) -> None:
        """Numerics at the largest cost point that fits, on sampled rows and heads."""
        for point in reversed(row.points):
            config = resolve(self.module, self.preset, self.phase, point["size"], self.user)
            args = inputs_.tensors(self.module.OPERATOR, row.strategy, config)
            size = sum(int(np.prod(a.shape)) * 2 for a in args.values() if not a.alias)
            if point["estimate"] is None or size > FULL_ARGUMENT_BYTES:
                continue
            self._say(f"{self.module.OPERATOR.name} {self.phase} {self.preset.name}: {row.strategy.id} at "
                      f"{point['size']}")
            try:
                accuracy, _ = check(self.module, row.strategy, config, self.preset.name, self._cache, {},
                                    Sample.of(self.module, config))
            except Exception as error:    # reported at the point it belongs to
                point["reason"] = reason_of(error).to_dict()
                row.verdict, row.reason = "fail", reason_of(error)
                return
            if not accuracy.passed:
                row.verdict = "fail"
                row.reason = Reason("accuracy", None, f"at {point['size']}: error {accuracy.max_abs:.3e} is "
                                    f"{accuracy.excess:.2f} times what the tolerance allows", None)
            if row.accuracy is None or accuracy.excess > row.accuracy.excess:
                row.accuracy = accuracy
            return

    def _recommend(self) -> None:
        sizes = cost_sizes(self.preset, self.phase, self.user, self.quick)
        offers = [Offer(row.strategy, row.points, row.complexity["ops"], lambda row=row: refusals_of(row.constraints))
                  for row in self.rows if row.verdict == "pass"]
        self.recommendation = advice(offers, sizes, self.check_configs()[-1])
        chosen = self.recommendation["id"]
        for row in self.rows:
            row.recommended = row.strategy.id == chosen
            troubled = row.verdict != "pass" or refusals_of(row.constraints) > 0 or \
                any(point["estimate"] is None for point in row.points)
            row.alternative = chosen if troubled and not row.recommended else None

    # --- what it says
    @property
    def passed(self) -> bool:
        """True when no applicable strategy fails its check."""
        return all(row.verdict != "fail" for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The schema of `compare --json`."""
        config = self.check_configs()[-1]
        sizes = {k: config[k] for k in self.module.OPERATOR.size_keys}
        tiles = {k: list(v) if isinstance(v, tuple) else v for k, v in config.items()
                 if k not in sizes and k not in ("preset", "phase", "dtype")}
        return {"schema": SCHEMA, "operator": self.module.OPERATOR.name, "phase": self.phase, "device": self.device,
                "model": self.model,
                "config": {"preset": self.preset.name, "sizes": sizes, "dtype": config["dtype"], "tiles": tiles},
                "strategies": [row.to_dict() for row in self.rows], "recommendation": dict(self.recommendation),
                "claims": [dict(c) for c in self.claims], **({"file": self.file} if self.file else {})}


def find_preset(module: Any, name: str | None, phase: str) -> Preset:
    """Preset by name; default the operator's first that has the phase. Raises PyptoKeyError."""
    having = [p for p in module.PRESETS if phase in p.phases]
    if not having:
        raise unknown(f"phase of {module.OPERATOR.name}", phase, sorted({n for p in module.PRESETS for n in p.phases}))
    if name is None:
        return having[0]
    for preset in having:
        if preset.name == name:
            return preset
    raise unknown(f"preset of {module.OPERATOR.name} ({phase})", name, [p.name for p in having])


def compare(operator: Any, phase: str = "decode", preset: str | None = None, set: Mapping[str, Any] | None = None,
            device: str | None = None, model: str | None = None, full: bool = False, *, quick: bool = False,
            claims: bool = True, progress: Progress | None = None) -> Comparison:
    """Run, cost and compare every strategy of an operator.

    operator: one of OPERATORS, the path of a .py file, or a module with OPERATOR, STRATEGIES, PRESETS, CLAIMS, golden.
    set: config keys to override (sizes, tiles, options; text or values). full: numerics also at the largest cost point.
    quick: the first and last cost point only. Raises PyptoKeyError listing the known words for an unknown one.
    """
    module = catalogue.module(operator)
    if phase not in PHASES:
        raise unknown("phase", phase, PHASES)
    chosen = find_preset(module, preset, phase)
    defaults = module.OPERATOR.defaults
    user = {}
    for key, value in (set or {}).items():
        if key not in defaults:
            raise unknown(f"key of {module.OPERATOR.name}", key, sorted(defaults))
        user[key] = parse_value(key, value, defaults[key])
    name = active().device if device is None else device
    chosen_model = model or active().model
    if chosen_model not in MODELS:
        raise unknown("model", chosen_model, MODELS)
    Device.load(name)
    return Comparison(module, chosen, phase, user, str(name), chosen_model, full, quick, claims, progress)
