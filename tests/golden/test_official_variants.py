"""Kernels of the reference file's forms with other sizes, tiles, dtypes and options: their records hold together."""
import csv
import math
import random
import re
import struct

import pytest

import pypto_sim as pypto
from pypto_sim.device import Device
from pypto_sim.run.estimate import cost_of, int_data

ROOM = {"UB": 196608, "L1": 524288, "L0A": 65536, "L0B": 65536, "L0C": 131072}
FLOATS = ("float32", "float16", "bfloat16")


@pytest.fixture(scope="module")
def kernels(tool, shared_dir):
    return tool.load(shared_dir / "official_sim" / "kernels.py")


@pytest.fixture(scope="module")
def constants(shared_dir):
    with (shared_dir / "official_sim" / "op_constants.csv").open() as file:
        return {row["op"]: row for row in csv.DictReader(file)}


def tile(r):
    return r.choice([1, 2, 4, 8, 16, 32]), r.choice([32, 64, 128, 256, 512])


def cube(r):
    m, k, n = (r.choice(sizes) for sizes in ([16, 64, 128], [32, 64, 128], [16, 64, 128]))
    return [m, m], [k, k * r.choice([1, 2, 4])], [n, n]


FAMILIES = {
    "single_op": lambda r: (r.choice(["add", "mul", "exp", "softmax", "sum", "rsqrt", "sigmoid"]), r.choice(FLOATS),
                            r.choice([1, 4, 16]), r.choice([64, 96, 512])),
    "matmul": lambda r: (r.choice([1, 40, 128, 200, 512]), r.choice([64, 100, 256, 512]), r.choice([16, 80, 256, 512]),
                         cube(r), r.choice(["float16", "bfloat16"]), "float32", r.random() < .3, r.random() < .3, False,
                         r.choice([None, {"cube_l1_reuse_setting": {-1: 3}}, {"cube_nbuffer_setting": {-1: 2}}])),
    "matmul_batch": lambda r: (*r.choice([(1, 3), (2, 2), (3, 1)]), r.choice([16, 64, 100]), 128, 64, cube(r)),
    "matmul_relu": lambda r: (r.choice([64, 256]), 128, r.choice([64, 256]), cube(r), tile(r)),
    "linear_add": lambda r: (r.choice([16, 128]), 256, r.choice([128, 512]), cube(r), r.choice([(32, 128), (64, 64)])),
    "exp_then_sqrt": lambda r: (r.choice([(32, 512), (16, 64), (24, 512)]), r.choice([(64, 256), (100, 96), (32, 64)])),
    "chain": lambda r: (r.choice(FLOATS), r.randint(1, 200), r.randint(1, 60) * 16, tile(r)),
    "broadcast": lambda r: (r.choice(["row", "col", "one"]), r.randint(1, 150), r.randint(2, 60) * 8, tile(r)),
    "diamond": lambda r: (r.choice(FLOATS), r.randint(1, 150), r.randint(1, 30) * 16, tile(r)),
    "fan_in": lambda r: (r.choice(FLOATS), r.randint(1, 100), r.randint(1, 30) * 16, tile(r)),
    "two_outputs": lambda r: (r.choice(["assemble", "move_last"]), r.randint(1, 100), r.randint(2, 60) * 8, tile(r)),
    "reduce_rows": lambda r: (r.choice(["sum", "amax"]), "float32", r.randint(1, 80), r.randint(2, 300) * 8, tile(r)),
    "reduce_axis0": lambda r: (r.choice(["sum", "amax"]), r.randint(1, 300), r.randint(2, 60) * 8, tile(r)),
    "softmax_rows": lambda r: (r.choice(FLOATS), r.randint(1, 80), r.randint(1, 150) * 16, tile(r)),
    "rmsnorm_rope": lambda r: (r.choice([16, 100, 256]), r.choice([64, 128])),
    "concat_two": lambda r: (r.choice([0, 1]), 8 * r.randint(1, 12), 32 * r.randint(1, 8), tile(r)),
    "view_after_op": lambda r: ((64, 256), (32, 128), (r.choice([0, 8]), r.choice([0, 32, 128])), tile(r)),
    "topk_rows": lambda r: (r.choice([1, 8]), r.choice([64, 512, 2048]), 8, r.choice([(1, 64), (8, 256), (2, 512)])),
    "loop_blocks": lambda r: (r.choice([3, 40, 200]), 8, 256, (8, 256), r.choice([[1], [4, 2, 1]])),
    "loop_accumulate": lambda r: (r.choice([1, 2, 3, 8, 20]), 32, 256, r.choice([[1], [2, 1], [4, 2, 1]])),
    "attention_online": lambda r: (16, r.choice([64, 128]), 256 * r.choice([1, 2, 3, 5, 12]), 256,
                                   r.choice([[1], [2, 1], [4, 2, 1]]), r.choice([256, 512])),
    "attention_batch": lambda r: (r.choice([1, 2]), r.choice([1, 2]), 8, 64, r.choice([256, 512])),
    "expert_sum": lambda r: (r.choice([32, 64]), 128, 128, r.choice([1, 2, 4, 12])),
    "dynamic_rows": lambda r: (r.choice([5, 16, 50, 100]), 256, r.choice([8, 32])),
    "dynamic_softmax": lambda r: (r.choice([5, 50]), 256, r.choice([8, 32])),
}


def shapes(text):
    """(shape, bytes) of each operand of one side of a sample."""
    found = re.findall(r"\[([^]]*)\](-?\d+)", text)
    return [([int(d) for d in dims.split(",") if d], int(size)) for dims, size in found]


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def duration(sample, constants):
    """Cycles of a tile operation by the published constants (LOWERING_DETAIL.md 9.1)."""
    name, operands = sample.split(" ", 1)
    row = constants[name]
    if name in ("VIEW", "ASSEMBLE", "RESHAPE"):
        return 1
    inputs, outputs = (shapes(side) for side in operands.split("->"))
    sizes = [[256 if d <= 0 else d for d in shape] for shape, _ in inputs + outputs]
    block = min(s[-1] * s[-2] if len(s) > 1 else 1 for s in sizes)
    count = min(math.prod(s[:-2]) for s in sizes)
    shape, size_bytes = (inputs or outputs)[0]
    width = size_bytes // math.prod(shape)
    if not row["k_a2a3"]:
        head = 0 if row["default_latency_if_not_in_table"].find("fp16=0") >= 0 and width in (2, 4) else 10
        return head + 2 * int((block * count * width - 256) / 256) + 1
    factor = 1 if "1 if fp32" in row["precision_factor_p"] and width == 4 else 2
    slope = single(single(single(float(row["k_a2a3"])) * single(width * block)) * factor)
    return count * (int((slope * 1e-6 + single(float(row["c_a2a3"]))) * 2000) + 1) + int(row["fixed_extra_cycles"])


@pytest.mark.parametrize("family", FAMILIES)
def test_record_holds_together(tool, kernels, constants, family):
    ran = 0
    for seed in range(8):
        params = FAMILIES[family](random.Random(f"{family} {seed}"))
        case = kernels.make_case(getattr(kernels, family), params, "")
        record = tool.record(case)
        if "error" in record:                      # by name, never a crash
            assert re.match(r"(Capacity|Tiling|Shape|Pypto|Unsupported)Error", record["error"]["text"]), params
            continue
        ran += 1
        assert sum(record["task_by_core"].values()) == record["tasks"], params
        if "op_cycles" not in record:              # no log of pipes for long runs
            assert record["cycles"] > 500000, params
            continue
        assert sum(record["op_cycles"].values()) == sum(record["pipe_cycles"].values()), params
        assert record["aicore_span"] <= record["cycles"] and record["leaf_executed"] <= record["leaf"], params
        assert sum(int(length) * n for length, n in record["task_lengths"].get("AIV", {}).items()) <= (
            record["task_cycles"].get("AIV", 0)), params
        for sample, cycles in record["samples"].items():
            if " " in sample and sample.split(" ")[0] in constants and "int32" not in str(params):
                assert cycles == duration(sample, constants), (params, sample)
    assert ran >= 3


@pytest.mark.parametrize("family", ["chain", "matmul", "attention_online", "softmax_rows"])
def test_peaks_stay_within_the_core(tool, kernels, family):
    for seed in range(8):
        params = FAMILIES[family](random.Random(f"{family} {seed}"))
        try:
            traced = tool.trace(kernels.make_case(getattr(kernels, family), params, ""))
            e = cost_of(traced.program, traced.kernel, int_data(traced.arguments), Device.load("910b1"), "official")
        except pypto.PyptoError:
            continue
        assert all(e.peak_bytes[memory] <= room for memory, room in ROOM.items()), params


def test_more_iterations_never_run_shorter(tool, kernels):
    spans = [tool.record(kernels.make_case(kernels.loop_accumulate, (n, 32, 256, [1]), ""))["aicore_span"]
             for n in (1, 2, 3, 5, 8, 13, 21, 34)]
    assert spans == sorted(spans)


def test_a_dynamic_axis_counts_as_256(tool, kernels):
    """An axis of unknown size is priced as 256, however short it is in this run, and shows as -1."""
    record = tool.record(kernels.make_case(kernels.dynamic_rows, (5, 256, 32), ""))
    assert record["samples"]["COPY_IN DDR[-1,256]-1024->UB[32,256]32768"] == 1748
    assert record["samples"]["COPY_OUT UB[32,256]32768->DDR[-1,256]-1024"] == 735


def test_iterations_wait_for_workspace(tool, kernels):
    """The inner tensors of ten iterations fit the workspace: the eleventh waits for the first."""
    def edges(count):
        return tool.record(kernels.make_case(kernels.attention_batch, (1, count, 8, 64, 512), ""))["edges"]

    per_iteration = edges(2) - edges(1)
    assert edges(10) == 10 * per_iteration
    assert edges(11) == 11 * per_iteration + 1 and edges(12) == 12 * per_iteration + 2
