"""Convolutions and attention."""
from __future__ import annotations

from typing import Any

import pypto_sim as pypto

from .base import floats, form, whole


@form("nn.Conv2d", "F.conv2d", torch="F.conv2d(x, weight, bias, stride=1, padding=1)", x=whole(2, 16, 8, 8),
      weight=whole(32, 16, 3, 3), bias=whole(32), outputs=floats(2, 32, 8, 8),
      note="Strides, paddings and dilations are lists; groups= as in torch; without a bias leave extend_params out. "
           "The L1 tile holds 10 x 10 padded input places for 8 x 8 of the result.")
def conv2d(x: Any, weight: Any, bias: Any) -> Any:
    pypto.set_conv_tile_shapes(pypto.TileL1Info(tileHin=10, tileHout=8, tileWin=10, tileWout=8, tileCinFmap=16,
                                                tileCinWeight=16, tileN=32))
    return pypto.conv(x, weight, pypto.DT_FP32, [1, 1], [1, 1], [1, 1], extend_params={"bias_tensor": bias})


@form("nn.Conv1d", "F.conv1d", torch="F.conv1d(x, weight, stride=2, padding=1)", x=whole(2, 16, 32),
      weight=whole(16, 16, 3), outputs=floats(2, 16, 16))
def conv1d(x: Any, weight: Any) -> Any:
    pypto.set_conv_tile_shapes(pypto.TileL1Info(tileHin=1, tileHout=1, tileWin=33, tileWout=16, tileCinFmap=16,
                                                tileCinWeight=16, tileN=16))
    return pypto.conv(x, weight, pypto.DT_FP32, [2], [1], [1])


@form("nn.Conv3d", "F.conv3d", torch="F.conv3d(x, weight, stride=1, padding=0)", x=whole(1, 16, 4, 8, 8),
      weight=whole(16, 16, 2, 3, 3), outputs=floats(1, 16, 3, 6, 6))
def conv3d(x: Any, weight: Any) -> Any:
    pypto.set_conv_tile_shapes(pypto.TileL1Info(tileHin=8, tileHout=6, tileWin=8, tileWout=6, tileCinFmap=16,
                                                tileCinWeight=16, tileN=16))
    return pypto.conv(x, weight, pypto.DT_FP32, [1, 1, 1], [0, 0, 0], [1, 1, 1])


@form("scaled_dot_product_attention", "F.scaled_dot_product_attention", "sdpa",
      torch="F.scaled_dot_product_attention(q, k, v)", q=floats(2, 4, 16, 32), k=floats(2, 4, 64, 32),
      v=floats(2, 4, 64, 32), outputs=floats(2, 4, 16, 32),
      note="A mask is added to the scores before softmax; causal_attention has the causal one. The scores of a head "
           "stay on the chip only while they are short: `pypto-sim compare attention` shows online and flash forms.")
def scaled_dot_product_attention(q: Any, k: Any, v: Any) -> Any:
    pypto.set_cube_tile_shapes([16, 16], [32, 32], [64, 64])
    scores = pypto.matmul(q, k, pypto.DT_FP32, b_trans=True)
    pypto.set_vec_tile_shapes(1, 1, 16, 64)
    shares = pypto.softmax(pypto.mul(scores, 32 ** -0.5), -1)
    pypto.set_cube_tile_shapes([16, 16], [64, 64], [32, 32])
    return pypto.matmul(shares, v, pypto.DT_FP32)


@form("causal_attention", torch="F.scaled_dot_product_attention(q, k, v, is_causal=True)", q=floats(4, 16, 32),
      k=floats(4, 16, 32), v=floats(4, 16, 32), outputs=floats(4, 16, 32),
      note="The mask has 0 where a query may look and -1e30 elsewhere.")
def causal_attention(q: Any, k: Any, v: Any) -> Any:
    pypto.set_cube_tile_shapes([16, 16], [32, 32], [16, 16])
    scores = pypto.matmul(q, k, pypto.DT_FP32, b_trans=True)
    pypto.set_vec_tile_shapes(1, 16, 16)
    hidden = pypto.triu(pypto.full([1, 16, 16], -1e30, pypto.DT_FP32), 1)
    shares = pypto.softmax(pypto.add(pypto.mul(scores, 32 ** -0.5), hidden), -1)
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [32, 32])
    return pypto.matmul(shares, v, pypto.DT_FP32)
