"""Tile shapes and options in force: an immutable scope that loops save and restore."""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class CubeTile:
    """Tile of matrix products. m: (mL0, mL1); k: (kL0, kL1 of A, kL1 of B); n: (nL0, nL1)."""

    m: tuple[int, int]
    k: tuple[int, int, int]        # two entries are taken as [kL0, kL1 of both]
    n: tuple[int, int]
    enable_split_k: bool = False

    def __post_init__(self) -> None:
        k = tuple(self.k)
        for name, value in (("m", tuple(self.m)), ("k", (*k, k[1]) if len(k) == 2 else k), ("n", tuple(self.n))):
            object.__setattr__(self, name, value)

    @property
    def split_k(self) -> bool:
        """Whether the contracted axis is split over cores."""
        return self.enable_split_k

    @property
    def flat(self) -> tuple[int, ...]:
        """m0 m1 k0 kA1 kB1 n0 n1."""
        return (*self.m, *self.k, *self.n)


def _fault(tile: Any, aligned: dict[str, int]) -> str:
    for f in fields(tile):
        n = getattr(tile, f.name)
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            return f"{f.name} must be a positive int, got {n!r}"
        if n % aligned.get(f.name, 1):
            return f"{f.name} must be a multiple of {aligned[f.name]}, got {n}"
    return ""


@dataclass(slots=True)
class TileL1Info:
    """Part of a convolution that L1 holds: rows and columns of input and result, channels of input and weight, result
    channels, batches (1).
    """

    tileHin: int = 0
    tileHout: int = 0
    tileWin: int = 0
    tileWout: int = 0
    tileCinFmap: int = 0
    tileCinWeight: int = 0
    tileN: int = 0
    tileBatch: int = 1

    def fault(self) -> str:
        """What the chip cannot take, "" when nothing."""
        return _fault(self, {"tileN": 16}) or ("" if self.tileBatch == 1 else "tileBatch must be 1")


@dataclass(slots=True)
class TileL0Info:
    """Part of a convolution that L0 holds: rows, columns, contracted elements, result channels."""

    tileH: int = 0
    tileW: int = 0
    tileK: int = 0
    tileN: int = 0

    def fault(self) -> str:
        """What the chip cannot take, "" when nothing."""
        return _fault(self, {"tileK": 16, "tileN": 16})


@dataclass(frozen=True, slots=True)
class ConvTile:
    """Tile of convolutions; `l0` None: chosen by the framework."""

    l1: TileL1Info
    l0: TileL0Info | None = None


@dataclass(frozen=True, slots=True)
class ConvParams:
    """The numbers of a convolution, one entry per spatial axis."""

    strides: tuple[int, ...]
    paddings: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Scope:
    """What set_*_tile_shapes, set_*_options and set_semantic_label have set."""

    vec_tile: tuple[int, ...] | None = None
    cube_tile: CubeTile | None = None
    conv_tile: ConvTile | None = None
    matrix_size: tuple[int, ...] | None = None
    label: str = ""
    print_options: tuple[int, int, int, int] = (3, 4, 1000, 120)     # edgeitems, precision, threshold, linewidth
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)   # group ("pass") -> option -> value

    def with_options(self, group: str, values: Mapping[str, Any]) -> Scope:
        """A scope in which `values` are added to the options of `group`."""
        return replace(self, groups={**self.groups, group: {**self.groups.get(group, {}), **values}})

    def options_text(self) -> str:
        """JSON of all options in force, {"group": {"option": value}}; "" when none is set."""
        shown = {g: dict(v) for g, v in sorted(self.groups.items()) if v}
        return json.dumps(shown, sort_keys=True, default=str) if shown else ""
