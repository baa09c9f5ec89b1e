"""What the table knows about one operation, and the tolerances most operations share."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .blocks import Layout, elementwise, run_blocks
from .cases import HALVES, Case, rounded
from .compare import Expected
from .draw import draw_all

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True, slots=True)
class Row:
    """One operation of the cases.

    call(case): function of input blocks that returns the result block or blocks. expect(case, arrays): expected
    results. layout: blocks. inputs: arrays. run: how the blocks run. skip: reason why a case cannot run, or "".
    must_raise: the case tests an error. refused: first input types that the public source refuses on every chip;
    only_950: types that need that chip; chip950: all cases do. tolerance: words for the docs.
    """

    call: Callable[[Case], Callable[..., Any]]
    expect: Callable[[Case, Arrays], list[Expected]]
    tolerance: str
    layout: Callable[[Case], Layout] = elementwise
    inputs: Callable[[Case], list[np.ndarray]] = draw_all
    run: Callable[..., list[np.ndarray]] = run_blocks
    skip: Callable[[Case], str] = lambda case: ""
    must_raise: Callable[[Case], bool] = lambda case: False
    chip950: bool = False
    only_950: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


TABLE: dict[str, Row] = {}


def f64(x: np.ndarray) -> np.ndarray:
    """float64 of any array."""
    return np.asarray(x).astype(np.float64)


def kind_of(case: Case) -> str:
    """Type of the first input."""
    return case.ins[0].dtype


def units(case: Case, fp32: float, half: float) -> float:
    """Allowed units: of fp32 results, of 16-bit ones."""
    return half if case.outs[0].dtype in HALVES else fp32


def fp32_rounding(function: Callable[..., Any], *operands: np.ndarray) -> Callable[[], np.ndarray]:
    """Effect on `function` of one fp32 rounding of its first operand."""
    def effect() -> np.ndarray:
        x, *rest = operands
        with np.errstate(all="ignore"):
            y = function(x, *rest)
            moved = [np.abs(function(x * (1 + s * 2.0**-24), *rest) - y) for s in (-1, 1)]
        return np.nan_to_num(np.fmax(*moved), nan=0.0, posinf=0.0)
    return effect


def half_ulp(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Half a unit of `dtype` at `value`."""
    from pypto_sim.testing.ulp import ulp_size
    return ulp_size(rounded(value, dtype), dtype) / 2


def wrapped(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """An integer function that wraps around, in the arrays' own type."""
    with np.errstate(all="ignore"):
        return function(*arrays)
