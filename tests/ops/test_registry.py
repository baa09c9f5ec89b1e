"""Every registry row is complete: what the docs, the planner and the core need is there."""
import inspect
import re
from pathlib import Path

import pytest

from pypto_sim import ops  # noqa: F401 - fills the registry
from pypto_sim.errors import PyptoKeyError
from pypto_sim.registry import CHIPS, REGISTRY, ROWS, VERSIONS, Cost, describe, op, supported
from pypto_sim.trace.tensor import Tensor

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("Parameters", "Returns", "Raises", "Notes", "Cost", "Examples")
NAMES = sorted(REGISTRY)


@pytest.fixture(scope="module")
def core_kernels():
    """Kernel names of docs/core_operations.md."""
    rows = re.findall(r"^\| ([a-z0-9_, ]+) \|", (ROOT / "docs/core_operations.md").read_text(), re.M)
    return {name for row in rows for name in re.split(r"[ ,]+", row)} - {"kernel"}


@pytest.mark.parametrize("name", NAMES)
def test_row_is_complete(name, core_kernels):
    spec = REGISTRY[name]
    assert spec.function is not None and spec.function.spec is spec
    assert spec.source and spec.numerics and spec.torch and spec.constraints
    assert set(spec.versions) <= set(VERSIONS) and set(spec.socs) <= set(CHIPS) and spec.versions and spec.socs
    assert 0 <= spec.ranks[0] <= spec.ranks[1]
    for row in (spec, *spec.forms.values()):
        if row.kernel:
            assert row.kernel in core_kernels
            assert ROWS[row.row] is row
        else:
            assert row.cost is Cost.COMPOSITE and row.row == -1


@pytest.mark.parametrize("name", NAMES)
def test_docstring_has_the_fixed_sections(name):
    doc = inspect.getdoc(REGISTRY[name].function)
    found = re.findall(r"^(\w+)\n-+$", doc, re.M)
    assert found == list(SECTIONS)
    assert doc.split("\n")[1] == "", "one summary line, then an empty one"
    body = doc[doc.index("Parameters"):doc.index("Returns")]
    for parameter in inspect.signature(REGISTRY[name].function).parameters:
        assert re.search(rf"\b{parameter}\b", body), parameter


@pytest.mark.parametrize("name", NAMES)
def test_description_has_everything_a_page_needs(name):
    page = describe(name)
    assert page["signature"].startswith(name + "(") and page["summary"] and page["doc"]
    for chip in page["chips"]:
        assert page["dtypes"][chip].keys() == set(page["versions"])
        assert all(page["dtypes"][chip].values())


def test_unknown_name_lists_near_ones():
    with pytest.raises(PyptoKeyError, match="sigmoid"):
        describe("sigmod")


def test_row_ids_are_positions():
    assert [s.row for s in ROWS] == list(range(len(ROWS)))


def test_methods_are_attached():
    for spec in REGISTRY.values():
        for method in spec.methods:
            assert callable(getattr(Tensor, method)), method


def test_an_operation_cannot_be_declared_twice():
    with pytest.raises(ValueError, match="twice"):
        op("add")(lambda input: input)


def test_supported_lists():
    s = supported("fp32", only_950="int8", only_0_2="fp16", unlisted="int64")
    short = lambda found: {d.short for d in found}
    assert short(s.for_version("A2A3", "master")) == {"fp32"}
    assert short(s.for_version("A2A3", "0.2")) == {"fp32", "fp16"}
    assert short(s.for_version("950", "master")) == {"fp32", "int8"}
    assert short(s.union()) == {"fp32", "fp16", "int8"}
