"""How a kernel fares under each profile, and the constraints that follow."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pypto_sim as pypto

from ..errors import PyptoError, PyptoWarning
from ..rules import PROFILES, RULES
from . import inputs as inputs_
from .base import Arg, Launch
from .check import collected, reason_of

# the hard constraints of the strategy guide that a traced kernel shows
HARD = ("dtype.unsupported", "tile.vec_unset", "tile.cube_unset", "tile.vec_tail", "tile.reduce_size", "shape.dynamic",
        "sum.fp32_only", "sigmoid.expand", "capacity")


class Outcome:
    """Result of tracing and planning under one profile: warnings, and the error that ended it."""

    def __init__(self, profile: str, warnings: Sequence[PyptoWarning], error: Exception | None) -> None:
        self.profile, self.warnings, self.error = profile, warnings, error

    def __str__(self) -> str:
        if self.error is not None:
            return f"error {getattr(self.error, 'rule', '') or type(self.error).__name__}"
        rules = dict.fromkeys(w.rule for w in self.warnings)
        return f"warns {' '.join(rules)}" if rules else "ok"


def under_profile(profile: str, launches: Sequence[Launch], args: Mapping[str, Arg], preset: str,
                  device: str) -> Outcome:
    """Trace and plan launches under one profile, without data."""
    specs = inputs_.specs(preset, args)
    error: Exception | None = None
    with pypto.config(profile=profile, device=device), collected() as found:
        try:
            for one in launches:
                pypto.estimate(one.kernel, *(specs[name] for name in one.args), *one.scalars, device=device)
        except Exception as e:    # what stops it is the result
            error = e
    return Outcome(profile, found, error)


def constraints(launches: Sequence[Launch], args: Mapping[str, Arg], preset: str, device: str,
                warned: Sequence[PyptoWarning]) -> list[dict[str, Any]]:
    """Rules met and violated by a strategy: warnings of its own run, the first refusal of every other profile, and the
    guide's hard constraints that were seen to hold."""
    found: list[dict[str, Any]] = []
    seen: set[str] = set()

    def violated(rule: str, severity: str, text: str, line: str) -> None:
        if (rule, severity) not in {(c["rule"], c["severity"]) for c in found}:
            found.append({"rule": rule, "met": False, "severity": severity, "text": text, "line": line or None})
        seen.add(rule)

    for warning in warned:
        violated(warning.rule, "warn", str(warning), warning.line)
    complete = False
    for profile in PROFILES[1:]:
        outcome = under_profile(profile, launches, args, preset, device)
        if outcome.error is not None:
            reason = reason_of(outcome.error)
            known = isinstance(outcome.error, PyptoError)
            violated(reason.rule or (reason.kind if known else "error"), "error",
                     f"profile {profile}: {reason.text}", reason.line or "")
        elif profile == "guide":
            complete = True
    if complete:
        found += [{"rule": rule, "met": True, "severity": RULES[rule].severity["guide"], "text": RULES[rule].text,
                   "line": None} for rule in HARD if rule not in seen]
    return found
