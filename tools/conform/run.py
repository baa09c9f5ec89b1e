"""Running one case: outcome and reason."""
from __future__ import annotations

import warnings
from dataclasses import dataclass

import pypto_sim as pypto
from pypto_sim.errors import PyptoError

from . import elementwise, indexing, movement, products, quantise, reductions  # noqa: F401 - fill the table
from .blocks import cut_sizes, reducible
from .cases import MOST_ELEMENTS, Case, cut
from .compare import check
from .row import TABLE, Row

OUTCOMES = ("passed", "passed_reduced", "error_as_expected", "failed", "skipped")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case: one word of OUTCOMES, and why."""

    case: Case
    word: str
    reason: str = ""


def device_of(case: Case, row: Row) -> str:
    """Device of a case: the 950 where operation or types need it."""
    types = {t.dtype for t in case.ins} | {case.outs[0].dtype}
    return "950pr" if row.chip950 or types & set(row.only_950) or _only_950_types(case) else "910b1"


def _only_950_types(case: Case) -> bool:
    return any(t.raw for t in case.ins + case.outs)


def shortened(case: Case, row: Row) -> Case:
    """The case itself, or cut to MOST_ELEMENTS along the longest axis that the operation does not work along."""
    while case.elements > MOST_ELEMENTS:
        layout = row.layout(case)
        axes = reducible(case, layout)
        if axes is None:
            return case
        axis = axes[0]
        size = max(1, layout.grid[axis] * MOST_ELEMENTS // case.elements)
        sizes = cut_sizes(case, layout, axis, size)
        # tensors that do not follow the axis keep their size: come closer until it fits
        smaller = cut(case, sizes)
        if smaller.elements >= case.elements:
            return case
        case = smaller
    return case


def run_case(case: Case) -> Outcome:
    """Run `case` and compare it with its expected values."""
    row = TABLE.get(case.op)
    if row is None:
        return Outcome(case, "skipped", f"operation {case.op} is not in the table")
    if not case.empty and (reason := row.skip(case)):    # empty: an error or an empty result passes
        return Outcome(case, "skipped", reason)
    case = shortened(case, row)
    may_refuse = case.empty or case.ins[0].dtype in row.refused
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays = row.inputs(case)
            with pypto.config(device=device_of(case, row), threads=1):
                results = row.run(case, row.layout(case), arrays, row.call(case))
    except PyptoError as e:
        text = f"{type(e).__name__}: {e}"
        return Outcome(case, "error_as_expected" if may_refuse or row.must_raise(case) else "failed", text)
    except Exception as e:                       # a defect of the simulator or of the table: reported, not hidden
        return Outcome(case, "failed", f"{type(e).__name__}: {e}")
    if row.must_raise(case):
        return Outcome(case, "failed", "no error was raised")
    if case.empty and not any(r.size for r in results):
        return Outcome(case, "passed")
    try:
        expected = row.expect(case, arrays)
        faults = [f"output {i}: {text}" for i, (got, want) in enumerate(zip(results, expected, strict=True))
                  if (text := check(got, want))]
    except Exception as e:
        return Outcome(case, "failed", f"comparison: {type(e).__name__}: {e}")
    if faults:
        return Outcome(case, "failed", "; ".join(faults))
    return Outcome(case, "passed_reduced" if case.reduced else "passed")
