"""Names of the public interface that have to exist here."""
import csv

import pytest

import pypto_sim as pypto
from pypto_sim.registry import REGISTRY
from pypto_sim.trace.tensor import Tensor

NAMED = ("rsqrt", "reciprocal", "eq", "ne", "lt", "le", "gt", "ge", "greater", "arange", "tril", "triu", "scatter_",
         "scatter_update", "options", "frontend.dynamic")
# Names that are spelled as something else in Python: (row, what to look for)
SPELLED = {"extend_params.bias_tensor": "matmul", "runtime_options.run_mode": "RunMode", "loop.name": "loop",
           "loop.idx_name": "loop", "loop.unroll_list": "loop", "loop.submit_before_loop": "loop",
           "loop.parallel": "loop", "SymbolicScalar.__arith__": "SymbolicScalar.__add__",
           "SymbolicScalar.__cmp__": "SymbolicScalar.__lt__", "Tensor.__operators__": "Tensor.__add__"}


def rows(shared_dir):
    """The operation table."""
    with (shared_dir / "pypto_api" / "operations.csv").open(newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def resolves(name: str) -> bool:
    """True when `pypto_sim.<name>` exists."""
    found = pypto
    for part in SPELLED.get(name, name).split("."):
        if not hasattr(found, part):
            return part in ("dtype", "shape", "name", "id", "format") and found is Tensor
        found = getattr(found, part)
    return True


def test_every_name_of_the_strategies_exists(shared_dir):
    wanted = [r["name"] for r in rows(shared_dir) if "strategies" in r["used_by"]]
    assert len(wanted) == 77
    assert [n for n in wanted if not resolves(n)] == []


def test_named_rows_exist():
    assert [n for n in NAMED if not resolves(n)] == []


def test_method_forms_are_those_of_the_table(shared_dir):
    table = {r["name"].removeprefix("Tensor.") for r in rows(shared_dir)
             if r["name"].startswith("Tensor.") and "y" in (r["in_0_2"], r["in_master"])}
    assert [m for m in sorted(table) if m in REGISTRY and not hasattr(Tensor, m)] == []
    attached = {m for s in REGISTRY.values() for m in s.methods if not m.startswith("__")}
    assert attached - table == {"index_select"}, "methods that PyPTO does not have"


@pytest.mark.parametrize("kind", ["vector-elementwise", "vector-reduce", "cast", "move", "index", "creation", "cube"])
def test_rows_agree_with_the_table(kind, shared_dir):
    """Versions, chips and rank range of each row are those of the operation table."""
    for r in rows(shared_dir):
        spec = REGISTRY.get(r["name"])
        if r["kind"] != kind or spec is None:
            continue
        versions = tuple(v for v, c in (("0.2", "in_0_2"), ("master", "in_master")) if r[c] == "y")
        assert spec.versions == versions, r["name"]
        assert spec.socs == (("950",) if r["soc"] == "950" else ("A2A3", "950")), r["name"]
        if r["min_rank"] and r["max_rank"]:
            assert spec.ranks == (int(r["min_rank"]), int(r["max_rank"])), r["name"]
