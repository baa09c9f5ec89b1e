"""Block formats: groups of elements share a power of two."""
from __future__ import annotations

from ..dtypes import DataType
from ..enums import DequantScaleRoundingMode
from ..registry import Cost, op, supported
from ..trace.session import Out
from ..trace.tensor import Tensor
from ._checks import Check
from ._shapes import or_full, shape_of, valid_list

FP32 = DataType.DT_FP32
FP8E4M3, FP8E8M0, FP4 = DataType.DT_FP8E4M3, DataType.DT_FP8E8M0, DataType.DT_FP4_E2M1X2
PAIR = 64                     # two groups of 32


@op(kernel="quant_mx", cost=Cost.VEC_LONG, dtypes=supported("fp16 bf16 fp32"), versions=("master",), socs=("950",),
    methods=("quant_mx",), source="operation table: quant_mx; semantics: QuantMX",
    constraints=("950 only, current release.", "FP4: FP16 or BF16 input, an even last axis.",
                 "axis -2: a multiple of 64 rows."),
    numerics="Groups of 32 share a power of two; elements are rounded to nearest even and saturate.",
    torch="No counterpart.")
def quant_mx(input: Tensor, quant_dtype: DataType = FP8E4M3,
             mode: DequantScaleRoundingMode = DequantScaleRoundingMode.ROUND_DOWN, axis: int = -1,
             performance_mode: bool = True) -> tuple[Tensor, Tensor]:
    """Block quantisation: 32 elements share an E8M0 scale.

    Parameters
    ----------
    input: FP16, BF16 or FP32 tensor [.., M, N].
    quant_dtype: DT_FP8E4M3 or DT_FP4_E2M1X2 (two elements a byte: the result has N / 2 bytes a row).
    mode: ROUND_DOWN takes the exponent of the largest element, ROUND_UP the smallest scale without overflow.
    axis: -1 or -2, the axis of the groups.
    performance_mode: changes speed only.

    Returns
    -------
    (quantised, scale): scale is FP8E8M0 [.., ceil(N / 64), 2] for axis -1, [.., M / 64, N, 2] for axis -2.

    Raises
    ------
    DTypeError: another type. ShapeError: sizes do not fit. PyptoValueError: another axis.

    Notes
    -----
    A group that lacks elements is filled with zeros; a NaN gives the scale NaN. Only the 950 has it (rule api.chip).

    Cost
    ----
    About 14 vector passes over the operand.

    Examples
    --------
    >>> show(lambda a: pypto.quant_mx(a)[1], [1.0] * 64)
    [[0.00390625, 0.00390625]]
    """
    c = Check(quant_mx.spec)
    x = c.tensor("input", input)
    shape, valid = shape_of(x), valid_list(x)
    rank = len(shape)
    if quant_dtype not in (FP8E4M3, FP4):
        c.rule("dtype.unsupported", f"`quant_dtype` is {getattr(quant_dtype, 'name', quant_dtype)}; allowed: "
                                    "DT_FP8E4M3, DT_FP4_E2M1X2")
    if quant_dtype is FP4 and x.dtype is FP32:
        c.rule("dtype.unsupported", "`input` is DT_FP32; FP4 results take FP16 or BF16")
    c.choice("mode", mode, DequantScaleRoundingMode)
    along = c.dim("axis", axis, rank)
    if along < rank - 2:
        c.rule("arg.value", f"`axis` is {axis}; it must name one of the last two axes")
    if along != rank - 1 and shape[along] % PAIR:
        c.rule("shape.mismatch", f"axis {along} of `input` {shape} must be a multiple of {PAIR} for groups along it")
    groups = lambda n: -(-n // PAIR) if isinstance(n, int) else (n + (PAIR - 1)) // PAIR
    scale, scale_valid = [*shape, 2], [*valid, 2]
    scale[along], scale_valid[along] = groups(shape[along]), groups(valid[along])
    if quant_dtype is FP4:
        if shape[-1] % 2:
            c.rule("shape.mismatch", f"the last axis of `input` {shape} must be even: two elements share a byte")
        shape[-1] //= 2
        valid[-1] = (valid[-1] + 1) // 2
    outs = [Out(tuple(shape), quant_dtype, or_full(valid, shape)),
            Out(tuple(scale), FP8E8M0, or_full(scale_valid, scale))]
    up = mode is DequantScaleRoundingMode.ROUND_UP
    quantised, exponents = c.emit_all(outs, (x,), ints=(along, int(up)))
    return quantised, exponents
