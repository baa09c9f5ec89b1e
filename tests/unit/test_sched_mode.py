"""device_sched_mode under model `calibrated`: the order of service and the cores of an AICPU thread."""
import pytest

import pypto_sim as pypto

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
