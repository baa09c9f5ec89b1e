"""Names of the public interface that have to exist here."""
import csv

import pytest
from support import parity

from pypto_sim.registry import REGISTRY
from pypto_sim.trace.tensor import Tensor


def rows(shared_dir):
    """The operation table."""
    with (shared_dir / "pypto_api" / "operations.csv").open(newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def test_the_list_is_that_of_the_table(shared_dir):
    assert parity.listed() == parity.table(shared_dir)


def test_every_documented_name_exists():
    missing = []
    for name, _ in parity.listed():
        try:
            parity.resolve(name)
        except (AttributeError, KeyError):
            missing.append(name)
    assert missing == [] and len(parity.listed()) == 465


WITH_PARAMETERS = [(n, p) for n, p in parity.listed() if p]


def test_most_rows_have_parameters_to_compare():
    assert len(WITH_PARAMETERS) > 200


@pytest.mark.parametrize(("name", "documented"), WITH_PARAMETERS, ids=[n for n, _ in WITH_PARAMETERS])
def test_parameters_are_the_documented_ones(name, documented):
    assert parity.differences(name, documented) == ""
    assert parity.needed_by_table(name, documented) == ""


def test_a_changed_default_or_order_would_be_seen():
    assert "defaults to" in parity.differences("sum", "input, dim, keepdim=True")
    assert "stands elsewhere" in parity.differences("sum", "dim, input")
    assert "no parameter" in parity.differences("sum", "input, axis")
    assert parity.needed_by_table("sum", "input") == "dim"


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
