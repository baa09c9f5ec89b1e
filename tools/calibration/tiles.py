"""The one rule that cuts vector work where a row names no tiles.

The work is a matrix of equal rows. One task per AIV core, so that a launch hands out every core once; a task goes
over its share in equal tiles, three where they stay above 16 KB of transfers, so that loads, computation and stores of
neighbouring tiles overlap. Tiles are as large as nine tenths of UB hold with operands twice and temporaries once. A
task of more than TASK_TILES tiles is cut into several, trips of one loop. Reductions on A2/A3 go row by row: there is
no vector function that would keep several rows' statistics in registers.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pypto_sim as pypto

DMA_BYTES = 16384           # a transfer below it does not reach the full rate (vendor material)
REDUCE_BYTES = 65536        # widest tile of a row reduction
ROW_BYTES = 4096
TASK_TILES = 8
PARTS = 3                   # tiles of a core where they stay large enough
UB_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Cut:
    """tile: rows and columns of a tile; tiles: how many in a trip of the kernel's loop; trips: of that loop, so that no
    task is longer than TASK_TILES; options: pass options that put a core's tiles into one task."""
    tile: tuple[int, ...]
    tiles: int
    trips: int
    options: dict[str, Any]

    @property
    def step(self) -> int:
        """Length of the cut axis in one trip."""
        return self.tile[0] * self.tiles

    @property
    def extent(self) -> int:
        """Length of the cut axis in whole tiles: the last tile counts as a full one."""
        return self.step * self.trips

    def loop(self) -> Any:
        """The kernel's loop over its trips."""
        return pypto.loop(self.trips, name="trips", idx_name="i")

    def part(self, tensor: Any, i: Any, column: int | None = None, width: int = 0) -> Any:
        """Window of trip i: all columns, or `width` from `column` on."""
        shape, at = [self.step, *tensor.shape[1:]], [i * self.step] + [0] * (len(tensor.shape) - 1)
        if column is not None:
            shape[-1], at[-1] = width, column
        return pypto.view(tensor, shape, at)

    def put(self, result: Any, i: Any, out: Any) -> None:
        """Write the result of trip i."""
        pypto.assemble(result, [i * self.step] + [0] * (len(out.shape) - 1), out)


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def up(a: int, unit: int) -> int:
    return ceil(a, unit) * unit


def cut(tile: tuple[int, ...], tiles: int, cores: int) -> Cut:
    """Equal trips over `tiles` tiles."""
    trips = ceil(tiles, cores * TASK_TILES)
    tiles = ceil(tiles, trips)
    return Cut(tile, tiles, trips, merged(tiles, cores))


def merged(tiles: int, cores: int) -> dict[str, Any]:
    """Pass options: about one task, or equally many tasks, per core out of `tiles` equal ones."""
    rounds = ceil(tiles, cores * TASK_TILES)
    return {"vec_nbuffer_setting": {-2: 1, -1: max(1, ceil(tiles, cores * rounds))}}


def flat(elements: int, moved_bytes: int, kept_bytes: int, cores: int, ub: int) -> Cut:
    """Tiles of a tensor without structure. Bytes per element: moved, of all operands in global memory, twice in UB;
    kept, of the temporaries, once."""
    share = ceil(elements, cores)
    most = int(ub * UB_SHARE) // (2 * moved_bytes + kept_bytes) // 64 * 64
    parts = max(1, ceil(share, most))
    parts = max(parts, min(PARTS, share * moved_bytes // (2 * DMA_BYTES)))
    tile = up(ceil(share, parts), 64)
    return cut((tile,), ceil(elements, tile), cores)


def rows(height: int, width: int, moved_bytes: int, kept_bytes: int, cores: int, ub: int,
         fewest: bool = False) -> Cut:
    """Tiles of whole rows; a row that does not fit is cut along its width. fewest: one row a tile, or what makes
    ROW_BYTES of fp32."""
    room = int(ub * UB_SHARE) // (2 * moved_bytes + kept_bytes)
    if width > room or width * 4 > REDUCE_BYTES:
        pieces = max(ceil(width, room), ceil(width * 4, REDUCE_BYTES))
        piece = up(ceil(width, pieces), 64)
        return cut((1, piece), height, cores)
    share = ceil(height, cores)
    most = max(1, room // width)
    parts = max(1, ceil(share, most))
    parts = min(share, max(parts, min(PARTS, share * width * moved_bytes // (2 * DMA_BYTES))))
    tile = ceil(share, parts)
    if fewest:
        tile = min(tile, max(1, ROW_BYTES // (4 * width)))
    return cut((tile, width), ceil(height, tile), cores)
