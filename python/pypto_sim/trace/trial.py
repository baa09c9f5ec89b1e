"""Other tile shapes in the place of those that a kernel sets, without editing it."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .context import set_trial, trial
from .tiles import CubeTile

VecTile = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TileSite:
    """A place that sets a tile. line: "file:line" in the user's code, "" when set before the kernel was called."""

    line: str
    tile: VecTile | CubeTile

    def __str__(self) -> str:
        return f"{self.line or 'set before the call'}: {tile_text(self.tile)}"


def tile_text(tile: VecTile | CubeTile) -> str:
    """The call that sets `tile`."""
    if isinstance(tile, CubeTile):
        k = tile.k if tile.k[1] != tile.k[2] else tile.k[:2]
        split = ", enable_split_k=True" if tile.split_k else ""
        return f"set_cube_tile_shapes({list(tile.m)}, {list(k)}, {list(tile.n)}{split})"
    return f"set_vec_tile_shapes({', '.join(map(str, tile))})"


class TileTrial:
    """Context manager: tiles set in this thread are looked up in `changes`; `sites` collects where tiles are set."""

    def __init__(self, changes: Mapping[TileSite, Any] | None = None) -> None:
        self.changes = dict(changes or {})
        self.sites: dict[TileSite, None] = {}

    def tile(self, line: str, tile: Any) -> Any:
        """The tile to use where the user's code at `line` sets `tile`."""
        site = TileSite(line, tile)
        self.sites[site] = None
        return self.changes.get(site, tile)

    def __enter__(self) -> TileTrial:
        self.before = trial()
        set_trial(self)
        return self

    def __exit__(self, *exc: object) -> None:
        set_trial(self.before)
