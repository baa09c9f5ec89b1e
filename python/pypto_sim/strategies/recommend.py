"""Which strategy to use: of those that pass, the fastest at the cost points. Times that differ by less than the model's
error are a tie.

A tie goes to the form nearest the exact function, then to less GM traffic, less workspace, fewer operations and fewer
rules that some profile refuses it for; what is equal there too is left open, and the first listed is named.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..run.error_band import LABELS

SAME = 0.02        # planned bytes and counts that differ by less are equal; times too where no error is known


@dataclass(frozen=True, slots=True)
class ModelError:
    """Relative error of predicted times within which they say nothing. source: where it comes from."""

    share: float = SAME
    source: str = "this model is not held against measured times"

    @staticmethod
    def of(estimates: Sequence[Mapping[str, Any]], phase: str) -> ModelError:
        """Median error of published times of the kinds of kernels compared, the largest of them."""
        found: dict[str, float] = {}
        for one in estimates:
            found |= one.get("error_medians", {})
        if f"{phase}_attention" in found:     # an estimate of attention cannot tell the two apart; a comparison can
            found = {k: v for k, v in found.items() if not k.endswith("_attention") or k.startswith(phase)}
        if not found:
            return ModelError()
        family = max(found, key=lambda name: found[name])
        return ModelError(max(found[family], SAME), f"median over published {LABELS[family]}")

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} % ({self.source})"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy that passed: (time_us, gm_bytes) per cost point, None where it does not plan; operation count.

    refusals: counts the rules that some profile refuses it for; asked for only if everything else is equal. workspace:
    bytes at the last cost point. form_error: distance of its formula from the exact function, None if it is exact.
    """

    id: str
    costs: tuple[tuple[float, int] | None, ...]
    ops: int
    refusals: Callable[[], int] = lambda: 0
    workspace: int = 0
    form_error: float | None = None

    def survives(self, point: int) -> bool:
        """False from the first cost point on that does not plan."""
        return all(cost is not None for cost in self.costs[:point + 1])

    def figure(self, at: int, points: Sequence[int]) -> float:
        """Geometric mean of the time (0) or the GM bytes (1) over cost points."""
        return mean_of([cost[at] for p in points if (cost := self.costs[p]) is not None])


def mean_of(values: Sequence[float]) -> float:
    """Geometric mean; zero counts as one unit."""
    return math.exp(sum(math.log(max(v, 1e-9)) for v in values) / len(values)) if values else math.inf


def best(candidates: Sequence[Candidate], points: Sequence[int], error: ModelError) -> tuple[Candidate, str]:
    """Winner over some cost points that all candidates reach, and what decided."""
    fastest = min(candidates, key=lambda c: c.figure(0, points))
    left = [c for c in candidates if _same_time(c, fastest, points, error)]
    if len(left) == 1:
        return fastest, "decided by time" if len(candidates) > 1 else "only one passes"
    tie = f"no difference in time beyond the model's error of {error} between {', '.join(c.id for c in left)}"
    secondary: tuple[tuple[str, Callable[[Candidate], float]], ...] = (
        ("distance from the exact function", lambda c: c.form_error or 0.0),
        ("GM bytes", lambda c: c.figure(1, points)), ("workspace", lambda c: float(c.workspace)),
        ("operations", lambda c: float(c.ops)), ("fewer refused rules", lambda c: float(c.refusals())))
    for name, value in secondary:
        values = {c.id: value(c) for c in left}
        left = [c for c in left if values[c.id] <= min(values.values()) * (1 + SAME)]
        if len(left) == 1:
            return left[0], f"decided by {name}: {tie}"
    return left[0], f"left open: {tie}; equal in {', '.join(name for name, _ in secondary)} too: the first listed"


def _same_time(one: Candidate, other: Candidate, points: Sequence[int], error: ModelError) -> bool:
    """No cost point tells the two apart."""
    ratios = [a[0] / b[0] for p in points if (a := one.costs[p]) is not None and (b := other.costs[p]) is not None]
    return all(1 / (1 + error.share) <= r <= 1 + error.share for r in ratios)


def size_text(size: Mapping[str, Any]) -> str:
    """ "kv 4096, heads 16"."""
    return ", ".join(f"{k} {v}" for k, v in size.items())


def recommend(candidates: Sequence[Candidate], sizes: Sequence[Mapping[str, Any]],
              excluded: Mapping[str, tuple[int, str]],
              error: ModelError = ModelError()) -> tuple[str | None, list[str]]:     # noqa: B008 (frozen)
    """(id or None, reasons with the deciding numbers).

    excluded: strategy -> (first cost point it does not plan, why). The answer is the best of those that reach the last
    cost point; where another would be faster at some of the sizes, the reasons say so.
    """
    if not candidates:
        return None, ["no strategy passes its check"]
    last = len(sizes) - 1
    every = list(range(len(sizes)))
    left = [c for c in candidates if c.survives(last)]
    because = [f"{name} is excluded from {size_text(sizes[point])} on: {why}"
               for name, (point, why) in excluded.items()]
    if not left:
        return None, [*because, f"no strategy plans at {size_text(sizes[last])}"]
    winner, decided = best(left, every, error)
    for point in dict.fromkeys((0, last)):
        shown = ", ".join(f"{c.id} {cost[0]:.1f} us {cost[1]:,} B" for c in left if (cost := c.costs[point]))
        because.append(f"at {size_text(sizes[point])}: {shown}")
    rest = [c for c in left if c is not winner]
    if rest:
        ratios = ", ".join(f"{c.id} x{_ratio(c, winner, every):.2f}" for c in rest)
        because.append(f"{decided}; time relative to {winner.id} over all cost points: {ratios}")
    else:
        because.append(f"{winner.id} is the only candidate" + (" that plans at every cost point" if excluded else ""))
    for c in rest:
        faster = [p for p in every if _ratio(winner, c, [p]) > 1 + error.share]
        if faster:
            most = max(faster, key=lambda p: _ratio(winner, c, [p]))
            because.append(f"{c.id} is faster at {len(faster)} of {len(sizes)} sizes, most at {size_text(sizes[most])} "
                           f"(x{_ratio(winner, c, [most]):.2f})")
    for c in candidates:
        early = [p for p in every if c.survives(p)]
        if c not in left and early and (ratio := _ratio(winner, c, early)) > 1 + error.share:
            because.append(f"up to {size_text(sizes[early[-1]])} {c.id} would be faster (x{ratio:.2f})")
    return winner.id, because


def _ratio(one: Candidate, other: Candidate, points: Sequence[int]) -> float:
    """Time of one over that of the other, geometric mean over cost points that both plan."""
    return mean_of([a[0] / b[0] for p in points if (a := one.costs[p]) is not None
                    and (b := other.costs[p]) is not None])
