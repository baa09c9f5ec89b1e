"""Tile shapes and options in force: an immutable scope that loops save and restore."""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class CubeTile:
    """Tile of matrix products. m: (mL0, mL1); k: (kL0, kL1 of A, kL1 of B); n: (nL0, nL1)."""

    m: tuple[int, int]
    k: tuple[int, int, int]
    n: tuple[int, int]
    split_k: bool = False

    @property
    def flat(self) -> tuple[int, ...]:
        """m0 m1 k0 kA1 kB1 n0 n1."""
        return (*self.m, *self.k, *self.n)


@dataclass(frozen=True, slots=True)
class Scope:
    """What set_*_tile_shapes, set_*_options and set_semantic_label have set."""

    vec_tile: tuple[int, ...] | None = None
    cube_tile: CubeTile | None = None
    conv_tile: tuple[Any, ...] | None = None
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
