"""Operations that move, copy, cut or create."""
from __future__ import annotations

from typing import Any

import pypto_sim as pypto

from .base import floats, form

X = floats(8, 64)


@form("cat", "concat", "concatenate", torch="torch.cat([x, y], 0)", x=X, y=X, outputs=floats(16, 64))
def cat(x: Any, y: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.concat([x, y], 0)


@form("stack", torch="torch.stack([x, y], 0)", x=X, y=X, outputs=floats(2, 8, 64))
def stack(x: Any, y: Any) -> Any:
    pypto.set_vec_tile_shapes(1, 8, 64)
    return pypto.concat([pypto.unsqueeze(x, 0), pypto.unsqueeze(y, 0)], 0)


@form("chunk", torch="torch.chunk(x, 2, -1)", x=X, outputs=(floats(8, 32), floats(8, 32)))
def chunk(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 32)
    return pypto.view(x, [8, 32], [0, 0]), pypto.view(x, [8, 32], [0, 32])


@form("split", torch="torch.split(x, [48, 16], -1)", x=X, outputs=(floats(8, 48), floats(8, 16)))
def split(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 16)
    return pypto.view(x, [8, 48], [0, 0]), pypto.view(x, [8, 16], [0, 48])


@form("roll", torch="torch.roll(x, 16, -1)", x=X, outputs=X)
def roll(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 16)
    return pypto.concat([pypto.view(x, [8, 16], [0, 48]), pypto.view(x, [8, 48], [0, 0])], -1)


@form("repeat", "tile", torch="x.repeat(2, 1)", x=X, outputs=floats(16, 64))
def repeat(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.concat([x, x], 0)


@form("repeat_interleave", "repeat_kv", torch="torch.repeat_interleave(x, 2, 0)", x=X, outputs=floats(16, 64))
def repeat_interleave(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 2, 64)
    copies = pypto.expand_clone(pypto.unsqueeze(x, 1), [8, 2, 64])
    pypto.set_vec_tile_shapes(16, 64)
    return pypto.reshape(copies, [16, 64])


@form("squeeze", torch="torch.squeeze(x, 1)", x=floats(8, 1, 64), outputs=X, note="PyPTO has no squeeze.")
def squeeze(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.reshape(x, [8, 64])


@form("unsqueeze", torch="torch.unsqueeze(x, 1)", x=X, outputs=floats(8, 1, 64))
def unsqueeze(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 1, 64)
    return pypto.unsqueeze(x, 1)


@form("transpose", "swapaxes", "t", torch="torch.transpose(x, 0, 1)", x=X, outputs=floats(64, 8))
def transpose(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.transpose(x, 0, 1)


@form("tril", torch="torch.tril(x)", x=floats(32, 32), outputs=floats(32, 32))
def tril(x: Any) -> Any:
    pypto.set_vec_tile_shapes(32, 32)
    return pypto.tril(x)


@form("triu", torch="torch.triu(x, 1)", x=floats(32, 32), outputs=floats(32, 32))
def triu(x: Any) -> Any:
    pypto.set_vec_tile_shapes(32, 32)
    return pypto.triu(x, 1)


@form("arange", torch="torch.arange(0.0, 64.0)", outputs=floats(64))
def arange() -> Any:
    pypto.set_vec_tile_shapes(64)
    return pypto.arange(0.0, 64.0)
