"""Compare the `official` model with the public 0.2.0 simulator, kernel by kernel and field by field.

    python tools/official.py KERNELS.py REFERENCE.json [--json] [NAME ...]

KERNELS.py defines KERNELS[name] with `build(module) -> (kernel, args)`, args having role, shape and dtype;
REFERENCE.json has kernels[name] -> record. `--json` writes {"kernels": {name: record}, "summary": {field: {"exact",
"of"}}} to standard output; a refused kernel has only "error". Without it, the differences and the summary as text.
"""
from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from collections.abc import Iterable
from typing import Any

import pypto_sim as pypto
from pypto_sim.device import Device
from pypto_sim.errors import CapacityError, PyptoError
from pypto_sim.run.estimate import core_result

DEVICE, NUMERICS, PROFILE = "910b1", "0.2.0", "lenient"
FIELDS = ("aicore_span", "cores_used", "cycles", "device_tasks", "edges", "gm_in", "gm_out", "hub_tasks", "leaf",
          "leaf_executed", "op_cycles", "ops", "pipe_cycles", "samples", "task_by_core", "task_cycles", "task_lengths",
          "tasks")
FREQUENT = 24     # task durations listed per core type
NO_PIPE = "No pipe type"


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("reference_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(case: Any) -> dict[str, Any]:
    """Every field this model gives for one kernel, or its error."""
    try:
        with warnings.catch_warnings(), pypto.config(numerics=NUMERICS, profile=PROFILE, device=DEVICE):
            warnings.simplefilter("ignore")
            kernel, args = case.build(pypto)
            specs = [pypto.Spec(a.shape, _dtype(a.dtype)) for a in args]
            traced = kernel.program(*specs)
            found = core_result(traced.program, traced.kernel, [None] * len(specs), Device.load(DEVICE), "official",
                                None)
    except CapacityError as e:
        return {"error": {"text": str(e), "memory": e.memory, "bytes": e.bytes, "limit": e.limit}}
    except PyptoError as e:
        return {"error": {"text": f"{type(e).__name__}: {e}", "memory": None, "bytes": None, "limit": None}}
    detail = found["detail"]
    lengths = {core: {k: v for k, v in sorted(table.items(), key=lambda kv: (-kv[1], int(kv[0])))[:FREQUENT]}
               for core, table in detail["task_lengths"].items()}
    return {
        "aicore_span": found["core_span_cycles"], "cores_used": detail["cores_used"], "cycles": found["cycles"],
        "device_tasks": found["device_tasks"], "edges": detail["edges"], "gm_in": detail["gm_in_padded"],
        "gm_out": detail["gm_out_padded"], "hub_tasks": detail["hub_tasks"], "leaf": found["leaf_functions"],
        "leaf_executed": detail["leaf_executed"], "op_cycles": detail["op_cycles"], "ops": detail["ops"],
        "pipe_cycles": detail["pipe_cycles"], "samples": detail["samples"],
        "task_by_core": {c: n for c, n in found["tasks"].items() if n},
        "task_cycles": {c: sum(int(k) * v for k, v in t.items()) for c, t in detail["task_lengths"].items()},
        "task_lengths": lengths, "tasks": sum(found["tasks"].values()),
    }


def _dtype(name: str) -> str:
    return {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(name, name)


def compare(mine: dict[str, Any], reference: dict[str, Any]) -> dict[str, bool]:
    """Field -> equal, for the fields the reference has."""
    if "error" in reference:
        return {} if NO_PIPE in reference["error"] else {"error": "error" in mine}
    out = {}
    for name in FIELDS:
        if name in reference:
            want, got = reference[name], mine.get(name)
            if name in ("task_lengths", "samples") and isinstance(got, dict):
                same = _lengths(want) == _lengths(got) if name == "task_lengths" else want == got
            else:
                same = want == got
            out[name] = same
    return out


def _lengths(table: dict[str, dict[str, int]]) -> dict[str, dict[int, int]]:
    return {core: {int(k): v for k, v in t.items()} for core, t in table.items()}


def run(kernels: Any, reference: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """{"kernels": records, "summary": {field: {"exact", "of"}}} for the named kernels."""
    records, summary = {}, {name: {"exact": 0, "of": 0} for name in (*FIELDS, "error")}
    for name in names:
        records[name] = record(kernels[name])
        for field, same in compare(records[name], reference[name]).items():
            summary[field]["of"] += 1
            summary[field]["exact"] += same
    return {"kernels": records, "summary": summary}


def main(argv: list[str]) -> int:
    words = [a for a in argv if a != "--json"]
    if len(words) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    kernels = load(words[0]).KERNELS
    with open(words[1], encoding="utf-8") as f:
        reference = json.load(f)["kernels"]
    names = words[2:] or [n for n in kernels if n in reference]
    result = run(kernels, reference, names)
    if "--json" in argv:
        json.dump(result, sys.stdout, indent=1)
        return 0
    for name in names:
        for field, same in compare(result["kernels"][name], reference[name]).items():
            if not same:
                print(f"{name}: {field} is {str(result['kernels'][name].get(field))[:200]}, reference "
                      f"{str(reference[name].get(field))[:200]}")
    for field, count in result["summary"].items():
        print(f"{field:14} {count['exact']:4} of {count['of']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
