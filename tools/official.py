"""Compare model `official` with records of the public 0.2.0 simulator, kernel by kernel and field by field.

usage: python tools/official.py KERNELS.py REFERENCE.json [--json] [--only NAME ...]

KERNELS.py holds `KERNELS[name]` with `build(module) -> (kernel, args)`; args have role ("in" or "out"), shape, dtype,
low and high. REFERENCE.json holds the `kernels[name]` records. --json writes {"kernels": {name: record}, "summary":
{field: {"exact", "of"}}} to standard output: a record has the fields of the reference, with the public simulator's
counting of bytes; a refused or failing kernel has only "error": {"text", "memory", "bytes", "limit"}. Without --json a
table of fields and the kernels that differ are printed.
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
from pypto_sim.run.estimate import int_data, public_record

NO_PIPE = "No pipe type"      # the package cannot cost the kernel: nothing to compare
FIELDS = ("aicore_span", "cycles", "tasks", "task_by_core", "task_cycles", "task_lengths", "cores_used", "leaf",
          "leaf_executed", "device_tasks", "edges", "hub_tasks", "gm_in", "gm_out", "ops", "op_cycles", "pipe_cycles",
          "samples")
SPAN_TOLERANCE = 0.02
DEVICE, PROFILES = "910b1", ("0.2", "lenient")


def load(path: str | Path) -> Any:
    """The module of a file with KERNELS."""
    spec = importlib.util.spec_from_file_location("official_kernels", path)
    if spec is None or spec.loader is None:
        raise OSError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module           # dataclasses of the file look their module up
    spec.loader.exec_module(module)
    return module


def arrays(args: list[Any]) -> Iterator[np.ndarray]:
    """One array per argument: inputs uniform in [low, high), outputs zero."""
    rng = np.random.default_rng(0)
    for arg in args:
        dtype = np.dtype({"bfloat16": ml_dtypes.bfloat16, "bool": np.bool_}.get(arg.dtype, arg.dtype))
        low, high = getattr(arg, "low", 0) or 0, getattr(arg, "high", 1)
        high = 1 if high is None else high
        if arg.role == "out":
            yield np.zeros(arg.shape, dtype)
        elif dtype.kind in "iu":
            yield rng.integers(int(low), max(int(low) + 1, int(high)), arg.shape).astype(dtype)
        elif dtype.kind == "b":
            yield rng.integers(0, 2, arg.shape).astype(dtype)
        else:
            yield rng.uniform(low, high, arg.shape).astype(dtype)


def refused(error: BaseException) -> dict[str, Any]:
    """Record of a kernel that is refused or fails."""
    return {"error": {"text": f"{type(error).__name__}: {error}", "memory": getattr(error, "memory", None),
                      "bytes": getattr(error, "bytes", None), "limit": getattr(error, "limit", None)}}


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
        found = public_record(traced.program, traced.kernel, int_data(traced.arguments))
    except Exception as error:                # whatever it is, it belongs to this kernel
        return refused(error)
    return {field: found[field] for field in FIELDS if field in found}


def agrees(field: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether a field is equal; `error` only says that both refuse."""
    return "error" in mine if field == "error" else mine.get(field) == theirs[field]


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
            if NO_PIPE not in str(theirs["error"]):
                count("error", "error" in mine)
            continue
        for field in FIELDS:
            if field in theirs:
                count(field, agrees(field, mine, theirs))
        if "aicore_span" in theirs:
            off = abs(mine.get("aicore_span", 0) - theirs["aicore_span"])
            count("aicore_span_within_2_percent", off <= SPAN_TOLERANCE * theirs["aicore_span"])
    return {"kernels": records, "summary": summary}


def report(records: Mapping[str, Any], reference: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterator[str]:
    """Lines of the table and of the kernels that differ."""
    for field, counts in summary.items():
        yield f"{field:32} {counts['exact']:4} of {counts['of']}"
    for name, mine in records.items():
        theirs = reference.get(name)
        if theirs is None:
            yield f"{name}: not in the reference"
        elif "error" in mine or "error" in theirs:
            if ("error" in mine) != ("error" in theirs) and NO_PIPE not in str(theirs.get("error", "")):
                yield f"{name}: here {mine.get('error', 'runs')}; there {theirs.get('error', 'runs')}"[:200]
        else:
            wrong = [field for field in FIELDS if field in theirs and not agrees(field, mine, theirs)]
            if wrong:
                yield f"{name}: {', '.join(wrong)}; span {mine['aicore_span']} / {theirs.get('aicore_span')}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--json", action="store_true", help="write the records and the summary as JSON")
    parser.add_argument("--only", nargs="*", default=None, help="only these kernels")
    options = parser.parse_args()
    cases = load(options.kernels).KERNELS
    reference = json.loads(options.reference.read_text())["kernels"]
    unknown = sorted(set(options.only or ()) - set(cases))
    if unknown:
        parser.error(f"no kernel {', '.join(unknown)}; known: {', '.join(cases)}")
    result = run(cases, reference, [n for n in cases if options.only is None or n in options.only])
    if options.json:
        json.dump(result, sys.stdout, indent=1)
        print()
    else:
        print(*report(result["kernels"], reference, result["summary"]), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
