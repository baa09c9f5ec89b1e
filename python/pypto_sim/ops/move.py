"""Movement: transposing, joining, copying, padding."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..registry import Cost, OpSpec, internal_row, op, supported
from ..trace.scalar import SymbolicScalar, smin
from ..trace.tensor import Tensor
from ._checks import INT32_MAX, Check, plain
from ._shapes import or_full, rank_range, shape_arg, shape_of, valid_arg, valid_list
from .views import ANY, SMALL_FLOATS, view

PERMUTED = supported("fp32 fp16 bf16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool", only_950=SMALL_FLOATS,
                     unlisted="fp64")
EXPANDABLE = supported("bf16 fp32 fp16 int8 int16 int32 uint8 uint16 uint32 bool")
PADDABLE = supported("fp32 fp16 bf16 int8 int16 int32 uint8 uint16 uint32")
PAIRED = supported("int8 uint8 int16 uint16 int32 uint32 fp16 fp32 bf16")
MAX_CONCAT = 128
# 4-D and 5-D axis pairs of transpose in the current release
PAIRS_4D = ({0, 2}, {1, 3}, {2, 3}, {1, 2})
PAIRS_5D = ({3, 4},)


PERMUTE = internal_row("permute", kernel="transpose", cost=Cost.VEC_MOVE, instr="vnchwconv")


def _permuted(check: Check, input: Tensor, order: Sequence[int], spec: OpSpec) -> Tensor:
    shape, valid = shape_of(input), valid_list(input)
    to = [shape[i] for i in order]
    return check.emit(to, input.dtype, or_full([valid[i] for i in order], to), [input], ints=order, spec=spec)


@op(kernel="transpose", cost=Cost.VEC_MOVE, instr="vnchwconv", ranks=(1, 5), methods=("transpose",),
    dtypes=supported("fp16 bf16 fp32 int8 int16 int32 uint8 uint16 uint32", only_950=SMALL_FLOATS),
    source="operation table: transpose; semantics: Transpose",
    constraints=("4-D pairs (0,2) (1,3) (2,3) (1,2), 5-D pair (3,4) in the current release.",
                 "A swap with the last axis needs scratch of the tile, rounded up to 16 by 32 bytes."),
    numerics="Bits are copied.", torch="Same values.")
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swap two axes.

    Parameters
    ----------
    input: tensor of rank 1 to 5.
    dim0: first axis.
    dim1: second axis.

    Returns
    -------
    Tensor with the two sizes and valid extents swapped.

    Raises
    ------
    ShapeError: an axis is out of range, or the pair is not supported (rule transpose.pair).

    Notes
    -----
    The vector tile follows the input.

    Cost
    ----
    One transposing move per tile when the last axis takes part, else a strided copy out.

    Examples
    --------
    >>> show(lambda a: pypto.transpose(a, 0, 1), [[1.0, 2.0], [3.0, 4.0]])
    [[1.0, 3.0], [2.0, 4.0]]
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
    return _permuted(check, input, order, transpose.spec)


@op(cost=Cost.COMPOSITE, ranks=(1, 5), methods=("permute",), versions=("master",), dtypes=PERMUTED,
    reference=np.transpose, source="operation table: permute",
    constraints=("perm names every axis once.",), numerics="Bits are copied.", torch="Same values.")
def permute(input: Tensor, perm: Sequence[int]) -> Tensor:
    """Reorder the axes: axis i of the result is axis perm[i] of the input.

    Parameters
    ----------
    input: tensor of rank 1 to 5.
    perm: each axis once.

    Returns
    -------
    Tensor with sizes and valid extents reordered.

    Raises
    ------
    ShapeError: `perm` is not a permutation.

    Notes
    -----
    Current release only.

    Cost
    ----
    As the transposes it is made of.

    Examples
    --------
    >>> show(lambda a: pypto.permute(a, [1, 0]), [[1.0, 2.0], [3.0, 4.0]])
    [[1.0, 3.0], [2.0, 4.0]]
    """
    check = Check(permute.spec)
    input = check.tensor("input", input)
    rank = len(shape_of(input))
    if not isinstance(perm, Sequence) or isinstance(perm, str):
        check.rule("arg.type", f"`perm` must be a list of ints, got {type(perm).__name__}")
    order = [check.dim("perm", p, rank) for p in perm]
    if sorted(order) != list(range(rank)):
        check.rule("shape.mismatch", f"`perm` {list(perm)} must name each of the {rank} axes once")
    return _permuted(check, input, order, PERMUTE)


@op(kernel="concat", cost=Cost.VEC_MOVE, instr="copy_ubuf_to_ubuf",
    dtypes=supported("int8 int16 int32 int64 uint8 uint16 uint32 uint64 fp16 fp32 bf16"),
    source="operation table: concat",
    constraints=("2 to 128 tensors, equal in all axes but dim.", "The valid shape is never derived."),
    numerics="Bits are copied.", torch="Same values.")
def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join tensors along an axis.

    Parameters
    ----------
    tensors: list of 2 to 128 tensors of one type and rank, equal in all other axes.
    dim: the axis.

    Returns
    -------
    Tensor whose valid shape is the full shape.

    Raises
    ------
    ShapeError: shapes do not fit. DTypeError: types differ.

    Notes
    -----
    A tail that is only partly valid counts as data here: fill it first.

    Cost
    ----
    One copy per tensor and tile.

    Examples
    --------
    >>> show(lambda a, b: pypto.concat([a, b], -1), [1.0, 2.0], [3.0])
    [1.0, 2.0, 3.0]
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
    reference=np.broadcast_to, source="operation table: expand_clone; semantics: Expand",
    constraints=("Equal ranks.", "0.2 grows one axis at a time."),
    numerics="Bits are copied.", torch="A real copy, no view.")
def expand_clone(input: Tensor, shape: Sequence[int], *,
                 valid_shape: Sequence[int | SymbolicScalar] | None = None) -> Tensor:
    """Copy that repeats axes of size 1: memory is really allocated and filled.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    shape: sizes of the result, equal to the input's or anything where that is 1; -1 keeps a size.
    valid_shape: default the full shape.

    Returns
    -------
    Tensor of `shape`.

    Raises
    ------
    ShapeError: the rank differs, or an axis that is not 1 would grow.

    Notes
    -----
    More than one axis: rule shape.broadcast_axes; rank above 4: rule shape.rank_above.

    Cost
    ----
    One fill per tile of the result, and its copy out.

    Examples
    --------
    >>> show(lambda a: pypto.expand_clone(a, [2, 2]), [[1.0, 2.0]])
    [[1.0, 2.0], [1.0, 2.0]]
    """
    check = Check(expand_clone.spec)
    input = check.tensor("input", input, ranks=rank_range(check))
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
    reference=np.copy, source="operation table: clone",
    constraints=("None.",), numerics="Bits are copied.", torch="Same values.")
def clone(input: Tensor) -> Tensor:
    """Copy of a tensor, valid shape kept.

    Parameters
    ----------
    input: tensor of any rank and type.

    Returns
    -------
    Tensor of the same shape and type.

    Raises
    ------
    PyptoTypeError: `input` is no tensor.

    Notes
    -----
    Tensors are values here, so a clone is never needed to protect one from a later write.

    Cost
    ----
    One copy per tile.

    Examples
    --------
    >>> show(lambda a: pypto.clone(a), [1.0, 2.0])
    [1.0, 2.0]
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
    source="operation table: fillpad; semantics: FillPad",
    constraints=("Rank 1 or 2, constant mode.",), numerics="The value is rounded to the type.",
    torch="No such function.")
def fillpad(input: Tensor, mode: str = "constant", value: float | int = 0) -> Tensor:
    """Write `value` wherever the tensor holds no data; the whole result is valid.

    Parameters
    ----------
    input: tensor of rank 1 or 2 with a valid shape.
    mode: "constant", the only one.
    value: number of the tensor's type, an int for integers.

    Returns
    -------
    Tensor of the same shape, valid everywhere.

    Raises
    ------
    PyptoValueError: another mode, or a float beside an integer tensor.

    Notes
    -----
    The defined way to give a ragged tail a value, such as -inf before a maximum.

    Cost
    ----
    One fill per tile.

    Examples
    --------
    >>> show(lambda a: pypto.fillpad(pypto.view(a, [3], [0], valid_shape=[2]), value=9.0), [1.0, 2.0, 3.0])
    [1.0, 2.0, 9.0]
    """
    check = Check(fillpad.spec)
    input = check.tensor("input", input)
    _constant_mode(check, mode)
    fill = _fill_value(check, value, input.dtype)
    shape = shape_of(input)
    return check.emit(shape, input.dtype, None, [input], ints=fill.ints, floats=fill.floats)


@op(cost=Cost.COMPOSITE, dtypes=PADDABLE, methods=("pad",), source="operation table: pad; semantics: Pad",
    constraints=("Right and bottom only, constant mode.",), numerics="The value is rounded to the type.",
    torch="constant_pad_nd for the right and the bottom; the valid shape grows, too.")
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | int = 0) -> Tensor:
    """Grow the last axis to the right, and the one before it to the bottom, by a constant.

    Parameters
    ----------
    input: tensor [.., H, W].
    pad: (0, right) or (0, right, 0, bottom).
    mode: "constant", the only one.
    value: number of the tensor's type, an int for integers.

    Returns
    -------
    Tensor [.., H + bottom, W + right]; the valid shape grows by the same amounts.

    Raises
    ------
    ShapeError: padding at the left or the top. PyptoValueError: a float beside an integer tensor.

    Notes
    -----
    Made of a fill and a write.

    Cost
    ----
    One fill and one copy per tile.

    Examples
    --------
    >>> show(lambda a: pypto.pad(a, [0, 1], value=9.0), [1.0, 2.0])
    [1.0, 2.0, 9.0]
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
        return view(result, shape, [0] * len(shape), valid_shape=valid)


@op(kernel="deinterleave", cost=Cost.VEC_MOVE, dtypes=PAIRED, versions=("master",), socs=("950",),
    source="operation table: deinterleave; semantics: DeInterleave",
    constraints=("950 only, current release.", "Even last axis for one input."),
    numerics="Bits are copied.", torch="x[..., ::2], x[..., 1::2].")
def deinterleave(input: Tensor, other: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Even and odd positions of the last axis.

    Parameters
    ----------
    input: tensor [.., W], W even.
    other: second tensor of the same shape, read behind the first.

    Returns
    -------
    (even, odd): [.., W / 2] for one input, [.., W] for two.

    Raises
    ------
    ShapeError: an odd last axis or differing shapes.

    Notes
    -----
    Only the 950 has it (rule api.chip); gathermask does the same on every chip.

    Cost
    ----
    One instruction per tile.

    Examples
    --------
    >>> show(lambda a: pypto.deinterleave(a)[1], [1.0, 2.0, 3.0, 4.0])
    [2.0, 4.0]
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


@op(kernel="interleave", cost=Cost.VEC_MOVE, dtypes=PAIRED, versions=("master",), socs=("950",),
    source="operation table: interleave; semantics: Interleave",
    constraints=("950 only, current release.", "Equal shapes, an even last axis."),
    numerics="Bits are copied.", torch="torch.stack((x, y), -1).flatten(-2), cut into halves.")
def interleave(input: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Elements of two tensors in turn along the last axis, cut into two halves.

    Parameters
    ----------
    input: tensor [.., W], W even.
    other: tensor of the same shape and type.

    Returns
    -------
    (first, second): halves of x0 y0 x1 y1 ..., [.., W] each.

    Raises
    ------
    ShapeError: an odd last axis or differing shapes. DTypeError: types differ.

    Notes
    -----
    Only the 950 has it (rule api.chip). The whole last axis is read.

    Cost
    ----
    Four vector copies over the tile.

    Examples
    --------
    >>> show(lambda a, b: pypto.interleave(a, b)[0], [1.0, 2.0], [5.0, 6.0])
    [1.0, 5.0]
    """
    from ..trace.session import Out
    check = Check(interleave.spec)
    x, y = check.tensor("input", input), check.tensor("other", other)
    check.same_dtype(input=x, other=y)
    shape = shape_of(x)
    if shape_of(y) != shape or shape[-1] % 2:
        check.rule("shape.mismatch", f"`input` {shape} and `other` {shape_of(y)} must have equal shapes and an even "
                                     "last axis")
    valid = [*(plain(smin(a, b)) for a, b in zip(valid_list(x)[:-1], valid_list(y)[:-1], strict=True)), shape[-1]]
    out = Out(tuple(shape), x.dtype, or_full(valid, shape))
    first, second = check.emit_all([out, out], [x, y])
    return first, second


@op(kernel="gathermask", cost=Cost.VEC_MOVE, instr="vreducev2", methods=("gathermask",),
    dtypes=supported("int16 uint16 int32 uint32 fp16 bf16 fp32"),
    source="operation table: gathermask; semantics: GatherMask",
    constraints=("The last axis is a multiple of 2 (modes 1, 2) or 4 (modes 3 to 6).",),
    numerics="Bits are copied.", torch="x[..., first::step].")
def gathermask(self: Tensor, pattern_mode: int) -> Tensor:
    """Every second or every fourth element of the last axis.

    Parameters
    ----------
    self: tensor [.., W].
    pattern_mode: 1, 2: first, second of each pair; 3 to 6: first to fourth of each four; 7: all.

    Returns
    -------
    Tensor [.., W / 2], [.., W / 4] or [.., W].

    Raises
    ------
    ShapeError: W is not a multiple of the step. PyptoValueError: another mode.

    Notes
    -----
    The valid shape of the result is the full shape.

    Cost
    ----
    One instruction per tile.

    Examples
    --------
    >>> show(lambda a: pypto.gathermask(a, 2), [1.0, 2.0, 3.0, 4.0])
    [2.0, 4.0]
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


_TRIANGLE: dict[str, Any] = dict(
    constraints=("Rank 2 to 5.",), numerics="Bits are copied or zero.", torch="Same values.", cost=Cost.VEC_MOVE,
    ranks=(2, 5), bf16_arith=False, source="operation table: tril, triu",
    dtypes=supported("fp32 fp16 bf16 int8 int16 int32", only_950="uint16 uint32"))


@op(kernel="tril", methods=("tril",), reference=np.tril, **_TRIANGLE)
def tril(input: Tensor, diagonal: int | SymbolicScalar = 0) -> Tensor:
    """Lower triangle of the last two axes: zero where column > row + diagonal.

    Parameters
    ----------
    input: tensor [.., H, W].
    diagonal: int or SymbolicScalar.

    Returns
    -------
    Tensor of the same shape.

    Raises
    ------
    ShapeError: rank below 2.

    Notes
    -----
    The valid shape is kept.

    Cost
    ----
    One pass per tile.

    Examples
    --------
    >>> show(lambda a: pypto.tril(a), [[1.0, 2.0], [3.0, 4.0]])
    [[1.0, 0.0], [3.0, 4.0]]
    """
    return _triangle(tril.spec, input, diagonal)


@op(kernel="triu", methods=("triu",), reference=np.triu, **_TRIANGLE)
def triu(input: Tensor, diagonal: int | SymbolicScalar = 0) -> Tensor:
    """Upper triangle of the last two axes: zero where column < row + diagonal.

    Parameters
    ----------
    input: tensor [.., H, W].
    diagonal: int or SymbolicScalar.

    Returns
    -------
    Tensor of the same shape.

    Raises
    ------
    ShapeError: rank below 2.

    Notes
    -----
    The valid shape is kept.

    Cost
    ----
    One pass per tile.

    Examples
    --------
    >>> show(lambda a: pypto.triu(a), [[1.0, 2.0], [3.0, 4.0]])
    [[1.0, 2.0], [0.0, 4.0]]
    """
    return _triangle(triu.spec, input, diagonal)
