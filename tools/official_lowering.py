"""Compare the exact lowering (build with NPU_LOWERING=ON) with records of the public 0.2.0 simulator, field by field.

usage: python tools/official_lowering.py KERNELS.py REFERENCE.json [--json] [--only NAME ...]

KERNELS.py holds `KERNELS[name]` with `build(module) -> (kernel, args)`, REFERENCE.json the `kernels[name]` records.
The fields are those of the reference; a refused kernel has only "error". Without --json a table of fields and a list
of the kernels that differ go to standard output.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import pypto_sim as pypto
from pypto_sim import _core
from pypto_sim.run.estimate import int_data

NO_PIPE = "No pipe type"      # the package cannot cost the kernel: nothing to compare
FIELDS = ("aicore_span", "cycles", "tasks", "task_by_core", "task_cycles", "task_lengths", "cores_used", "leaf",
          "leaf_executed", "device_tasks", "edges", "hub_tasks", "gm_in", "gm_out", "ops", "op_cycles", "pipe_cycles",
          "samples")
SPAN_TOLERANCE = 0.02
DEVICE, PROFILES = "910b1", ("0.2", "lenient")


def load(path: str | Path) -> Any:
    """The module of a file with KERNELS."""
    spec = importlib.util.spec_from_file_location("official_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrays(args: list[Any]) -> Iterator[np.ndarray]:
    """One array per argument: inputs uniform in [low, high), outputs zero."""
    rng = np.random.default_rng(0)
    for arg in args:
        dtype = np.dtype({"bfloat16": ml_dtypes.bfloat16, "bool": np.bool_}.get(arg.dtype, arg.dtype))
        if arg.role == "out":
            yield np.zeros(arg.shape, dtype)
        elif dtype.kind in "iu":
            yield rng.integers(arg.low, max(arg.low + 1, arg.high), arg.shape).astype(dtype)
        else:
            yield rng.uniform(arg.low, arg.high, arg.shape).astype(dtype)


def refused(text: str, memory: str = "", size: int = 0, limit: int = 0) -> dict[str, Any]:
    """Record of a kernel that is refused."""
    return {"error": {"text": text, "memory": memory, "bytes": size, "limit": limit}}


def trace(case: Any) -> Any:
    """The traced kernel: by the rules of the release, except that it takes element gathers into a larger target."""
    for profile in PROFILES:
        try:
            with warnings.catch_warnings(), pypto.config(profile=profile, numerics="0.2.0", device=DEVICE):
                warnings.simplefilter("ignore")
                kernel, args = case.build(pypto)
                return kernel.program(*arrays(args))
        except pypto.PyptoError as error:
            if profile == PROFILES[-1] or getattr(error, "rule", None) != "gather.embedding":
                raise


def record(case: Any) -> dict[str, Any]:
    """Every field of the model for one kernel."""
    try:
        traced = trace(case)
        data = [None if d is None else np.ascontiguousarray(d).reshape(-1).view(np.uint8)
                for d in int_data(traced.arguments)]
        return _core.official_record(traced.program, data)
    except _core.CoreError as error:
        code, text, *more = error.args
        if code == "capacity":
            return refused(text, more[1], more[2], more[3])
        return refused(f"{code}: {text}")
    except pypto.CapacityError as error:
        return refused(str(error), error.memory, error.bytes, error.limit)
    except pypto.PyptoError as error:
        return refused(str(error))


def agrees(field: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether a field is equal; `error` only says that both refuse."""
    if field == "error":
        return "error" in mine
    if field == "samples":
        return {k: v for k, v in mine.get(field, {}).items() if "-1" not in k} == {
            k: v for k, v in theirs[field].items() if "-1" not in k}
    return mine.get(field) == theirs[field]


def run(kernels: Mapping[str, Any], reference: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """{"kernels": records, "summary": {field: {"exact", "of"}}} for the named kernels."""
    records = {name: record(kernels[name]) for name in names}
    summary = {field: {"exact": 0, "of": 0} for field in (*FIELDS, "aicore_span_within_2_percent", "error")}

    def count(key: str, good: bool) -> None:
        summary[key]["of"] += 1
        summary[key]["exact"] += good

    for name, mine in records.items():
        theirs = reference.get(name)
        if theirs is None:
            continue
        if "error" in theirs:
            if NO_PIPE not in theirs["error"]:
                count("error", "error" in mine)
            continue
        for field in FIELDS:
            if field in theirs:
                count(field, agrees(field, mine, theirs))
        off = abs(mine.get("aicore_span", 0) - theirs["aicore_span"])
        count("aicore_span_within_2_percent", off <= SPAN_TOLERANCE * theirs["aicore_span"])
    return {"kernels": records, "summary": summary}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--json", action="store_true", help="write the records and the summary as JSON")
    parser.add_argument("--only", nargs="*", default=None, help="only these kernels")
    options = parser.parse_args()
    cases = load(options.kernels).KERNELS
    reference = json.loads(options.reference.read_text())["kernels"]
    result = run(cases, reference, [n for n in cases if options.only is None or n in options.only])
    mine, summary = result["kernels"], result["summary"]
    if options.json:
        json.dump(result, sys.stdout, indent=1)
        print()
        return 0
    for field, counts in summary.items():
        print(f"{field:32} {counts['exact']:4} of {counts['of']}")
    for name, found in mine.items():
        theirs = reference.get(name)
        if theirs is None:
            continue
        if "error" in found or "error" in theirs:
            if ("error" in found) != ("error" in theirs) and NO_PIPE not in theirs.get("error", ""):
                print(f"{name}: here {found.get('error', 'runs')}; there {theirs.get('error', 'runs')}"[:200])
            continue
        wrong = [field for field in FIELDS if field in theirs and not agrees(field, found, theirs)]
        if wrong:
            print(f"{name}: {', '.join(wrong)}; span {found['aicore_span']} / {theirs['aicore_span']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
