"""device_sched_mode under model `calibrated`: the order of service and the cores of an AICPU thread."""
import tomllib

import pytest

import pypto_sim as pypto
from pypto_sim.device import Device

F32 = pypto.DT_FP32
TRIPS, THREADS, AIV = 100, 6, 48


def steps(**options):
    @pypto.frontend.jit(runtime_options=options)
    def kernel(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        for i in pypto.loop(x.shape[0] // 8):
            pypto.set_vec_tile_shapes(8, 1024)
            pypto.set_semantic_label("first")
            a = pypto.exp(pypto.view(x, [8, 1024], [i * 8, 0]))
            pypto.set_vec_tile_shapes(4, 1024)
            pypto.set_semantic_label("second")
            pypto.assemble(pypto.exp(a), [i * 8, 0], y)
    return kernel


def estimate(trips=TRIPS, **options):
    spec = pypto.Spec((8 * trips, 1024), F32)
    return pypto.estimate(steps(**options), spec, spec, device="910b1", model="calibrated", timeline=True)


def starts(e, label):
    line = e.timeline
    return sorted(t.start for t in line.tasks if t.core >= 0 and label in line.leaves[t.leaf].label)


def test_first_in_first_out_is_the_default():
    plain, zero = estimate(), estimate(device_sched_mode=0)
    assert plain.cycles == zero.cycles and plain.assumptions == zero.assumptions
    assert plain.breakdown.idle_cycles == zero.breakdown.idle_cycles
    assert starts(plain, "second")[0] >= starts(plain, "first")[-1]     # every first step was ready before any second


def test_the_task_readied_last_goes_first():
    e = estimate(device_sched_mode=1)
    first, second = starts(e, "first"), starts(e, "second")
    assert sum(s < second[0] for s in first) == AIV                    # then the second steps of that wave come between
    assert any("device_sched_mode 1" in note for note in e.assumptions)
    assert len(first) == TRIPS and len(second) == 2 * TRIPS
    assert e.tasks == estimate().tasks and e.gm_read_bytes == estimate().gm_read_bytes


@pytest.mark.parametrize("mode", [2, 3])
def test_threads_take_tasks_in_turn_and_own_their_cores(mode):
    e = estimate(trips=THREADS * 2, device_sched_mode=mode)
    line = e.timeline
    aic = line.aic
    chosen = [t for t in line.tasks if t.core >= 0 and "first" in line.leaves[t.leaf].label]
    first = sorted(chosen, key=lambda t: t.task_id)
    assert [(t.core - aic) * THREADS // AIV for t in first] == [k % THREADS for k in range(len(first))]


def test_modes_are_remembered_apart():
    assert len({estimate(device_sched_mode=mode).cycles for mode in range(4)}) > 1


@pytest.mark.parametrize("mode", [-1, 4, 1.5, "fifo", True])
def test_wrong_modes(mode):
    with pytest.raises(pypto.error.OptionError, match="device_sched_mode.*must be 0 to 3"):
        estimate(device_sched_mode=mode)
    with pytest.raises(pypto.error.OptionError, match="device_sched_mode.*must be 0 to 3"):
        pypto.set_runtime_options(device_sched_mode=mode)


def test_set_for_a_kernel_from_outside():
    spec = pypto.Spec((8 * TRIPS, 1024), F32)
    pypto.set_runtime_options(device_sched_mode=1)
    try:
        e = pypto.estimate(steps(), spec, spec, device="910b1", model="calibrated")
    finally:
        pypto.set_runtime_options(device_sched_mode=0)
    assert e.cycles == estimate(device_sched_mode=1).cycles


@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize(("key", "factor"), [("vector_stream.hbm_gbs", 2), ("bandwidth.gm_to_ub_l2hit_bpc", 1.5),
                                             ("chip_bandwidth.l2_read_gbs", 2), ("bandwidth.ub_to_gm_bpc", 3),
                                             ("pypto_runtime.scheduler_cycles", 0.5), ("latency.gm_read_latency", 0.4)])
def test_a_faster_part_never_slows_a_kernel(mode, key, factor):
    base = Device.load("910b1")
    table = tomllib.loads(base.path.read_text(encoding="utf-8"))
    section, entry = key.split(".")
    table[section][entry] = dict(table[section][entry], value=table[section][entry]["value"] * factor)
    spec = pypto.Spec((8 * 300, 1024), F32)
    plain, quick = (pypto.estimate(steps(device_sched_mode=mode), spec, spec, device=device, model="calibrated")
                    for device in (base, Device(table, base.path)))
    assert quick.time_us <= plain.time_us
