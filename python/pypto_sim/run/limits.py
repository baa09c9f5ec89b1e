"""The largest tile that fits at each place of a kernel that sets one, found by planning the whole kernel with it."""
from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import PyptoError, PyptoWarning
from ..result.estimate import Estimate
from ..trace.tiles import CubeTile
from ..trace.trial import TileSite, TileTrial, tile_text

FRACTAL = 16             # cube tiles, and the last axis of a vector tile, grow by it
MOST_TRIALS = 40         # of one place


@dataclass(frozen=True, slots=True)
class TileLimit:
    """How large the tile of one place may be; all operations under it get the same tile.

    line: where it is set; tile: the tile there; largest: the largest one with which the whole kernel plans, grown along
    its first axis that ends in a refusal, "" when none was found in the time given; refused: the next larger one;
    reason: why it is refused. refused is "" when larger tiles change nothing, since the tensors end.
    """

    line: str
    tile: str
    largest: str
    refused: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.line or 'before the call'}: {self.tile}"
        if not self.largest:
            return f"{where}: no tile that fits was found"
        if not self.refused:
            return f"{where}: fits, as does every larger one; {self.largest} covers the tensors"
        return f"{where}: the largest that fits is {self.largest}; {self.refused} is refused: {self.reason}"


def limits_of(price: Callable[[], Estimate], seconds: float,
              changes: Mapping[TileSite, Any] | None = None) -> tuple[TileLimit, ...]:
    """Limits of the places that `price` reaches, which estimates the kernel under the tiles of the trial in force.

    changes: tiles of places in the stead of their own. Places that are not done after `seconds` are left out.
    """
    until, changes = time.monotonic() + seconds, dict(changes or {})
    with TileTrial(changes) as trial:
        start = _priced(price)
    found = []
    for site in trial.sites:
        limit = _Growth(price, site, changes, start, until).limit()
        if limit is not None:
            found.append(limit)
    return tuple(found)


def is_tile_fault(error: PyptoError) -> bool:
    """Would another tile cure it?"""
    return (getattr(error, "rule", None) or "").startswith(("capacity", "tile."))


def _priced(price: Callable[[], Estimate]) -> Estimate | PyptoError:
    try:
        with warnings.catch_warnings():          # a tile that is tried is not the user's
            warnings.simplefilter("ignore", PyptoWarning)
            return price()
    except PyptoError as error:
        if not is_tile_fault(error):
            raise
        return error


class _OutOfTime(Exception):
    pass


class _Growth:
    """The tile of one site, one axis after the other made as large as it may be."""

    def __init__(self, price: Callable[[], Estimate], site: TileSite, changes: dict[TileSite, Any],
                 start: Estimate | PyptoError, until: float) -> None:
        self.price, self.site, self.changes, self.until = price, site, changes, until
        self.start = changes.get(site, site.tile)
        self.seen: dict[Any, Estimate | PyptoError] = {self.start: start}

    def limit(self) -> TileLimit | None:
        """None when time or trials ran out."""
        try:
            return self._grow()
        except _OutOfTime:
            return None

    def _grow(self) -> TileLimit | None:
        tile = self.start
        if not self._fits(tile):
            return self._shrink()
        for axis in _axes(tile):
            size = _size(tile, axis)
            while True:
                larger = _with(tile, axis, size * 2)
                if not self._fits(larger):
                    return self._between(tile, axis, size, size * 2)
                if _same(self.seen[larger], self.seen[tile]):
                    break
                tile, size = larger, size * 2
        return self._found(tile, None)

    def _shrink(self) -> TileLimit | None:
        """The own tile is refused: leading axes become smaller first."""
        tile = self.start
        for axis in _axes(tile):
            size = _size(tile, axis)
            unit = _unit(tile, axis)
            while size > unit:
                smaller = max(unit, size // 2 // unit * unit)
                if self._fits(_with(tile, axis, smaller)):
                    return self._between(_with(tile, axis, smaller), axis, smaller, size)
                tile, size = _with(tile, axis, smaller), smaller
        return TileLimit(self.site.line, tile_text(self.start), "", "", "")

    def _between(self, tile: Any, axis: Any, low: int, high: int) -> TileLimit:
        """low fits and high does not: the last one that fits."""
        unit = _unit(tile, axis)
        while high - low > unit:
            middle = low + max(unit, (high - low) // 2 // unit * unit)
            if self._fits(_with(tile, axis, middle)):
                low = middle
            else:
                high = middle
        return self._found(_with(tile, axis, low), _with(tile, axis, high))

    def _found(self, largest: Any, refused: Any) -> TileLimit:
        reason = "" if refused is None else _short(self.seen[refused])
        return TileLimit(self.site.line, tile_text(self.start), tile_text(largest),
                         "" if refused is None else tile_text(refused), reason)

    def _fits(self, tile: Any) -> bool:
        if tile not in self.seen:
            if time.monotonic() > self.until or len(self.seen) > MOST_TRIALS:
                raise _OutOfTime
            with TileTrial({**self.changes, self.site: tile}):
                self.seen[tile] = _priced(self.price)
        return isinstance(self.seen[tile], Estimate)


def _short(error: Any) -> str:
    """What was refused and why, without the list of what lives beside it."""
    text = str(error).splitlines()[0].partition("   (")[0]
    pieces = re.search(r"Free room is in pieces[^.]*\.", text)
    return text.partition(" Live:")[0] + (f" {pieces[0]}" if pieces else "")


def _same(a: Estimate | PyptoError, b: Estimate | PyptoError) -> bool:
    return isinstance(a, Estimate) and isinstance(b, Estimate) and a.to_dict() == b.to_dict()


def _axes(tile: Any) -> Iterator[Any]:
    yield from ("m", "n", "k") if isinstance(tile, CubeTile) else range(len(tile))


def _size(tile: Any, axis: Any) -> int:
    return getattr(tile, axis)[0] if isinstance(tile, CubeTile) else tile[axis]


def _unit(tile: Any, axis: Any) -> int:
    return FRACTAL if isinstance(tile, CubeTile) or axis == len(tile) - 1 else 1


def _with(tile: Any, axis: Any, size: int) -> Any:
    """The tile with another size; of a cube tile the L1 sizes stay the same multiples of it."""
    if not isinstance(tile, CubeTile):
        return (*tile[:axis], size, *tile[axis + 1:])
    sizes = getattr(tile, axis)
    return replace(tile, **{axis: (size, *(n // sizes[0] * size for n in sizes[1:]))})
