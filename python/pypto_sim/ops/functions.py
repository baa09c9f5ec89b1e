"""Functions of one float tensor that the chips compute by a sequence of instructions: one table, one row each."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..enums import PrecisionType
from ..registry import Cost, Supported, op, supported
from ..trace.tensor import Tensor
from . import _facts as facts
from ._checks import Check
from .elementwise import PRECISION_TYPE, precision
from .steps import cast_step, unary_step
from .unary import unary_call

FP32 = DataType.DT_FP32
DOC = """{summary}

Parameters
----------
input: tensor of rank 1 to 4.{more}

Returns
-------
Tensor of the shape of `input` and {result}.

Raises
------
DTypeError: unsupported element type. ShapeError: wrong rank or empty. CapacityError: scratch does not fit UB.

Notes
-----
{notes}

Cost
----
A sequence of vector instructions per tile{scratch}.

Examples
--------
>>> show(lambda a: pypto.{name}(a), [{x}])
[{y}]
"""


def _document(function: Any, name: str, summary: str, notes: str, scratch: int, example: tuple[float, float],
              more: str = "", result: str = "its type") -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = DOC.format(name=name, summary=summary, notes=notes, more=more, result=result, x=example[0],
                                  y=example[1], scratch=f"; about {scratch} fp32 tiles of scratch" if scratch else "")


def _facts(name: str, dtypes: Supported, reference: Any, samples: tuple[float, float], versions: tuple[str, ...],
           scratch: int, bf16_arith: bool, methods: tuple[str, ...], ulp: float = 0.5) -> dict[str, Any]:
    needs = (f"{scratch} fp32 tiles must fit UB.",) if scratch else ()
    return dict(kernel=name, cost=Cost.VEC_LONG, dtypes=dtypes, reference=reference, samples=samples, ulp=ulp,
                versions=versions, methods=methods, bf16_arith=bf16_arith, source=facts.API,
                numerics=f"{'Correctly rounded fp32' if ulp == 0.5 else f'fp32 within {ulp} ULP'} inside (the "
                         "chip's own sequence is not published); 16-bit types are widened and rounded once.",
                torch="Same values within rounding.",
                constraints=(*facts.VECTOR_RULES, *needs))


def _function(name: str, summary: str, notes: str, reference: Callable[..., Any], *, example: tuple[float, float],
              samples: tuple[float, float] = (-4.0, 4.0), dtypes: Supported = facts.FLOATS,
              versions: tuple[str, ...] = ("master",), scratch: int = 0, bf16_arith: bool = True,
              method: bool = False, ulp: float = 0.5) -> Any:
    """Declare a float function that keeps its type."""
    def function(input: Tensor) -> Tensor:
        return unary_call(declared.spec, input)

    _document(function, name, summary, notes, scratch, example)
    declared = op(name, **_facts(name, dtypes, reference, samples, versions, scratch, bf16_arith,
                                 (name,) if method else (), ulp))(function)
    return declared


def _to_fp32(name: str, summary: str, notes: str, reference: Callable[..., Any], dtypes: Supported, *,
             example: tuple[float, float], ulp: float = 0.5) -> Any:
    """Declare a function whose integer operands are converted to FP32 first."""
    def function(input: Tensor) -> Tensor:
        c = Check(declared.spec)
        x = c.tensor("input", input)
        with c.session.label(name):
            return unary_step(c, c.spec, cast_step(c, x, FP32) if x.dtype.is_int else x)

    _document(function, name, summary, notes, 0, example, result="type, FP32 for integers")
    declared = op(name, **_facts(name, dtypes, reference, (-4.0, 4.0), ("0.2", "master"), 0, True, (name,),
                                 ulp))(function)
    return declared


def _logarithm(name: str, base: str, reference: Callable[..., Any]) -> Any:
    """Declare a logarithm of another base; results do not depend on `precision_type`."""
    def function(input: Tensor, precision_type: PrecisionType = PrecisionType.INTRINSIC) -> Tensor:
        c = Check(declared.spec)
        precision(c, precision_type)
        x = c.tensor("input", input)
        with c.session.label(name):
            return cast_step(c, unary_step(c, c.spec, cast_step(c, x, FP32)), x.dtype)

    _document(function, name, f"Logarithm to base {base} of every element.",
              "Zero gives -inf, negative arguments give NaN.", 0, (1.0, 0.0),
              more="\nprecision_type: HIGH_PRECISION exists on the 950 only; results are the same for both.")
    declared = op(name, **_facts(name, facts.FLOATS, reference, (0.001, 50.0), ("0.2", "master"), 0, True,
                                 (name,)), new_arguments=PRECISION_TYPE)(function)
    return declared


_BOTH = ("0.2", "master")
_INTS = supported("fp32 fp16 bf16 int32 int16 int8 uint8")
_INTS_16_32 = supported("fp32 fp16 bf16 int32 int16")
_NO_BF16 = supported("fp32 fp16", unlisted="bf16")

exp2 = _to_fp32("exp2", "2 to the power of every element.", "Integers are exact within +-2^24.", np.exp2, _INTS,
                example=(3.0, 8.0), ulp=1.25)
expm1 = _to_fp32("expm1", "exp(x) - 1 for every element, without cancellation.", "Accurate near zero.", np.expm1,
                 _INTS_16_32, example=(0.0, 0.0))
log2 = _logarithm("log2", "2", np.log2)
log10 = _logarithm("log10", "10", np.log10)
log1p = _function("log1p", "ln(1 + x) for every element, without cancellation.", "-1 gives -inf, below it NaN.",
                  np.log1p, example=(0.0, 0.0), samples=(-0.9, 20.0), versions=_BOTH, scratch=6, method=True)
sin = _function("sin", "Sine of every element.", "inf gives NaN.", np.sin, example=(0.0, 0.0), dtypes=_NO_BF16,
                versions=_BOTH, scratch=5, method=True)
cos = _function("cos", "Cosine of every element.", "inf gives NaN.", np.cos, example=(0.0, 1.0), dtypes=_NO_BF16,
                versions=_BOTH, scratch=5, method=True)
tan = _function("tan", "Tangent of every element.", "inf gives NaN.", np.tan, example=(0.0, 0.0))
asin = _function("asin", "Arc sine of every element.", "NaN outside [-1, 1].", np.arcsin, example=(0.0, 0.0),
                 samples=(-1.0, 1.0), scratch=6)
acos = _function("acos", "Arc cosine of every element, in [0, pi].", "NaN outside [-1, 1].", np.arccos,
                 example=(1.0, 0.0), samples=(-1.0, 1.0), scratch=6)
atan = _function("atan", "Arc tangent of every element.", "inf gives pi/2.", np.arctan, example=(0.0, 0.0), scratch=5)
sinh = _function("sinh", "Hyperbolic sine of every element.", "Overflows to inf with the sign of x.", np.sinh,
                 example=(0.0, 0.0), scratch=6, bf16_arith=False, method=True)
cosh = _function("cosh", "Hyperbolic cosine of every element.", "Overflows to inf.", np.cosh, example=(0.0, 1.0),
                 scratch=3, bf16_arith=False, method=True)
asinh = _function("asinh", "Inverse hyperbolic sine of every element.", "The sign of x is kept.", np.arcsinh,
                  example=(0.0, 0.0), scratch=6, method=True)
acosh = _function("acosh", "Inverse hyperbolic cosine of every element.", "NaN below 1.", np.arccosh,
                  example=(1.0, 0.0), samples=(1.0, 50.0), scratch=5, method=True)
atanh = _function("atanh", "Inverse hyperbolic tangent of every element.", "+-1 gives +-inf, beyond NaN.", np.arctanh,
                  example=(0.0, 0.0), samples=(-0.99, 0.99))
erfc = _function("erfc", "1 - erf(x) for every element, with full relative accuracy.", "inf gives 0.",
                 np.vectorize(math.erfc, otypes=[np.float64]), example=(0.0, 1.0), scratch=5, method=True)
cbrt = _function("cbrt", "Real cube root of every element.", "The sign of x is kept.", np.cbrt, example=(8.0, 2.0),
                 versions=_BOTH, scratch=3, ulp=1.0)
