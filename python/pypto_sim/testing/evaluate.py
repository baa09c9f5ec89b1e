"""Run a function of tensors on arrays, one operation at a time, and look at the results: for tests and examples."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ops  # noqa: F401 - fills the registry
from ..config import active
from ..config import config as configured
from ..dtypes import from_numpy
from ..registry import REGISTRY
from ..trace.context import Running
from ..trace.lower import Builder
from ..trace.session import warn
from ..trace.stepper import Stepper
from ..trace.tensor import Tensor
from ..trace.tiles import CubeTile, Scope


def evaluate(function: Callable[..., Any], *arrays: Any, tile: Sequence[int] | None = (8, 64),
             cube: CubeTile | None = None, valid: Mapping[int, Sequence[int]] | None = None, fill: int | float = 0,
             **settings: Any) -> list[np.ndarray]:
    """Results of `function` on `arrays`, which stay untouched.

    function: takes one tensor per array, returns a tensor or a tuple of tensors. arrays: numpy or ml_dtypes arrays.
    tile, cube: tile shapes in force, None for none. valid: {argument number: valid shape}. fill: what the results hold
    outside their valid region. settings: of `pypto_sim.config`, such as profile="master". Rules warn as in a kernel.
    """
    inputs = [np.array(a) for a in arrays]
    types = [from_numpy(a.dtype) for a in inputs]
    with configured(**settings):
        config = active()
    names = [f"x{i}" for i in range(len(inputs))]
    builder = Builder(config.numerics, [(a.shape, t.code, n) for a, t, n in zip(inputs, types, names, strict=True)])
    scope = Scope(vec_tile=tuple(tile) if tile is not None else None, cube_tile=cube)
    stepper = Stepper(builder, [a.reshape(-1).view(np.uint8) for a in inputs], 1, config, "evaluate", scope)
    try:
        with Running(stepper):
            operands = []
            for i, (a, t) in enumerate(zip(inputs, types, strict=True)):
                handle = Tensor.handle(a.shape, t, None, stepper, builder.args[i], names[i])
                handle.arg = i
                if valid and i in valid:
                    handle = REGISTRY["view"].function(handle, list(a.shape), [0] * a.ndim, valid_shape=list(valid[i]))
                operands.append(handle)
            results = function(*operands)
            return [_values(stepper, t, fill) for t in (results if isinstance(results, tuple) else (results,))]
    finally:
        for finding in stepper.findings.values():
            if finding.severity == "warn":
                warn(finding)


def _values(stepper: Stepper, t: Tensor, fill: int | float) -> np.ndarray:
    """Data of a tensor; `fill` outside its valid region."""
    box = tuple(slice(n) for n in stepper.machine.valid(t.key))
    out = np.full(t.static_shape, fill).astype(t.dtype.np_dtype)
    out[box] = stepper.values(t)[box]
    return out


def show(function: Callable[..., Any], *values: Any) -> Any:
    """First result of `function` on FP32 arrays of `values`, as nested lists: for examples."""
    return evaluate(function, *(np.array(v, np.float32) for v in values))[0].tolist()
