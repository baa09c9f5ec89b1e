"""Convolution over one, two or three axes."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..dtypes import DataType
from ..registry import Cost, op, supported
from ..trace.session import CubeTile, Out
from ..trace.tensor import Tensor
from ._checks import Check
from ._shapes import entries, or_full, shape_of
from .matmul import _relu, chosen_cube_tile

FP32, BF16 = DataType.DT_FP32, DataType.DT_BF16
EXTRAS = ("bias_tensor", "relu_type")
MAX_STRIDE, MAX_PAD, MAX_GROUPS, MAX_KERNEL = 63, 255, 65535, 255


def _numbers(c: Check, arg: str, value: Any, count: int, low: int, high: int) -> list[int]:
    if not isinstance(value, list):
        c.rule("arg.type", f"`{arg}` must be a list of {count} ints, got {type(value).__name__}")
    found = entries(c, arg, value)
    if len(found) != count:
        c.rule("arg.value", f"`{arg}` has {len(found)} entries; it must have {count}")
    if bad := [n for n in found if not low <= n <= high]:
        c.rule("arg.value", f"`{arg}` has the entry {bad[0]}; allowed: {low} to {high}")
    return found


def _pads(c: Check, value: Any, axes: int, kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """(before, after) per axis: one number per axis, or a pair before, after per axis."""
    both = isinstance(value, list) and len(value) == 2 * axes
    found = _numbers(c, "paddings", value, 2 * axes if both else axes, 0, MAX_PAD)
    before, after = (found[::2], found[1::2]) if both else (found, found)
    for p, k in zip([*before, *after], [*kernel, *kernel], strict=True):
        if p >= k:
            c.rule("arg.value", f"`paddings` has {p} for a kernel of {k}; a padding must be smaller than the kernel")
    return before, after


@op(kernel="conv", cost=Cost.CUBE, instr="mad", dtypes=supported("fp16 bf16 fp32"), ranks=(3, 5),
    source="operation table: conv",
    constraints=("Input, weight and result have one type; the bias too (BF16 on A2/A3: FP32).",
                 "set_conv_tile_shapes must be called before it.",
                 "Strides and dilations 1 to 63, paddings 0 to 255 and below the kernel, groups 1 to 65535."),
    numerics="fp32 sums over channels and kernel taps in order, then the bias, one rounding.",
    torch="torch.nn.functional.conv1d, conv2d, conv3d.")
def conv(input_conv: Tensor, weight: Tensor, out_dtype: DataType, strides: list[int], paddings: list[int],
         dilations: list[int], *, groups: int = 1, transposed: bool = False, output_paddings: list[int] | None = None,
         extend_params: dict[str, Any] | None = None) -> Tensor:
    """Convolution of [N, C, (D,) (H,) W] with [Cout, C / groups, (KD,) (KH,) KW].

    Parameters
    ----------
    input_conv: tensor of rank 3 to 5.
    weight: tensor of the same rank and type.
    out_dtype: the type of the operands.
    strides: list, one int per spatial axis.
    paddings: list, one int per spatial axis, or a pair before, after per axis.
    dilations: list, one int per spatial axis.
    groups: number of channel groups.
    transposed: must be False.
    output_paddings: must be None.
    extend_params: dict of bias_tensor [Cout] and relu_type.

    Returns
    -------
    Tensor [N, Cout, (D,) (H,) W].

    Raises
    ------
    PyptoNotImplementedError: transposed. ShapeError: sizes do not fit. PyptoTypeError: a list is no list.

    Notes
    -----
    set_conv_tile_shapes changes cost on the chip, never values. The order of the sums is this simulator's choice.

    Cost
    ----
    As a matrix product of the result's places by channels times taps: the input is read once per tap.

    Examples
    --------
    >>> def average(a):
    ...     return pypto.conv(a, pypto.full([1, 1, 2], 0.5, pypto.DT_FP32), pypto.DT_FP32, [1], [0], [1])
    >>> show(average, [[[1.0, 3.0, 5.0]]])
    [[[2.0, 4.0]]]
    """
    c = Check(conv.spec)
    x, w = c.tensor("input_conv", input_conv), c.tensor("weight", weight)
    c.same_dtype(input_conv=x, weight=w)
    if transposed or output_paddings is not None:
        c.rule("api.not_implemented", "transposed convolution is refused by PyPTO as well")
    if out_dtype is not x.dtype:
        c.rule("dtype.unsupported", f"`out_dtype` is {getattr(out_dtype, 'name', out_dtype)}; it must be that of the "
                                    f"operands, {x.dtype.name}")
    shape, kernel = shape_of(x), shape_of(w)
    axes = len(shape) - 2
    if len(kernel) != len(shape):
        c.rule("shape.mismatch", f"`weight` {kernel} must have the rank of `input_conv` {shape}")
    if isinstance(groups, bool) or not isinstance(groups, int) or not 1 <= groups <= MAX_GROUPS:
        c.rule("arg.value", f"`groups` is {groups!r}; allowed: 1 to {MAX_GROUPS}")
    if shape[1] != groups * kernel[1] or kernel[0] % groups:
        c.rule("shape.mismatch", f"`input_conv` {shape}, `weight` {kernel} and {groups} groups do not fit: it needs "
                                 f"groups * {kernel[1]} channels, and groups must divide {kernel[0]}")
    if max(kernel[-2:] if axes > 1 else kernel[-1:]) > MAX_KERNEL:
        c.rule("shape.mismatch", f"the kernel {kernel[2:]} is larger than {MAX_KERNEL}")
    steps = _numbers(c, "strides", strides, axes, 1, MAX_STRIDE)
    spread = _numbers(c, "dilations", dilations, axes, 1, MAX_STRIDE)
    before, after = _pads(c, paddings, axes, kernel[2:])
    out = [(n + p + q - d * (k - 1) - 1) // s + 1 for n, k, s, d, p, q in
           zip(shape[2:], kernel[2:], steps, spread, before, after, strict=True)]
    if min(out) < 1:
        c.rule("shape.mismatch", f"the kernel {kernel[2:]} does not fit the padded input {shape[2:]}")
    if c.session.scope.conv_tile is None:
        c.rule("tile.conv_unset", "no convolution tile is set; call set_conv_tile_shapes before it")
    result = [shape[0], kernel[0], *out]
    c.size("result", result)
    extras = {k: v for k, v in (extend_params or {}).items() if v is not None}
    if unknown := [k for k in extras if k not in EXTRAS]:
        c.rule("arg.unknown", f"`extend_params` has the key {unknown[0]!r}; known: {', '.join(EXTRAS)}")
    ins = [x, w]
    if "bias_tensor" in extras:
        bias = c.tensor("bias_tensor", extras["bias_tensor"], supported("fp16 bf16 fp32"), ranks=(1, 5))
        if math.prod(shape_of(bias)) != kernel[0]:
            c.rule("shape.mismatch", f"`bias_tensor` {shape_of(bias)} must hold {kernel[0]} values")
        ins.append(bias)
    ints = (groups, int(_relu(c, extras.get("relu_type"))), *steps, *before, *spread)
    with c.session.scoped():
        c.session.set_scope(cube_tile=_cube_tile(c, math.prod(out) * shape[0], math.prod(kernel[1:]),
                                                 kernel[0] // groups, x.dtype))
        (y,) = c.session.emit(conv.spec, [Out(tuple(result), out_dtype, or_full(result, result))], ins, ints=ints)
        return y


def _cube_tile(c: Check, m: int, k: int, n: int, dtype: DataType) -> CubeTile:
    """Tile of the product that the convolution is priced as: the L0 tile in force where one is set, else chosen."""
    tile, chosen = c.session.scope.conv_tile, chosen_cube_tile(m, k, n, dtype.size_bytes)
    if tile is None or tile.l0 is None:
        return chosen
    m0, k0, n0 = tile.l0.tileH * tile.l0.tileW, tile.l0.tileK, tile.l0.tileN
    return CubeTile((m0, m0), (k0, k0, k0), (n0, n0))
