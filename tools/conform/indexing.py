"""Reading and writing by index, and one-hot rows."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pypto_sim as pypto
from pypto_sim.dtypes import from_short

from .blocks import WHOLE, Layout, block_of, launch, looped, part, set_tiles
from .cases import Case
from .compare import Expected
from .draw import distinct, draw, generator, number
from .movement import stored
from .row import TABLE, Arrays, Row, f64, half_ulp


def _axis(case: Case, rank: int) -> int:
    return case.attrs["axis"] % rank


# --- look-up ---------------------------------------------------------------------------------------------------------
def _look_up_layout(case: Case) -> Layout:
    table, index = (t.shape for t in case.ins)
    axis, grid = _axis(case, len(table)), case.outs[0].shape
    n = len(index)
    source = tuple(WHOLE if a == axis else a if a < axis else a + n - 1 for a in range(len(table)))
    return Layout(grid, block_of(grid, case.view), (source, tuple(range(axis, axis + n))), (tuple(range(len(grid))),))


TABLE["Gather"] = Row(
    lambda case: lambda x, i: pypto.index_select(x, case.attrs["axis"], i),
    lambda case, arrays: [Expected(stored(np.take(arrays[0], arrays[1], case.attrs["axis"])))], "exact",
    layout=_look_up_layout, only_950=("bool",))


def _element_layout(case: Case) -> Layout:
    grid = case.ins[1].shape
    axis = _axis(case, len(grid))
    source = tuple(WHOLE if a == axis else a for a in range(len(grid)))
    axes = tuple(range(len(grid)))
    return Layout(grid, block_of(grid, case.view), (source, axes), (axes,))


def _elements(case: Case, arrays: Arrays) -> list[Expected]:
    x, index = arrays
    axis = _axis(case, x.ndim)
    cropped = x[tuple(slice(None) if a == axis else slice(n) for a, n in enumerate(index.shape))]
    return [Expected(stored(np.take_along_axis(cropped, index.astype(np.int64), axis)))]


TABLE["GatherElement"] = Row(lambda case: lambda x, i: pypto.gather(x, case.attrs["axis"], i), _elements, "exact",
                             layout=_element_layout, refused=("int8", "uint8"))


def _one_hot_layout(case: Case) -> Layout:
    grid = case.ins[0].shape
    axes = tuple(range(len(grid)))
    return Layout(grid, block_of(grid, case.view[:len(grid)]), (axes,), ((*axes, WHOLE),))


def _one_hot(case: Case, arrays: Arrays) -> list[Expected]:
    return [Expected(np.eye(case.attrs["num_classes"], dtype=np.int64)[arrays[0].astype(np.int64)])]


TABLE["OneHot"] = Row(lambda case: lambda x: pypto.one_hot(x, case.attrs["num_classes"]), _one_hot, "exact",
                      layout=_one_hot_layout)


# --- scatter ---------------------------------------------------------------------------------------------------------
def _scatter_layout(case: Case) -> Layout:
    """Blocks off the axis where index and input are equally long, else whole."""
    grid, index = case.ins[0].shape, case.ins[1].shape
    axis = _axis(case, len(grid))
    same = [a for a in range(len(grid)) if a != axis and all(t.shape[a] == grid[a] for t in case.ins)]
    whole = tuple(a for a in range(len(grid)) if a not in same)
    one = tuple(a if a in same else WHOLE for a in range(len(grid)))
    assert len(index) == len(grid)
    return Layout(grid, block_of(grid, case.view, whole), tuple(one for _ in case.ins), (one,))


def _scatter_inputs(case: Case) -> list[np.ndarray]:
    rng, reduce = generator(case), case.attrs.get("reduce")
    arrays = [draw(rng, t) for t in case.ins]
    if reduce is None and len(case.ins) == 3:
        t = case.ins[1]
        axis, low, high = _axis(case, len(t.shape)), int(number(t.low)), int(number(t.high))
        if high - low >= t.shape[axis]:
            arrays[1] = distinct(rng, t.shape, axis, low, high).astype(t.np_dtype)
    return arrays


def _grid_index(index: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    places = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[axis] = index.astype(np.int64)
    return tuple(np.broadcast_arrays(*places))


def _scatter(case: Case, arrays: Arrays) -> list[Expected]:
    x, index = arrays[:2]
    axis, reduce = _axis(case, x.ndim), case.attrs.get("reduce")
    at = _grid_index(index, axis)
    is_int = case.ins[0].is_int
    y = x.astype(np.int64) if is_int else f64(x)
    kind = np.dtype(case.outs[0].np_dtype)
    if len(arrays) == 3:
        source = arrays[2][tuple(slice(n) for n in index.shape)]
        source = source.astype(np.int64) if is_int else f64(source)
    else:
        number_of_type = np.asarray(case.attrs["src"]).astype(np.float32).astype(kind)
        source = np.broadcast_to(number_of_type.astype(y.dtype), index.shape)
    y = y.copy()
    if reduce is None:
        y[at] = source
        count = np.zeros(y.shape, np.int32)
        np.add.at(count, at, 1)
        twice = count > 1 if len(arrays) == 3 else None
        return [Expected(y.astype(kind) if is_int else y, skip=twice)]
    (np.add if reduce == "add" else np.multiply).at(y, at, source)
    if is_int:
        return [Expected(y.astype(kind))]
    hits, size = np.zeros(y.shape), np.abs(f64(x)).copy()
    np.add.at(hits, at, 1)
    if reduce == "add":
        np.add.at(size, at, np.abs(source))
    else:
        size = np.abs(y)
    return [Expected(y, extra=lambda: 2 * hits * half_ulp(size, kind))]


ROUNDING = "stores exact, positions named twice not compared; add and multiply one rounding per duplicate"
TABLE["Scatter"] = Row(
    lambda case: lambda x, i: pypto.scatter(x, case.attrs["axis"], i, case.attrs["src"],
                                            reduce=case.attrs.get("reduce")),
    _scatter, ROUNDING, layout=_scatter_layout, inputs=_scatter_inputs)
TABLE["ScatterTensor"] = Row(
    lambda case: lambda x, i, s: pypto.scatter(x, case.attrs["axis"], i, s, reduce=case.attrs.get("reduce")),
    _scatter, ROUNDING, layout=_scatter_layout, inputs=_scatter_inputs)


# --- in place --------------------------------------------------------------------------------------------------------
Step = Callable[[Sequence[Any], Callable[[int], Any]], None]


def in_place(case: Case, target: int, layout: Layout, arrays: Sequence[np.ndarray], step: Step) -> list[np.ndarray]:
    """Run `step(tensors, block)` for every block; input `target` is updated and is the result."""
    arrays = [a.copy() if i == target else a for i, a in enumerate(arrays)]

    def body(*tensors: Any) -> None:
        def one(at: list[Any]) -> None:
            set_tiles(case, max(len(t.shape) for t in case.ins))
            step(tensors, lambda i: part(tensors[i], layout.ins[i], layout, at, case.ins[i].stored))
        looped(layout, one)

    launch(body, case.ins, arrays)
    return [arrays[target]]


def _whole_map(rank: int) -> tuple[None, ...]:
    return (WHOLE,) * rank


def _put_layout(case: Case) -> Layout:
    """Blocks of the index tuples."""
    x, values, *indices = case.ins
    grid = indices[0].shape
    return Layout(grid, block_of(grid, case.view[:1]),
                  (_whole_map(len(x.shape)), (0, *_whole_map(len(values.shape) - 1)), *((0,) for _ in indices)),
                  (_whole_map(len(x.shape)),))


def _put_inputs(case: Case) -> list[np.ndarray]:
    """Index tuples that differ."""
    rng = generator(case)
    arrays = [draw(rng, t) for t in case.ins]
    bounds = [(int(number(t.low)), int(number(t.high))) for t in case.ins[2:]]
    room, n = math.prod(b - a for a, b in bounds), case.ins[2].shape[0]
    if room >= n:
        chosen = np.unravel_index(rng.choice(room, n, replace=False), tuple(b - a for a, b in bounds))
        for i, ((low, _), places) in enumerate(zip(bounds, chosen, strict=True), 2):
            arrays[i] = (places + low).astype(case.ins[i].np_dtype)
    return arrays


def _put_run(case: Case, layout: Layout, arrays: Sequence[np.ndarray], call: Any) -> list[np.ndarray]:
    def step(tensors: Sequence[Any], block: Callable[[int], Any]) -> None:
        indices = tuple(block(i) for i in range(2, len(case.ins)))
        pypto.index_put_(tensors[0], indices, block(1), case.attrs["accumulate"])
    return in_place(case, 0, layout, arrays, step)


def _put(case: Case, arrays: Arrays) -> list[Expected]:
    x, values, *indices = arrays
    at = tuple(i.astype(np.int64) for i in indices)
    y = x.astype(np.int64) if case.ins[0].is_int else f64(x)
    if case.attrs["accumulate"]:
        np.add.at(y, at, values.astype(y.dtype))
    else:
        y[at] = values.astype(y.dtype)
    ulp = 1 if case.attrs["accumulate"] and not case.ins[0].is_int else 0
    return [Expected(y.astype(x.dtype) if case.ins[0].is_int else y, ulp)]


TABLE["IndexPut_"] = Row(lambda case: pypto.index_put_, _put, "exact; accumulate 1 ulp", layout=_put_layout,
                         inputs=_put_inputs, run=_put_run)


def _add_layout(case: Case) -> Layout:
    """Blocks of the source; its axis and the index whole."""
    grid = case.ins[1].shape
    axis = _axis(case, len(grid))
    one = tuple(WHOLE if a == axis else a for a in range(len(grid)))
    return Layout(grid, block_of(grid, case.view, (axis,)), (one, one, (WHOLE,)), (one,))


def _index_add(case: Case, arrays: Arrays) -> list[Expected]:
    x, source, index = arrays
    axis, alpha = _axis(case, x.ndim), case.attrs["alpha"]
    kind = np.dtype(from_short(case.outs[0].dtype).np_dtype)
    at = (slice(None),) * axis + (index.astype(np.int64),)
    if case.ins[0].is_int:
        y = x.astype(np.int64)
        np.add.at(y, at, int(alpha) * source.astype(np.int64))
        return [Expected(y.astype(kind))]
    terms = float(np.float32(alpha)) * f64(source)
    y, size, hits = f64(x), np.abs(f64(x)), np.ones(x.shape)
    y = y.copy()
    np.add.at(y, at, terms)
    np.add.at(size, at, np.abs(terms))
    np.add.at(hits, at, 1)
    return [Expected(y, extra=lambda: 2 * hits * half_ulp(size, kind))]


ADDING = "integers exact; floats (duplicates + 1) roundings of |x| + |alpha source|"


def _add_run(case: Case, layout: Layout, arrays: Sequence[np.ndarray], call: Any) -> list[np.ndarray]:
    from .blocks import place
    arrays = [a.copy() if i == 0 else a for i, a in enumerate(arrays)]

    def body(x: Any, source: Any, index: Any) -> None:
        def one(at: list[Any]) -> None:
            set_tiles(case, len(case.ins[1].shape))
            if all(n == 1 for n in layout.steps):
                pypto.index_add_(x, case.attrs["axis"], index, source, alpha=case.attrs["alpha"])
                return
            blocks = [part(t, m, layout, at, s.shape)
                      for t, m, s in zip((x, source, index), layout.ins, case.ins, strict=True)]
            made = pypto.index_add_(blocks[0], case.attrs["axis"], blocks[2], blocks[1], alpha=case.attrs["alpha"])
            pypto.assemble(made, place(layout.ins[0], at), x)
        looped(layout, one)

    launch(body, case.ins, arrays)
    return [arrays[0]]


TABLE["IndexAdd_"] = Row(lambda case: pypto.index_add_, _index_add, ADDING, layout=_add_layout, run=_add_run)
TABLE["IndexAddUB"] = Row(
    lambda case: lambda x, source, index: pypto.index_add_ub(x, case.attrs["axis"], index, source,
                                                             alpha=case.attrs["alpha"]),
    _index_add, ADDING, layout=_add_layout)


def _update_layout(case: Case) -> Layout:
    source, index, cache = case.ins
    return Layout(index.shape, index.shape, tuple(_whole_map(len(t.shape)) for t in (source, index, cache)),
                  (_whole_map(len(cache.shape)),))


def _update_inputs(case: Case) -> list[np.ndarray]:
    rng = generator(case)
    arrays = [draw(rng, t) for t in case.ins]
    t = case.ins[1]
    room = int(number(t.high)) - int(number(t.low))
    if room >= math.prod(t.shape):
        rows = rng.permutation(room)[:math.prod(t.shape)] + int(number(t.low))
        arrays[1] = rows.reshape(t.shape).astype(t.np_dtype)
    return arrays


def _update_run(case: Case, layout: Layout, arrays: Sequence[np.ndarray], call: Any) -> list[np.ndarray]:
    def step(tensors: Sequence[Any], block: Callable[[int], Any]) -> None:
        source, index, cache = tensors
        cache.move(pypto.scatter_update(cache, -2, index, source))
    return in_place(case, 2, layout, arrays, step)


def _updated(case: Case, arrays: Arrays) -> list[Expected]:
    source, index, cache = arrays
    y = cache.copy()
    width = cache.shape[-1]
    y.reshape(-1, width)[index.reshape(-1)] = source.reshape(-1, width)
    return [Expected(stored(y))]


TABLE["ScatterUpdate"] = Row(lambda case: pypto.scatter_update, _updated, "exact", layout=_update_layout,
                             inputs=_update_inputs, run=_update_run)
