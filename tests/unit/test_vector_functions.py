"""950: vector operations over one index space are priced as one vector function. Streams of vector kernels."""
import math
import tomllib

import pytest

import pypto_sim as pypto
from pypto_sim.device import Device

ROWS, COLUMNS = 16, 512
REGISTERS = ROWS * COLUMNS * 4 // 256
BARRIER = 20


def estimate(body, device="950pr", inputs=1, shape=(ROWS, COLUMNS), out=None, tile=None, dtype="fp32"):
    @pypto.frontend.jit()
    def one(a: pypto.Tensor(), y: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*(tile or shape))
        y[:] = body(a)

    @pypto.frontend.jit()
    def two(a: pypto.Tensor(), b: pypto.Tensor(), y: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*(tile or shape))
        y[:] = body(a, b)
    specs = [pypto.Spec(shape, dtype)] * inputs + [pypto.Spec(out or shape, dtype)]
    return pypto.estimate(one if inputs == 1 else two, *specs, device=device)


def vec(*args, **more):
    return estimate(*args, **more).pipe_busy_cycles["VEC"]


def uarch(name):
    return Device.load("950pr")[f"vector_uarch.{name}"]


def test_a_chain_takes_the_sum_of_its_intervals():
    chain = vec(lambda a: pypto.div(pypto.exp(pypto.mul(a, 2.0)), 3.0))
    intervals = uarch("vmuls")[1] + uarch("vexp_fp32")[1] + uarch("vmuls")[1]
    assert chain == math.ceil(BARRIER + REGISTERS * intervals / uarch("issue_ports"))
    alone = vec(pypto.exp) + 2 * vec(lambda a: pypto.mul(a, 2.0))
    assert chain < alone


def test_loads_and_stores_bound_a_cheap_function():
    total = vec(lambda a, b: pypto.add(pypto.add(a, b), 1.0), inputs=2)
    intervals = (uarch("vadd")[1] + uarch("vadds")[1]) / uarch("issue_ports")
    assert total == math.ceil(BARRIER + REGISTERS * max(intervals, 2 / uarch("load_ports"), 1 / uarch("store_ports")))


def test_a_reduction_ends_its_function():
    def softmax(a):
        p = pypto.exp(pypto.sub(a, pypto.amax(a, dim=-1, keepdim=True)))
        return pypto.div(p, pypto.sum(p, dim=-1, keepdim=True))
    whole = vec(softmax)
    three = 3 * ROWS * Device.load("950pr")["vector_vf.tadd_fp32_2d"][1]     # each of its three loops goes row by row
    assert whole > three
    assert whole < vec(lambda a: pypto.exp(a)) * 6


def test_a2_has_no_vector_functions():
    chain = vec(lambda a: pypto.exp(pypto.mul(a, 2.0)), device="910b1", tile=(8, COLUMNS))
    assert chain == pytest.approx(vec(pypto.exp, device="910b1", tile=(8, COLUMNS)) +
                                  vec(lambda a: pypto.mul(a, 2.0), device="910b1", tile=(8, COLUMNS)), rel=0.05)


def test_a_stream_takes_its_bytes_at_one_rate():
    count = 1 << 26                                   # 256 MiB in, 256 MiB out
    found = estimate(lambda a: pypto.mul(a, 2.0), shape=(count,), tile=(16384,), device="910b1")
    device = Device.load("910b1")
    absorbed = device["vector_stream.l2_absorb_mb"] * 1e6
    ends = (device["latency.gm_read_latency"] + device["latency.gm_write_latency"]) / (device["cores.freq_ghz"] * 1e3)
    expected = (device["vector_stream.launch_us"] + ends + absorbed / device["vector_stream.absorb_gbs"] * 1e-3 +
                (2 * 4 * count - absorbed) / device["vector_stream.hbm_gbs"] * 1e-3)
    # the waves of tasks wait for their bytes one after another and for dispatch: a little more than the bytes alone
    assert found.bound_by == "HBM" and expected <= found.time_us <= 1.03 * expected


def test_arguments_may_lie_in_l2():
    def device(*names):
        table = tomllib.loads(Device.load("910b1").path.read_text(encoding="utf-8"))
        table["planner"] = {n: {"value": 1, "confidence": "assumed", "source": "this test"} for n in names}
        return Device(table, Device.load("910b1").path)
    warm = device("static", "warm")
    cold = estimate(pypto.exp, shape=(1 << 22,), tile=(8192,), device=device("static"))
    found = estimate(pypto.exp, shape=(1 << 22,), tile=(8192,), device=warm)
    assert found.hbm_read_bytes == found.hbm_write_bytes == 0 < cold.hbm_read_bytes
    assert found.time_us < cold.time_us
    large = estimate(pypto.exp, shape=(1 << 26,), tile=(16384,), device=warm)       # more than L2 holds
    assert large.hbm_read_bytes == 4 << 26
