"""Model `official`: its estimates, the options that steer the 0.2.0 lowering, and what it refuses."""

import numpy as np
import pytest
from support.interrupts import interrupted_after

import pypto_sim as pypto
from pypto_sim.device import Device

F16, F32 = pypto.DT_FP16, pypto.DT_FP32
CUBE = ([128, 128], [64, 256], [128, 128])


def spec(*shape, dtype="fp32"):
    return pypto.Spec(shape, dtype)


def official(kernel, *args, **more):
    return pypto.estimate(kernel, *args, model="official", **more)


def product(m, k, n, out="fp32", **options):
    @pypto.frontend.jit(**options)
    def kernel(a: pypto.Tensor([], F16), b: pypto.Tensor([], F16), c: pypto.Tensor([], pypto.DT_FP32 if out == "fp32"
                                                                                    else F16)):
        pypto.set_cube_tile_shapes(*CUBE)
        c[:] = pypto.matmul(a, b, F32 if out == "fp32" else F16)
    return kernel, (spec(m, k, dtype="fp16"), spec(k, n, dtype="fp16"), spec(m, n, dtype=out))


def rows(count, **options):
    @pypto.frontend.jit(**options)
    def kernel(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        for i in pypto.loop(count):
            pypto.set_vec_tile_shapes(8, 64)
            pypto.assemble(pypto.exp(pypto.view(x, [8, 64], [i * 8, 0])), [i * 8, 0], y)
    return kernel, (spec(count * 8, 64), spec(count * 8, 64))


def test_fields_of_a_product():
    kernel, args = product(256, 512, 256)
    e = official(kernel, *args)
    assert (e.model, e.device, e.launches, e.device_tasks, e.root_functions, e.leaf_functions) == (
        "official", "910b1", 1, 1, 1, 1)
    assert e.tasks == {"AIC": 4, "AIV": 0} and e.core_span_cycles == 13897 and e.time_us == e.cycles / 1800
    assert e.gm_read_bytes == 4 * 2 * 128 * 512 * 2 and e.gm_write_bytes == 256 * 256 * 4
    assert e.hbm_read_bytes == 2 * 256 * 512 * 2 and e.hbm_write_bytes == e.gm_write_bytes
    assert e.l2_hit_bytes == e.gm_read_bytes - e.hbm_read_bytes and e.spill_bytes == e.workspace_bytes == 0
    assert e.peak_bytes["L0C"] == 65536 and 0 < e.peak_bytes["L1"] <= 524288 and e.peak_bytes["UB"] == 0
    assert e.pipe_busy_cycles["CUBE"] > 0 and e.pipe_busy_cycles["FIX"] > 0 and e.pipe_busy_cycles["VEC"] == 0
    assert e.unmodelled == () and any("24 AIC" in text for text in e.assumptions) and e.assumed_numbers == ()


def test_bytes_are_those_that_cross():
    """A product stored as fp16 writes two bytes per element; a column result is not padded to a block."""
    kernel, args = product(256, 512, 256, "fp16")
    assert official(kernel, *args).gm_write_bytes == 256 * 256 * 2

    @pypto.frontend.jit
    def column(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        pypto.set_vec_tile_shapes(8, 512)
        y[:] = pypto.sum(x, -1, True)
    assert official(column, spec(64, 512), spec(64, 1)).gm_write_bytes == 64 * 4


def test_spills_are_traffic():
    @pypto.frontend.jit
    def softmax(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        pypto.set_vec_tile_shapes(1, 24576)
        e = pypto.exp(x - pypto.amax(x, -1, True))
        y[:] = e / pypto.sum(e, -1, True)
    with pytest.warns(pypto.PyptoWarning):
        e = official(softmax, spec(1, 24576), spec(1, 24576))
    assert e.core_span_cycles == 15620 and e.spill_bytes > 0
    assert e.gm_read_bytes + e.gm_write_bytes == 2 * 24576 * 4 + e.spill_bytes


def test_capacity_error_names_the_operation():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        pypto.set_vec_tile_shapes(1, 16384)
        a, b = pypto.exp(x), pypto.sqrt(x)
        y[:] = pypto.where(pypto.gt(a, b), a, b)
    with pytest.raises(pypto.CapacityError) as caught:
        official(kernel, spec(1, 16384), spec(1, 16384))
    error = caught.value
    assert error.memory == "UB" and error.limit == 196608 and error.bytes > 0 and error.tile[-1] == 16384
    assert error.op and error.line.startswith("test_official.py:")


def test_control_flow_that_needs_data():
    @pypto.frontend.jit
    def kernel(n: pypto.Tensor([], pypto.DT_INT32), x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        for i in pypto.loop(n[0]):
            pypto.set_vec_tile_shapes(8, 64)
            pypto.assemble(pypto.exp(pypto.view(x, [8, 64], [i * 8, 0])), [i * 8, 0], y)
    args = spec(64, 64), spec(64, 64)
    with pytest.raises(pypto.NeedsData, match=r"n\[0\]"):
        official(kernel, pypto.Spec((1,), "int32"), *args)
    given = official(kernel, pypto.Spec((1,), "int32"), *args, assume={"n": (2, 8)})
    assert given.tasks["AIV"] == 5 and any("n[0] = 5" in text for text in given.assumptions)
    for trips in (3, 7):                          # results are kept by what they depend on
        assert official(kernel, np.array([trips], np.int32), *args).tasks["AIV"] == trips


def test_results_are_kept_by_what_they_depend_on():
    from pypto_sim import _core
    kernel, args = product(256, 512, 256)
    program = kernel.program(*args).program

    def kept(model, device, assume=None):
        found = _core.plan_and_cost(program, device, model, [None] * 3, assume or {})
        assert _core.plan_and_cost(program, device, model, [None] * 3, assume or {}) == found
        return found, _core.kept_results(program)
    first, count = kept("official", {})
    assert count == 1
    assert kept("official", {"cores.aic": 24.0}) == (first, 1)        # its chip is fixed
    assert kept("official", {}, {"n": (1, 1)}) == (first, 2)
    table = dict(Device.load("910b1").numbers())
    slow, count = kept("calibrated", table)
    assert count == 3
    fast, count = kept("calibrated", {**table, "cores.freq_ghz": 2 * table["cores.freq_ghz"]})
    assert count == 4 and fast["time_us"] < slow["time_us"]


def test_equal_calls_give_equal_results():
    kernel, args = product(256, 512, 256)
    assert official(kernel, *args) == official(kernel, *args)
    assert official(kernel, *args, timeline=True).timeline is not None
    assert official(kernel, *args).timeline is None


def test_operations_that_the_package_cannot_run_have_a_default_price():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        pypto.set_vec_tile_shapes(8, 64)
        y[:] = pypto.fmod(x, x)
    e = official(kernel, spec(8, 64), spec(8, 64))
    assert any("MOD has no pipe" in text for text in e.unmodelled) and e.pipe_busy_cycles["VEC"] > 0


def chain_of_scopes(first, second):
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        pypto.set_vec_tile_shapes(32, 512)
        pypto.set_pass_options(sg_set_scope=first)
        a = pypto.exp(x)
        pypto.set_pass_options(sg_set_scope=second)
        y[:] = pypto.sqrt(a)
    return kernel, (spec(256, 512), spec(256, 512))


def test_scopes_cut_tasks():
    tasks = {pair: official(*_call(chain_of_scopes(*pair))).tasks["AIV"] for pair in ((-1, -1), (1, 1), (1, 2))}
    assert tasks == {(-1, -1): 8, (1, 1): 8, (1, 2): 16}


def _call(made):
    kernel, args = made
    return (kernel, *args)


def fed_by_one(setting):
    """128 vector sub-graphs with one common producer."""
    @pypto.frontend.jit(pass_options={"vec_nbuffer_setting": setting})
    def kernel(x: pypto.Tensor([], F32), w: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        pypto.set_vec_tile_shapes(4, 64)
        y[:] = x * pypto.exp(w)
    return kernel, (spec(512, 64), spec(1, 64), spec(512, 64))


@pytest.mark.parametrize(("setting", "tasks"), [({}, 65), ({-1: 1}, 129), ({-1: 4}, 33), ({-2: 0}, 65),
                                                    ({0: 4}, 129), ({1: 4}, 33)])
@pytest.mark.parametrize("model", ["official", "calibrated"])
def test_vector_merge_setting(setting, tasks, model):
    assert pypto.estimate(*_call(fed_by_one(setting)), model=model).tasks["AIV"] == tasks


@pytest.mark.parametrize(("options", "tasks"), [
    ({}, 32), ({"cube_l1_reuse_setting": {-1: 4}}, 8), ({"cube_l1_reuse_setting": {0: 2}}, 16),
    ({"cube_nbuffer_setting": {-1: 4}}, 8), ({"cube_nbuffer_setting": {0: 2}}, 16)])
@pytest.mark.parametrize("model", ["official", "calibrated"])
def test_cube_merge_settings(options, tasks, model):
    made = product(512, 512, 1024, pass_options=options)
    assert pypto.estimate(*_call(made), model=model).tasks["AIC"] == tasks


@pytest.mark.parametrize(("limit", "device_tasks"), [(None, 2), (1, 200), (64, 4), (128, 2)])
def test_stitched_root_functions(limit, device_tasks):
    options = {} if limit is None else {"runtime_options": {"stitch_function_max_num": limit}}
    e = official(*_call(rows(200, **options)))
    assert (e.device_tasks, e.tasks["AIV"]) == (device_tasks, 200)


def test_automatic_l1_reuse_counts_all_sub_graphs():
    """128 products, 16 vector tasks and one product more: 145 // 48 = 3 products per task."""
    @pypto.frontend.jit
    def attention(q: pypto.Tensor([], F16), k: pypto.Tensor([], F16), v: pypto.Tensor([], F16),
                  out: pypto.Tensor([], F32)):
        pypto.set_cube_tile_shapes([16, 16], [128, 128], [128, 128])
        s = pypto.matmul(q, k, F32, b_trans=True)
        pypto.set_vec_tile_shapes(1, 16384)
        s = s * 0.088
        m = pypto.amax(s, -1, True)
        e = pypto.exp(s - m)
        total = pypto.sum(e, -1, True)
        p = pypto.cast(e / total, F16)
        pypto.set_cube_tile_shapes([16, 16], [128, 512], [128, 128])
        out[:] = pypto.matmul(p, v, F32)
    args = (spec(16, 128, dtype="fp16"), spec(16384, 128, dtype="fp16"), spec(16384, 128, dtype="fp16"), spec(16, 128))
    e = official(attention, *args)
    assert (e.tasks["AIC"], e.tasks["AIV"], e.core_span_cycles) == (44, 16, 189013)
    assert (e.gm_read_bytes, e.gm_write_bytes) == (10137600, 1581056)


def test_kernels_too_large_to_write_out():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        for i in pypto.loop(2**40):
            pypto.set_vec_tile_shapes(8, 64)
            pypto.assemble(pypto.exp(pypto.view(x, [8, 64], [i % 2 * 8, 0])), [i % 2 * 8, 0], y)
    with pytest.raises(pypto.PyptoError, match="calibrated"):
        official(kernel, spec(16, 64), spec(16, 64))


def test_an_interrupt_ends_it():
    kernel, args = product(8192, 8192, 8192)
    with interrupted_after(0.3):
        official(kernel, *args)
