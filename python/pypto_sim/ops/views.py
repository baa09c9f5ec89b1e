"""Views, writes into a destination and other readings of the same data: no element is computed."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..registry import Cost, op, supported
from ..trace.scalar import SymbolicScalar
from ..trace.tensor import Tensor
from ._checks import Check, plain
from ._shapes import clamped, offsets_arg, or_full, shape_arg, shape_of, valid_arg, valid_list

SMALL_FLOATS = "fp8e4m3 fp8e5m2 fp8e8m0 hf8"
STORED = "fp32 fp16 bf16 fp64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"
ANY = supported(STORED, only_950=f"{SMALL_FLOATS} fp4_e2m1x2 fp4_e1m2x2", unlisted="int4")


@op(kernel="view", cost=Cost.VIEW, dtypes=ANY, ranks=(1, 6), methods=("view",),
    source="operation table: view; README section 6",
    constraints=("Sizes are ints; offsets and valid_shape may be symbolic.", "The rank stays."),
    numerics="No data is computed.", torch="A window by shape and offsets; past the end it is smaller, not an error.")
def view(input: Tensor, shape: Sequence[int] | None = None,
         offsets: Sequence[int | SymbolicScalar] | None = None, *,
         valid_shape: Sequence[int | SymbolicScalar] | None = None, dtype: DataType | None = None) -> Tensor:
    """Part of a tensor: a window of `shape` at `offsets`.

    Parameters
    ----------
    input: tensor of any rank and type.
    shape: sizes of the window, one int per axis; default the whole tensor.
    offsets: where it starts, an int or SymbolicScalar per axis; default 0.
    valid_shape: what of the window holds data; default what the source has there, clamped to the window.
    dtype: the bits are read as this type and the last axis is rescaled; shape and offsets count its elements.

    Returns
    -------
    Tensor of `shape`. A window that overlaps the end of the source is legal and has a smaller valid shape.

    Raises
    ------
    PyptoIndexError: the window starts past the end (rule view.past_end). ShapeError: wrong number of entries.
    PyptoTypeError: a size depends on a run-time value.

    Notes
    -----
    The window keeps the values its source has now; later writes make a new version of the source.

    Cost
    ----
    Nothing by itself; its consumer loads the window.

    Examples
    --------
    >>> show(lambda a: pypto.view(a, [2], [1]), [1.0, 2.0, 3.0])
    [2.0, 3.0]
    """
    check = Check(view.spec)
    input = check.tensor("input", input, nz=True)
    source = shape_of(input)
    if dtype is not None and dtype is not input.dtype:
        from .bytes import reinterpreted
        input = reinterpreted(check, input, check.choice("dtype", dtype, DataType))
        source = shape_of(input)
    sizes = source if shape is None else shape_arg(check, "shape", shape)
    if len(sizes) != len(source):
        check.rule("shape.mismatch", f"`shape` {sizes} has {len(sizes)} entries; `input` {source} has {len(source)} "
                                     "axes. Use pypto.reshape to change the rank")
    at = [0] * len(source) if offsets is None else offsets_arg(check, "offsets", offsets, len(source), "input")
    for axis, (o, n) in enumerate(zip(at, source, strict=True)):
        if isinstance(o, int) and o >= n:
            check.rule("view.past_end", f"the window starts at {o} on axis {axis}, where `input` has {n} elements; "
                                        f"offsets must be below {n}")
    given = valid_arg(check, valid_shape, sizes)
    valid = given or tuple(clamped(v, o, n) for v, o, n in zip(valid_list(input), at, sizes, strict=True))
    return check.emit(sizes, input.dtype, or_full(valid, sizes), [input], ints=(given is not None,),
                      scalars=(*at, *(given or ())))


@op(cost=Cost.COMPOSITE, dtypes=ANY, ranks=(1, 6), source="operation table: assemble",
    constraints=("Equal rank and type of input and out.", "The default serialises overlapping writes."),
    numerics="Bits are copied; lenient casts another type to nearest even.",
    torch="out[offsets...] = input, for the valid part.")
def assemble(input: Any, offsets: Any, out: Tensor | None = None, parallel: bool = False) -> None:
    """Write `input` into `out` at `offsets`; list form: `assemble([(tensor, offsets), ...], out)`.

    Parameters
    ----------
    input: tensor of the rank and type of `out`, or a list of (tensor, offsets).
    offsets: an int or SymbolicScalar per axis; in the list form `out` stands here.
    out: argument or local tensor.
    parallel: promise that iterations write disjoint places (current release only); values do not depend on it.

    Returns
    -------
    None. Only the valid part of `input` is written: an argument at once, a local as its next version.

    Raises
    ------
    DTypeError: types differ (lenient casts and warns, rule assemble.dtype). ShapeError: ranks differ.
    PyptoIndexError: it reaches past the end of `out`.

    Notes
    -----
    Two writes of one block to the same place are rule assemble.overlap.

    Cost
    ----
    One copy out per tile.

    Examples
    --------
    >>> show(lambda a: pypto.zeros(3).assemble(a, [1]) or a, [1.0, 2.0])
    [1.0, 2.0]
    """
    check = Check(assemble.spec)
    if isinstance(input, list | tuple):
        if out is None:
            out = offsets
        if not isinstance(out, Tensor):
            check.rule("arg.type", f"`out` must be a Tensor, got {type(out).__name__}")
        pairs = [p if isinstance(p, list | tuple) and len(p) == 2 else None for p in input]
        if not pairs or None in pairs:
            check.rule("arg.type", "`inputs` must be a list of (tensor, offsets) pairs, with at least one")
    else:
        pairs = [(input, offsets)]
    if not isinstance(out, Tensor):
        check.rule("arg.type", f"`out` must be a Tensor, got {type(out).__name__}")
    if parallel and check.session.config.profile in ("0.2", "lenient"):
        check.rule("api.version", "`parallel` exists in the current release only")
    for part, at in pairs:
        _write(check, part, at, out)


def _write(check: Check, part: Any, at: Any, out: Tensor) -> None:
    from .index import looked_up
    if isinstance(part, Tensor):
        part = looked_up(part, out)
    part = check.tensor("input", part, nz=True)
    if out.home is None:
        check.rule("arg.type", "`out` is an annotation, not a tensor of this kernel")
    shape, room = shape_of(part), shape_of(out)
    if part is out:
        return                  # the result of an in-place operation, assigned to where it already is
    if len(shape) != len(room):
        check.rule("shape.mismatch", f"`input` has rank {len(shape)} (shape {shape}), `out` has rank {len(room)} "
                                     f"(shape {room}); they must be equal. Use unsqueeze or reshape")
    offsets = offsets_arg(check, "offsets", at, len(room), "out")
    for axis, (o, v, n) in enumerate(zip(offsets, valid_list(part), room, strict=True)):
        if isinstance(o, int) and isinstance(v, int) and v and o + v > n:
            check.rule("assemble.past_end", f"`input` covers {o} to {o + v} on axis {axis}, where `out` has {n} "
                                            "elements; use a smaller view, or valid_shape for a tail")
    if part.dtype is not out.dtype:
        if not (part.dtype.arithmetic and out.dtype.arithmetic):
            check.rule("dtype.mixed", f"`input` is {part.dtype.name}, `out` is {out.dtype.name}; they must be equal. "
                                      f"Annotate the argument as pypto.Tensor([], pypto.{part.dtype.name})")
        check.rule("assemble.dtype", f"`input` is {part.dtype.name}, `out` is {out.dtype.name}; they must be equal. "
                                     f"Cast first: pypto.cast(x, pypto.{out.dtype.name})")
        part = _as_dtype(part, out.dtype)
    check.session.assemble(out, part, offsets)


def _as_dtype(t: Tensor, dtype: DataType) -> Tensor:
    """Cast to nearest even, ties to even, for the lenient forms that PyPTO refuses."""
    from ..enums import CastMode
    from .cast import cast
    return cast(t, dtype, CastMode.CAST_RINT)


@op(kernel="reshape", cost=Cost.VIEW, dtypes=ANY, ranks=(1, 6), methods=("reshape",),
    source="operation table: reshape",
    constraints=("One entry may be -1.", "A copy is made when the source is a partial view."),
    numerics="Bits are copied.", torch="Same order of elements.")
def reshape(input: Tensor, shape: Sequence[int], *, valid_shape: Sequence[int | SymbolicScalar] | None = None,
            inplace: bool = False) -> Tensor:
    """Same elements in row-major order under another shape.

    Parameters
    ----------
    input: tensor of any rank and type.
    shape: sizes with the same product; one may be -1.
    valid_shape: extents of the result that hold data; default all of it, also where the input's are smaller.
    inplace: the result shares the input's memory.

    Returns
    -------
    Tensor of `shape`.

    Raises
    ------
    ShapeError: the number of elements differs, or more than one -1.

    Notes
    -----
    Set the vector tile again afterwards when the rank changes.

    Cost
    ----
    Nothing in UB when both sides fit there; else the data goes through global memory.

    Examples
    --------
    >>> show(lambda a: pypto.reshape(a, [2, -1]), [1.0, 2.0, 3.0, 4.0])
    [[1.0, 2.0], [3.0, 4.0]]
    """
    check = Check(reshape.spec)
    input = check.tensor("input", input, nz=True)
    source = shape_of(input)
    sizes = shape_arg(check, "shape", shape, infer=True) if not inplace else [
        int(n) for n in (plain(n) for n in shape)]
    count = math.prod(source)
    if sizes.count(-1) > 1:
        check.rule("shape.mismatch", f"`shape` {sizes} has more than one -1")
    if -1 in sizes:
        rest = math.prod(n for n in sizes if n != -1)
        if rest == 0 or count % rest:
            check.rule("shape.mismatch", f"`shape` {sizes} cannot hold the {count} elements of `input` {source}")
        sizes[sizes.index(-1)] = count // rest
    if math.prod(sizes) != count:
        check.rule("shape.mismatch", f"`shape` {sizes} has {math.prod(sizes)} elements, `input` {source} has {count}")
    given = valid_arg(check, valid_shape, sizes)
    out = check.emit(sizes, input.dtype, or_full(given or sizes, sizes), [input],
                     ints=(given is not None, bool(inplace)), scalars=given or (),
                     reads=not (inplace and input.memory >= 0))
    if inplace and input.memory >= 0:
        out.alias, out.name = input.memory, out.name or input.name
    return out


@op(kernel="unsqueeze", cost=Cost.VIEW, dtypes=ANY, ranks=(1, 6), methods=("unsqueeze",), reference=np.expand_dims,
    source="operation table: unsqueeze",
    constraints=("dim is in [-rank - 1, rank].",), numerics="Bits are copied.", torch="Same values.")
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Insert an axis of size 1 before axis `dim`.

    Parameters
    ----------
    input: tensor of rank r.
    dim: position in [-r - 1, r].

    Returns
    -------
    Tensor of rank r + 1, valid shape kept.

    Raises
    ------
    ShapeError: `dim` is out of range.

    Notes
    -----
    Set the vector tile again afterwards: the rank has changed.

    Cost
    ----
    Nothing.

    Examples
    --------
    >>> show(lambda a: pypto.unsqueeze(a, 0), [1.0, 2.0])
    [[1.0, 2.0]]
    """
    check = Check(unsqueeze.spec)
    input = check.tensor("input", input, nz=True)
    shape, valid = shape_of(input), valid_list(input)
    axis = check.dim("dim", dim, len(shape) + 1)
    shape.insert(axis, 1)
    valid.insert(axis, 1)
    return check.emit(shape, input.dtype, or_full(valid, shape), [input], ints=(axis,))


@op(kernel="squeeze", cost=Cost.VIEW, dtypes=ANY, ranks=(1, 6), reference=np.squeeze,
    source="simulator: an int index reads through it",
    constraints=("PyPTO has no such function: rule api.extension.",), numerics="Bits are copied.",
    torch="dim is required.")
def squeeze(input: Tensor, dim: int) -> Tensor:
    """Drop axis `dim`, whose size must be 1. PyPTO has no such function: reshape there.

    Parameters
    ----------
    input: tensor of rank r >= 2.
    dim: axis in [-r, r).

    Returns
    -------
    Tensor of rank r - 1, valid shape kept.

    Raises
    ------
    ShapeError: `dim` is out of range or its size is not 1.

    Notes
    -----
    Reading by an int index, `t[0, 2:4]`, goes the same way without a warning.

    Cost
    ----
    Nothing.

    Examples
    --------
    >>> show(lambda a: pypto.squeeze(a, 0), [[1.0, 2.0]])
    [1.0, 2.0]
    """
    check = Check(squeeze.spec)
    check.rule("api.extension", "PyPTO has no such function; use pypto.reshape")
    return drop_axis(input, dim)


def drop_axis(input: Tensor, dim: int) -> Tensor:
    """squeeze without the rule: the front end's reading by an int index."""
    check = Check(squeeze.spec)
    input = check.tensor("input", input, nz=True)
    shape, valid = shape_of(input), valid_list(input)
    axis = check.dim("dim", dim, len(shape))
    if shape[axis] != 1 or len(shape) == 1:
        check.rule("shape.mismatch", f"axis {axis} of `input` {shape} cannot be dropped: its size must be 1, and one "
                                     "axis must remain")
    del shape[axis], valid[axis]
    return check.emit(shape, input.dtype, or_full(valid, shape), [input], ints=(axis,))
