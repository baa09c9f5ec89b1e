"""Vector tiles and what has to be in UB beside them: checked once for every operation, in every run.

An operation is refused here only if its best case does not fit: one tile per distinct operand, the first result in the
place of an operand where the in-core allocator may do that, plus the scratch of the instruction sequence. Everything
that depends on other operations (fan-out, spills) is for the plan. Cube tiles are checked by `ops.matmul`.

Sources: LOWERING_DETAIL 3.2, 3.3, 7 (padding), 8.2 (shared buffers) and the scratch formulas of the operation table.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .dtypes import DataType
from .registry import Cost, OpSpec

Tile = tuple[int, ...]
BLOCK_BYTES = 32          # unit of UB: the last axis of every tile is rounded up to it
REPEAT_BYTES = 256        # one vector repeat
SELECT_SCRATCH_BYTES = 12448    # where
LOGICAL_SCRATCH_BYTES = 1216    # logical_and, logical_or
TILELESS = frozenset({Cost.VIEW, Cost.CUBE, Cost.COMPOSITE})
# The tile rank follows the input.
INPUT_TILED = frozenset({"sum", "amax", "amin", "prod", "argmax", "argmin", "cumsum", "cumprod", "transpose", "topk",
                         "scatter"})
# Operations whose result never takes the place of an operand (LOWERING_DETAIL 8.2).
NEVER_SHARED = frozenset({"divs", "rdivs", "reciprocal", "round"})


class Typed(Protocol):
    """What the check reads of an operand or result: static shape, element type and, for messages, a name."""

    @property
    def shape(self) -> Sequence[Any]: ...
    @property
    def dtype(self) -> DataType: ...


@dataclass(frozen=True, slots=True)
class Live:
    """One buffer that has to be in UB while the operation runs."""

    name: str
    shape: Tile
    bytes: int

    def __str__(self) -> str:
        return f"{self.name} {list(self.shape)} {self.bytes} B"


def round_up(n: int, unit: int) -> int:
    """Smallest multiple of `unit` that is at least `n`."""
    return -(-n // unit) * unit


def tile_bytes(shape: Sequence[int], element_bytes: int) -> int:
    """Bytes of a UB tile; its last axis is padded to whole 32-byte blocks."""
    row = round_up(max(shape[-1], 1) * element_bytes, BLOCK_BYTES) if shape else BLOCK_BYTES
    return row * math.prod(shape[:-1])


def sizes(t: Typed) -> Tile:
    """Static sizes of an operand or result. Annotated dynamic axes carry the value of this call."""
    return tuple(int(n) for n in t.shape)


def element_bytes(spec: OpSpec, dtype: DataType, numerics: str) -> int:
    """Bytes an element takes inside the operation: 4 where the 16-bit type is promoted to fp32."""
    if dtype is DataType.DT_BF16 and not spec.bf16_arith:
        return 4
    if dtype is DataType.DT_FP16 and not spec.fp16_arith and numerics != "0.2.0":
        return 4
    return dtype.size_bytes


class Call:
    """One operation with its operands, as the footprint functions see it."""

    def __init__(self, spec: OpSpec, outs: Sequence[Typed], ins: Sequence[Typed], ints: Sequence[int], numerics: str,
                 combine_axis: bool = False) -> None:
        self.spec, self.ints, self.numerics, self.combine_axis = spec, tuple(ints), numerics, combine_axis
        self.outs, self.ins = tuple(outs), tuple(ins)
        self.in_names = tuple(_name(t, i) for i, t in enumerate(ins))

    def signature(self, tile: Tile, limit: int) -> tuple[Any, ...]:
        """What the footprint depends on."""
        return (self.spec.name, self.numerics, self.ints, self.combine_axis, tile, limit,
                tuple((sizes(t), t.dtype) for t in (*self.ins, *self.outs)), len({id(t) for t in self.ins}))

    @property
    def tiled(self) -> Typed:
        """The tensor whose axes the vector tile cuts: the input of reductions and transposes, else the result."""
        first = (self.spec.kernel in INPUT_TILED or not self.outs) and self.ins
        return self.ins[0] if first else self.outs[0]

    def width(self, dtype: DataType) -> int:
        return element_bytes(self.spec, dtype, self.numerics)

    def live(self, name: str, shape: Sequence[int], width: int) -> Live:
        return Live(name, tuple(shape), tile_bytes(shape, width))

    def operand(self, i: int, shape: Sequence[int]) -> Live:
        return self.live(self.in_names[i], shape, self.width(self.ins[i].dtype))

    def result(self, shape: Sequence[int], i: int = 0) -> Live:
        return self.live("result" if i == 0 else f"result {i}", shape, self.width(self.outs[i].dtype))

    def distinct(self, shape: Sequence[int]) -> list[Live]:
        """One tile of `shape` per distinct operand: a broadcast one is expanded first, except along the last axis under
        combine_axis."""
        seen: set[Any] = set()
        found = []
        for i, t in enumerate(self.ins):
            key = getattr(t, "id", None)
            key = id(t) if key is None else key
            if key not in seen:
                seen.add(key)
                inline = self.combine_axis and shape and sizes(t)[-1] == 1
                found.append(self.operand(i, (*shape[:-1], 1) if inline else shape))
        return found

    def with_result(self, operands: list[Live], result: Live) -> list[Live]:
        """`operands` plus the result, unless it may take the place of an operand of its size and element size."""
        if self.spec.kernel not in NEVER_SHARED:
            width = self.width(self.outs[0].dtype)
            for i, t in enumerate(self.ins):
                if self.width(t.dtype) == width and any(o.name == self.in_names[i] and o.shape == result.shape
                                                        for o in operands):
                    return operands
        return [*operands, result]


def _name(t: Any, i: int) -> str:
    return str(getattr(t, "name", "") or f"operand {i}")


Stages = list[list[Live]]


def _elementwise(c: Call, tile: Tile) -> Stages:
    return [c.with_result(c.distinct(tile), c.result(tile))]


def _scratch(extra: Callable[[Call, Tile], int]) -> Callable[[Call, Tile], Stages]:
    """Footprint of an elementwise operation with `extra(call, tile)` bytes of scratch and no shared buffer."""
    def stages(c: Call, tile: Tile) -> Stages:
        return [[*c.distinct(tile), c.result(tile), Live("scratch", (extra(c, tile),), extra(c, tile))]]
    return stages


def _tanh(c: Call, tile: Tile) -> int:
    """Scratch of the last two axes, H x W: leading axes are done one after the other."""
    rows, width = tile[-2] if len(tile) > 1 else 1, round_up(tile[-1], 8)
    if c.ins[0].dtype is DataType.DT_FP32:
        return 2 * width * rows * 4 + width // 8 * rows + 32
    return 4 * width * rows * 4


def _erf(c: Call, tile: Tile) -> Stages:
    return [[c.live("operand, result and scratch, 5 fp32 tiles", (5, *tile), 4)]]


def _fp32_tiles(count: int) -> Callable[[Call, Tile], Stages]:
    """Footprint of a function that keeps `count` fp32 tiles, operand and result among them."""
    return lambda c, tile: [[c.live(f"operand, result and scratch, {count} fp32 tiles", (count, *tile), 4)]]


def _select(c: Call, tile: Tile) -> Stages:
    return [[*c.with_result(c.distinct(tile), c.result(tile)),
             Live("scratch", (SELECT_SCRATCH_BYTES,), SELECT_SCRATCH_BYTES)]]


def _logical_not(c: Call, tile: Tile) -> int:
    dtype = c.ins[0].dtype
    if dtype is DataType.DT_FP32:
        return 20736
    return {2: 4096, 4: 8192}.get(dtype.size_bytes, 12840) if dtype.is_int else 12840


def _reduce(c: Call, tile: Tile) -> Stages:
    """Tiles along the axis are first combined in pairs (three tiles, nothing shared), the last one is then reduced."""
    axis = c.ints[0] if c.ints else len(tile) - 1
    width = c.width(c.ins[0].dtype)
    result = tuple(1 if i == axis else n for i, n in enumerate(tile))
    stages: Stages = []
    if tile[axis] < sizes(c.ins[0])[axis]:
        stages.append([c.operand(0, tile), c.live("the next tile", tile, width),
                       c.live("their combination", tile, width)])
    last = [c.operand(0, tile), c.live("result", result, width)]
    scratch = reduce_scratch(tile, axis, width, c.spec.kernel)
    if scratch:
        last.append(c.live("scratch", scratch, width))
    return [*stages, last]


def reduce_scratch(tile: Tile, axis: int, width: int, kernel: str) -> Tile:
    """Scratch tile of a row or column reduction, LOWERING_DETAIL 3.3; () where there is none."""
    if axis != len(tile) - 1:
        return (-(-tile[axis] // 2), round_up(tile[-1], 8)) if kernel == "sum" else ()
    if kernel == "prod":
        return tile
    per_repeat, per_block, length = REPEAT_BYTES // width, BLOCK_BYTES // width, tile[-1]
    rows = (tile[-2],) if len(tile) > 1 else ()
    if length <= per_repeat:
        return (1, per_block)
    if length <= 2 * per_repeat:
        return (*rows, per_repeat)
    return (*rows, length * width // REPEAT_BYTES // 2 * per_repeat)


def _topk(c: Call, tile: Tile) -> Stages:
    """BITSORT gives (value, index) pairs: twice the tile, and one such row of scratch."""
    sorted_tile = (*tile[:-1], 2 * round_up(tile[-1], 32))
    return [[c.operand(0, tile), c.live("pairs", sorted_tile, 4), c.live("scratch", (sorted_tile[-1],), 4)]]


def _transpose(c: Call, tile: Tile) -> Stages:
    """A swap with the last axis goes through scratch. permute has no documented need: its data has to be there."""
    order = c.ints
    width = c.width(c.ins[0].dtype)
    if c.spec.name == "permute":
        size = math.prod(tile) * width
        return [[Live(c.in_names[0], tile, size)]]
    if len(tile) < 2 or (order and order[-1] == len(tile) - 1):
        return [[c.operand(0, tile)]]
    to = tuple(tile[i] for i in order) if order else tile
    scratch = (*tile[:-2], round_up(tile[-2], 16), round_up(tile[-1], BLOCK_BYTES // width))
    return [[c.operand(0, tile), c.result(to), c.live("scratch", scratch, width)]]


def _expand(c: Call, tile: Tile) -> Stages:
    source = tuple(min(n, s) for n, s in zip(tile, sizes(c.ins[0]), strict=True))
    return [[c.operand(0, source), c.result(tile)]]


def _one_tile(c: Call, tile: Tile) -> Stages:
    return [[c.operand(0, tile) if c.ins else c.result(tile)]]


def _gather(c: Call, tile: Tile) -> Stages:
    """The whole axis of the table has to be there."""
    dim = c.ints[0]
    table = tuple(n if i == dim else t for i, (t, n) in enumerate(zip(tile, sizes(c.ins[0]), strict=True)))
    return [[c.operand(0, table), c.operand(1, tile), c.result(tile), c.live("scratch", (2 * tile[-1],), 4)]]


def _scatter(c: Call, tile: Tile) -> Stages:
    dim = c.ints[0]
    shape = sizes(c.ins[0])
    table = tuple(n if i == dim else t for i, (t, n) in enumerate(zip(tile, shape, strict=True)))
    index = tuple(min(t, n) for t, n in zip(tile, sizes(c.ins[1]), strict=True))
    return [[c.operand(0, table), c.operand(1, index), *([c.operand(2, index)] if len(c.ins) > 2 else [])]]


def _split_pairs(c: Call, tile: Tile) -> Stages:
    source = (*tile[:-1], 2 * tile[-1] if len(c.ins) == 1 else tile[-1])
    return [[*c.distinct(source), *(c.result(tile, i) for i in range(len(c.outs)))]]


def _gathermask(c: Call, tile: Tile) -> Stages:
    step = max(1, sizes(c.ins[0])[-1] // sizes(c.outs[0])[-1])
    return [[c.operand(0, (*tile[:-1], tile[-1] * step)), c.result(tile)]]


FOOTPRINT: dict[str, Callable[[Call, Tile], Stages]] = {
    "tanh": _scratch(_tanh), "erf": _erf, "where": _select, "logical_not": _scratch(_logical_not),
    "logical_and": _scratch(lambda c, t: LOGICAL_SCRATCH_BYTES),
    "logical_or": _scratch(lambda c, t: LOGICAL_SCRATCH_BYTES),
    "sum": _reduce, "amax": _reduce, "amin": _reduce, "prod": _reduce, "topk": _topk, "transpose": _transpose,
    "concat": _one_tile, "expand": _expand, "gather": _gather, "index_select": lambda c, t: [[c.result(t)]],
    "scatter": _scatter, "scatter_update": _one_tile, "deinterleave": _split_pairs, "gathermask": _gathermask,
    "full": _one_tile, "arange": _one_tile, "clone": _one_tile,
    "one_hot": lambda c, t: [[c.result(t)]], "index_add": lambda c, t: [[c.result(t)]], "philox": _one_tile,
    "quant_mx": _one_tile, "pack4": _one_tile, "unpack4": _one_tile, "sort32": _one_tile, "mrgsort": _one_tile,
}
FP32_TILES = {"sin": 5, "cos": 5, "atan": 5, "erfc": 5, "asin": 6, "acos": 6, "log1p": 6, "sinh": 6, "asinh": 6,
              "acosh": 5, "cosh": 3, "cbrt": 3, "atan2": 7}
for _kernel, _count in FP32_TILES.items():
    FOOTPRINT[_kernel] = _fp32_tiles(_count)
FOOTPRINT["argmax"] = FOOTPRINT["argmin"] = _reduce
for _kernel in ("eq", "ne", "lt", "le", "gt", "ge", "eqs", "nes", "lts", "les", "gts", "ges"):
    FOOTPRINT[_kernel] = _scratch(lambda c, t: -(-math.prod(t) // 8))        # one bit per element


def clamp(tile: Tile, shape: Tile) -> Tile:
    """The tile as used on a tensor of `shape`: leading entries of a longer one, never larger than the tensor."""
    return tuple(min(t, max(n, 1)) for t, n in zip(tile, shape))  # noqa: B905 - a longer tile is legal


def overflow(stages: Stages, limit: int) -> tuple[int, list[Live]] | None:
    """(bytes, live buffers) of the first stage that does not fit, None if all do.

    A single buffer above the limit is reported alone, as the allocator meets it first.
    """
    for live in stages:
        for buffer in live:
            if buffer.bytes > limit:
                return buffer.bytes, [buffer]
        total = sum(buffer.bytes for buffer in live)
        if total > limit:
            return total, live
    return None


def stages_of(call: Call, tile: Tile) -> Stages:
    """What has to be in UB together, per step of the operation."""
    return FOOTPRINT.get(call.spec.kernel, _elementwise)(call, tile)


def largest_fitting(call: Call, tile: Tile, limit: int) -> Tile | None:
    """Largest tile that fits: leading axes shrink first, then the last one in whole blocks. None if none does."""
    best = list(tile)
    block = max(1, BLOCK_BYTES // call.width(call.tiled.dtype))
    for axis in range(len(tile)):
        unit = block if axis == len(tile) - 1 and tile[axis] > block else 1
        low, high = 0, tile[axis] // unit            # low fits nothing yet, or fits
        while low < high:
            mid = (low + high + 1) // 2
            best[axis] = mid * unit
            if overflow(stages_of(call, tuple(best)), limit) is None:
                low = mid
            else:
                high = mid - 1
        if low:
            best[axis] = low * unit
            return tuple(best)
        best[axis] = unit
    return None


def chosen_tile(call: Call, limit: int) -> Tile:
    """Tile for a call without one: the last axis whole, at most a quarter of UB, smaller where scratch needs it."""
    shape = sizes(call.tiled)
    width = max(4, call.tiled.dtype.size_bytes)
    tile = [1] * len(shape)
    budget = limit // 4
    for axis in reversed(range(len(shape))):
        unit = tile_bytes(tuple(tile), width)
        room = budget // unit if axis < len(shape) - 1 else budget // width
        tile[axis] = max(1, min(shape[axis], room))
        if tile[axis] < shape[axis]:
            break
    found = tuple(tile)
    if overflow(stages_of(call, found), limit) is not None:
        found = largest_fitting(call, found, limit) or found
    return found


def text_of(name: str, call: Call, tile: Tile, needed: int, live: list[Live], limit: int, memory: str) -> str:
    """The message of a capacity error."""
    fits = largest_fitting(call, tile, limit)
    shared = "" if len(live) == 1 or any(b.name == "result" for b in live) else " (the result takes an operand's place)"
    advice = f"Largest tile that fits: {fits}." if fits else "No tile of this operation fits."
    return (f"{name}: vector tile {tile} needs {needed} B of {memory}, which has "
            f"{limit} B. Live: {', '.join(map(str, live))}{shared}. {advice}")


_fitting: set[tuple[Any, ...]] = set()         # signatures of calls that fit: loops repeat them
MAX_FITTING = 65536


def prepare(session: Any, spec: OpSpec, outs: Sequence[Typed], ins: Sequence[Typed], ints: Sequence[int] = (),
            vec_tile: Tile | None = None, name: str = "") -> Tile | None:
    """Vector tile in force for one operation, after checking it and what it needs of UB.

    `vec_tile` overrides the one set in the scope, which is how operations hand over a tile chosen for want of one.
    `name` is what messages call the operation, for steps of a composite. Reports rules tile.vec_unset, tile.vec_zero,
    tile.vec_rank and capacity. Returns None for operations that use no vector tile.
    """
    if spec.cost in TILELESS:
        return vec_tile if vec_tile is not None else session.vec_tile
    call = Call(spec, outs, ins, ints, session.config.numerics, bool(session.operation_options.get("combine_axis")))
    shape = sizes(call.tiled)
    limit = int(session.device["capacity.ub"])
    name = name or f"pypto.{spec.parent or spec.name}"
    tile = tuple(int(n) for n in (vec_tile or session.vec_tile or ()))
    if not tile:
        tile = chosen_tile(call, limit)
        session.rule("tile.vec_unset", f"{name}: no vector tile is set; {tile} is used. "
                                       f"Call pypto.set_vec_tile_shapes before it.")
    elif min(tile) <= 0:
        session.rule("tile.vec_zero", f"{name}: vector tile {tile} has an entry that is not positive.")
    elif len(tile) < len(shape):
        padded = (1,) * (len(shape) - len(tile)) + tile
        session.rule("tile.vec_rank", f"{name}: vector tile {tile} has {len(tile)} entries, the tensor {list(shape)} "
                                      f"has {len(shape)} axes; {padded} is used.")
        tile = padded
    widest = max(t.dtype.size_bytes for t in (*call.ins, *call.outs))
    if shape and session.vec_tile and tile[len(shape) - 1] * widest % BLOCK_BYTES:
        session.rule("tile.vec_tail", f"{name}: the last axis of the vector tile {tile} has "
                                      f"{tile[len(shape) - 1] * widest} bytes; it must be a multiple of {BLOCK_BYTES} "
                                      "bytes.")
    used = clamp(tile, shape)
    signature = call.signature(used, limit)
    if signature in _fitting:
        return tile
    found = overflow(stages_of(call, used), limit)
    if found is None and len(_fitting) < MAX_FITTING:
        _fitting.add(signature)
    if found is not None and len(session.vec_tile or ()) < len(shape):    # our choice, not the user's: make it fit
        smaller = largest_fitting(call, used, limit)
        if smaller is not None:
            return smaller
    if found is not None:
        needed, live = found
        session.rule("capacity", text_of(name, call, used, needed, live, limit, "UB"), op=spec.parent or spec.name,
                     tile=used, bytes=needed, limit=limit, memory="UB",
                     live=tuple((b.name, b.shape, b.bytes) for b in live))
    return tile
