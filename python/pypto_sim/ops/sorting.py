"""The steps of topk as operations of their own: sorted runs of (value, index) pairs."""
from __future__ import annotations

from ..dtypes import DataType
from ..registry import Cost, op, supported
from ..trace.tensor import Tensor
from ._checks import Check
from ._shapes import shape_of

_FACTS = dict(cost=Cost.VEC_SORT, dtypes=supported("fp32"), ranks=(2, 2), torch="No counterpart.",
              constraints=("Undocumented in PyPTO: a building block of topk.",),
              numerics="Values are copied; equal values keep their order; an index is 32 bits beside its value.")


@op(kernel="sort32", instr="vbitsort", methods=("sort32",), source="operation table: sort32", **_FACTS)
def sort32(input: Tensor, index: int | None = None) -> Tensor:
    """Every 32 elements of a row in descending order, as (value, index) pairs.

    Parameters
    ----------
    input: FP32 [M, N], N a multiple of 32.
    index: number of the first element of a row, default 0.

    Returns
    -------
    FP32 [M, 2 N]: value and, as 32 bits, index in turn.

    Raises
    ------
    ShapeError: N is no multiple of 32. PyptoTypeError: `index` is no int.

    Notes
    -----
    NaN counts as the largest value.

    Cost
    ----
    One vbitsort per tile.

    Examples
    --------
    >>> show(lambda a: pypto.gathermask(pypto.sort32(a), 1), [[float(i) for i in range(32)]])[0][:3]
    [31.0, 30.0, 29.0]
    """
    c = Check(sort32.spec)
    x = c.tensor("input", input)
    rows, n = shape_of(x)
    if n % 32:
        c.rule("shape.mismatch", f"the last axis of `input` {[rows, n]} must be a multiple of 32")
    if index is not None and (isinstance(index, bool) or not isinstance(index, int)):
        c.rule("arg.type", f"`index` must be an int, got {type(index).__name__}")
    return c.emit([rows, 2 * n], DataType.DT_FP32, None, (x,), ints=(index or 0,))


@op(kernel="mrgsort", instr="vmrgsort4", methods=("mrgsort",), source="operation table: mrgsort", **_FACTS)
def mrgsort(input: Tensor, mergesize: int) -> Tensor:
    """Runs of (value, index) pairs merged four at a time.

    Parameters
    ----------
    input: FP32 [M, 2 N] of pairs, sorted in runs of `mergesize`.
    mergesize: pairs of a run.

    Returns
    -------
    FP32 [M, 2 N], sorted in runs of 4 mergesize.

    Raises
    ------
    ShapeError: an odd last axis. PyptoValueError: `mergesize` is not positive.

    Notes
    -----
    NaN counts as the largest value.

    Cost
    ----
    One vmrgsort4 per tile.

    Examples
    --------
    >>> def sorted_row(a):
    ...     return pypto.gathermask(pypto.mrgsort(pypto.sort32(a), 32), 1)
    >>> show(sorted_row, [[float(i) for i in range(64)]])[0][:3]
    [63.0, 62.0, 61.0]
    """
    c = Check(mrgsort.spec)
    x = c.tensor("input", input)
    shape = shape_of(x)
    if shape[-1] % 2:
        c.rule("shape.mismatch", f"the last axis of `input` {shape} must be even: values and indices in turn")
    if isinstance(mergesize, bool) or not isinstance(mergesize, int) or mergesize <= 0:
        c.rule("arg.value", f"`mergesize` is {mergesize!r}; it must be a positive int")
    return c.emit(shape, DataType.DT_FP32, None, (x,), ints=(mergesize,))
