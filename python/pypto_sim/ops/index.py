"""Reading and writing by index: element gather, row look-up, scatter, paged updates."""
from __future__ import annotations

import itertools
from typing import Any

from ..dtypes import Element
from ..enums import ScatterMode
from ..errors import HandleError
from ..registry import Cost, op, supported
from ..trace.session import current, user_frame
from ..trace.source import result_dropped
from ..trace.tensor import Tensor
from ._checks import MAX_RANK, Check
from ._shapes import or_full, shape_of, valid_list

GATHERED = supported("fp32 fp16 bf16 int16 int32 uint16 uint32")
SELECTED = supported("int8 int16 int32 uint8 uint16 uint32 fp16 fp32 bf16", only_950="bool fp8e4m3 fp8e5m2 fp8e8m0 hf8")
SCATTERED = supported("fp32 fp16 bf16 int8 uint8 int16 int32")
PAGED = supported("fp32 fp16 bf16 int32 int16")
INDEX = supported("int32 int64")
SELECTING = supported("int32 int64", unlisted="int16")
PAGED_INDEX = supported("int64 int32 int16")
REDUCE = {None: ScatterMode.NONE, "add": ScatterMode.ADD, "multiply": ScatterMode.MULTIPLY}
_ids = itertools.count(-1, -1)        # of marked results; handles count upwards


def _look_up(check: Check, input: Tensor, axis: int, index: Tensor) -> Tensor:
    """Rows of `input` along `axis`: shape input[:axis] + index + input[axis + 1:]."""
    source, rows = shape_of(input), shape_of(index)
    shape = source[:axis] + rows + source[axis + 1:]
    valid = valid_list(input)
    valid = valid[:axis] + valid_list(index) + valid[axis + 1:]
    if len(shape) > MAX_RANK:
        check.rule("shape.rank", f"the result {shape} has rank {len(shape)}; allowed: at most {MAX_RANK}")
    check.size("result", shape)
    return check.emit(shape, input.dtype, or_full(valid, shape), [input, index], ints=(axis,),
                      spec=index_select.spec)


@op(kernel="index_select", cost=Cost.INDEX, instr="vgather", dtypes=SELECTED, methods=("index_select",),
    source="operation table: index_select; semantics: Gather",
    constraints=("The axis is fully visible in the view.", "The tile follows the result."),
    numerics="Bits are copied.", torch="The index may have rank 2; x[:, index] semantics.")
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Rows of a table: the embedding look-up.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    dim: axis that the index counts.
    index: INT32 or INT64 of rank 1 or 2.

    Returns
    -------
    Tensor input.shape[:dim] + index.shape + input.shape[dim + 1:].

    Raises
    ------
    ShapeError: the index has another rank. PyptoIndexError: at run time, an index outside the axis.

    Notes
    -----
    Takes ids [B, S] as they are.

    Cost
    ----
    Reads the selected rows from global memory.

    Examples
    --------
    >>> show(lambda a: pypto.index_select(a, 0, pypto.arange(1, 3)), [1.0, 2.0, 3.0])
    [2.0, 3.0]
    """
    check = Check(index_select.spec)
    input = check.tensor("input", input)
    axis = check.dim("dim", dim, len(shape_of(input)))
    index = check.tensor("index", index, SELECTING)
    rank = len(shape_of(index))
    if rank > 2:
        check.rule("shape.rank", f"`index` has rank {rank} (shape {shape_of(index)}); allowed: 1 or 2. Reshape it")
    return _look_up(check, input, axis, index)


@op(kernel="gather", cost=Cost.INDEX, instr="vgather", dtypes=GATHERED, ranks=(1, 5), methods=("gather",),
    source="operation table: gather; semantics: GatherElement",
    constraints=("Equal ranks; the index is no longer than the input off the axis.",
                 "The whole axis has to be in UB."),
    numerics="Bits are copied.", torch="torch.gather.")
def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Single elements along an axis: result[i, j] = input[index[i, j], j] for dim 0.

    Parameters
    ----------
    input: tensor of rank r.
    dim: axis that the index counts.
    index: INT32 or INT64 of rank r, no longer than the input in the other axes.

    Returns
    -------
    Tensor of the index's shape.

    Raises
    ------
    ShapeError: shapes do not fit. PyptoIndexError: at run time, an index outside the axis.

    Notes
    -----
    Not an embedding look-up; that is index_select. Rule gather.embedding: `lenient` and `guide` look rows up when the
    ranks differ, and when gather(table [V, D], 0, ids [B, S]) is written into a destination [.., .., D], one rank
    more.

    Cost
    ----
    Loads the whole axis, then one instruction per tile.

    Examples
    --------
    >>> show(lambda a: pypto.gather(a, 0, pypto.arange(1, 3)), [1.0, 2.0, 3.0])
    [2.0, 3.0]
    """
    check = Check(gather.spec)
    input = check.tensor("input", input)
    source = shape_of(input)
    axis = check.dim("dim", dim, len(source))
    index = check.tensor("index", index, INDEX)
    shape = shape_of(index)
    if len(shape) != len(source):
        check.rule("gather.embedding", f"`index` has rank {len(shape)} (shape {shape}), `input` has rank {len(source)} "
                                       f"(shape {source}): gather picks single elements and needs equal ranks. The "
                                       "look-up of rows is pypto.index_select(input, dim, index)")
        return _look_up(check, input, axis, index)
    too_long = next((i for i, (a, b) in enumerate(zip(shape, source, strict=True)) if i != axis and a > b), None)
    error = "" if too_long is None else (
        f"`index` has shape {shape}, `input` has {source}: on axis {too_long} the index must not be longer. For the "
        "look-up of rows use pypto.index_select(input, dim, index)")
    marked = len(source) == 2 and axis == 0
    if marked and check.session.config.profile in ("lenient", "guide"):
        return _marked(check, input, index, error)
    if error:
        check.rule("shape.mismatch", error)
    result = _elements(check, input, axis, index)
    if marked:
        result.look_up = (input, index, check.session.scope)
    return result


def _elements(check: Check, input: Tensor, axis: int, index: Tensor) -> Tensor:
    shape = shape_of(index)
    return check.emit(shape, input.dtype, or_full(valid_list(index), shape), [input, index], ints=(axis,))


def _marked(check: Check, input: Tensor, index: Tensor, error: str) -> Tensor:
    """A gather along axis 0 of a table: written into [.., .., D] it is the look-up of rows, else the element form.

    The element form is emitted where it is first used, so that a look-up leaves no trace of it; `error` says why it
    does not exist. Locals are viewed now, as they may be written before.
    """
    from .views import view
    session, scope = check.session, check.session.scope
    input, index = (t if t.memory >= 0 else view(t) for t in (input, index))
    made: list[tuple[Any, Tensor]] = []             # (body, elements)

    def elements() -> Tensor:
        if current() is not session:
            raise current().error(HandleError, "the result of a gather was made in another launch of a kernel",
                                  rule="handle.escaped")
        if error:
            check.rule("shape.mismatch", error)
        for body, found in made:
            if any(body is b for b in session.bodies):
                return found
        with session.scoped():
            session.scope = scope
            made.append((session.bodies[-1], _elements(check, input, 0, index)))
        return made[-1][1]

    t = Tensor.__new__(Tensor)
    t.static_shape = t.declared = tuple(shape_of(index))
    t.valid, t.dtype, t.format = tuple(valid_list(index)), input.dtype, input.format
    t.name, t.id, t.look_up, t.pending = "", next(_ids), (input, index, scope), elements
    return t


def looked_up(t: Tensor, out: Tensor) -> Tensor:
    """What to write into `out` for `t`: a marked gather is looked up when `out` is [.., .., D]."""
    if t.look_up is None:
        return t
    input, index, scope = t.look_up
    room, width = shape_of(out), shape_of(input)[-1]
    if len(room) != len(shape_of(t)) + 1 or room[-1] != width:
        return t
    check = Check(gather.spec)
    check.rule("gather.embedding", f"the result of gather(input {shape_of(input)}, 0, index {shape_of(index)}) is "
                                   f"written into {room}: PyPTO's gather gives single elements of shape {shape_of(t)} "
                                   "and refuses this. The rows are looked up; write pypto.index_select(input, 0, "
                                   "index)")
    with check.session.scoped():
        check.session.scope = scope               # the tiles of the gather call
        return _look_up(check, input, 0, index)


def _scattered(check: Check, input: Any, dim: Any, index: Any, src: Any, reduce: Any) -> tuple[Tensor, Tensor]:
    input = check.tensor("input", input)
    source = shape_of(input)
    axis = check.dim("dim", dim, len(source))
    index = check.tensor("index", index, INDEX)
    shape = shape_of(index)
    if reduce not in REDUCE:
        check.rule("arg.value", f"`reduce` is {reduce!r}; allowed: None, 'add', 'multiply'")
    if len(shape) != len(source):
        check.rule("shape.mismatch", f"`index` has rank {len(shape)} (shape {shape}), `input` has rank {len(source)} "
                                     f"(shape {source}); they must be equal")
    if any(a > b for i, (a, b) in enumerate(zip(shape, source, strict=True)) if i != axis):
        check.rule("shape.mismatch", f"`index` {shape} must not be longer than `input` {source} except along axis "
                                     f"{axis}")
    ins, ints, floats = [input, index], [axis, REDUCE[reduce].value, 1, 0], (0.0,)
    if isinstance(src, Tensor):
        src = check.tensor("src", src)
        check.same_dtype(input=input, src=src)
        if len(shape_of(src)) != len(shape) or any(a > b for a, b in zip(shape, shape_of(src), strict=True)):
            check.rule("shape.mismatch", f"`index` {shape} must not be longer than `src` {shape_of(src)} in any axis")
        ins.append(src)
        ints[2] = 0
    else:
        value = check.scalar("src", src, input.dtype, symbolic=False)
        ints[3], floats = value.ints[0], value.floats
    result = check.emit(source, input.dtype, or_full(valid_list(input), source), ins, ints=ints, floats=floats,
                        spec=scatter.spec)
    return input, result


@op(kernel="scatter", cost=Cost.INDEX, instr="vscatter", dtypes=SCATTERED, methods=("scatter",),
    source="operation table: scatter; semantics: Scatter, ScatterTensor",
    constraints=("Equal ranks; the axis is not split.",), numerics="Copies; add and multiply round once per index.",
    torch="torch.scatter, with reduce as there.")
def scatter(input: Tensor, dim: int, index: Tensor, src: Tensor | Element | float, *,
            reduce: str | None = None) -> Tensor:
    """Copy of `input` with elements replaced, added to or multiplied at `index` along an axis.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    dim: axis that the index counts.
    index: INT32 or INT64 of the same rank.
    src: tensor of the input's type, at least as long as the index, or a scalar.
    reduce: None, "add" or "multiply".

    Returns
    -------
    Tensor of the input's shape.

    Raises
    ------
    PyptoValueError: another `reduce`. ShapeError: shapes do not fit. PyptoIndexError: at run time, an index outside.

    Notes
    -----
    Two stores to one place without `reduce` are undefined in PyPTO; here the later one wins.

    Cost
    ----
    Loads the whole axis, one pass over the index.

    Examples
    --------
    >>> show(lambda a: pypto.scatter(a, 0, pypto.arange(1), 9.0), [1.0, 2.0])
    [9.0, 2.0]
    """
    check = Check(scatter.spec)
    used(check)
    return _scattered(check, input, dim, index, src, reduce)[1]


@op(cost=Cost.COMPOSITE, dtypes=SCATTERED, methods=("scatter_",), source="operation table: scatter_",
    constraints=("Equal ranks; the axis is not split.",), numerics="Copies; add and multiply round once per index.",
    torch="torch.scatter, with reduce as there.")
def scatter_(input: Tensor, dim: int, index: Tensor, src: Tensor | Element | float, *,
             reduce: str | None = None) -> Tensor:
    """`scatter` written back into `input`.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    dim: axis that the index counts.
    index: INT32 or INT64 of the same rank.
    src: tensor of the input's type, at least as long as the index, or a scalar.
    reduce: None, "add" or "multiply".

    Returns
    -------
    `input`, updated.

    Raises
    ------
    PyptoValueError: another `reduce`. ShapeError: shapes do not fit. PyptoIndexError: at run time, an index outside.

    Notes
    -----
    Two stores to one place without `reduce` are undefined in PyPTO; here the later one wins.

    Cost
    ----
    Loads the whole axis, one pass over the index.

    Examples
    --------
    >>> show(lambda a: pypto.scatter_(a, 0, pypto.arange(1), 9.0), [1.0, 2.0])
    [9.0, 2.0]
    """
    check = Check(scatter_.spec)
    target, result = _scattered(check, input, dim, index, src, reduce)
    write_back(check, target, result)
    return target


def used(check: Check) -> None:
    """Rule scatter.dropped: the user's call is a statement of its own."""
    frame = user_frame()
    if frame is not None and result_dropped(frame):
        check.rule("scatter.dropped", "the result is dropped, and with it the update: assign it back, "
                   f"`t[:] = {check.name}(t, ...)`")


def write_back(check: Check, target: Tensor, result: Tensor) -> None:
    """`result` becomes the contents of `target`: the documented in-place operations."""
    if target.memory >= 0:
        check.session.assemble(target, result, [0] * len(shape_of(target)), in_place=True)
    else:
        check.session.set(target, result)


@op(kernel="scatter_update", cost=Cost.INDEX, instr="copy_ubuf_to_gm", dtypes=PAGED, ranks=(2, 4),
    methods=("scatter_update",), source="operation table: scatter_update; semantics: ScatterUpdate",
    constraints=("dim is -2, rank 2 or 4.", "Assign the result back to the input."),
    numerics="Bits are copied.", torch="No such function.")
def scatter_update(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Rows of a paged cache replaced in place.

    Parameters
    ----------
    input: tensor [blocks * size, d] or [blocks, size, 1, d].
    dim: -2.
    index: INT16, INT32 or INT64 [b, s]: row numbers, block * size + slot.
    src: tensor [b * s, d] or [b, s, 1, d] of the input's type.

    Returns
    -------
    `input`, updated.

    Raises
    ------
    PyptoValueError: another dim or rank. ShapeError: shapes do not fit.

    Notes
    -----
    A negative index ends the update (padding of a batch); one past the end of the cache is an error.

    Cost
    ----
    One copy out per row.

    Examples
    --------
    >>> def update(cache, new):
    ...     return pypto.scatter_update(cache, -2, pypto.reshape(pypto.arange(1), [1, 1]), new)
    >>> show(update, [[1.0], [2.0]], [[9.0]])
    [[9.0], [2.0]]
    """
    check = Check(scatter_update.spec)
    used(check)
    input = check.tensor("input", input)
    index = check.tensor("index", index, PAGED_INDEX)
    src = check.tensor("src", src)
    check.same_dtype(input=input, src=src)
    cache, rows, new = shape_of(input), shape_of(index), shape_of(src)
    rank = len(cache)
    if rank not in (2, 4) or dim not in (-2, rank - 2) or isinstance(dim, bool):
        check.rule("arg.value", f"`dim` is {dim!r} and `input` has rank {rank}; allowed: dim -2, rank 2 or 4")
    if len(rows) != 2:
        check.rule("shape.mismatch", f"`index` {rows} must have rank 2: [batch, tokens]")
    want = [rows[0] * rows[1], cache[1]] if rank == 2 else [*rows, 1, cache[3]]
    if new != want or (rank == 4 and cache[2] != 1):
        check.rule("shape.mismatch", f"`src` has shape {new}, `input` {cache}, `index` {rows}; `src` must be {want}")
    result = check.emit(cache, input.dtype, or_full(valid_list(input), cache), [input, index, src], ints=(rank - 2,))
    write_back(check, input, result)
    return input
