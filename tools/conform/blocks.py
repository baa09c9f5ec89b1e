"""Kernels of the cases: a loop over the blocks of an iteration space, tails by valid shape."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pypto_sim as pypto
from pypto_sim.trace.tensor import Tensor

from .cases import Case

WHOLE = None


@dataclass(frozen=True, slots=True)
class Scaled:
    """A tensor axis with `times`/`per` elements for every one of the grid axis."""

    grid: int
    times: int = 1
    per: int = 1


Map = tuple["int | Scaled | None", ...]      # per tensor axis: the grid axis it follows, None for the whole axis


@dataclass(frozen=True, slots=True)
class Layout:
    """Which part of every tensor belongs to a block of the grid.

    grid: sizes of the iteration space. block: sizes of one step. ins, outs: one Map per tensor.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    ins: tuple[Map, ...]
    outs: tuple[Map, ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """Blocks along every grid axis."""
        return tuple(-(-n // b) if n else 0 for n, b in zip(self.grid, self.block, strict=True))


def block_of(grid: Sequence[int], view: Sequence[int], whole: Sequence[int] = ()) -> tuple[int, ...]:
    """Block sizes: the view's entries, -1 and the axes `whole` cover the grid; a view of another rank aligns left."""
    sizes = []
    for axis, n in enumerate(grid):
        v = view[axis] if axis < len(view) else -1
        sizes.append(max(n, 1) if v <= 0 or axis in whole else v)
    return tuple(sizes)


def aligned(shape: Sequence[int], grid: Sequence[int]) -> Map:
    """Broadcasting: axes from the right; size 1 stays whole."""
    skip = len(grid) - len(shape)
    return tuple(WHOLE if n == 1 and grid[skip + i] != 1 else skip + i for i, n in enumerate(shape))


def elementwise(case: Case) -> Layout:
    """Operands broadcast to the first output."""
    grid = case.outs[0].shape
    return Layout(grid, block_of(grid, case.view), tuple(aligned(t.shape, grid) for t in case.ins),
                  tuple(aligned(t.shape, grid) for t in case.outs))


def reducible(case: Case, layout: Layout) -> tuple[int, ...] | None:
    """Grid axes that a case may be cut along, longest first."""
    axes = {m for m in layout.outs[0] if isinstance(m, int)}
    scaled = {m.grid for maps in (layout.ins, layout.outs) for one in maps for m in one if isinstance(m, Scaled)}
    found = sorted(axes - scaled, key=lambda a: -layout.grid[a])
    return tuple(found) or None


def cut_sizes(case: Case, layout: Layout, axis: int, size: int) -> dict[tuple[int, int, str], int]:
    """Axes of the tensors that follow grid axis `axis`, with their new size."""
    sizes = {}
    for side, maps, specs in (("in", layout.ins, case.ins), ("out", layout.outs, case.outs)):
        for i, one in enumerate(maps):
            for a, m in enumerate(one):
                if m == axis and specs[i].shape[a] == layout.grid[axis]:
                    sizes[i, a, side] = size
    return sizes


def part(t: Any, one: Map, layout: Layout, at: Sequence[Any], shape: Sequence[int]) -> Any:
    """The block of tensor `t` at the grid position `at`."""
    sizes, offsets = [], []
    for m, n in zip(one, shape, strict=True):
        if m is WHOLE:
            sizes.append(n)
            offsets.append(0)
        elif isinstance(m, Scaled):
            sizes.append(layout.block[m.grid] * m.times // m.per)
            offsets.append(at[m.grid] * m.times // m.per)
        else:
            sizes.append(layout.block[m])
            offsets.append(at[m])
    return pypto.view(t, sizes, offsets)


def place(one: Map, at: Sequence[Any]) -> list[Any]:
    """Where a block goes in a tensor."""
    return [0 if m is WHOLE else at[m.grid] * m.times // m.per if isinstance(m, Scaled) else at[m] for m in one]


def kernel(body: Callable[..., Any], annotations: Sequence[Tensor]) -> Any:
    """A kernel with one parameter per annotation that calls `body` with them."""
    scope: dict[str, Any] = {"body": body, **{f"t{i}": a for i, a in enumerate(annotations)}}
    names = [f"x{i}" for i in range(len(annotations))]
    parameters = ", ".join(f"{n}: t{i}" for i, n in enumerate(names))
    exec(f"def case({parameters}):\n    body({', '.join(names)})\n", scope)
    return pypto.frontend.jit(scope["case"])


def annotation(spec: Any) -> Tensor:
    """Annotation of a kernel parameter: element type and format, any shape."""
    fmt = pypto.TileOpFormat.TILEOP_NZ if spec.format == "NZ" else pypto.TileOpFormat.TILEOP_ND
    return pypto.Tensor([], spec.type, format=fmt)


def looped(layout: Layout, body: Callable[[list[Any]], None]) -> None:
    """Nested loops over the blocks; `body` gets the offset along every grid axis."""
    steps = layout.steps
    looping = [a for a, n in enumerate(steps) if n > 1] or [0]

    def nest(depth: int, at: list[Any]) -> None:
        if depth == len(looping):
            body(at)
            return
        axis = looping[depth]
        for i in pypto.loop(steps[axis]):
            nest(depth + 1, [*at[:axis], i * layout.block[axis], *at[axis + 1:]])

    nest(0, [0] * len(steps))


def set_tiles(case: Case, rank: int) -> None:
    """The vector tile of the case; where it has fewer entries than axes, whole axes come first."""
    tile = [t for t in case.tile if isinstance(t, int)]
    if tile:
        pypto.set_vec_tile_shapes(*([1] * (rank - len(tile)) + tile if len(tile) < rank else tile))


def outputs(case: Case) -> list[np.ndarray]:
    """Arrays for the results, filled with a pattern that no case expects."""
    return [np.frombuffer(b"\xa5" * (math.prod(t.stored) * t.np_dtype.itemsize), t.np_dtype).reshape(t.stored).copy()
            for t in case.outs]


def placed(call: Callable[..., Any]) -> Callable[..., Any]:
    """Mark `call` as one that takes the grid position before the blocks."""
    call.placed = True  # type: ignore[attr-defined]
    return call


def rest(layout: Layout, at: Sequence[Any]) -> list[Any]:
    """Valid sizes of a block at `at`: what the grid has left."""
    return [b if n % b == 0 else pypto.min(b, n - a) if not isinstance(a, int) else min(b, n - a)
            for n, b, a in zip(layout.grid, layout.block, at, strict=True)]


def run_blocks(case: Case, layout: Layout, arrays: Sequence[np.ndarray], call: Callable[..., Any]) -> list[np.ndarray]:
    """Run `call` on every block of the inputs and store what it returns in the outputs."""
    results = outputs(case)
    given = len(arrays)

    def body(*tensors: Tensor) -> None:
        def step(at: list[Any]) -> None:
            set_tiles(case, max(len(s.shape) for s in case.ins + case.outs))
            blocks = [part(t, m, layout, at, s.stored)
                      for t, m, s in zip(tensors[:given], layout.ins, case.ins, strict=True)]
            made = call(at, *blocks) if hasattr(call, "placed") else call(*blocks)
            for out, m, r in zip(tensors[given:], layout.outs, made if isinstance(made, tuple) else (made,),
                                 strict=True):
                pypto.assemble(r, place(m, at), out)
        looped(layout, step)

    launch(body, [*case.ins, *case.outs], [*arrays, *results])
    return results


def launch(body: Callable[..., Any], specs: Sequence[Any], arrays: Sequence[np.ndarray]) -> None:
    """Run `body` as a kernel on arrays."""
    kernel(body, [annotation(s) for s in specs])(*arrays)
