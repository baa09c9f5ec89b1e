"""The whole `official` lowering against the records of the public 0.2.0 simulator (official_sim/reference.json)."""

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("pypto_sim._lowering", reason="built with -C cmake.define.NPU_LOWERING=ON")

TOOL = Path(__file__).resolve().parents[2] / "tools" / "official_lowering.py"


@pytest.fixture(scope="module")
def compared(shared_dir):
    spec = importlib.util.spec_from_file_location("official_tool", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    kernels = tool.load(shared_dir / "official_sim" / "kernels.py").KERNELS
    reference = json.loads((shared_dir / "official_sim" / "reference.json").read_text())["kernels"]
    return tool.run(kernels, reference, [n for n in kernels if n in reference and not n.startswith("size_")])


@pytest.mark.parametrize(("field", "share"), [
    ("tasks", 1.0), ("task_by_core", 1.0), ("device_tasks", 1.0), ("hub_tasks", 1.0), ("leaf_executed", 1.0),
    ("edges", 0.99), ("ops", 0.99), ("op_cycles", 0.99), ("gm_in", 0.99), ("gm_out", 0.99), ("task_lengths", 0.98),
    ("samples", 0.98), ("aicore_span", 0.94), ("cycles", 0.93), ("aicore_span_within_2_percent", 0.97), ("error", 1.0)])
def test_share_of_exact_kernels(compared, field, share):
    count = compared["summary"][field]
    assert count["of"] > (5 if field == "error" else 150)
    assert count["exact"] >= share * count["of"], f"{field}: {count['exact']} of {count['of']}"


@pytest.mark.parametrize(("name", "memory", "size", "limit"), [
    ("cap_ub_add_256x512", "UB", 524288, 196608), ("cap_l1_k4096", "L1", 1048576, 524288),
    ("cap_l0b_256x256", "L0B", 131072, 65536), ("whole_4096_8", "UB", 196864, 196608)])
def test_capacity_refusals(compared, name, memory, size, limit):
    error = compared["kernels"][name]["error"]
    assert (error["memory"], error["bytes"], error["limit"]) == (memory, size, limit)


@pytest.mark.parametrize("name", ["rule_uninitialised_read", "rule_no_tile_shape", "rule_k_mismatch"])
def test_rule_refusals(compared, name):
    assert "error" in compared["kernels"][name]
