"""Tasks that run at the same time share L2 and HBM, in every phase of a launch."""
import tomllib

import pytest

import pypto_sim as pypto
from pypto_sim.device import Device

F16, F32 = pypto.DT_FP16, pypto.DT_FP32
ROWS = 32768


def phases(stream, compute, trips=16):
    """Sums of two tensors from HBM, then long chains on a small tensor: both parts, or one."""
    step = ROWS // trips

    @pypto.frontend.jit(pass_options={"vec_nbuffer_setting": {-2: 1, -1: 4}})
    def kernel(x: pypto.Tensor([], F32), z: pypto.Tensor([], F32), y: pypto.Tensor([], F32), u: pypto.Tensor([], F32),
               v: pypto.Tensor([], F32)):
        pypto.set_vec_tile_shapes(8, 1024)
        for i in pypto.loop(trips if stream else 0, name="stream", idx_name="i"):
            parts = (pypto.view(t, [step, 1024], [i * step, 0]) for t in (x, z))
            pypto.assemble(pypto.add(*parts), [i * step, 0], y)
        for i in pypto.loop(4 if compute else 0, name="compute", idx_name="j"):
            b = pypto.view(u, [1024, 1024], [i * 1024, 0])
            for _ in range(24):
                b = pypto.exp(b)
            pypto.assemble(b, [i * 1024, 0], v)

    large, small = pypto.Spec((ROWS, 1024), F32), pypto.Spec((4096, 1024), F32)
    return kernel, (large, large, large, small, small)


def resident(name):
    """The device as kernels see it that stay on their core."""
    base = Device.load(name)
    table = tomllib.loads(base.path.read_text(encoding="utf-8"))
    table.setdefault("planner", {})["static"] = {"value": 1, "confidence": "assumed", "source": "this test"}
    return Device(table, base.path)


def estimate(stream, compute, device):
    kernel, specs = phases(stream, compute)
    return pypto.estimate(kernel, *specs, device=device, model="calibrated")


@pytest.mark.parametrize("device", ["910b1", "910b4", "950pr"])
def test_a_phase_that_waits_for_memory_does_not_hide_one_that_computes(device):
    stream, compute, both = estimate(True, False, device), estimate(False, True, device), estimate(True, True, device)
    assert stream.bound_by == "HBM" and compute.bound_by == "VEC"
    assert both.time_us > stream.time_us + 0.6 * compute.time_us     # no single bound of the whole launch
    assert both.time_us == pytest.approx(stream.time_us + compute.time_us, rel=0.1)
    assert both.breakdown.idle_cycles["bandwidth"] > 0


def test_memory_in_the_second_phase_counts_too():
    """Tasks of a later wave that read from HBM: wider memory shortens them."""
    wide, narrow = (estimate(True, True, device).breakdown.idle_cycles["bandwidth"] for device in ("910b3", "910b4"))
    assert narrow > 1.3 * wide


def test_one_task_has_the_pools_for_itself():
    kernel, specs = phases(False, True)
    assert pypto.estimate(kernel, *specs, device="910b1", model="calibrated").breakdown.idle_cycles["bandwidth"] >= 0

    @pypto.frontend.jit
    def lone(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        pypto.set_vec_tile_shapes(8, 1024)
        y[:] = x + 1.0
    one = pypto.Spec((8, 1024), F32)
    assert pypto.estimate(lone, one, one, device="910b1", model="calibrated").breakdown.idle_cycles["bandwidth"] == 0


@pytest.mark.parametrize("name", ["910b1", "910b4", "950pr"])
def test_programs_that_stay_on_their_core_share_in_every_step(name):
    device = resident(name)
    stream, compute, both = estimate(True, False, device), estimate(False, True, device), estimate(True, True, device)
    assert both.time_us > stream.time_us + 0.6 * compute.time_us
    assert both.time_us < 1.1 * (stream.time_us + compute.time_us)
    assert both.breakdown.idle_cycles["bandwidth"] > 0
