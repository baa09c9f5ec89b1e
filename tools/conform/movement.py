"""Operations of the cases that copy elements."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pypto_sim as pypto

from .blocks import WHOLE, Layout, Scaled, block_of, elementwise, launch, looped, outputs, placed, rest, set_tiles
from .cases import FP8, Case
from .compare import Expected
from .draw import number
from .row import TABLE, Arrays, Row, f64


def stored(x: np.ndarray) -> np.ndarray:
    """Values to compare exactly: integers and bytes as they are, floats in float64."""
    return x if x.dtype.kind in "iub" else f64(x)


def _concat_layout(case: Case) -> Layout:
    grid = case.outs[0].shape
    axis = case.attrs["axis"] % len(grid)
    one = tuple(WHOLE if a == axis else a for a in range(len(grid)))
    return Layout(grid, block_of(grid, case.view, (axis,)), tuple(one for _ in case.ins), (one,))


TABLE["Concat"] = Row(
    lambda case: lambda *xs: pypto.concat(list(xs), case.attrs["axis"]),
    lambda case, arrays: [Expected(np.concatenate([stored(x) for x in arrays], case.attrs["axis"]))], "exact",
    layout=_concat_layout)


def _expand_call(case: Case) -> Callable[..., Any]:
    layout = elementwise(case)
    return placed(lambda at, x: pypto.expand_clone(x, list(layout.block), valid_shape=rest(layout, at)))


TABLE["Expand"] = Row(
    _expand_call, lambda case, arrays: [Expected(stored(np.broadcast_to(arrays[0], case.outs[0].shape)))], "exact")


def _permuted(order: Callable[[Case], Sequence[int]]) -> Callable[[Case], Layout]:
    def layout(case: Case) -> Layout:
        grid = case.ins[0].shape
        axes = tuple(range(len(grid)))
        return Layout(grid, block_of(grid, case.view), (axes,), (tuple(order(case)),))
    return layout


TABLE["Permute"] = Row(
    lambda case: lambda x: pypto.permute(x, case.attrs["perm"]),
    lambda case, arrays: [Expected(stored(np.transpose(arrays[0], case.attrs["perm"])))], "exact",
    layout=_permuted(lambda case: case.attrs["perm"]), only_950=FP8)
TABLE["Transpose"] = Row(
    lambda case: lambda x: pypto.transpose(x, case.attrs["first_dim"], case.attrs["second_dim"]),
    lambda case, arrays: [Expected(stored(np.transpose(arrays[0], case.attrs["dims"])))], "exact",
    layout=_permuted(lambda case: case.attrs["dims"]), only_950=FP8)


# --- last axis -------------------------------------------------------------------------------------------------------
def _last_whole(case: Case) -> Layout:
    grid = case.ins[0].shape
    axes = (*range(len(grid) - 1), WHOLE)
    return Layout(grid, block_of(grid, case.view, (len(grid) - 1,)), tuple(axes for _ in case.ins),
                  tuple(axes for _ in case.outs))


def _split(case: Case, arrays: Arrays) -> list[Expected]:
    z = np.concatenate([stored(x) for x in arrays], -1)
    return [Expected(z[..., ::2]), Expected(z[..., 1::2])]


def _zipped(case: Case, arrays: Arrays) -> list[Expected]:
    z = np.stack([stored(x) for x in arrays], -1).reshape(*arrays[0].shape[:-1], -1)
    half = z.shape[-1] // 2
    return [Expected(z[..., :half]), Expected(z[..., half:])]


TABLE["DeInterleave"] = Row(lambda case: lambda *xs: pypto.deinterleave(*xs), _split, "exact", layout=_last_whole,
                            chip950=True)
TABLE["Interleave"] = Row(lambda case: lambda x, y: pypto.interleave(x, y), _zipped, "exact", layout=_last_whole,
                          chip950=True)


def _masked(case: Case, arrays: Arrays) -> list[Expected]:
    mode = case.attrs["patternMode"]
    first, step = (0, 1) if mode == 7 else (mode - 1, 2) if mode <= 2 else (mode - 3, 4)
    return [Expected(stored(arrays[0][..., first::step]))]


TABLE["GatherMask"] = Row(lambda case: lambda x: pypto.gathermask(x, case.attrs["patternMode"]), _masked, "exact",
                          layout=_last_whole)


def _square(case: Case) -> Layout:
    """The last two axes whole: positions of the diagonal count from there."""
    grid = case.ins[0].shape
    rank = len(grid)
    axes = tuple(WHOLE if a >= rank - 2 else a for a in range(rank))
    return Layout(grid, block_of(grid, case.view, (rank - 2, rank - 1)), (axes,), (axes,))


def _triangle(op: str, name: str, function: Callable[..., Any]) -> None:
    TABLE[op] = Row(
        lambda case: lambda x: getattr(pypto, name)(x, case.attrs["diagonal"]),
        lambda case, arrays: [Expected(function(stored(arrays[0]), case.attrs["diagonal"]))], "exact",
        layout=_square, only_950=("uint16", "uint32"))


_triangle("TriL", "tril", np.tril)
_triangle("TriU", "triu", np.triu)


# --- padding and filling ---------------------------------------------------------------------------------------------
def _pad_value(case: Case) -> float:
    return {"zero": 0.0, "min": -math.inf, "max": math.inf}.get(
        case.attrs["pad_value_type"], number(case.attrs.get("pad_value", 0)))


def _whole(case: Case) -> Layout:
    grid = case.outs[0].shape
    maps = lambda specs: tuple(tuple(WHOLE for _ in t.shape) for t in specs)
    return Layout(grid, tuple(max(n, 1) for n in grid), maps(case.ins), maps(case.outs))


def _pad_call(case: Case) -> Callable[..., Any]:
    more = [b - a for a, b in zip(case.ins[0].shape, case.outs[0].shape, strict=True)]
    widths = [0, more[-1]] if len(more) == 1 else [0, more[-1], 0, more[-2]]
    return lambda x: pypto.pad(x, widths, value=_pad_value(case))


def _padded(case: Case, arrays: Arrays) -> list[Expected]:
    widths = [(0, b - a) for a, b in zip(case.ins[0].shape, case.outs[0].shape, strict=True)]
    return [Expected(np.pad(stored(arrays[0]), widths, constant_values=_pad_value(case)))]


TABLE["Pad"] = Row(_pad_call, _padded, "exact", layout=_whole)


def _fill_run(case: Case, layout: Layout, arrays: Sequence[np.ndarray], call: Callable[..., Any]) -> list[np.ndarray]:
    """The view covers the input, of which the case's view shape is valid."""
    results = outputs(case)
    shape = [min(n, v) for n, v in zip(case.outs[0].shape, case.ins[0].shape, strict=True)]

    def body(x: Any, out: Any) -> None:
        def step(at: list[Any]) -> None:
            set_tiles(case, len(shape))
            valid = [min(v, n) for v, n in zip(case.view, shape, strict=True)]
            pypto.assemble(call(pypto.view(x, shape, [0] * len(shape), valid_shape=valid)), [0] * len(shape), out)
        looped(layout, step)

    launch(body, [*case.ins, *case.outs], [*arrays, *results])
    return results


def _filled(case: Case, arrays: Arrays) -> list[Expected]:
    x = stored(arrays[0])
    value = np.full(case.outs[0].shape, _pad_value(case))
    valid = tuple(slice(min(v, n)) for v, n in zip(case.view, value.shape, strict=True))
    value[valid] = x[valid]
    return [Expected(value)]


TABLE["FillPad"] = Row(lambda case: lambda x: pypto.fillpad(x, value=_pad_value(case)), _filled, "exact",
                       layout=_whole, run=_fill_run)


def _full_call(case: Case) -> Callable[..., Any]:
    layout = elementwise(case)
    return placed(lambda at, x: pypto.full(list(layout.block), case.attrs["scalar"], case.outs[0].type,
                                           valid_shape=rest(layout, at)))


TABLE["Full"] = Row(
    _full_call, lambda case, arrays: [Expected(np.full(case.outs[0].shape, float(case.attrs["scalar"])))], "exact")


def _range_numbers(case: Case) -> list[int | float]:
    """start, end, step as values of the types of the three dummy inputs."""
    found: list[int | float] = []
    for key, t in zip(("start", "end", "step"), case.ins, strict=True):
        value = case.attrs[key]
        found.append(int(value) if t.is_int else float(np.float32(value)) if t.dtype == "fp32"
                     else float(f64(np.asarray(value).astype(t.np_dtype))))
    return found


def _range_length(case: Case) -> int:
    start, end, step = _range_numbers(case)
    return math.ceil((end - start) / step)


def _range(case: Case, arrays: Arrays) -> list[Expected]:
    start, _, step = _range_numbers(case)
    i = np.arange(_range_length(case))
    value = start + i * step
    if case.outs[0].is_int:
        return [Expected(value.astype(np.int64).astype(case.outs[0].np_dtype))]
    return [Expected(value.astype(np.float64), 1, lambda: 8 * 2.0**-24 * (abs(start) + np.abs(i * step)))]


def _range_skip(case: Case) -> str:
    n, stated = _range_length(case), case.outs[0].shape[0]
    return "" if n == stated else f"the stated length {stated} is not that of the formula, {n}"


TABLE["Range"] = Row(lambda case: lambda *dummies: pypto.arange(*_range_numbers(case)), _range,
                     "integers exact; floats 8 2^-24 (|start| + |i step|) + 1 ulp", layout=_whole, skip=_range_skip)


# --- bytes -----------------------------------------------------------------------------------------------------------
def _pack_layout(case: Case) -> Layout:
    grid, size = case.ins[0].shape, case.ins[0].np_dtype.itemsize
    if len(grid) > 1:
        return _whole_input(case)
    return Layout(grid, block_of(grid, case.view), ((0,),), ((Scaled(0, size, 1),),))


def _whole_input(case: Case) -> Layout:
    grid = case.ins[0].shape
    return Layout(grid, tuple(max(n, 1) for n in grid), (tuple(WHOLE for _ in grid),), ((WHOLE,),))


def _unpack_layout(case: Case) -> Layout:
    size = case.outs[0].np_dtype.itemsize
    grid = case.ins[0].shape
    block = max(size, case.view[0] // size * size)
    return Layout(grid, (block,), ((0,),), ((Scaled(0, 1, size),),))


TABLE["Pack"] = Row(lambda case: pypto.pack, lambda case, arrays: [Expected(arrays[0].reshape(-1).view(np.uint8))],
                    "exact", layout=_pack_layout)
TABLE["UnPack"] = Row(lambda case: lambda x: pypto.unpack(x, case.outs[0].type),
                      lambda case, arrays: [Expected(arrays[0].view(case.outs[0].np_dtype), bits=True)], "exact bits",
                      layout=_unpack_layout)
TABLE["TransData"] = Row(lambda case: lambda *xs: xs, lambda case, arrays: [], "exact",
                         skip=lambda case: "no public call")
