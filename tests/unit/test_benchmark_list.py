"""The benchmark list names every operation."""
import importlib.util
from pathlib import Path

from pypto_sim.registry import REGISTRY

PATH = Path(__file__).resolve().parents[2] / "asv_bench" / "operation_workloads.py"
SORTS = {"topk", "argsort", "sort32", "mrgsort"}


def test_every_operation_has_a_benchmark_and_its_limit():
    spec = importlib.util.spec_from_file_location("operation_workloads", PATH)
    workloads = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(workloads)
    assert workloads.missing() == [] and set(workloads.CASES) == set(REGISTRY)
    assert {n: c.limit for n, c in workloads.CASES.items()} == {n: 2.0 if n in SORTS else 3.0 for n in REGISTRY}
