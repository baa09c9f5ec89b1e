"""Which strategy to use: passes, then time at the cost points, then GM bytes, then fewer operations; 2 % is a tie.

What is equal in all of these goes to the strategy that fewer profiles refuse, then to the first listed.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TIE = 0.02


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy that passed: (time_us, gm_bytes) per cost point, None where it does not plan; operation count; rules
    that some profile refuses it for."""

    id: str
    costs: tuple[tuple[float, int] | None, ...]
    ops: int
    refusals: int = 0

    def survives(self, point: int) -> bool:
        """False from the first cost point on that does not plan."""
        return all(cost is not None for cost in self.costs[:point + 1])


def mean_of(values: Sequence[float]) -> float:
    """Geometric mean; zero counts as one unit."""
    return math.exp(sum(math.log(max(v, 1e-9)) for v in values) / len(values)) if values else math.inf


def best(candidates: Sequence[Candidate], points: Sequence[int]) -> tuple[Candidate, str] | None:
    """Winner over some cost points, and the criterion that decided."""
    if not candidates or not points:
        return None
    figures = {c.id: [mean_of([c.costs[p][0] for p in points]), mean_of([c.costs[p][1] for p in points]), float(c.ops),
                      float(c.refusals)] for c in candidates}
    left = list(candidates)
    for at, name in enumerate(("time", "GM bytes", "operations", "fewer refused rules")):
        least = min(figures[c.id][at] for c in left)
        near = [c for c in left if figures[c.id][at] <= least * (1 + TIE)]
        if len(near) == 1:
            return near[0], name if len(left) > 1 else "only one passes"
        left = near
    return left[0], "all equal: the first listed"


def size_text(size: dict[str, Any]) -> str:
    """ "kv 4096, heads 16"."""
    return ", ".join(f"{k} {v}" for k, v in size.items())


def recommend(candidates: Sequence[Candidate], sizes: Sequence[dict[str, Any]],
              excluded: dict[str, tuple[int, str]]) -> tuple[str | None, list[str]]:
    """(id or None, reasons with the deciding numbers).

    excluded: strategy -> (first cost point it does not plan, why). The answer is the best of those that reach the last
    cost point; where an excluded one would win at the sizes before, the reasons say so.
    """
    if not candidates:
        return None, ["no strategy passes its check"]
    last = len(sizes) - 1
    every = list(range(len(sizes)))
    left = [c for c in candidates if c.survives(last)]
    because: list[str] = []
    for name, (point, why) in excluded.items():
        because.append(f"{name} is excluded from {size_text(sizes[point])} on: {why}")
    if not left:
        return None, [*because, f"no strategy plans at {size_text(sizes[last])}"]
    found = best(left, every)
    assert found is not None
    winner, criterion = found
    for point in dict.fromkeys((0, last)):
        shown = ", ".join(f"{c.id} {c.costs[point][0]:.1f} us {c.costs[point][1]:,} B" for c in left)
        because.append(f"at {size_text(sizes[point])}: {shown}")
    rest = [c for c in left if c is not winner]
    if rest:
        figures = ", ".join(f"{c.id} x{mean_of([a[0] / b[0] for a, b in zip(c.costs, winner.costs, strict=True)]):.2f}"
                            for c in rest)
        because.append(f"decided by {criterion}; time relative to {winner.id} over all cost points: {figures}")
    else:
        because.append(f"{winner.id} is the only candidate" + (" that plans at every cost point" if excluded else ""))
    for c in candidates:
        early = [p for p in every if c.survives(p)]
        if c in left or not early:
            continue
        before = best([winner, c], early)
        if before is not None and before[0] is c:
            ratio = mean_of([winner.costs[p][0] / c.costs[p][0] for p in early])
            because.append(f"up to {size_text(sizes[early[-1]])} {c.id} would be faster (x{ratio:.2f})")
    return winner.id, because
