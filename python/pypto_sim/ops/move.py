"""Movement: views, writes into a destination, reshaping, transposing, joining, copying, padding."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..registry import Cost, op, supported
from ..trace.scalar import SymbolicScalar
from ..trace.tensor import Tensor
from ._checks import INT32_MAX, Check, plain
from ._shapes import clamped, offsets_arg, or_full, shape_arg, shape_of, valid_arg, valid_list

ANY = supported("fp32 fp16 bf16 fp64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool")
EXPANDABLE = supported("bf16 fp32 fp16 int8 int16 int32 uint8 uint16 uint32 bool")
PADDABLE = supported("fp32 fp16 bf16 int8 int16 int32 uint8 uint16 uint32")
PAIRED = supported("int8 uint8 int16 uint16 int32 uint32 fp16 fp32 bf16")
MAX_CONCAT = 128
# 4-D and 5-D axis pairs of transpose in the current release
PAIRS_4D = ({0, 2}, {1, 3}, {2, 3}, {1, 2})
PAIRS_5D = ({3, 4},)


@op(kernel="view", cost=Cost.VIEW, dtypes=ANY, ranks=(1, 6), methods=("view",),
    source="operation table: view; README section 6")
def view(input: Tensor, shape: Sequence[int] | None = None,
         offsets: Sequence[int | SymbolicScalar] | None = None, *,
         valid_shape: Sequence[int | SymbolicScalar] | None = None, dtype: DataType | None = None) -> Tensor:
    """Part of a tensor: a window of `shape` at `offsets`.

    Parameters: input [d0, .., dn]; shape, offsets: one entry per axis, shape of ints (default: the whole tensor at 0);
    valid_shape: what of the window holds data (default: what the source has there, clamped to the window).
    Returns: tensor of `shape`. A window that overlaps the end of the source is legal, its valid shape is smaller.
    Raises: IndexError for a window that starts past the end (rule view.past_end), RuntimeError for a wrong rank.
    """
    check = Check(view.spec)
    input = check.tensor("input", input, nz=True)
    source = shape_of(input)
    if dtype is not None and dtype is not input.dtype:
        check.rule("api.unsimulated", f"dtype={dtype.name} reinterprets the bits of {input.dtype.name}, which is not "
                                      "simulated; use pypto.cast to convert values")
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


@op(cost=Cost.VIEW, dtypes=ANY, ranks=(1, 6), source="operation table: assemble")
def assemble(input: Any, offsets: Any, out: Tensor | None = None, parallel: bool = False) -> None:
    """Write `input` into `out` at `offsets`; list form: assemble([(tensor, offsets), ..], out).

    Parameters: input: tensor of out's rank and dtype; offsets: one int or SymbolicScalar per axis; out: an argument or
    a local; parallel: promise that iterations write disjoint places (no effect on values).
    Only the valid part of `input` is written. An argument is written at once, a local gets its next version.
    Raises: TypeError for another dtype (lenient casts to nearest even and warns, rule assemble.dtype), RuntimeError
    for a wrong rank, IndexError for a write past the end.
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
    source="operation table: reshape")
def reshape(input: Tensor, shape: Sequence[int], *, valid_shape: Sequence[int | SymbolicScalar] | None = None,
            inplace: bool = False) -> Tensor:
    """Same elements in row-major order under another shape.

    Parameters: input [..]; shape: ints with the same product, one may be -1; valid_shape: extents of the result that
    hold data (default: all, even where the input's are smaller); inplace: the result shares the input's memory.
    Returns: tensor of `shape`. Raises: RuntimeError when the sizes do not match.
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
    return check.emit(sizes, input.dtype, or_full(given or sizes, sizes), [input],
                      ints=(given is not None, bool(inplace)), scalars=given or ())


@op(kernel="unsqueeze", cost=Cost.VIEW, dtypes=ANY, ranks=(1, 6), methods=("unsqueeze",), reference=np.expand_dims,
    source="operation table: unsqueeze")
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Insert an axis of size 1 before axis `dim`.

    Parameters: input [..] of rank r; dim in [-r - 1, r]. Returns: rank r + 1, valid shape kept. Set the vector tile
    again afterwards: its rank has changed. Raises: RuntimeError for a dim out of range.
    """
    check = Check(unsqueeze.spec)
    input = check.tensor("input", input, nz=True)
    shape, valid = shape_of(input), valid_list(input)
    axis = check.dim("dim", dim, len(shape) + 1)
    shape.insert(axis, 1)
    valid.insert(axis, 1)
    return check.emit(shape, input.dtype, or_full(valid, shape), [input], ints=(axis,))


@op(kernel="squeeze", cost=Cost.VIEW, dtypes=ANY, ranks=(1, 6), reference=np.squeeze,
    source="simulator: an int index reads through it")
def squeeze(input: Tensor, dim: int) -> Tensor:
    """Drop axis `dim`, whose size must be 1. PyPTO has no such function (rule api.extension): reshape there.

    Parameters: input [..] of rank r >= 2; dim in [-r, r). Returns: rank r - 1.
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


def _permuted(check: Check, input: Tensor, order: Sequence[int]) -> Tensor:
    shape, valid = shape_of(input), valid_list(input)
    to = [shape[i] for i in order]
    return check.emit(to, input.dtype, or_full([valid[i] for i in order], to), [input], ints=order,
                      spec=transpose.spec)


@op(kernel="transpose", cost=Cost.VEC_MOVE, instr="vnchwconv", ranks=(1, 5), methods=("transpose",),
    dtypes=supported("fp16 bf16 fp32 int8 int16 int32 uint8 uint16 uint32"),
    source="operation table: transpose; semantics: Transpose")
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swap two axes.

    Parameters: input [..]; dim0, dim1: axes. Returns: tensor with the two sizes and valid extents swapped.
    Notes: the current release takes 4-D pairs (0,2) (1,3) (2,3) (1,2) and 5-D (3,4) only (rule transpose.pair).
    """
    check = Check(transpose.spec)
    input = check.tensor("input", input)
    rank = len(shape_of(input))
    a, b = check.dim("dim0", dim0, rank), check.dim("dim1", dim1, rank)
    allowed = {4: PAIRS_4D, 5: PAIRS_5D}.get(rank)
    if allowed and a != b and {a, b} not in allowed:
        check.rule("transpose.pair", f"axes ({a}, {b}) of rank {rank}; allowed: "
                                     f"{', '.join(str(tuple(sorted(p))) for p in allowed)}. Combine several transposes")
    order = list(range(rank))
    order[a], order[b] = b, a
    return _permuted(check, input, order)


@op(kernel="", cost=Cost.VEC_MOVE, ranks=(1, 5), methods=("permute",), versions=("master",), dtypes=ANY,
    reference=np.transpose, source="operation table: permute")
def permute(input: Tensor, perm: Sequence[int]) -> Tensor:
    """Reorder the axes: axis i of the result is axis perm[i] of the input.

    Parameters: input of rank r; perm: each axis once. Returns: tensor with sizes and valid extents reordered.
    Raises: RuntimeError when `perm` is not a permutation.
    """
    check = Check(permute.spec)
    input = check.tensor("input", input)
    rank = len(shape_of(input))
    if not isinstance(perm, Sequence) or isinstance(perm, str):
        check.rule("arg.type", f"`perm` must be a list of ints, got {type(perm).__name__}")
    order = [check.dim("perm", p, rank) for p in perm]
    if sorted(order) != list(range(rank)):
        check.rule("shape.mismatch", f"`perm` {list(perm)} must name each of the {rank} axes once")
    return _permuted(check, input, order)


@op(kernel="concat", cost=Cost.VEC_MOVE, instr="copy_ubuf_to_ubuf",
    dtypes=supported("int8 int16 int32 int64 uint8 uint16 uint32 uint64 fp16 fp32 bf16"),
    source="operation table: concat")
def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join tensors along an axis.

    Parameters: tensors: 2 to 128 of one dtype and rank, equal in all other axes; dim: the axis.
    Returns: tensor whose valid shape is the full shape (PyPTO never derives it).
    Raises: RuntimeError for differing shapes or dtypes.
    """
    check = Check(concat.spec)
    if not isinstance(tensors, list | tuple):
        check.rule("arg.type", f"`tensors` must be a list of Tensors, got {type(tensors).__name__}")
    if not 2 <= len(tensors) <= MAX_CONCAT:
        check.rule("concat.count", f"`tensors` has {len(tensors)} entries; allowed: 2 to {MAX_CONCAT}")
        if not tensors:
            check.rule("arg.value", "`tensors` is empty")
    tensors = [check.tensor(f"tensors[{i}]", t) for i, t in enumerate(tensors)]
    check.same_dtype(**{f"tensors[{i}]": t for i, t in enumerate(tensors)})
    shapes = [shape_of(t) for t in tensors]
    axis = check.dim("dim", dim, len(shapes[0]))
    for i, s in enumerate(shapes[1:], 1):
        if len(s) != len(shapes[0]) or s[:axis] + s[axis + 1:] != shapes[0][:axis] + shapes[0][axis + 1:]:
            check.rule("shape.mismatch", f"`tensors[{i}]` has shape {s}, `tensors[0]` has {shapes[0]}; all axes but "
                                         f"{axis} must be equal")
    total = list(shapes[0])
    total[axis] = sum(s[axis] for s in shapes)
    check.size("result", total)
    return check.emit(total, tensors[0].dtype, None, tensors, ints=(axis,))


@op(kernel="expand", cost=Cost.VEC_MOVE, instr="vector_dup", dtypes=EXPANDABLE, methods=("expand_clone",),
    reference=np.broadcast_to, source="operation table: expand_clone; semantics: Expand")
def expand_clone(input: Tensor, shape: Sequence[int], *,
                 valid_shape: Sequence[int | SymbolicScalar] | None = None) -> Tensor:
    """Copy that repeats axes of size 1: memory is really allocated and filled.

    Parameters: input [..]; shape: same rank, equal to the input's or anything where that is 1 (-1 keeps the size);
    valid_shape: default the full shape. Returns: tensor of `shape`.
    Notes: 0.2 grows one axis at a time (rule shape.broadcast_axes). Raises: RuntimeError for a rank or size that does
    not fit.
    """
    check = Check(expand_clone.spec)
    input = check.tensor("input", input)
    source = shape_of(input)
    sizes = [n if s == -1 else s for s, n in zip(shape_arg(check, "shape", shape, infer=True),
                                                 [*source, *[-1] * len(shape)], strict=False)]
    if len(sizes) != len(source):
        check.rule("shape.mismatch", f"`shape` {sizes} has {len(sizes)} entries; `input` {source} has {len(source)} "
                                     "axes. Use pypto.unsqueeze first")
    check.size("shape", sizes)
    grown = [i for i, (a, b) in enumerate(zip(source, sizes, strict=True)) if a != b]
    for i in grown:
        if source[i] != 1:
            check.rule("shape.mismatch", f"axis {i} of `input` {source} cannot grow to {sizes[i]}: only size 1 expands")
    if len(grown) > 1:
        check.rule("shape.broadcast_axes", f"axes {grown} of {source} grow to {sizes}; 0.2 allows one axis. Expand one "
                                           "after the other")
    given = valid_arg(check, valid_shape, sizes)
    return check.emit(sizes, input.dtype, or_full(given or sizes, sizes), [input], ints=(given is not None,),
                      scalars=given or ())


@op(kernel="clone", cost=Cost.VEC_MOVE, instr="copy_ubuf_to_ubuf", dtypes=ANY, methods=("clone",), ranks=(1, 6),
    reference=np.copy, source="operation table: clone")
def clone(input: Tensor) -> Tensor:
    """Copy of a tensor, valid shape kept.

    Parameters: input [..]. Returns: tensor of the same shape and dtype.
    """
    check = Check(clone.spec)
    input = check.tensor("input", input, nz=True)
    shape = shape_of(input)
    return check.emit(shape, input.dtype, or_full(valid_list(input), shape), [input])


def _fill_value(check: Check, value: Any, dtype: DataType) -> Any:
    if isinstance(value, float) and not dtype.is_float:
        check.rule("scalar.range" if value != value or math.isinf(value) else "pad.float_for_int",
                   f"`value` is the float {value} for a tensor of {dtype.name}; pass an int of its range")
    return check.scalar("value", int(value) if not dtype.is_float and not isinstance(value, SymbolicScalar) else value,
                        dtype, symbolic=False)


def _constant_mode(check: Check, mode: Any) -> None:
    if mode != "constant":
        check.rule("arg.value", f"`mode` is {mode!r}; only 'constant' exists")


@op(kernel="fillpad", cost=Cost.VEC_FILL, instr="vector_dup", dtypes=PADDABLE, ranks=(1, 2), methods=("fillpad",),
    source="operation table: fillpad; semantics: FillPad")
def fillpad(input: Tensor, mode: str = "constant", value: float | int = 0) -> Tensor:
    """Write `value` wherever the tensor holds no data; the whole result is valid.

    Parameters: input of rank 1 or 2 with a valid shape; mode: "constant"; value: a number of the dtype (an int for
    integer tensors). Returns: tensor of the same shape, valid everywhere.
    Raises: ValueError for a float beside an integer tensor.
    """
    check = Check(fillpad.spec)
    input = check.tensor("input", input)
    _constant_mode(check, mode)
    fill = _fill_value(check, value, input.dtype)
    shape = shape_of(input)
    return check.emit(shape, input.dtype, None, [input], ints=fill.ints, floats=fill.floats)


@op(cost=Cost.COMPOSITE, dtypes=PADDABLE, methods=("pad",), source="operation table: pad; semantics: Pad")
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | int = 0) -> Tensor:
    """Grow the last axis to the right, and the one before it to the bottom, by a constant.

    Parameters: input [.., H, W]; pad: (0, right) or (0, right, 0, bottom); mode: "constant"; value as of fillpad.
    Returns: [.., H + bottom, W + right]; the valid shape grows by the same amounts.
    Raises: RuntimeError for padding at the left or top, ValueError for a float beside an integer tensor.
    """
    from .create import full
    check = Check(globals()["pad"].spec)
    input = check.tensor("input", input)
    _constant_mode(check, mode)
    widths = [int(plain(n)) for n in pad]
    shape, valid = shape_of(input), valid_list(input)
    if len(widths) not in (2, 4) or (len(widths) == 4 and len(shape) < 2):
        check.rule("shape.mismatch", f"`pad` {widths} must be (0, right) or (0, right, 0, bottom)")
    if any(widths[::2]) or min(widths) < 0:
        check.rule("pad.side", f"`pad` {widths}: only the right and the bottom can grow, by at least 0")
    _fill_value(check, value, input.dtype)
    for axis, width in zip((-1, -2), widths[1::2], strict=False):
        shape[axis] += width
        valid[axis] = plain(valid[axis] + width)
    session = check.session
    with session.label("pad"):
        result = session.declare(shape, input.dtype, "pad")
        session.set(result, full(shape, value, input.dtype, valid_shape=valid))
        session.assemble(result, input, [0] * len(shape))
    return result


@op(kernel="deinterleave", cost=Cost.VEC_MOVE, dtypes=PAIRED, versions=("master",), socs=("950",),
    source="operation table: deinterleave; semantics: DeInterleave")
def deinterleave(input: Tensor, other: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Even and odd positions of the last axis.

    Parameters: input [.., W], W even; other: a second tensor of the same shape, read behind the first.
    Returns: (even, odd), [.., W / 2] for one input, [.., W] for two. Only the 950 has it (rule api.chip).
    """
    check = Check(deinterleave.spec)
    ins = [check.tensor("input", input)]
    if other is not None:
        ins.append(check.tensor("other", other))
        check.same_dtype(input=ins[0], other=ins[1])
    shape = shape_of(ins[0])
    if any(shape_of(t) != shape for t in ins):
        check.rule("shape.mismatch", f"`input` {shape} and `other` {shape_of(ins[1])} must have equal shapes")
    if len(ins) == 1:
        if shape[-1] % 2:
            check.rule("shape.mismatch", f"the last axis of `input` {shape} must be even")
        shape[-1] //= 2
    from ..trace.session import Out
    out = Out(tuple(shape), ins[0].dtype, None)
    even, odd = check.emit_all([out, out], ins)
    return even, odd


@op(kernel="gathermask", cost=Cost.VEC_MOVE, instr="vreducev2", methods=("gathermask",),
    dtypes=supported("int16 uint16 int32 uint32 fp16 bf16 fp32"),
    source="operation table: gathermask; semantics: GatherMask")
def gathermask(self: Tensor, pattern_mode: int) -> Tensor:
    """Every second or every fourth element of the last axis.

    Parameters: self [.., W]; pattern_mode: 1, 2 first or second of each pair; 3 to 6 first to fourth of each four; 7
    all.
    Returns: [.., W / 2], [.., W / 4] or [.., W]. Raises: RuntimeError when W is not a multiple of the step.
    """
    check = Check(gathermask.spec)
    input = check.tensor("self", self)
    if isinstance(pattern_mode, bool) or pattern_mode not in range(1, 8):
        check.rule("arg.value", f"`pattern_mode` is {pattern_mode!r}; allowed: 1 to 7")
    step = 2 if pattern_mode <= 2 else 4 if pattern_mode <= 6 else 1
    shape = shape_of(input)
    if shape[-1] % step:
        check.rule("shape.mismatch", f"the last axis of `self` {shape} must be a multiple of {step}")
    shape[-1] //= step
    return check.emit(shape, input.dtype, None, [input], ints=(pattern_mode,))


def _triangle(spec: Any, input: Tensor, diagonal: Any) -> Tensor:
    check = Check(spec)
    input = check.tensor("input", input)
    if isinstance(diagonal, bool) or not (isinstance(diagonal, SymbolicScalar) or hasattr(diagonal, "__index__")):
        check.rule("arg.type", f"`diagonal` must be an int or a SymbolicScalar, got {type(diagonal).__name__}")
    diagonal = plain(diagonal)
    if isinstance(diagonal, int):
        diagonal = max(-INT32_MAX, min(INT32_MAX, diagonal))
    shape = shape_of(input)
    return check.emit(shape, input.dtype, or_full(valid_list(input), shape), [input], scalars=(diagonal,))


_TRIANGLE = dict(cost=Cost.VEC_MOVE, ranks=(2, 5), bf16_arith=False, source="operation table: tril, triu",
                 dtypes=supported("fp32 fp16 bf16 int8 int16 int32", only_950="uint16 uint32"))


@op(kernel="tril", methods=("tril",), reference=np.tril, **_TRIANGLE)
def tril(input: Tensor, diagonal: int | SymbolicScalar = 0) -> Tensor:
    """Lower triangle of the last two axes: zero where column > row + diagonal.

    Parameters: input [.., H, W]; diagonal: int or SymbolicScalar. Returns: tensor of the same shape.
    """
    return _triangle(tril.spec, input, diagonal)


@op(kernel="triu", methods=("triu",), reference=np.triu, **_TRIANGLE)
def triu(input: Tensor, diagonal: int | SymbolicScalar = 0) -> Tensor:
    """Upper triangle of the last two axes: zero where column < row + diagonal.

    Parameters: input [.., H, W]; diagonal: int or SymbolicScalar. Returns: tensor of the same shape.
    """
    return _triangle(triu.spec, input, diagonal)
