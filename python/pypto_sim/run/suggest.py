"""Search for better tile shapes of a kernel: the kernel is traced and priced with other tiles, never edited or run."""
from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..errors import PyptoError, PyptoTypeError, PyptoValueError
from ..result.estimate import Estimate
from ..trace.tiles import CubeTile
from ..trace.trial import TileSite, TileTrial, tile_text
from .estimate import estimate
from .jit import Kernel
from .limits import TileLimit, is_tile_fault, limits_of

LEAST_GAIN = 0.01        # a change has to save this share of the time, or as much GM traffic in the same time
# m, k, n of usual cube tiles: (L0, L1), (L0, L1 of A, L1 of B), (L0, L1)
USUAL = (((128, 128), (64, 256, 256), (256, 256)), ((256, 256), (64, 256, 256), (128, 128)),
         ((128, 128), (128, 256, 256), (128, 128)), ((128, 256), (64, 128, 128), (256, 256)))
UNIT = 16                # cube tiles are multiples of the fractal's side


@dataclass(frozen=True, slots=True)
class TileChange:
    """One tile to change. line: where it is set; tile: the tile there; suggested: what to set instead."""

    line: str
    tile: str
    suggested: str

    def __str__(self) -> str:
        return f"{self.line or 'before the call'}: {self.tile}  ->  {self.suggested}"


@dataclass(frozen=True, slots=True)
class TileSuggestion:
    """What a tile search found.

    kernel: its name; changes: tiles to change, () when nothing tried was better; before: estimate with the kernel's own
    tiles, None if they are refused (`refused` says why); best: estimate with the changes; trials: tilings that were
    priced; fitting: of those, the ones that were not refused; complete: False when the search ended at its limit of
    trials; limits: how large the tile of each place may be, the others as suggested.
    """

    kernel: str
    changes: tuple[TileChange, ...]
    before: Estimate | None
    best: Estimate
    refused: str
    trials: int
    fitting: int
    complete: bool
    limits: tuple[TileLimit, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """(label, text) per line of the report."""
        own = f"refused: {self.refused}" if self.before is None else _numbers(self.before)
        lines = [("own tiles", own)]
        lines += [("change", str(c)) for c in self.changes] or [("change", "none: nothing tried is better")]
        if self.changes:
            gain = "" if self.before is None else f", {self.before.time_us / self.best.time_us:.2f} times as fast"
            lines.append(("then", _numbers(self.best) + gain))
        ended = "" if self.complete else "; ended at the limit of trials or seconds"
        lines += [("largest", str(limit)) for limit in self.limits]
        lines.append(("tried", f"{self.trials} tilings, {self.fitting} fit{ended}"))
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for json."""
        return {"kernel": self.kernel, "changes": [{"line": c.line, "tile": c.tile, "suggested": c.suggested}
                                                   for c in self.changes],
                "before": self.before and self.before.to_dict(), "best": self.best.to_dict(), "refused": self.refused,
                "trials": self.trials, "fitting": self.fitting, "complete": self.complete,
                "limits": [asdict(limit) for limit in self.limits]}

    def __str__(self) -> str:
        return "\n".join(f"{label:<10}{text}" for label, text in self.rows())


def suggest_tiles(kernel: Any, *args: Any, device: str | os.PathLike[str] | None = None, model: str | None = None,
                  assume: Mapping[str, Any] | None = None, trials: int = 100, seconds: float = 60.0,
                  **scalars: Any) -> TileSuggestion:
    """Search tile shapes that make `kernel(*args)` cheaper on `device`.

    Every call of `set_vec_tile_shapes`, `set_cube_tile_shapes` and `pypto.options` that the kernel reaches is a place
    whose tile may change; all operations under it get the same tile. From the kernel's own tiles (or, where those are
    refused, from smaller ones that fit) or from a usual cube tile, whichever is cheapest, one size at a time is doubled
    or halved as long as the predicted time falls: the best of what was tried, not of all tilings.
    Time and GM traffic are those of `pypto_sim.estimate`, so its error band applies; results of reductions and products
    may differ in their last bits with other tiles.

    Parameters
    ----------
    kernel, args, device, model, assume, scalars: as of `pypto_sim.estimate`. trials: tilings to price at most; seconds:
    time after which no further tiling is tried.

    Returns
    -------
    TileSuggestion.

    Raises
    ------
    What `pypto_sim.estimate` raises, except for tiles that are refused; CapacityError or TileError of the kernel's own
    tiles if no smaller tiles fit; PyptoValueError for a number of trials below 1.
    """
    if not isinstance(kernel, Kernel):
        raise PyptoTypeError("suggest_tiles: expected a kernel made by pypto.frontend.jit, "
                             f"got {type(kernel).__name__}")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise PyptoValueError(f"suggest_tiles: seconds must be a positive number, got {seconds!r}")
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise PyptoValueError(f"suggest_tiles: trials must be an int of at least 1, got {trials!r}")
    return _Search(kernel, lambda: estimate(kernel, *args, device=device, model=model, assume=assume, **scalars),
                   trials, seconds).run()


class _Search:
    def __init__(self, kernel: Kernel, price: Any, limit: int, seconds: float) -> None:
        self.kernel, self.price, self.limit = kernel, price, limit
        self.until = time.monotonic() + seconds
        self.seen: dict[tuple[tuple[TileSite, Any], ...], Estimate | PyptoError] = {}
        self.sites: dict[TileSite, None] = {}

    def run(self) -> TileSuggestion:
        own = self.cost({})
        refused, before, at = "", None, {}
        if isinstance(own, Estimate):
            before = best = own
        elif not self.sites:
            raise own
        else:
            refused = str(own)
            found = self.smaller()
            if found is None:
                raise own
            at, best = found
        at, best = self.usual(at, best)
        at, best, complete = self.descend(at, best)
        changes = tuple(TileChange(site.line, tile_text(site.tile), tile_text(tile)) for site, tile in at.items()
                        if tile != site.tile)
        return TileSuggestion(self.kernel.__name__, changes, before, best, refused, len(self.seen),
                              sum(isinstance(e, Estimate) for e in self.seen.values()), complete,
                              limits_of(self.price, max(1.0, self.until - time.monotonic()), at))

    def cost(self, changes: Mapping[TileSite, Any]) -> Estimate | PyptoError:
        """Estimate with `changes`, or why they are refused."""
        key = tuple(sorted(((site, tile) for site, tile in changes.items() if tile != site.tile), key=str))
        if key not in self.seen:
            with TileTrial(dict(key)) as trial:
                try:
                    self.seen[key] = self.price()
                except PyptoError as error:
                    if not key and not is_tile_fault(error):
                        raise
                    self.seen[key] = error
            self.sites |= trial.sites
        return self.seen[key]

    def smaller(self) -> tuple[dict[TileSite, Any], Estimate] | None:
        """The own tiles halved, from the front axis on, until they fit."""
        at: dict[TileSite, Any] = {}
        for _ in range(64):
            progress = False
            for site in list(self.sites):
                tile = at.get(site, site.tile)
                halves = [t for t in _moves(tile) if _volume(t) < _volume(tile)]
                if halves:
                    at[site], progress = halves[0], True
            found = self.cost(at)
            if isinstance(found, Estimate):
                return at, found
            if not progress or self.over():
                return None
        return None

    def over(self) -> bool:
        """No further tiling is to be tried."""
        return len(self.seen) >= self.limit or time.monotonic() > self.until

    def usual(self, at: dict[TileSite, Any], best: Estimate) -> tuple[dict[TileSite, Any], Estimate]:
        """Usual cube tiles in the place of one site's own."""
        for site in [s for s in self.sites if isinstance(s.tile, CubeTile)]:
            for m, k, n in USUAL:
                if self.over():
                    return at, best
                tile = CubeTile(m, k, n, site.tile.split_k)
                found = self.cost({**at, site: tile})
                if isinstance(found, Estimate) and _better(found, best):
                    at, best = {**at, site: tile}, found
        return at, best

    def descend(self, at: dict[TileSite, Any], best: Estimate) -> tuple[dict[TileSite, Any], Estimate, bool]:
        """One size at a time, the first change that pays; until none does."""
        improved = True
        while improved:
            improved = False
            for site in list(self.sites):
                for tile in _moves(at.get(site, site.tile)):
                    if self.over():
                        return at, best, False
                    found = self.cost({**at, site: tile})
                    if isinstance(found, Estimate) and _better(found, best):
                        at, best, improved = {**at, site: tile}, found, True
                        break
        return at, best, True


def _better(new: Estimate, old: Estimate) -> bool:
    if new.time_us < (1 - LEAST_GAIN) * old.time_us:
        return True
    traffic = [e.gm_read_bytes + e.gm_write_bytes for e in (new, old)]
    return new.time_us <= old.time_us and traffic[0] < (1 - LEAST_GAIN) * traffic[1]


def _numbers(e: Estimate) -> str:
    return f"{e.time_us:.2f} us, {e.gm_read_bytes + e.gm_write_bytes} B of GM traffic, bound by {e.bound_by}"


def _volume(tile: Any) -> int:
    out = 1
    for n in tile.flat if isinstance(tile, CubeTile) else tile:
        out *= n
    return out


def _moves(tile: Any) -> Iterator[Any]:
    """Tiles one step away: a size doubled or halved, alone or against a neighbour; of cube tiles L0 and L1 sizes."""
    if not isinstance(tile, CubeTile):
        for axis, n in enumerate(tile):
            for other in (n * 2, n // 2):
                if other:
                    yield (*tile[:axis], other, *tile[axis + 1:])
        for axis, (a, b) in enumerate(zip(tile, tile[1:], strict=False)):
            for pair in ((a // 2, b * 2), (a * 2, b // 2)):
                if all(pair):
                    yield (*tile[:axis], *pair, *tile[axis + 2:])
        return
    for name in ("m", "n", "k"):
        sizes = getattr(tile, name)
        inner, outer = (sizes[0], *[n // 2 for n in sizes[1:]]), (sizes[0], *[n * 2 for n in sizes[1:]])
        for other in (tuple(n * 2 for n in sizes), tuple(n // 2 for n in sizes), outer, inner):
            if all(n >= UNIT for n in other) and all(n % other[0] == 0 for n in other[1:]):
                yield replace(tile, **{name: other})
