"""Reductions, running sums and sorting."""
from __future__ import annotations

from typing import Any

import pypto_sim as pypto

from .base import floats, form, ints

X = floats(8, 64)


@form("softmax", "nn.Softmax", torch="torch.softmax(x, -1)", x=X, outputs=X)
def softmax(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.softmax(x, -1)


@form("mean", torch="x.mean(-1, keepdim=True)", x=X, outputs=floats(8, 1),
      note="Cast FP16 and BF16 to FP32 before the sum.")
def mean(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.div(pypto.sum(x, -1, True), 64.0)


@form("argmax", torch="torch.argmax(x, -1, keepdim=True)", x=X, outputs=ints(64, 8, 1),
      note="The index is INT32; torch gives int64.")
def argmax(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.argmax(x, -1, True)


@form("cumsum", torch="torch.cumsum(x, -1)", x=X, outputs=X)
def cumsum(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.cumsum(x, -1)


@form("topk", torch="torch.topk(x, 8)", x=X, outputs=(floats(8, 8), ints(64, 8, 8)),
      note="Last axis only; the index is INT32.")
def topk(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.topk(x, 8, -1)


@form("sort", torch="torch.sort(x, -1)", x=X, outputs=(X, ints(64, 8, 64)),
      note="topk of the whole last axis; argsort where the indices alone are wanted.")
def sort(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.topk(x, 64, -1, False)
