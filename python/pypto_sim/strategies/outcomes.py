"""How a kernel fares under each profile, and the constraints that follow."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pypto_sim as pypto

from ..errors import PyptoError, PyptoWarning
from ..rules import PROFILES, RULES, Finding
from . import inputs as inputs_
from .base import Arg, Launch
from .check import collected, reason_of

# the hard constraints of the strategy guide that a traced kernel shows -> operations they are about (none: all)
HARD: dict[str, frozenset[str]] = {
    "dtype.unsupported": frozenset(), "tile.vec_unset": frozenset(), "tile.vec_tail": frozenset(),
    "tile.cube_unset": frozenset({"matmul"}), "tile.reduce_size": frozenset({"sum", "amax", "amin"}),
    "shape.dynamic": frozenset({"matmul", "sum", "amax", "amin"}), "sum.fp32_only": frozenset({"sum"}),
    "sigmoid.expand": frozenset({"exp"}), "capacity": frozenset()}


class Outcome:
    """Result of tracing and planning under one profile: findings, and the error that ended it."""

    def __init__(self, profile: str, findings: Sequence[Finding], error: Exception | None) -> None:
        self.profile, self.findings, self.error = profile, findings, error

    def __str__(self) -> str:
        if self.error is not None:
            return f"error {getattr(self.error, 'rule', '') or type(self.error).__name__}"
        rules = dict.fromkeys(f.rule for f in self.findings if f.severity == "warn")
        return f"warns {' '.join(rules)}" if rules else "ok"


def under_profile(profile: str, launches: Sequence[Launch], args: Mapping[str, Arg], preset: str,
                  device: str) -> Outcome:
    """Trace and plan launches under one profile, without data."""
    specs = inputs_.specs(preset, args)
    error: Exception | None = None
    found: list[Finding] = []
    with pypto.config(profile=profile, device=device), collected():
        try:
            for one in launches:
                given = (*(specs[name] for name in one.args), *one.scalars)
                found += one.kernel.program(*given).findings
                pypto.estimate(one.kernel, *given, device=device)
        except Exception as e:    # what stops it is the result
            error = e
    return Outcome(profile, found, error)


def constraints(launches: Sequence[Launch], args: Mapping[str, Arg], preset: str, device: str,
                warned: Sequence[PyptoWarning], used: Iterable[str]) -> list[dict[str, Any]]:
    """Rules met and violated by a strategy: warnings of its own run, the first refusal of every other profile, and the
    guide's hard constraints that were seen to hold, as far as they are about `used` operations."""
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
                   "line": None} for rule, about in HARD.items()
                  if rule not in seen and (not about or about & set(used))]
    return found
