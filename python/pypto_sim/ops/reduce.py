"""Reductions along one axis, and topk."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DataType
from ..enums import TopKAlgo
from ..registry import Cost, OpSpec, op, supported
from ..trace.session import Out
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check, plain, valid_of

MERGE_SORT_BYTES = 22 * 1024


def reduce_call(spec: OpSpec, input: Any, dim: Any, keepdim: Any) -> Tensor:
    """One axis becomes 1, or goes away; a rank-1 tensor keeps it."""
    c = Check(spec)
    x = c.tensor("input", input)
    shape = static_shape(x)
    axis = c.dim("dim", dim, len(shape))
    if not isinstance(keepdim, bool | np.bool_ | int):
        c.rule("arg.type", f"`keepdim` must be a bool, got {type(keepdim).__name__}")
    keep = bool(keepdim) or len(shape) == 1
    c.reduce_tile(shape, x.dtype)
    valid = valid_of(x)
    middle = (1,) if keep else ()
    out = (*shape[:axis], *middle, *shape[axis + 1:])
    out_valid = None if valid is None else (*valid[:axis], *middle, *valid[axis + 1:])
    return c.emit(out, x.dtype, out_valid, (x,), ints=(axis, int(keep)))


_REDUCE: dict[str, Any] = dict(
    cost=Cost.VEC_REDUCE, bf16_arith=False, source=facts.API)
_TILE_RULES = ("One axis.", "The tile has the rank of the input, at most 64 KB, its last axis a multiple of 32 bytes.",
               "keepdim=False leaves the tile's rank as it is: set the tile again.")


@op(kernel="sum", instr="vcadd", methods=("sum",), reference=np.sum, ulp=1.0,
    dtypes=supported("fp32 bf16 int32 int16", only_0_2="fp16", unlisted="int64 int8 uint8"),
    numerics="Valid box only. Whole tiles are combined as a tree, then 64 lanes within the last tile, then one tree "
             "across lanes, all in fp32. bf16 is widened and rounded once. Integers wrap around.",
    constraints=_TILE_RULES, torch="The order of additions differs; integer sums keep their type.", **_REDUCE)
def sum(input: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Sum along one axis, over the valid extent.

    Parameters
    ----------
    input: tensor of rank 1 to 4, such as [B, N].
    dim: axis, negative from the end.
    keepdim: keep the axis with size 1; rank-1 tensors always do.

    Returns
    -------
    Tensor of the type of `input`, [B, 1] or [B].

    Raises
    ------
    ShapeError: `dim` out of range. DTypeError: unsupported element type (FP16 in the current release).
    TileError: unaligned or too large tile in the strict profiles.

    Notes
    -----
    The guide allows FP32 only: cast first.

    Cost
    ----
    Pair additions across tiles, then one row reduction per row tile.

    Examples
    --------
    >>> show(lambda a: pypto.sum(a, -1), [1.0, 2.0, 3.5])
    [6.5]
    """
    c = Check(sum.spec)
    if isinstance(input, Tensor) and input.dtype is not DataType.DT_FP32:
        c.rule("sum.fp32_only", f"`input` has dtype {input.dtype.name}; the guide allows FP32 only. "
                                "Use pypto.sum(pypto.cast(x, pypto.DT_FP32), ...) and cast back")
    return reduce_call(sum.spec, input, dim, keepdim)


@op(kernel="amax", instr="vcmax", methods=("amax",), reference=np.max,
    dtypes=supported("fp32 fp16 bf16 int32 int16", only_950="int8 uint8", unlisted="int64"),
    numerics=facts.EXACT + " NaN wins over every number.", constraints=_TILE_RULES, torch="Same values.", **_REDUCE)
def amax(input: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Maximum along one axis, over the valid extent.

    Parameters
    ----------
    input: tensor of rank 1 to 4, such as [B, N].
    dim: axis, negative from the end.
    keepdim: keep the axis with size 1; rank-1 tensors always do.

    Returns
    -------
    Tensor of the type of `input`, [B, 1] or [B].

    Raises
    ------
    ShapeError: `dim` out of range. DTypeError: unsupported element type.
    TileError: unaligned or too large tile in the strict profiles.

    Notes
    -----
    NaN in the axis gives NaN; the rule of the chip is not published.

    Cost
    ----
    Pair maxima across tiles, then one row reduction per row tile.

    Examples
    --------
    >>> show(lambda a: pypto.amax(a, -1), [1.0, 3.5, 2.0])
    [3.5]
    """
    return reduce_call(amax.spec, input, dim, keepdim)


@op(kernel="amin", instr="vcmax", methods=("amin",), reference=np.min,
    dtypes=supported("fp32 fp16 bf16 int32 int16", only_950="int8 uint8", unlisted="int64"),
    numerics=facts.EXACT + " NaN wins over every number.", constraints=_TILE_RULES, torch="Same values.", **_REDUCE)
def amin(input: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Minimum along one axis, over the valid extent.

    Parameters
    ----------
    input: tensor of rank 1 to 4, such as [B, N].
    dim: axis, negative from the end.
    keepdim: keep the axis with size 1; rank-1 tensors always do.

    Returns
    -------
    Tensor of the type of `input`, [B, 1] or [B].

    Raises
    ------
    ShapeError: `dim` out of range. DTypeError: unsupported element type.
    TileError: unaligned or too large tile in the strict profiles.

    Notes
    -----
    NaN in the axis gives NaN; the rule of the chip is not published.

    Cost
    ----
    Pair minima across tiles, then one row reduction per row tile.

    Examples
    --------
    >>> show(lambda a: pypto.amin(a, -1), [1.0, 3.5, 2.0])
    [1.0]
    """
    return reduce_call(amin.spec, input, dim, keepdim)


@op(kernel="prod", instr="vmul", reference=np.prod, ulp=8.0, samples=(0.5, 1.5),
    dtypes=supported("fp32 int32 int16", unlisted="int64"),
    numerics="fp32 in a fixed order; integers wrap around.", constraints=_TILE_RULES,
    torch="The order of products differs; integer products keep their type.", **_REDUCE)
def prod(input: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Product along one axis, over the valid extent.

    Parameters
    ----------
    input: tensor of rank 1 to 4, such as [B, N].
    dim: axis, negative from the end.
    keepdim: keep the axis with size 1; rank-1 tensors always do.

    Returns
    -------
    Tensor of the type of `input`, [B, 1] or [B].

    Raises
    ------
    ShapeError: `dim` out of range. DTypeError: unsupported element type.
    TileError: unaligned or too large tile in the strict profiles.

    Notes
    -----
    Integers wrap around.

    Cost
    ----
    Pair products across tiles, then one row reduction per row tile.

    Examples
    --------
    >>> show(lambda a: pypto.prod(a, -1), [1.0, 3.0, 2.0])
    [6.0]
    """
    return reduce_call(prod.spec, input, dim, keepdim)


_RADIX = supported("", only_950="fp32 fp16 bf16 int32 uint32 int16 uint16 int8 uint8")


@op(kernel="topk", new_arguments=("algo",), instr="vbitsort", cost=Cost.VEC_SORT, methods=("topk",), source=facts.API,
    dtypes=supported("fp32", only_0_2="fp16", unlisted="bf16 int32 int16"),
    numerics=facts.EXACT + " Equal values: the lowest index first. NaN counts as the largest value.",
    constraints=("Last axis only; 1 <= k <= its size, and k <= the last tile entry.",
                 "MERGE_SORT: last tile entry * 4 bytes below 22 KB; FP32 only.",
                 "RADIX_SELECT: 950 only, the last axis in one tile."),
    torch="Ties go to the lowest index; the result is always sorted.")
def topk(input: Tensor, k: int, dim: int | None = None, largest: bool = True,
         algo: TopKAlgo = TopKAlgo.MERGE_SORT) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along the last axis, sorted, with their indices.

    Parameters
    ----------
    input: tensor of rank 1 to 4, such as [T, E].
    k: number of elements.
    dim: last axis or None.
    largest: False for the smallest.
    algo: TopKAlgo.RADIX_SELECT exists on the 950 only; values are the same.

    Returns
    -------
    (values, indices): [T, k] of the type of `input` and [T, k] INT32.

    Raises
    ------
    ShapeError: `dim` is not the last axis. PyptoValueError: `k` out of range. DTypeError: unsupported element type.

    Notes
    -----
    Ties keep ascending indices, so results repeat exactly.

    Cost
    ----
    Sorting per row tile: BITSORT, MRGSORT rounds, two EXTRACTs.

    Examples
    --------
    >>> show(lambda a: pypto.topk(a, 2)[0], [1.0, 3.5, 2.0])
    [3.5, 2.0]
    """
    c = Check(topk.spec)
    c.choice("algo", algo, TopKAlgo)
    if algo is TopKAlgo.RADIX_SELECT and c.session.device.chip != "950":
        c.rule("api.chip", "algo=TopKAlgo.RADIX_SELECT exists on the 950 only; use MERGE_SORT")
    radix = algo is TopKAlgo.RADIX_SELECT and c.session.device.chip == "950"
    x = c.tensor("input", input, _RADIX if radix else None)
    shape = static_shape(x)
    axis = len(shape) - 1 if dim is None else c.dim("dim", dim, len(shape))
    if axis != len(shape) - 1:
        c.rule("shape.dim", f"`dim` is {dim}; only the last axis (-1) is allowed. Transpose first")
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        c.rule("arg.type", f"`k` must be an int, got {type(k).__name__}")
    if not 1 <= k <= shape[-1]:
        c.rule("arg.value", f"`k` is {k}; allowed: 1 to {shape[-1]} (last axis of `input`)")
    tile = c.session.vec_tile
    if tile is not None and len(tile) >= len(shape):
        width = tile[len(shape) - 1]
        if 0 < width < k:
            c.rule("topk.k_over_tile", f"`k` is {k}, above the last entry {width} of the vector tile; use a wider tile")
        if not radix and min(width, shape[-1]) * 4 >= MERGE_SORT_BYTES:
            c.rule("topk.tile", f"the last entry {width} of the vector tile takes {width * 4} bytes; a merge sort "
                                f"needs less than {MERGE_SORT_BYTES}. Use a narrower tile")
    valid = valid_of(x)
    out = (*shape[:-1], int(k))
    out_valid = None if valid is None else (*valid[:-1], plain(_smaller(valid[-1], int(k))))
    return c.emit_all([Out(out, x.dtype, out_valid), Out(out, DataType.DT_INT32, out_valid)], (x,),
                      ints=(int(k), int(bool(largest))))  # type: ignore[return-value]


def _smaller(a: Any, b: int) -> Any:
    if isinstance(a, int):
        return a if a < b else b
    return a.min(b)
