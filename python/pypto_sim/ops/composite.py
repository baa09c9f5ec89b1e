"""Operations that PyPTO itself composes: core rows under one semantic label, in the documented order."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..registry import REGISTRY, Cost, op, supported
from ..trace.tensor import Tensor, static_shape
from . import _facts as facts
from ._checks import Check
from .steps import binary_step, cast_step, full_step, reduce_step, scalar_step, unary_step

FP32, BF16 = DataType.DT_FP32, DataType.DT_BF16


def _scalar(row: str) -> Any:
    return REGISTRY[row].forms["scalar"]


def _sigmoid_reference(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _softmax_reference(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@op(cost=Cost.COMPOSITE, dtypes=facts.FLOATS, methods=("sigmoid",), reference=_sigmoid_reference, ulp=4.0,
    source=facts.API, numerics="cast to fp32, muls -1, exp, adds 1, full 1, div, cast back: one rounding per step.",
    constraints=("Documented for FP32; other floats are cast.", *facts.VECTOR_RULES), torch="Up to 4 ULP.")
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)) for every element.

    Parameters
    ----------
    input: tensor of rank 1 to 4.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    The guide writes these steps out. Only the valid region of `input` becomes valid.

    Cost
    ----
    vmuls, vexp, vadds, vector_dup and vdiv per tile; 16-bit types add two casts.

    Examples
    --------
    >>> show(lambda a: pypto.sigmoid(a), [0.0])
    [0.5]
    """
    c = Check(sigmoid.spec)
    c.rule("sigmoid.expand", "the guide has no sigmoid operation; write it as exp, add and div")
    x = c.tensor("input", input)
    with c.session.label("sigmoid"):
        wide = cast_step(c, x, FP32)
        low = scalar_step(c, _scalar("add"), unary_step(c, REGISTRY["exp"], scalar_step(c, _scalar("mul"), wide, -1.0)),
                          1.0)
        return cast_step(c, binary_step(c, REGISTRY["div"], full_step(c, low, 1.0), low), x.dtype)


@op(cost=Cost.COMPOSITE, dtypes=facts.FLOATS, methods=("softmax",), reference=_softmax_reference, ulp=8.0,
    source=facts.API, numerics="cast to fp32, amax, sub, exp, sum, div, cast back: one rounding per step.",
    constraints=("Documented for FP32; other floats are cast.", "Tile rules of amax and sum."),
    torch="The order of additions differs.")
def softmax(input: Tensor, dim: int) -> Tensor:
    """exp(x - max) / sum along one axis.

    Parameters
    ----------
    input: tensor of rank 1 to 4, such as [T, E].
    dim: axis, negative from the end.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    ShapeError: `dim` out of range. DTypeError: unsupported element type. TileError: as `sum`.

    Notes
    -----
    A row of -inf only gives NaN, as on the chip.

    Cost
    ----
    Two reductions, two expanded operands and three elementwise operations per tile.

    Examples
    --------
    >>> show(lambda a: pypto.softmax(a, -1), [1.0, 1.0])
    [0.5, 0.5]
    """
    c = Check(softmax.spec)
    x = c.tensor("input", input)
    axis = c.dim("dim", dim, len(static_shape(x)))
    with c.session.label("softmax"):
        wide = cast_step(c, x, FP32)
        top = reduce_step(c, REGISTRY["amax"], wide, axis)
        e = unary_step(c, REGISTRY["exp"], binary_step(c, REGISTRY["sub"], wide, top))
        total = reduce_step(c, REGISTRY["sum"], e, axis)
        return cast_step(c, binary_step(c, REGISTRY["div"], e, total), x.dtype)


@op(cost=Cost.COMPOSITE, dtypes=facts.FLOATS, ulp=4.0, source=facts.API,
    reference=lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6),
    numerics="In fp32: x * x, * 1/n, sum, + epsilon, sqrt, x / that, * gamma, then one cast to the input's type.",
    constraints=("Last axis; gamma is [C] or broadcasts to the input.", "Tile rules of sum."),
    torch="The parameter is `epsilon` with default 1e-6, added before the root.")
def rms_norm(input: Tensor, gamma: Tensor | None = None, epsilon: float = 1e-6) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * gamma over the last axis.

    Parameters
    ----------
    input: tensor of rank 1 to 4, [.., C].
    gamma: weights [C], or None for none.
    epsilon: added to the mean square.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: gamma does not broadcast. PyptoTypeError: epsilon is no number.

    Notes
    -----
    The mean divides by the static size of the last axis.

    Cost
    ----
    One reduction and about six elementwise operations per tile; 16-bit types add casts.

    Examples
    --------
    >>> show(lambda a: pypto.rms_norm(a, epsilon=0.0), [2.0, 2.0])
    [1.0, 1.0]
    """
    c = Check(rms_norm.spec)
    x = c.tensor("input", input)
    shape = static_shape(x)
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.floating) or not math.isfinite(epsilon):
        c.rule("arg.type", f"`epsilon` must be a finite number, got {epsilon!r}")
    g = None
    if gamma is not None:
        g = c.tensor("gamma", gamma)
        if c.broadcast(input=x, gamma=g)[0] != shape:
            c.rule("shape.broadcast", f"`gamma` {list(static_shape(g))} does not broadcast to `input` {list(shape)}; "
                                      f"pass [{shape[-1]}]")
    with c.session.label("rms_norm"):
        wide = cast_step(c, x, FP32)
        square = scalar_step(c, _scalar("mul"), binary_step(c, REGISTRY["mul"], wide, wide), 1.0 / shape[-1])
        mean = reduce_step(c, REGISTRY["sum"], square, len(shape) - 1)
        root = unary_step(c, REGISTRY["sqrt"], scalar_step(c, _scalar("add"), mean, float(epsilon)))
        result = binary_step(c, REGISTRY["div"], wide, root)
        if g is not None:
            result = binary_step(c, REGISTRY["mul"], result, cast_step(c, g, FP32))
        return cast_step(c, result, x.dtype)


_ONLINE: dict[str, Any] = dict(
    cost=Cost.COMPOSITE, dtypes=supported("fp32"), ranks=(2, 2), versions=("master",), socs=("950",), source=facts.API,
    torch="No counterpart.")


@op("experimental.online_softmax", numerics="fp32 per step: muls scale, amax, sub, exp, sum; the exponentials leave "
    "as BF16, rounded once.", constraints=("FP32 [k_len, q_len]; reduces axis 0.", "k_len <= first tile entry.",
                                           "950 only, current release only."), **_ONLINE)
def online_softmax(scores: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Statistics of a block of attention scores, column by column.

    Parameters
    ----------
    scores: FP32 [k_len, q_len].
    scale: factor of the scores.

    Returns
    -------
    (exp_scores, column_max, column_sum): BF16 [k_len, q_len], FP32 [1, q_len], FP32 [1, q_len] of
    exp(scale * scores - max).

    Raises
    ------
    TileError: k_len exceeds the first entry of the vector tile. PyptoNotImplementedError: other chips, 0.2.

    Notes
    -----
    The sum is taken over the fp32 exponentials, before they are rounded to BF16.

    Cost
    ----
    Two column reductions and four elementwise operations per tile.

    Examples
    --------
    >>> show(lambda a: pypto.experimental.online_softmax(a, 1.0)[2], [[0.0, 1.0], [0.0, 1.0]])
    [[2.0, 2.0]]
    """
    c = Check(online_softmax.spec)
    x = c.tensor("scores", scores)
    shape = static_shape(x)
    _first_tile(c, shape[0], "scores")
    with c.session.label("online_softmax"):
        scaled = scalar_step(c, _scalar("mul"), x, scale, name="scale", symbolic=False)
        top = reduce_step(c, REGISTRY["amax"], scaled, 0)
        e = unary_step(c, REGISTRY["exp"], binary_step(c, REGISTRY["sub"], scaled, top))
        total = reduce_step(c, REGISTRY["sum"], e, 0)
        return cast_step(c, e, BF16), top, total


def _first_tile(c: Check, n: int, arg: str) -> None:
    tile = c.session.vec_tile
    if tile is not None and n > tile[0] > 0:
        c.rule("online.tile", f"`{arg}` has {n} rows, more than the first entry {tile[0]} of the vector tile; "
                              f"call pypto.set_vec_tile_shapes({n}, ...)")


@op("experimental.online_softmax_update", numerics="fp32 per step: maximum, two sub and exp, products and sums.",
    constraints=("All FP32; statistics [1, q_len], outputs [head_dim, q_len].", "head_dim <= first tile entry.",
                 "Second tile entry a multiple of 32 bytes.", "950 only, current release only."), **_ONLINE)
def online_softmax_update(previous_max: Tensor, previous_sum: Tensor, previous_output: Tensor, current_max: Tensor,
                          current_sum: Tensor, current_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Merge two online-softmax states; the outputs stay unnormalised.

    Parameters
    ----------
    previous_max, previous_sum, current_max, current_sum: FP32 [1, q_len].
    previous_output, current_output: FP32 [head_dim, q_len].

    Returns
    -------
    (max, sum, output): FP32 [1, q_len], [1, q_len], [head_dim, q_len].

    Raises
    ------
    ShapeError: statistics or outputs of different shapes. TileError: head_dim exceeds the first tile entry.

    Notes
    -----
    With m the larger maximum: sum = s0 exp(m0 - m) + s1 exp(m1 - m), and the outputs likewise.

    Cost
    ----
    Two exponentials of [1, q_len] and about nine elementwise operations per tile.

    Examples
    --------
    >>> show(lambda a: pypto.experimental.online_softmax_update(a, a, a, a, a, a)[1], [[1.0, 2.0]])
    [[2.0, 4.0]]
    """
    c = Check(online_softmax_update.spec)
    stats = {n: c.tensor(n, t) for n, t in (("previous_max", previous_max), ("previous_sum", previous_sum),
                                            ("current_max", current_max), ("current_sum", current_sum))}
    outputs = {n: c.tensor(n, t) for n, t in (("previous_output", previous_output),
                                              ("current_output", current_output))}
    for group in (stats, outputs):
        if len({static_shape(t) for t in group.values()}) > 1:
            c.rule("shape.mismatch", ", ".join(f"`{n}` {list(static_shape(t))}" for n, t in group.items()) +
                   " must have one shape")
    rows, columns = static_shape(outputs["previous_output"])
    if static_shape(stats["previous_max"]) != (1, columns):
        c.rule("shape.mismatch", f"`previous_max` has shape {list(static_shape(previous_max))}; "
                                 f"it must be [1, {columns}] beside outputs of {columns} columns")
    _first_tile(c, rows, "previous_output")
    with c.session.label("online_softmax_update"):
        top = binary_step(c, REGISTRY["maximum"], previous_max, current_max)
        old, new = (unary_step(c, REGISTRY["exp"], binary_step(c, REGISTRY["sub"], m, top))
                    for m in (previous_max, current_max))
        mul, add = REGISTRY["mul"], REGISTRY["add"]
        total = binary_step(c, add, binary_step(c, mul, previous_sum, old), binary_step(c, mul, current_sum, new))
        output = binary_step(c, add, binary_step(c, mul, previous_output, old),
                             binary_step(c, mul, current_output, new))
        return top, total, output
