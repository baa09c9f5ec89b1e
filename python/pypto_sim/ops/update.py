"""Updates by index (index_add, index_put_, atomic_add) and one-hot rows."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DataType, wrap_int
from ..registry import REGISTRY, Cost, OpSpec, op, supported
from ..trace.scalar import SymbolicScalar
from ..trace.session import Out
from ..trace.tensor import Tensor
from ._checks import Check
from ._shapes import offsets_arg, or_full, shape_of, valid_list
from .index import INDEX, used, write_back
from .steps import binary_step

ADDED = supported("fp32 fp16 bf16 int8 int16 int32")
ADDED_UB = supported("fp32 fp16 bf16 int16 int32", unlisted="int8")
PUT = supported("int8 int16 int32 int64 uint8 uint16 uint32 uint64 bf16 fp16 fp32")
ACCUMULATED = supported("fp32 fp16 bf16 int8 int16 int32")
PUT_INDEX = supported("int32 int64 int16")
_ADD_RULES = ("The index has rank 1; `source` has its length along `dim` and the sizes of `input` elsewhere.",
              "The axis is not split by a view.")
_ADD_NUMERICS = "alpha * source and the sums in fp32, rounded once; integers wrap, alpha is truncated to an int."


def _added(check: Check, input: Any, dim: Any, index: Any, source: Any, alpha: Any) -> tuple[Tensor, Tensor]:
    """(input, result) of an addition by index."""
    input = check.tensor("input", input)
    shape = shape_of(input)
    axis = check.dim("dim", dim, len(shape))
    index = check.tensor("index", index, INDEX)
    source = check.tensor("source", source)
    check.same_dtype(input=input, source=source)
    rows = shape_of(index)
    if len(rows) != 1:
        check.rule("shape.mismatch", f"`index` has shape {rows}; it must have one axis")
    want = [*shape[:axis], rows[0], *shape[axis + 1:]]
    if shape_of(source) != want:
        check.rule("shape.mismatch", f"`source` has shape {shape_of(source)}; with `input` {shape}, dim {axis} and "
                                     f"{rows[0]} indices it must be {want}")
    if isinstance(alpha, np.generic):
        alpha = alpha.item()
    if isinstance(alpha, bool) or not isinstance(alpha, int | float):
        check.rule("arg.type", f"`alpha` must be a number, got {type(alpha).__name__}")
    whole = 0 if input.dtype.is_float else wrap_int(int(alpha), input.dtype)
    result = check.emit(shape, input.dtype, or_full(valid_list(input), shape), [input, index, source],
                        spec=index_add.spec, ints=(axis, whole), floats=(float(alpha),))
    return input, result


def _add_in_place(spec: OpSpec, input: Any, dim: Any, index: Any, source: Any, alpha: Any) -> Tensor:
    check = Check(spec)
    target, result = _added(check, input, dim, index, source, alpha)
    write_back(check, target, result)
    return target


def _add_copy(spec: OpSpec, input: Any, dim: Any, index: Any, source: Any, alpha: Any) -> Tensor:
    check = Check(spec)
    used(check)
    return _added(check, input, dim, index, source, alpha)[1]


_ADD_DOC = """{summary}

Parameters
----------
input: tensor of rank 1 to 5.
dim: axis that the index counts.
index: INT32 or INT64 [n].
source: tensor of the type of `input`, n long along `dim`.
alpha: factor of `source`.

Returns
-------
{returns}

Raises
------
ShapeError: shapes do not fit. PyptoIndexError: at run time, an index outside the axis.

Notes
-----
{notes}

Cost
----
Rows of the source written to their places, one transfer per row.

Examples
--------
>>> def add(a):
...     ones = pypto.full([2], 1.0, pypto.DT_FP32)
...     return pypto.{name}({target}, 0, pypto.arange(2), ones, alpha=2)
>>> show(add, [1.0, 2.0, 3.0])
[3.0, 4.0, 3.0]
"""


def _documented(name: str, summary: str, returns: str, notes: str) -> Any:
    def apply(function: Any) -> Any:
        target = "pypto.clone(a)" if name in ("index_add_", "index_add__ub") else "a"
        function.__doc__ = _ADD_DOC.format(name=name, summary=summary, returns=returns, notes=notes, target=target)
        return function
    return apply


_ADD = dict(cost=Cost.INDEX, instr="vadd", ranks=(1, 5), numerics=_ADD_NUMERICS, constraints=_ADD_RULES,
            torch="Same values; float alpha truncates for integers.")


@op(kernel="index_add", dtypes=ADDED, methods=("index_add",), bf16_arith=False, fp16_arith=False,
    source="operation table: index_add; semantics: IndexAdd_", **_ADD)
@_documented("index_add", "Copy of `input` with alpha * source added at `index` along an axis.",
             "Tensor of the shape of `input`.",
             "The current source of PyPTO changes `input` as well; here it stays. Equal indices add up.")
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: int | float = 1) -> Tensor:
    return _add_copy(index_add.spec, input, dim, index, source, alpha)


_ADD_COMPOSITE = {**_ADD, "cost": Cost.COMPOSITE, "instr": ""}


@op(dtypes=ADDED, methods=("index_add_",), source="operation table: index_add_; semantics: IndexAdd_",
    **_ADD_COMPOSITE)
@_documented("index_add_", "`input` with alpha * source added at `index` along an axis, in place.",
             "`input`, updated.", "Equal indices add up.")
def index_add_(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: int | float = 1) -> Tensor:
    return _add_in_place(index_add_.spec, input, dim, index, source, alpha)


@op(dtypes=ADDED_UB, versions=("master",), source="operation table: index_add_ub; semantics: IndexAddUB",
    **_ADD_COMPOSITE)
@_documented("index_add_ub", "index_add that keeps the whole axis in UB.", "Tensor of the shape of `input`.",
             "Current release only. Equal indices add up.")
def index_add_ub(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: int | float = 1) -> Tensor:
    return _add_copy(index_add_ub.spec, input, dim, index, source, alpha)


@op(dtypes=ADDED_UB, versions=("master",), source="operation table: index_add__ub", **_ADD_COMPOSITE)
@_documented("index_add__ub", "index_add_ that keeps the whole axis in UB.", "`input`, updated.",
             "Current release only. Equal indices add up.")
def index_add__ub(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: int | float = 1) -> Tensor:
    return _add_in_place(index_add__ub.spec, input, dim, index, source, alpha)


@op(kernel="index_put", cost=Cost.INDEX, instr="copy_ubuf_to_gm", dtypes=PUT,
    source="operation table: index_put_; semantics: IndexPut_",
    constraints=("input.rank + 1 = len(indices) + values.rank.", "Indices have rank 1 and one length.",
                 "accumulate: FP32, FP16, BF16, INT8, INT16, INT32."),
    numerics="Bits are copied; accumulate adds in fp32 and rounds per element, integers wrap.",
    torch="Returns nothing; duplicates without accumulate are undefined (here the last one wins).")
def index_put_(input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> None:
    """Rows of `input` replaced, or added to, at tuples of indices, in place.

    Parameters
    ----------
    input: tensor of rank 1 to 4.
    indices: tuple of 1 to rank integer tensors [n], one per leading axis.
    values: tensor [n, ...] of the input's type with the remaining axes of `input`.
    accumulate: add instead of replace.

    Returns
    -------
    None; `input` is updated.

    Raises
    ------
    ShapeError: shapes do not fit. DTypeError: types differ. PyptoIndexError: at run time, an index outside its axis.

    Notes
    -----
    input[i0[j], i1[j], ...] = values[j]; equal tuples without accumulate have no defined winner in PyPTO.

    Cost
    ----
    Rows of the source written to their places, one transfer per row.

    Examples
    --------
    >>> def put(a):
    ...     pypto.index_put_(a, (pypto.arange(1),), pypto.full([1], 9.0, pypto.DT_FP32))
    ...     return a
    >>> show(put, [1.0, 2.0])
    [9.0, 2.0]
    """
    check = Check(index_put_.spec)
    input = check.tensor("input", input, ACCUMULATED if accumulate else None)
    values = check.tensor("values", values)
    check.same_dtype(input=input, values=values)
    if isinstance(indices, Tensor):
        indices = (indices,)
    if not isinstance(indices, tuple | list) or not indices:
        check.rule("arg.type", f"`indices` must be a tuple of tensors, got {type(indices).__name__}")
    index = [check.tensor(f"indices[{i}]", t, PUT_INDEX) for i, t in enumerate(indices)]
    shape, given = shape_of(input), shape_of(values)
    if len(index) > len(shape) or len(index) + len(given) != len(shape) + 1:
        check.rule("shape.mismatch", f"`input` {shape} with {len(index)} indices needs `values` of rank "
                                     f"{len(shape) - len(index) + 1}, got {given}")
    lengths = [shape_of(t) for t in index]
    if any(n != [given[0]] for n in lengths) or given[1:] != shape[len(index):]:
        check.rule("shape.mismatch", f"`values` {given} and `indices` {lengths} do not fit `input` {shape}: they must "
                                     f"be [n, *{shape[len(index):]}] and [n]")
    (result,) = check.session.emit(index_put_.spec, [Out(tuple(shape), input.dtype, or_full(valid_list(input), shape))],
                                   [input, values, *index], ints=(int(bool(accumulate)),))
    write_back(check, input, result)


@op(kernel="one_hot", cost=Cost.INDEX, instr="vector_dup", dtypes=supported("int8 int16 int32 int64"), ranks=(1, 3),
    source="operation table: one_hot; semantics: OneHot",
    constraints=("Values are in [0, num_classes).", "The last entry of the tile is num_classes."),
    numerics="Exact.", torch="num_classes is required.", reference=lambda x, n: np.eye(n, dtype=np.int64)[x])
def one_hot(input: Tensor, num_classes: int) -> Tensor:
    """Rows of zeros with a one at the position that an element names.

    Parameters
    ----------
    input: integer tensor of rank 1 to 3.
    num_classes: length of the new last axis.

    Returns
    -------
    INT64 tensor [.., num_classes].

    Raises
    ------
    PyptoTypeError: `num_classes` is no int. PyptoValueError: it is not positive. PyptoIndexError: at run time, an
    element outside [0, num_classes).

    Notes
    -----
    The valid extent of the new axis is num_classes.

    Cost
    ----
    Three vector passes over the result: a range, a comparison, a selection.

    Examples
    --------
    >>> show(lambda a: pypto.one_hot(pypto.cast(a, pypto.DT_INT32), 3), [2.0, 0.0])
    [[0, 0, 1], [1, 0, 0]]
    """
    check = Check(one_hot.spec)
    if isinstance(num_classes, bool) or not isinstance(num_classes, int | np.integer):
        check.rule("arg.type", f"`num_classes` must be an int, got {type(num_classes).__name__}")
    if num_classes <= 0:
        check.rule("arg.value", f"`num_classes` is {num_classes}; it must be positive")
    input = check.tensor("input", input)
    shape = [*shape_of(input), int(num_classes)]
    check.size("result", shape)
    return check.emit(shape, DataType.DT_INT64, or_full([*valid_list(input), int(num_classes)], shape), [input])


@op(cost=Cost.COMPOSITE, dtypes=supported("fp32 fp16 bf16 int32 int16 int8"), ranks=(1, 4), versions=("master",),
    source="operation table: atomic_add", constraints=("Equal rank and type.", "The region of dst holds data."),
    numerics="One addition in the type of dst; iterations add in program order (the chip: in any order).",
    torch="dst[offsets...] += src.")
def atomic_add(src: Tensor, offsets: Sequence[int | SymbolicScalar], dst: Tensor) -> None:
    """Add `src` to `dst` at `offsets`.

    Parameters
    ----------
    src: tensor of the rank and type of `dst`.
    offsets: an int or SymbolicScalar per axis.
    dst: argument or local tensor.

    Returns
    -------
    None; `dst` is updated.

    Raises
    ------
    DTypeError: types differ. ShapeError: ranks differ. PyptoIndexError: it reaches past the end of `dst`.

    Notes
    -----
    Current release only.

    Cost
    ----
    A load, an addition and a copy out per tile.

    Examples
    --------
    >>> def accumulate(a):
    ...     total = pypto.full([3], 1.0, pypto.DT_FP32)
    ...     pypto.atomic_add(a, [1], total)
    ...     return total
    >>> show(accumulate, [5.0, 6.0])
    [1.0, 6.0, 7.0]
    """
    from .views import view
    check = Check(atomic_add.spec)
    src, dst = check.tensor("src", src), check.tensor("dst", dst)
    check.same_dtype(src=src, dst=dst)
    shape = shape_of(src)
    if len(shape) != len(shape_of(dst)):
        check.rule("shape.mismatch", f"`src` has shape {shape}, `dst` {shape_of(dst)}; their ranks must be equal")
    at = offsets_arg(check, "offsets", offsets, len(shape), "dst")
    with check.session.label("atomic_add"):
        old = view(dst, shape, at, valid_shape=valid_list(src))
        total = binary_step(check, REGISTRY["add"], old, src)
        if dst.memory >= 0:
            check.session.assemble(dst, total, at, in_place=True)
        else:
            check.session.assemble(dst, total, at)
