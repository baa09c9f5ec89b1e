"""`pypto.experimental`: reading rows through a block table, products with the batch in the middle, no-ops."""
from __future__ import annotations

from collections.abc import Sequence

from ..dtypes import DataType
from ..registry import REGISTRY, Cost, op, supported
from ..trace.tensor import Tensor
from ._checks import Check
from ._shapes import shape_of
from .steps import binary_step, cast_step, scalar_step

INT32 = DataType.DT_INT32
_TABLE = ("indices [1, k] and block_table [1, n] are integers of rank 2.",)


def _rows(c: Check, indices: Tensor, block_table: Tensor, block_size: int) -> Tensor:
    """Row numbers table[i // size] * size + i % size, as [k]."""
    from .views import reshape
    count = shape_of(indices)[-1]
    flat = reshape(indices, [count])
    table = reshape(block_table, [shape_of(block_table)[-1]])
    scaled = lambda name, x: scalar_step(c, REGISTRY[name].forms["scalar"], x, block_size)
    flat = cast_step(c, flat, INT32)
    block = REGISTRY["gather"].function(cast_step(c, table, INT32), 0, scaled("floor_div", flat))
    return binary_step(c, REGISTRY["add"], scaled("mul", block), scaled("remainder", flat))


def _check_table(c: Check, indices: Tensor, block_table: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    kinds = supported("int32 int64")
    indices, block_table = c.tensor("indices", indices, kinds), c.tensor("block_table", block_table, kinds)
    for name, t in (("indices", indices), ("block_table", block_table)):
        if shape_of(t)[0] != 1:
            c.rule("shape.mismatch", f"`{name}` has shape {shape_of(t)}; it must be [1, n]")
    if isinstance(block_size, bool) or not isinstance(block_size, int) or block_size < 1:
        c.rule("arg.value", f"`block_size` is {block_size!r}; it must be a positive int")
    return indices, block_table


@op("experimental.gather_in_ub", cost=Cost.COMPOSITE, dtypes=supported("fp32 fp16", unlisted="bf16 int32"),
    ranks=(2, 2), source="operation table: experimental.gather_in_ub", constraints=("axis is -2.", *_TABLE),
    numerics="Bits are copied.", torch="No counterpart.")
def gather_in_ub(param: Tensor, indices: Tensor, block_table: Tensor, block_size: int, axis: int) -> Tensor:
    """Rows of a paged tensor, looked up through a block table.

    Parameters
    ----------
    param: tensor [blocks * block_size, hidden].
    indices: INT32 [1, k], positions in the sequence.
    block_table: INT32 [1, n], block of every block_size positions.
    block_size: rows of a block.
    axis: -2.

    Returns
    -------
    Tensor [k, hidden].

    Raises
    ------
    PyptoValueError: another axis. ShapeError: shapes do not fit. PyptoIndexError: at run time, an index outside.

    Notes
    -----
    Row block_table[i // block_size] * block_size + i % block_size.

    Cost
    ----
    Priced as the arithmetic on the indices and an index_select.

    Examples
    --------
    >>> def pages(a):
    ...     at = pypto.reshape(pypto.arange(2), [1, 2])
    ...     return pypto.experimental.gather_in_ub(a, at, pypto.full([1, 1], 1, pypto.DT_INT32), 2, -2)
    >>> show(pages, [[1.0], [2.0], [3.0], [4.0]])
    [[3.0], [4.0]]
    """
    c = Check(gather_in_ub.spec)
    param = c.tensor("param", param)
    if axis != -2:
        c.rule("arg.value", f"`axis` is {axis!r}; it must be -2")
    indices, block_table = _check_table(c, indices, block_table, block_size)
    with c.session.label("gather_in_ub"):
        return REGISTRY["index_select"].function(param, 0, _rows(c, indices, block_table, block_size))


@op("experimental.gather_in_l1", cost=Cost.COMPOSITE, dtypes=supported("fp32 fp16 bf16 int8"), ranks=(2, 2),
    source="operation table: experimental.gather_in_l1", constraints=("size is at most the row length.", *_TABLE),
    numerics="Bits are copied.", torch="No counterpart.")
def gather_in_l1(src: Tensor, indices: Tensor, block_table: Tensor, block_size: int, size: int, is_b_matrix: bool,
                 is_trans: bool) -> Tensor:
    """Rows of a paged tensor for a matrix product, looked up through a block table.

    Parameters
    ----------
    src: tensor [blocks * block_size, hidden].
    indices: INT32 or INT64 [1, n].
    block_table: INT32 [1, blocks of the sequence].
    block_size: rows of a block.
    size: leading columns to take.
    is_b_matrix: which operand of the product it becomes; changes no value.
    is_trans: whether the product reads it transposed; changes no value.

    Returns
    -------
    Tensor [n, size].

    Raises
    ------
    PyptoValueError: `size` beyond the row. ShapeError: shapes do not fit. PyptoIndexError: an index outside.

    Notes
    -----
    Pass the result to matmul with the matching a_trans or b_trans.

    Cost
    ----
    Priced as the arithmetic on the indices and an index_select into UB, not L1.

    Examples
    --------
    >>> def pages(a):
    ...     at, table = pypto.reshape(pypto.arange(2), [1, 2]), pypto.full([1, 1], 1, pypto.DT_INT32)
    ...     return pypto.experimental.gather_in_l1(a, at, table, 2, 1, True, False)
    >>> show(pages, [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]])
    [[3.0], [4.0]]
    """
    c = Check(gather_in_l1.spec)
    src = c.tensor("src", src)
    rows, width = shape_of(src)
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= width:
        c.rule("arg.value", f"`size` is {size!r}; it must be within the row of {width}")
    indices, block_table = _check_table(c, indices, block_table, block_size)
    with c.session.label("gather_in_l1"):
        found = REGISTRY["index_select"].function(src, 0, _rows(c, indices, block_table, block_size))
        return found if size == width else REGISTRY["view"].function(found, [shape_of(found)[0], size], [0, 0])


@op("experimental.transposed_batchmatmul", cost=Cost.COMPOSITE, dtypes=supported("fp16 bf16"), ranks=(3, 3),
    source="operation table: experimental.transposed_batchmatmul",
    constraints=("A [M, B, K], B [B, K, N].",), numerics="As matmul.", torch="einsum('mbk,bkn->mbn').")
def transposed_batchmatmul(tensor_a: Tensor, tensor_b: Tensor, out_dtype: DataType) -> Tensor:
    """Batched matrix product with the batch axis in the middle.

    Parameters
    ----------
    tensor_a: FP16 or BF16 [M, B, K].
    tensor_b: tensor of the same type [B, K, N].
    out_dtype: FP16 or BF16.

    Returns
    -------
    Tensor [M, B, N].

    Raises
    ------
    ShapeError: sizes do not fit. PyptoValueError: the types do not fit.

    Notes
    -----
    The axes are swapped before and after a batched matmul.

    Cost
    ----
    Priced as two transposes and a matmul.

    Examples
    --------
    >>> def product(a):
    ...     h = pypto.cast(a, pypto.DT_FP16)
    ...     return pypto.experimental.transposed_batchmatmul(h, h, pypto.DT_FP16)
    >>> show(product, [[[2.0]]])
    [[[4.0]]]
    """
    c = Check(transposed_batchmatmul.spec)
    a, b = c.tensor("tensor_a", tensor_a), c.tensor("tensor_b", tensor_b)
    c.same_dtype(tensor_a=a, tensor_b=b)
    swap = REGISTRY["transpose"].function
    with c.session.label("transposed_batchmatmul"):
        return swap(REGISTRY["matmul"].function(swap(a, 0, 1), b, out_dtype), 0, 1)


@op("experimental.nop", cost=Cost.COMPOSITE, dtypes=REGISTRY["view"].dtypes, ranks=(1, 6),
    source="operation table: experimental.nop", constraints=("Undocumented in PyPTO.",), numerics="Bits are copied.",
    torch="No counterpart.")
def nop(in_tensors: Sequence[Tensor]) -> Tensor:
    """The first tensor, ordered after all of them.

    Parameters
    ----------
    in_tensors: list of tensors, at least one.

    Returns
    -------
    A view of the first tensor.

    Raises
    ------
    PyptoTypeError: no list of tensors.

    Notes
    -----
    PyPTO uses it for dependencies between operations, which program order gives here.

    Cost
    ----
    Nothing.

    Examples
    --------
    >>> show(lambda a: pypto.experimental.nop([a]), [1.0])
    [1.0]
    """
    c = Check(nop.spec)
    if not isinstance(in_tensors, list | tuple) or not in_tensors:
        c.rule("arg.type", "`in_tensors` must be a list of tensors, at least one")
    tensors = [c.tensor(f"in_tensors[{i}]", t) for i, t in enumerate(in_tensors)]
    return REGISTRY["view"].function(tensors[0])
