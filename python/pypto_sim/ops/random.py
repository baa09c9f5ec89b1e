"""Random numbers of Philox 4x32."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..dtypes import DataType
from ..registry import Cost, OpSpec, op, supported
from ..trace.scalar import SymbolicScalar
from ..trace.tensor import Tensor
from . import _facts as facts
from ._checks import Check
from ._shapes import entries, shape_arg

ROUNDS = {1: 10, 3: 10}       # algorithm number: both are Philox 4x32 of ten rounds
_RULES = ("len(key) is 1, len(counter) is 2, alg is 1 or 3.", "The last entry of the tile is a multiple of 4.",
          "950 only, current release.")
_FACTS = dict(cost=Cost.VEC_FILL, instr="", dtypes=facts.FLOATS, versions=("master",), socs=("950",),
              constraints=_RULES, torch="Another generator.")


def _one(c: Check, arg: str, value: Any, count: int) -> list[Any]:
    found = entries(c, arg, value)
    if len(found) != count:
        c.rule("arg.value", f"`{arg}` has {len(found)} entries; it must have {count}")
    return found


def _int64(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _generated(spec: OpSpec, shape: Any, key: Any, counter: Any, alg: Any, dtype: Any, normal: bool) -> Tensor:
    c = Check(spec)
    sizes = shape_arg(c, "shape", shape)
    c.rank("shape", sizes)
    (number,) = _one(c, "key", key, 1)
    _, high = _one(c, "counter", counter, 2)
    (kind,) = _one(c, "alg", alg, 1)
    if kind not in ROUNDS:
        c.rule("arg.value", f"`alg` is [{kind}]; allowed: [1] and [3], Philox 4x32 of ten rounds")
    return _emit(c, sizes, number, 0, high, ROUNDS[kind], dtype, normal)


def _emit(c: Check, shape: list[int], key: Any, low: Any, high: Any, rounds: int, dtype: Any, normal: bool) -> Tensor:
    c.choice("dtype", dtype, DataType)
    c.dtype("dtype", dtype, c.spec.dtypes)
    if isinstance(key, SymbolicScalar) or isinstance(high, SymbolicScalar):
        c.rule("scalar.symbolic", "key and counter must be ints")
    return c.emit(shape, dtype, None, [], spec=uniform.spec, ints=(_int64(int(key)), rounds, int(normal),
                                                                    _int64(int(high))), scalars=(low,))


@op(kernel="philox", source="operation table: uniform; semantics: Uniform",
    numerics="The low 23, 10 or 7 bits of a word over 2^23, 2^10 or 2^7 (FP32, FP16, BF16): exact.", **_FACTS)
def uniform(shape: Sequence[int], key: Sequence[int], counter: Sequence[int], alg: Sequence[int],
            dtype: DataType) -> Tensor:
    """Uniform numbers in [0, 1) from a key and a counter.

    Parameters
    ----------
    shape: sizes, ints.
    key: [64-bit key].
    counter: [ignored, upper 64 bits of the counter].
    alg: [1] or [3], Philox 4x32 of ten rounds.
    dtype: FP32, FP16 or BF16.

    Returns
    -------
    Tensor of `shape`.

    Raises
    ------
    PyptoValueError: a list of another length, another algorithm. DTypeError: unsupported element type.

    Notes
    -----
    Four words per counter 0, 1, 2, ... in row-major order. Only the 950 has it (rule api.chip).

    Cost
    ----
    About 100 vector passes over the result: ten Philox rounds.

    Examples
    --------
    >>> show(lambda a: a + pypto.uniform([2], [0], [0, 0], [1], pypto.DT_FP32) * 0.0, [1.0, 2.0])
    [1.0, 2.0]
    """
    return _generated(uniform.spec, shape, key, counter, alg, dtype, False)


@op(source="operation table: normal",
    numerics="Box-Muller on pairs of words; PyPTO does not publish its exact steps.",
    **{**_FACTS, "cost": Cost.COMPOSITE})
def normal(shape: Sequence[int], key: Sequence[int], counter: Sequence[int], alg: Sequence[int],
           dtype: DataType) -> Tensor:
    """Standard normal numbers from a key and a counter.

    Parameters
    ----------
    shape: sizes, ints.
    key: [64-bit key].
    counter: [ignored, upper 64 bits of the counter].
    alg: [1] or [3], Philox 4x32 of ten rounds.
    dtype: FP32, FP16 or BF16.

    Returns
    -------
    Tensor of `shape`.

    Raises
    ------
    PyptoValueError: a list of another length, another algorithm. DTypeError: unsupported element type.

    Notes
    -----
    r sin(t) and r cos(t) with r = sqrt(-2 ln u) and t = 2 pi v. Only the 950 has it (rule api.chip).

    Cost
    ----
    About 100 vector passes over the result: ten Philox rounds.

    Examples
    --------
    >>> show(lambda a: a + pypto.normal([2], [0], [0, 0], [1], pypto.DT_FP32) * 0.0, [1.0, 2.0])
    [1.0, 2.0]
    """
    return _generated(normal.spec, shape, key, counter, alg, dtype, True)


@op(source="operation table: uniform_impl", numerics="As uniform.", ranks=(1, 1),
    **{**_FACTS, "cost": Cost.COMPOSITE, "dtypes": supported("fp32 fp16 bf16")})
def uniform_impl(key: int, counter0: int | SymbolicScalar, counter1: int, shape: Sequence[int], rounds: int = 10,
                 dtype: DataType | None = None) -> Tensor:
    """Uniform numbers in [0, 1) from an explicit counter.

    Parameters
    ----------
    key: 64-bit key.
    counter0: lower 64 bits of the first counter, may be symbolic.
    counter1: upper 64 bits.
    shape: [n].
    rounds: 7 or 10.
    dtype: FP32 (default), FP16 or BF16.

    Returns
    -------
    Tensor [n].

    Raises
    ------
    PyptoValueError: other rounds. ShapeError: more than one axis. DTypeError: unsupported element type.

    Notes
    -----
    Undocumented in PyPTO. Only the 950 has it (rule api.chip).

    Cost
    ----
    About 100 vector passes over the result: ten Philox rounds.

    Examples
    --------
    >>> show(lambda a: a + pypto.uniform_impl(0, 0, 0, [2]) * 0.0, [1.0, 2.0])
    [1.0, 2.0]
    """
    c = Check(uniform_impl.spec)
    sizes = shape_arg(c, "shape", shape)
    c.rank("shape", sizes)
    if rounds not in (7, 10):
        c.rule("arg.value", f"`rounds` is {rounds!r}; allowed: 7 and 10")
    return _emit(c, [math.prod(sizes)], key, counter0, counter1, rounds, dtype or DataType.DT_FP32, False)
