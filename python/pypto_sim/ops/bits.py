"""Integer operations on bits, and the greatest common divisor."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..registry import REGISTRY, Cost, OpSpec, Supported, op, supported
from ..trace.tensor import Tensor
from . import _facts as facts
from ._checks import Check
from .division import OTHER, TENSOR, _doc
from .elementwise import binary_call
from .steps import scalar_step, unary_step

BITS = supported("int8 uint8 int16 uint16 int32 uint32", unlisted="int64 uint64")
SHIFTED = supported("int16 uint16", only_950="int8 uint8 int32 uint32", unlisted="int64 uint64")
_RULES = (facts.ONE_DTYPE, facts.NUMPY_BROADCAST, "A scalar is an int and wraps modulo 2^n.", *facts.VECTOR_RULES)
INTEGER = "tensor of integers, rank 1 to 4."
CAST = "pypto.cast(a, pypto.DT_INT16)"


def _bit_operation(name: str, symbol: str, summary: str, example: str, reference: Any, *, dtypes: Supported = BITS,
                   shift: bool = False) -> Any:
    """Declare an operation of two integer tensors, or of a tensor and an int."""
    kernel = name.removeprefix("bitwise_left_").removeprefix("bitwise_right_")
    kernel = f"shift_{'left' if 'left' in name else 'right'}" if shift else kernel
    forms = {"scalar": (f"{kernel}s", symbol), **({"reverse": (f"r{kernel}s", symbol)} if shift else {})}

    def function(input: Tensor | int, other: Tensor | int) -> Tensor:
        spec: OpSpec = declared.spec
        c = Check(spec)
        for arg, value in (("input", input), ("other", other)):
            if not isinstance(value, Tensor | int | np.integer) or isinstance(value, bool):
                c.rule("arg.type", f"`{arg}` must be a Tensor or an int, got {type(value).__name__}")
        if shift and isinstance(other, Tensor) and not isinstance(input, Tensor):
            return scalar_step(c, spec.forms["reverse"], c.tensor("other", other), input, name="input")
        return binary_call(spec, input, other)

    function.__name__ = function.__qualname__ = name
    first = "tensor of integers, rank 1 to 4, or an int." if shift else INTEGER
    notes = "Counts below 0 or not below the width shift everything out." if shift else "Exact."
    _doc(summary, notes, example, first=first)(function)
    declared = op(name, kernel=kernel, instr=symbol, forms=forms, cost=Cost.VEC_BINARY, dtypes=dtypes,
                  reference=reference, numerics=facts.EXACT, constraints=_RULES, torch="Same values.", source=facts.API,
                  bf16_arith=False)(function)
    return declared


def _example(name: str, argument: str, result: str) -> str:
    return f">>> show(lambda a: pypto.{name}({CAST}, {argument}), [6.0])\n[{result}]"


bitwise_and = _bit_operation("bitwise_and", "vand", "Bits set in both operands.", _example("bitwise_and", "3", "2"),
                             np.bitwise_and)
bitwise_or = _bit_operation("bitwise_or", "vor", "Bits set in either operand.", _example("bitwise_or", "3", "7"),
                            np.bitwise_or)
bitwise_xor = _bit_operation("bitwise_xor", "", "Bits set in one operand only.", _example("bitwise_xor", "3", "5"),
                             np.bitwise_xor)
bitwise_left_shift = _bit_operation("bitwise_left_shift", "", "Bits moved up; those shifted out are lost.",
                                    _example("bitwise_left_shift", "1", "12"), np.left_shift, dtypes=SHIFTED,
                                    shift=True)
bitwise_right_shift = _bit_operation("bitwise_right_shift", "", "Bits moved down; signed types keep their sign.",
                                     _example("bitwise_right_shift", "1", "3"), np.right_shift, dtypes=SHIFTED,
                                     shift=True)


@op(kernel="bitwise_not", instr="vnot", dtypes=supported("bool int8 uint8 int16 uint16 int32 uint32",
                                                         unlisted="int64 uint64"), bf16_arith=False,
    reference=np.invert, numerics=facts.EXACT, constraints=facts.VECTOR_RULES, torch="Same values.", source=facts.API)
def bitwise_not(input: Tensor) -> Tensor:
    """Every bit inverted; BOOL is negated.

    Parameters
    ----------
    input: tensor of integers or BOOL, rank 1 to 4.

    Returns
    -------
    Tensor of the shape and type of `input`.

    Raises
    ------
    DTypeError: unsupported element type. ShapeError: wrong rank or empty.

    Notes
    -----
    For signed integers this is -x - 1.

    Cost
    ----
    One vnot per tile.

    Examples
    --------
    >>> show(lambda a: pypto.bitwise_not(pypto.cast(a, pypto.DT_INT16)), [5.0])
    [-6]
    """
    c = Check(bitwise_not.spec)
    x = c.tensor("input", input)
    return unary_step(c, REGISTRY["logical_not"] if x.dtype.short == "bool" else c.spec, x)


@op(kernel="gcd", forms={"scalar": ("gcds", "")}, cost=Cost.VEC_LONG, form_cost=Cost.VEC_LONG, methods=("gcd",),
    dtypes=supported("int8 int16 int32 uint8", unlisted="int64 uint16 uint32 uint64"), reference=np.gcd,
    numerics=facts.EXACT, torch="Same values.", source=facts.API,
    constraints=(*_RULES, "The last tile axis is a multiple of 32 bytes."))
@_doc("Greatest common divisor, not negative.", "gcd(0, 0) is 0.",
      f">>> show(lambda a: pypto.gcd({CAST}, 4), [6.0])\n[2]", first=TENSOR, second=OTHER)
def gcd(input: Tensor, other: Tensor | int) -> Tensor:
    return binary_call(gcd.spec, input, other)
