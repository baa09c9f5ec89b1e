"""The plan on Programs built directly in the core, without the front end."""
import json

import numpy as np
import pytest

from pypto_sim import _core
from pypto_sim.device import Device

from .core_program import BF16, Prog, kernel_rows

A2 = Device.load("910b1").numbers()


@pytest.fixture(autouse=True)
def _rows():
    with kernel_rows():
        yield


def planned(p, model="calibrated", device=A2, data=None, **assume):
    p.p.finish()
    return _core.plan_and_cost(p.p, device, model, data or [None] * len(p.arrays), assume)


def rows_kernel(build, rows=64, cols=512, tile=(8, 512), dtype="f4", numerics=0):
    """out = build(p, x) on [rows, cols]."""
    p = Prog(numerics)
    a, out = p.arg(np.zeros((rows, cols), dtype)), p.arg(np.zeros((rows, cols), dtype))
    p.write(build(p, a, p.tile(tile)), out)
    return p


def test_one_task_per_tile():
    e = planned(rows_kernel(lambda p, a, t: p.op("exp", [a], tile=t)))
    assert e["tasks"] == {"AIC": 0, "AIV": 8} and e["leaf_functions"] == e["root_functions"] == 1
    assert e["gm_read_bytes"] == e["gm_write_bytes"] == 64 * 512 * 4
    assert e["detail"]["ops"] == {"COPY_IN": 8, "COPY_OUT": 8, "EXP": 8}


def test_tails_are_their_own_leaves():
    e = planned(rows_kernel(lambda p, a, t: p.op("exp", [a], tile=t), rows=50, cols=96, tile=(16, 64)))
    assert e["tasks"]["AIV"] == 8 and e["leaf_functions"] == 4 and e["gm_read_bytes"] == 50 * 96 * 4


def test_valid_extents_of_a_result_are_what_it_costs():
    """Of 64 rows 20 are valid: two whole tiles, half a tile, and five tiles of which nothing is."""
    def build(p, a, t):
        y = p.op("exp", [a], tile=t)
        p.p.extents(y, [p.p.const(20), p.p.const(512)])
        return y

    e, whole = planned(rows_kernel(build)), planned(rows_kernel(lambda p, a, t: p.op("exp", [a], tile=t)))
    assert e["tasks"] == whole["tasks"] and e["peak_bytes"] == whole["peak_bytes"]
    assert e["gm_write_bytes"] == 20 * 512 * 4
    assert e["gm_read_bytes"] == 64 * 512 * 4      # the operand is valid all over
    assert e["leaf_functions"] == 3 and e["root_functions"] == 1


def test_extents_are_checked():
    p = Prog()
    x = p.arg(np.zeros((8, 8), "f4"))
    y = p.op("exp", [x])
    for tensor, extents in ((y, [p.p.const(1)]), (y, [0, 99]), (99, [0, 0])):
        with pytest.raises(ValueError):
            p.p.extents(tensor, extents)
    for axis, slot in ((2, p.p.scalar(2)[0]), (0, 99)):
        with pytest.raises(ValueError):
            p.p.carries(y, axis, slot)


def test_bf16_casts_only_where_the_chip_has_no_arithmetic():
    def chain(p, a, t):
        return p.op("exp", [p.scalar("muls", p.op("abs", [a], tile=t), 2.0, tile=t)], tile=t)

    e = planned(rows_kernel(chain, dtype=BF16))
    assert e["detail"]["ops"]["CAST"] == 16 and e["tasks"]["AIV"] == 8
    assert "CAST" not in planned(rows_kernel(chain))["detail"]["ops"]


def test_fp16_addition_is_promoted_under_current_numerics_only():
    def twice(p, a, t):
        return p.binary("add", a, a, tile=t)

    assert planned(rows_kernel(twice, dtype="f2"))["detail"]["ops"]["CAST"] == 16
    assert "CAST" not in planned(rows_kernel(twice, dtype="f2", numerics=1))["detail"]["ops"]
    assert "CAST" not in planned(rows_kernel(twice, dtype="f2"), "official")["detail"]["ops"]


@pytest.mark.parametrize(("shape", "expands"), [((1, 512), 8), ((64, 1), 8), ((1, 1), 9)])
def test_broadcast_costs_an_expansion(shape, expands):
    p = Prog()
    a, b, out = (p.arg(np.zeros(s, "f4")) for s in ((64, 512), shape, (64, 512)))
    p.write(p.binary("add", a, b, tile=p.tile((8, 512))), out)
    assert planned(p)["detail"]["ops"]["EXPAND"] == expands


def test_reduction_tree_counts():
    def shifted(p, a, t):
        return p.binary("sub", a, p.op("amax", [a], shape=(64, 1), ints=[1, 1], tile=t), tile=t)

    e = planned(rows_kernel(shifted, tile=(8, 128)))
    assert e["detail"]["ops"]["PAIRMAX"] == 8 * 3 and e["detail"]["ops"]["ROWMAX_SINGLE"] == 8
    assert e["tasks"]["AIV"] == 8 and e["gm_read_bytes"] == 64 * 512 * 4


def matmul_program(m, k, n, cube, dtype="f2", bias=False, relu=0):
    p = Prog()
    ins = [p.arg(np.zeros((m, k), dtype)), p.arg(np.zeros((k, n), dtype))]
    if bias:
        ins.append(p.arg(np.zeros((1, n), "f4")))
    out = p.arg(np.zeros((m, n), "f4"))
    p.write(p.op("matmul", ins, "f4", (m, n), ints=[0, 0, int(bias), relu], tile=p.tile((), cube)), out)
    return p


def test_k_chain_of_a_product():
    e = planned(matmul_program(128, 512, 256, (128, 128, 64, 256, 256, 128, 128)))
    assert e["detail"]["ops"] == {"COPY_IN": 8, "COPY_OUT": 2, "L1_TO_L0A": 16, "L1_TO_L0B": 16, "A_MUL_B": 2,
                                  "A_MULACC_B": 14}
    assert e["gm_read_bytes"] == 2 * (128 * 512 + 512 * 128) * 2 and e["tasks"]["AIC"] == 2
    assert e["peak_bytes"]["L0C"] <= 131072 and e["peak_bytes"]["L0A"] <= 65536


def test_bias_is_loaded_once_per_column_of_tiles():
    e = planned(matmul_program(256, 128, 256, (128, 128, 64, 128, 128, 128, 128), bias=True))
    assert e["detail"]["ops"]["L1_TO_BT"] == 4 and e["peak_bytes"]["BT"] == 512


@pytest.mark.parametrize("model", ["calibrated", "official"])
def test_capacity_fault_is_data(model):
    with pytest.raises(_core.CoreError) as caught:
        planned(matmul_program(256, 256, 256, (256, 256, 256, 256, 256, 256, 256)), model)
    code, text, _ = caught.value.args
    fault = json.loads(text)
    assert code == "capacity" and fault["memory"] in ("L0A", "L0B", "L0C") and fault["bytes"] > fault["limit"]
    assert fault["fits"] and fault["live"][0]["bytes"] > 0


def test_a_carried_local_is_a_slot():
    p = Prog()
    a, out = p.arg(np.zeros((64, 512), "f4")), p.arg(np.zeros((8, 512), "f4"))
    t = p.tile((8, 512))
    total = p.local("f4", (8, 512), "total")
    p.p.set(total, p.op("full", [], "f4", (8, 512), ints=[0, 0, 0], floats=[0.0], tile=t))
    with p.loop(0, 8) as i:
        x = p.view(a, (8, 512), [i * 8, 0])
        p.p.set(total, p.binary("add", total, x, tile=t))
    p.write(p.scalar("muls", total, 0.5, tile=t), out)
    e = planned(p)
    assert e["root_functions"] == 3 and e["instances"] == 10 and e["tasks"]["AIV"] == 10
    assert e["workspace_bytes"] == 8 * 512 * 4 and e["detail"]["edges"] == 9
    assert e["gm_read_bytes"] == (8 * 2 + 1) * 8 * 512 * 4 and e["gm_write_bytes"] == 10 * 8 * 512 * 4
    assert e["hbm_read_bytes"] == 64 * 512 * 4


def independent(unroll=(), submit=False, count=16):
    p = Prog()
    a, out = p.arg(np.zeros((8 * count, 512), "f4")), p.arg(np.zeros((8 * count, 512), "f4"))
    t = p.tile((8, 512))
    for _ in range(2):
        slot, i = p.sym(1)
        p.p.begin_loop(slot, p.e(0), p.e(count), p.e(1), False, -1, list(unroll), submit)
        p.assemble(p.op("exp", [p.view(a, (8, 512), [i * 8, 0])], tile=t), [i * 8, 0], out)
        p.p.end_loop()
    return planned(p)


def test_unrolled_iterations_share_a_root_function():
    plain, unrolled = independent(), independent((4,))
    assert plain["instances"] == 32 and unrolled["instances"] == 8
    assert plain["tasks"] == unrolled["tasks"] and plain["gm_read_bytes"] == unrolled["gm_read_bytes"]
    assert independent((5, 3))["instances"] == 2 * (3 + 1)       # 16 = 5 + 5 + 5 + 1, then singles


def test_device_tasks():
    assert independent()["device_tasks"] == 1 and independent(submit=True)["device_tasks"] == 2
    assert independent(count=200)["device_tasks"] == 4           # 400 instances of at most 128


def test_two_loops_with_the_same_body_are_planned_once():
    assert independent()["root_functions"] == 1 and independent()["leaf_functions"] == 1


def test_bounds_from_data_and_assumed():
    def build():
        p = Prog()
        a, out, n = p.arg(np.zeros((64, 512), "f4")), p.arg(np.zeros((64, 512), "f4")), p.arg(np.zeros(2, "i4"), "n")
        slot, count = p.sym(2)
        p.p.load(slot, n, [p.e(1)], p.p.line("k.py:7"))
        with p.loop(0, count) as i:
            p.assemble(p.op("exp", [p.view(a, (8, 512), [i * 8, 0])], tile=p.tile((8, 512))), [i * 8, 0], out)
        return p

    with pytest.raises(_core.CoreError) as caught:
        planned(build())
    assert caught.value.args[0] == "needs_data" and "n[1]" in caught.value.args[1]
    data = [None, None, np.array([9, 3], "i4").view("u1")]
    assert planned(build(), data=data)["tasks"]["AIV"] == 3
    p = build()
    p.p.finish()
    for key in ("n[1]", "n", "k.py:7", "7"):
        assert _core.plan_and_cost(p.p, A2, "calibrated", [None] * 3, {key: (4, 4)})["tasks"]["AIV"] == 4


def test_condition_chooses_a_path():
    p = Prog()
    a, out = p.arg(np.zeros((64, 512), "f4")), p.arg(np.zeros((64, 512), "f4"))
    t = p.tile((8, 512))
    with p.loop(0, 8) as i:
        x = p.view(a, (8, 512), [i * 8, 0])
        p.p.begin_if((i + -3).ge0().id)
        p.assemble(p.op("exp", [x], tile=t), [i * 8, 0], out)
        p.p.begin_else()
        p.assemble(p.op("sqrt", [x], tile=t), [i * 8, 0], out)
        p.p.end_if()
    e = planned(p)
    assert e["detail"]["ops"]["EXP"] == 5 and e["detail"]["ops"]["SQRT"] == 3 and e["root_functions"] == 2


def test_l1_reuse_merges_only_many_tiles():
    few = planned(matmul_program(512, 128, 512, (128, 128, 64, 128, 128, 128, 128)))
    many = planned(matmul_program(2048, 128, 2048, (128, 128, 64, 128, 128, 128, 128)))
    assert few["tasks"]["AIC"] == 16 and many["tasks"]["AIC"] == 52
    assert many["gm_read_bytes"] < 256 * 2 * 128 * 128 * 2


@pytest.mark.parametrize("device", ["910b1", "910b4", "910c", "950pr", "950dt"])
def test_every_device_gives_a_time(device):
    numbers = Device.load(device).numbers()
    vector = planned(rows_kernel(lambda p, a, t: p.op("exp", [a], tile=t)), device=numbers)
    cube = planned(matmul_program(256, 256, 256, (128, 128, 64, 128, 128, 128, 128)), device=numbers)
    assert 2 < vector["time_us"] < 30 and 2 < cube["time_us"] < 30


def test_missing_device_value_is_named():
    numbers = {k: v for k, v in A2.items() if k != "cube.mad_head_cycles"}
    with pytest.raises(_core.CoreError) as caught:
        planned(rows_kernel(lambda p, a, t: p.op("exp", [a], tile=t)), device=numbers)
    assert "cube.mad_head_cycles" in caught.value.args[1]


@pytest.mark.parametrize("size", [(4096, 4096, 4096), (8192, 8192, 8192), (5376, 6144, 7680)])
def test_skipped_repeats_equal_the_full_computation(size):
    """Runs of equal output tiles go on by whole periods of the core's state; `planner.full` runs every tile."""
    def product(**extra):
        return planned(matmul_program(*size, (128, 128, 64, 256, 256, 256, 256)), device={**A2, **extra})

    skipped, full = product(), product(**{"planner.full": 1.0})
    assert skipped["tasks"]["AIC"] < size[0] // 128 * size[2] // 256      # tasks of several tiles
    for found in (skipped, full):
        found.pop("device_keys")             # `planner.full` is one of them
    assert skipped == full
