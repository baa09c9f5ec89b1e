"""Arguments of a strategy at one config: seeded arrays for numerics, `Spec` for cost-only runs."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import pypto_sim as pypto

from .base import DTYPES, Arg, Config, Operator, Strategy

CHUNK_ELEMENTS = 1 << 22   # draws of this size keep the float32 staging buffer small
SPEC_DATA_ELEMENTS = 4096  # sequence bounds and page tables are handed to cost-only runs, index lists are not


def tensors(operator: Operator, strategy: Strategy, config: Config) -> dict[str, Arg]:
    """All tensors of a strategy by name."""
    return {**operator.tensors(config), **strategy.tensors(config)}


def draw(preset: str, name: str, arg: Arg) -> np.ndarray:
    """Input tensor, the same for every strategy and run: the seed is the preset's name and the tensor's."""
    rng = np.random.default_rng([*preset.encode(), 0, *name.encode()])
    dtype = DTYPES[arg.dtype].np_dtype
    if arg.make is not None:
        return np.ascontiguousarray(arg.make(rng).astype(dtype)).reshape(arg.shape)
    out = np.empty(arg.shape, dtype)
    flat = out.reshape(-1)
    for start in range(0, flat.size, CHUNK_ELEMENTS):
        part = flat[start:start + CHUNK_ELEMENTS]
        values = rng.standard_normal(part.size, dtype=np.float32)
        if arg.scale != 1.0:
            values *= np.float32(arg.scale)
        part[:] = values
    return out


class InputCache:
    """Inputs of one comparison; a tensor is drawn once and kept until the config no longer uses it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], np.ndarray] = {}

    def arrays(self, preset: str, args: Mapping[str, Arg]) -> dict[str, np.ndarray]:
        """Inputs by name; they are read-only views, so that no kernel can spoil another's run."""
        wanted: dict[tuple[Any, ...], np.ndarray] = {}
        found = {}
        for name, arg in args.items():
            if arg.role != "in" or arg.alias:
                continue
            key = (preset, name, arg.shape, arg.dtype, arg.scale)
            array = self._kept.get(key) if arg.make is None else None
            if array is None:
                array = draw(preset, name, arg)
                array.flags.writeable = False
            wanted[key] = found[name] = array
        self._kept = wanted | {k: v for k, v in self._kept.items() if k[0] == preset and k[1] not in found}
        return found


def outputs(args: Mapping[str, Arg]) -> dict[str, np.ndarray]:
    """Zeroed output and intermediate tensors."""
    return {name: np.zeros(arg.shape, DTYPES[arg.dtype].np_dtype) for name, arg in args.items()
            if arg.role != "in" and not arg.alias}


def aliased(arrays: dict[str, np.ndarray], args: Mapping[str, Arg]) -> dict[str, np.ndarray]:
    """The arrays and, for every alias, the same memory in the alias's shape."""
    return arrays | {name: arrays[arg.alias].reshape(arg.shape) for name, arg in args.items() if arg.alias}


def specs(preset: str, args: Mapping[str, Arg]) -> dict[str, Any]:
    """`Spec` per tensor; small integer tensors carry their data, since loop bounds may come from them."""
    found = {}
    for name, arg in args.items():
        known = arg.make is not None and arg.dtype == "int32" and np.prod(arg.shape) <= SPEC_DATA_ELEMENTS
        data = draw(preset, name, arg) if known else None
        found[name] = pypto.Spec(arg.shape, DTYPES[arg.dtype], data=data)
    return found


def draw_one(operator: Operator, config: Config, name: str) -> np.ndarray:
    """One of the operator's shared inputs."""
    return draw(config["preset"], name, operator.tensors(config)[name])


def draw_inputs(operator: Operator, config: Config) -> dict[str, np.ndarray]:
    """The operator's shared inputs by name."""
    return {name: draw(config["preset"], name, arg) for name, arg in operator.tensors(config).items()
            if arg.role == "in"}
