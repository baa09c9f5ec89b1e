"""Matrix product of block-scaled operands (MX)."""
from __future__ import annotations

import math
from typing import Any

from ..dtypes import DataType
from ..registry import Cost, op, supported
from ..trace.session import Out
from ..trace.tensor import Tensor
from ._checks import Check
from ._shapes import or_full, shape_of, valid_list
from .matmul import WIDE_RESULTS, _batches, _bias, _capacity, _cube_tile, _extras, _relu, _scale

FP8E8M0, FP4 = DataType.DT_FP8E8M0, DataType.DT_FP4_E2M1X2
FP32 = DataType.DT_FP32
PAIR = 64                   # two groups of 32 along K


def _logical(t: Tensor) -> list[int]:
    """Shape in elements: FP4 holds two a byte along the last axis."""
    shape = shape_of(t)
    return [*shape[:-1], 2 * shape[-1]] if t.dtype is FP4 else shape


@op(kernel="scaled_matmul", cost=Cost.CUBE, instr="mad", dtypes=supported("fp8e4m3 fp8e5m2 fp4_e2m1x2"),
    ranks=(2, 4), socs=("950",), source="operation table: scaled_mm",
    constraints=("scale_a [M, ceil(K / 64), 2], scale_b [ceil(K / 64), N, 2], both FP8E8M0.", "kL0 % 64 == 0.",
                 "FP8E4M3 and FP8E5M2 may be mixed; FP4 goes with FP4."),
    numerics="Operands times their powers of two in fp32, then as matmul.", torch="torch._scaled_mm with MX scales.")
def scaled_mm(mat_a: Tensor, mat_b: Tensor, out_dtype: DataType, scale_a: Tensor, scale_b: Tensor, *,
              a_trans: bool = False, b_trans: bool = False, scale_a_trans: bool = False, scale_b_trans: bool = False,
              c_matrix_nz: bool = False, extend_params: dict[str, Any] | None = None) -> Tensor:
    """Matrix product of operands whose groups of 32 along K carry a power of two.

    Parameters
    ----------
    mat_a: FP8E4M3 or FP8E5M2 [M, K], or [K, M] with a_trans; FP4_E2M1X2 [M, K / 2].
    mat_b: [K, N], or [N, K] with b_trans; FP4_E2M1X2 two elements a byte along its last axis.
    out_dtype: FP16, BF16 or FP32; INT8 with a scale.
    scale_a: FP8E8M0 [M, ceil(K / 64), 2], or [ceil(K / 64), M, 2] with scale_a_trans.
    scale_b: FP8E8M0 [ceil(K / 64), N, 2], or [N, ceil(K / 64), 2] with scale_b_trans.
    a_trans: `mat_a` is stored transposed.
    b_trans: `mat_b` is stored transposed.
    scale_a_trans: `scale_a` is stored transposed.
    scale_b_trans: `scale_b` is stored transposed.
    c_matrix_nz: must be False.
    extend_params: dict of bias_tensor [1, N], relu_type, and scale or scale_tensor [1, N] as for matmul.

    Returns
    -------
    Tensor [M, N].

    Raises
    ------
    ShapeError: sizes do not fit. DTypeError: unsupported element types. TileError: kL0 is no multiple of 64.

    Notes
    -----
    Only the 950 has it (rule api.chip).

    Cost
    ----
    As matmul of 8-bit operands whose K is longer by one byte of scale for 32 elements; FP4 counts as FP8.

    Examples
    --------
    >>> def product(a):
    ...     q, s = pypto.quant_mx(a)
    ...     return pypto.scaled_mm(q, q, pypto.DT_FP32, s, s, b_trans=True, scale_b_trans=True)
    >>> show(product, [[1.0] * 64])
    [[64.0]]
    """
    check = Check(scaled_mm.spec)
    a, b = check.tensor("mat_a", mat_a, nz=True), check.tensor("mat_b", mat_b, nz=True)
    if (a.dtype is FP4) is not (b.dtype is FP4):
        check.rule("matmul.mixed", f"`mat_a` is {a.dtype.name}, `mat_b` is {b.dtype.name}; FP4 goes with FP4")
    extras = _extras(check, extend_params)
    factor, column_scales = _scale(check, extras)
    scaled = bool(factor) or column_scales is not None
    allowed = (DataType.DT_INT8,) if scaled else WIDE_RESULTS
    if out_dtype not in allowed:
        check.rule("matmul.out_dtype", f"`out_dtype` is {getattr(out_dtype, 'name', out_dtype)}; allowed "
                                       f"{'with' if scaled else 'without'} a scale: "
                                       f"{', '.join(d.name for d in allowed)}")
    if c_matrix_nz:
        check.rule("arg.value", "`c_matrix_nz` must be False: an NZ result is not supported")
    if "trans_mode" in extras:
        check.rule("arg.value", "`extend_params` has 'trans_mode', which is for FP32 operands of matmul")
    sa, sb = _logical(a), _logical(b)
    if len(sa) != len(sb):
        check.rule("shape.mismatch", f"`mat_a` {sa} and `mat_b` {sb} must have equal ranks")
    batch = _batches(check, sa[:-2], sb[:-2])
    if sa[:-2] != sb[:-2]:
        check.rule("shape.mismatch", f"batch axes {sa[:-2]} and {sb[:-2]} must be equal: the scales belong to them")
    k, k_b = sa[-2 if a_trans else -1], sb[-1 if b_trans else -2]
    m, n = sa[-1 if a_trans else -2], sb[-2 if b_trans else -1]
    if k != k_b:
        check.rule("shape.mismatch", f"`mat_a` has {k} along K, `mat_b` has {k_b}; they must be equal")
    groups = -(-k // PAIR)
    for name, scale, rows, first in (("scale_a", scale_a, m, scale_a_trans),
                                     ("scale_b", scale_b, n, not scale_b_trans)):
        t = check.tensor(name, scale, supported("fp8e8m0"), ranks=(3, 5))
        want = [*batch, *((groups, rows) if first else (rows, groups)), 2]
        if shape_of(t) != want:
            check.rule("shape.mismatch", f"`{name}` has shape {shape_of(t)}; it must be {want}")
    if column_scales is not None and (shape_of(column_scales)[-1] != n or math.prod(shape_of(column_scales)) != n):
        check.rule("shape.mismatch", f"`scale_tensor` has shape {shape_of(column_scales)}; it must be [1, {n}]")
    tile = _cube_tile(check, m, k, n, DataType.DT_FP8E4M3, a_trans)
    if check.session.cube_tile is not None and tile.k[0] % PAIR:
        check.rule("tile.cube", f"kL0 = {tile.k[0]}; it must be a multiple of {PAIR}")
    bias = _bias(check, extras["bias_tensor"], a.dtype, n) if "bias_tensor" in extras else None
    _capacity(check, tile, m, k, n, 1, bias is not None)
    va, vb = valid_list(a), valid_list(b)
    rows = va[-1 if a_trans else -2] * (2 if a.dtype is FP4 and a_trans else 1)
    columns = vb[-2 if b_trans else -1] * (2 if b.dtype is FP4 and not b_trans else 1)
    shape = [*batch, m, n]
    check.size("result", shape)
    valid = or_full([*va[:-2], rows, columns], shape)
    with check.session.scoped():
        check.session.set_scope(cube_tile=tile)
        ins = [a, b, scale_a, scale_b, *(t for t in (bias, column_scales) if t is not None)]
        ints = (bool(a_trans), bool(b_trans), bias is not None, _relu(check, extras.get("relu_type")),
                bool(scale_a_trans), bool(scale_b_trans), column_scales is not None)
        (out,) = check.session.emit(scaled_mm.spec, [Out(tuple(shape), out_dtype, valid)], ins, floats=factor,
                                    ints=ints)
        return out
