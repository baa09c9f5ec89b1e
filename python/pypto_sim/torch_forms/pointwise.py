"""Activations and other element-by-element operations."""
from __future__ import annotations

from typing import Any

import pypto_sim as pypto

from .base import bools, floats, form, positive

X = floats(8, 64)


@form("nn.GELU", "F.gelu", torch="F.gelu(x)", x=X, outputs=X,
      note="F.gelu(x, approximate='tanh') is gelu_tanh.")
def gelu(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.mul(pypto.mul(x, 0.5), pypto.add(pypto.erf(pypto.mul(x, 0.5**0.5)), 1.0))


@form("gelu_tanh", "gelu_new", "GELUTanh", torch="F.gelu(x, approximate='tanh')", x=X, outputs=X)
def gelu_tanh(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    cubed = pypto.mul(pypto.mul(x, x), x)
    inner = pypto.mul(pypto.add(x, pypto.mul(cubed, 0.044715)), 0.7978845608)      # sqrt(2 / pi)
    return pypto.mul(pypto.mul(x, 0.5), pypto.add(pypto.tanh(inner), 1.0))


@form("sigmoid", "nn.Sigmoid", torch="torch.sigmoid(x)", x=X, outputs=X)
def sigmoid(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.sigmoid(x)


@form("silu", "nn.SiLU", "swish", torch="F.silu(x)", x=X, outputs=X)
def silu(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.mul(x, pypto.sigmoid(x))


@form("glu", "nn.GLU", torch="F.glu(x, -1)", x=X, outputs=floats(8, 32))
def glu(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 32)
    value = pypto.view(x, [8, 32], [0, 0])
    gate = pypto.view(x, [8, 32], [0, 32])
    return pypto.mul(value, pypto.sigmoid(gate))


@form("relu", "nn.ReLU", torch="F.relu(x)", x=X, outputs=X)
def relu(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.relu(x)


@form("tanh", "nn.Tanh", torch="torch.tanh(x)", x=X, outputs=X)
def tanh(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.tanh(x)


@form("rsqrt", torch="torch.rsqrt(x)", x=positive(8, 64), outputs=X)
def rsqrt(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.rsqrt(x)


@form("clamp", "clip", torch="torch.clamp(x, -0.5, 0.5)", x=X, outputs=X)
def clamp(x: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.clip(x, -0.5, 0.5)


@form("where", torch="torch.where(mask, x, y)", mask=bools(8, 64), x=X, y=X, outputs=X)
def where(mask: Any, x: Any, y: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.where(mask, x, y)


@form("masked_fill", torch="x.masked_fill(mask, -1e9)", x=X, mask=bools(8, 64), outputs=X,
      note="A float scalar counts as FP32: beside FP16 or BF16 pass pypto.Element(dtype, value).")
def masked_fill(x: Any, mask: Any) -> Any:
    pypto.set_vec_tile_shapes(8, 64)
    return pypto.where(mask, -1e9, x)
