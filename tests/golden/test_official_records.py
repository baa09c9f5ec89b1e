"""The whole `official` lowering against the records of the public 0.2.0 simulator (official_sim/reference.json)."""

import json

import pytest

import pypto_sim as pypto
from pypto_sim.device import Device
from pypto_sim.run.estimate import cost_of, int_data


@pytest.fixture(scope="module")
def compared(tool, shared_dir):
    kernels = tool.load(shared_dir / "official_sim" / "kernels.py").KERNELS
    reference = json.loads((shared_dir / "official_sim" / "reference.json").read_text())["kernels"]
    return tool.run(kernels, reference, [n for n in kernels if n in reference and not n.startswith("size_")])


# Fields in which a kernel differs from the record, each explained in docs/lowering.md; all others are exact.
PATHS = {"leaf"}     # only paths that run are compiled
MISSES = {
    "mm_batch_broadcast_3x64x128x64": {"cycles"},
    "gather_multi_dim": {"aicore_span", "cycles", "task_cycles", "task_lengths", "gm_in", "gm_out", "ops", "op_cycles",
                         "pipe_cycles", "samples"},
    "loop_accumulate_8_unroll_2": PATHS, "online_2048_512_1": PATHS, "online_8192_2048_1": PATHS,
    "online_8192_512_4-2-1": PATHS, "attn_online_S1024_D64_B256": PATHS, "attn_online_S512_one_block": PATHS,
    "moe_expert_sum_4": PATHS,
}


def test_records(tool, compared, shared_dir):
    reference = json.loads((shared_dir / "official_sim" / "reference.json").read_text())["kernels"]
    wrong = {}
    for name, mine in compared["kernels"].items():
        theirs = reference[name]
        if "error" in theirs:
            if tool.NO_PIPE not in str(theirs["error"]):
                assert "error" in mine, name
            continue
        fields = {f for f in tool.FIELDS if f in theirs and not tool.agrees(f, mine, theirs)}
        if fields:
            wrong[name] = fields
    assert wrong == MISSES
    assert len(compared["kernels"]) - len(wrong) > 150


# Numbers of the lowering specification (LOWERING_DETAIL.md, sections 9 to 11; LOWERING.md, section 3) for kernels that
# are not in reference.json: tasks, aicore_span, cycles (None: not given).
K1024 = ([128, 128], [64, 256], [256, 256])


@pytest.mark.parametrize(("factory", "params", "expected"), [
    ("attention_online", (16, 128, 2048, 512, [2, 1]), (30, 90537, None)),
    ("attention_whole", (16, 128, 8192, 1), (81, 123445, None)),
    ("attention_whole", (16, 128, 16384, 1), (60, 189013, None)),
    ("exp_then_sqrt", ((32, 512), (64, 512)), (12, 20882, 35702)),
    ("exp_then_sqrt", ((32, 512), (64, 256)), (16, 21593, 36549)),
    ("exp_then_sqrt", ((32, 512), (32, 512)), (8, 8184, 24768)),
    ("softmax_rows", ("float32", 32, 512, (4, 512)), (8, 6219, 21887)),
    ("softmax_rows", ("float32", 32, 512, (4, 128)), (8, 12423, 27649)),
    ("softmax_rows", ("float32", 1, 24576, (1, 24576)), (1, 15620, 20908)),
    ("matmul", (1024, 1024, 1024, K1024), (32, 54541, 67459)),
], ids=str)
def test_measured_rows_of_the_specification(tool, shared_dir, factory, params, expected):
    module = tool.load(shared_dir / "official_sim" / "kernels.py")
    record = tool.record(module.make_case(getattr(module, factory), params, ""))
    tasks, span, cycles = expected
    assert (record["tasks"], record["aicore_span"]) == (tasks, span)
    assert cycles in (None, record["cycles"])


@pytest.mark.parametrize(("name", "memory", "size", "limit"), [
    ("cap_ub_add_256x512", "UB", 524288, 196608), ("cap_l1_k4096", "L1", 1048576, 524288),
    ("cap_l0b_256x256", "L0B", 131072, 65536), ("whole_4096_8", "UB", 196864, 196608)])
def test_capacity_refusals(compared, name, memory, size, limit):
    error = compared["kernels"][name]["error"]
    assert (error["memory"], error["bytes"], error["limit"]) == (memory, size, limit)


@pytest.mark.parametrize("name", ["rule_uninitialised_read", "rule_no_tile_shape", "rule_k_mismatch"])
def test_rule_refusals(compared, name):
    assert "error" in compared["kernels"][name]


# Where the planner of model `calibrated` counts otherwise than the 0.2.0 lowering.
APART = {
    "red_sum_64x1000_split": "the last tile of a split reduction is loaded whole",
    "dyn_rows_100_block_32": "a tail moves its valid rows",
    "dyn_softmax_rows_50": "a tail moves its valid rows; equal loads with an explicit symbolic valid size collapse",
    "whole_24576_1": "spilled tiles count without their padding",
}


def test_both_planners_cut_alike(tool, shared_dir):
    """Tasks, root functions, DeviceTasks and GM bytes of the two planners; names of kernels that differ."""
    def cut(traced, model):
        e = cost_of(traced.program, traced.kernel, int_data(traced.arguments), device, model)
        return (e.tasks, e.root_functions, e.device_tasks), (e.gm_read_bytes, e.gm_write_bytes)

    device, kernels, apart = Device.load("910b1"), tool.load(shared_dir / "official_sim" / "kernels.py").KERNELS, set()
    other_tasks = set()
    for name, case in kernels.items():
        try:
            traced = tool.trace(case)
            exact = cut(traced, "official")
        except pypto.PyptoError:
            continue
        tasks, moved = cut(traced, "calibrated")
        if (tasks, moved) != exact:
            apart.add(name)
        if tasks != exact[0]:
            other_tasks.add(name)
    assert apart == set(APART)
    assert other_tasks == set()
