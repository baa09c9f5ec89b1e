"""Layers with weights, matrix products and look-ups."""
from __future__ import annotations

from typing import Any

import pypto_sim as pypto

from .base import floats, form, ints


@form("nn.Linear", "F.linear", torch="F.linear(x, weight, bias)", x=floats(16, 64), weight=floats(32, 64),
      bias=floats(1, 32), outputs=floats(16, 32), note="The bias is [1, N]; without one leave extend_params out.")
def linear(x: Any, weight: Any, bias: Any) -> Any:
    pypto.set_cube_tile_shapes([16, 16], [64, 64], [32, 32])
    return pypto.matmul(x, weight, pypto.DT_FP32, b_trans=True, extend_params={"bias_tensor": bias})


@form("matmul", "mm", torch="x @ y", x=floats(16, 64), y=floats(64, 32), outputs=floats(16, 32))
def matmul(x: Any, y: Any) -> Any:
    pypto.set_cube_tile_shapes([16, 16], [64, 64], [32, 32])
    return pypto.matmul(x, y, pypto.DT_FP32)


@form("bmm", torch="torch.bmm(x, y)", x=floats(2, 16, 64), y=floats(2, 64, 32), outputs=floats(2, 16, 32))
def bmm(x: Any, y: Any) -> Any:
    pypto.set_cube_tile_shapes([16, 16], [64, 64], [32, 32])
    return pypto.matmul(x, y, pypto.DT_FP32)


@form("nn.Embedding", "F.embedding", torch="F.embedding(ids.long(), weight)", weight=floats(32, 16),
      ids=ints(32, 2, 8), outputs=floats(2, 8, 16))
def embedding(weight: Any, ids: Any) -> Any:
    pypto.set_vec_tile_shapes(2, 8, 16)
    return pypto.index_select(weight, 0, ids)


@form("index_select", torch="torch.index_select(x, 0, index)", x=floats(32, 16), index=ints(32, 8),
      outputs=floats(8, 16))
def index_select(x: Any, index: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 16)
    return pypto.index_select(x, 0, index)


@form("gather", torch="torch.gather(x, 1, index.long())", x=floats(8, 64), index=ints(64, 8, 16),
      outputs=floats(8, 16))
def gather(x: Any, index: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 16)
    return pypto.gather(x, 1, index)


@form("layer_norm", "nn.LayerNorm", torch="F.layer_norm(x, [64], weight[0], bias[0], 1e-5)", x=floats(8, 64),
      weight=floats(1, 64), bias=floats(1, 64), outputs=floats(8, 64))
def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    centred = pypto.sub(x, pypto.div(pypto.sum(x, -1, True), 64.0))
    variance = pypto.div(pypto.sum(pypto.mul(centred, centred), -1, True), 64.0)
    scaled = pypto.mul(centred, pypto.rsqrt(pypto.add(variance, 1e-5)))
    return pypto.add(pypto.mul(scaled, weight), bias)


@form("rms_norm", "nn.RMSNorm", torch="F.rms_norm(x, [64], weight, 1e-6)", x=floats(8, 64), weight=floats(64),
      outputs=floats(8, 64))
def rms_norm(x: Any, weight: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.rms_norm(x, weight, 1e-6)
