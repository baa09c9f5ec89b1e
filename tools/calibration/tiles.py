"""The one rule that cuts vector work where a row names no tiles.

The work is a matrix of equal rows. One task per AIV core, so that a launch hands out every core once; a task goes over
its share in equal tiles, at least three where the tiles stay above 16 KB, so that loads, computation and stores of
neighbouring tiles overlap; a tile's operands and temporaries take at most a third of UB. A task of more than
TASK_TILES tiles is cut into several.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DMA_BYTES = 16384           # a transfer below it does not reach the full rate (vendor material)
REDUCE_BYTES = 65536        # widest tile of a row reduction
TASK_TILES = 24


@dataclass(frozen=True, slots=True)
class Cut:
    """tile: rows and columns of a tile; options: pass options that put a core's tiles into one task."""
    tile: tuple[int, ...]
    options: dict[str, Any]


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def up(a: int, unit: int) -> int:
    return ceil(a, unit) * unit


def merged(tiles: int, cores: int) -> dict[str, Any]:
    """Pass options: about one task, or equally many tasks, per core out of `tiles` equal ones."""
    rounds = ceil(tiles, cores * TASK_TILES)
    return {"vec_nbuffer_setting": {-2: 1, -1: max(1, ceil(tiles, cores * rounds))}}


def flat(elements: int, live_bytes: int, move_bytes: int, cores: int, ub: int) -> Cut:
    """Tiles of a tensor without structure. live_bytes: UB bytes per element of operands and temporaries together;
    move_bytes: bytes per element of the widest operand in global memory."""
    share = ceil(elements, cores)
    most = ub // 3 // live_bytes
    parts = max(1, ceil(share, most))
    parts = max(parts, min(3, share * move_bytes // DMA_BYTES))
    tile = up(ceil(share, parts), 64)
    return Cut((tile,), merged(ceil(elements, tile), cores))


def rows(height: int, width: int, live_bytes: int, move_bytes: int, cores: int, ub: int) -> Cut:
    """Tiles of whole rows; a row that does not fit is cut along its width."""
    room = max(32, ub // 3 // live_bytes)
    if width > room or width * 4 > REDUCE_BYTES:
        pieces = max(ceil(width, room), ceil(width * 4, REDUCE_BYTES))
        piece = up(ceil(width, pieces), 64)
        return Cut((1, piece), merged(height, cores))
    share = ceil(height, cores)
    most = max(1, room // width)
    parts = max(1, ceil(share, most))
    parts = min(share, max(parts, min(3, share * width * move_bytes // DMA_BYTES)))
    tile = ceil(share, parts)
    return Cut((tile, width), merged(ceil(height, tile), cores))
