"""Run a function of tensors as a kernel of its own and get its results: for tests and examples."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import pypto_sim as pypto

from ..dtypes import DataType
from ..trace.tensor import Tensor, static_shape


def evaluate(function: Callable[..., Any], *arrays: Any, tile: Sequence[int] | None = (8, 64),
             valid: Mapping[int, Sequence[int]] | None = None, fill: int | float = 0,
             **settings: Any) -> list[np.ndarray]:
    """Results of `function` on `arrays`, which stay untouched.

    function: takes one tensor per array, returns a tensor or a tuple of tensors; it runs twice, the first time to learn
    the shapes. arrays: numpy or ml_dtypes arrays. tile: vector tile, None for none. valid: {argument number: valid
    shape}. fill: what the results hold outside their valid region. settings: of `pypto_sim.config`, such as
    profile="master".
    """
    inputs = [np.ascontiguousarray(a) for a in arrays]
    made: list[tuple[tuple[int, ...], DataType]] = []

    def run(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if tile is not None:
            pypto.set_vec_tile_shapes(*tile)
        extents = valid or {}
        operands = [pypto.view(t, list(a.shape), [0] * a.ndim, valid_shape=list(extents[i])) if i in extents else t
                    for i, (t, a) in enumerate(zip(tensors, inputs, strict=True))]
        results = function(*operands)
        return results if isinstance(results, tuple) else (results,)

    def probe(*tensors: Tensor) -> None:
        made[:] = [(static_shape(t), t.dtype) for t in run(tensors)]

    def compute(*tensors: Tensor) -> None:
        for out, result in zip(tensors[len(inputs):], run(tensors[:len(inputs)]), strict=True):
            out.move(result)

    with pypto.config(**{"mode": "step", **settings}):
        _kernel(probe, len(inputs))(*inputs)
        outputs = [np.full(shape, fill).astype(dtype.np_dtype) for shape, dtype in made]
        kinds = [Tensor([], dtype) for _, dtype in made]
        _kernel(compute, len(inputs) + len(outputs), kinds)(*inputs, *outputs)
    return outputs


def _kernel(body: Callable[..., Any], count: int, last: Sequence[Tensor] = ()) -> Any:
    """A kernel with `count` tensor parameters that calls `body` with them; `last`: annotations of the last ones."""
    names = [f"x{i}" for i in range(count)]
    kinds = [*(Tensor() for _ in range(count - len(last))), *last]
    scope: dict[str, Any] = {"body": body, **{f"t{i}": t for i, t in enumerate(kinds)}}
    parameters = ", ".join(f"{n}: t{i}" for i, n in enumerate(names))
    exec(f"def operation({parameters}):\n    body({', '.join(names)})\n", scope)
    return pypto.frontend.jit(scope["operation"])


def show(function: Callable[..., Any], *values: Any) -> Any:
    """First result of `function` on FP32 arrays of `values`, as nested lists: for examples."""
    return evaluate(function, *(np.array(v, np.float32) for v in values))[0].tolist()
