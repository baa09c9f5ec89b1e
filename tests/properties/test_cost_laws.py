"""Laws of the calibrated model: what may never happen, whatever the shapes and the device."""
import json
import os
import subprocess
import sys
import threading
import tomllib
import warnings
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pypto_sim as pypto
from pypto_sim.device import Device

F16, F32 = pypto.DT_FP16, pypto.DT_FP32
# The same examples in every run; LAW_EXAMPLES=1000 searches further.
SEARCH = os.environ.get("LAW_EXAMPLES")
LAW = settings(max_examples=int(SEARCH or "25"), derandomize=SEARCH is None, deadline=None,
               suppress_health_check=[HealthCheck.too_slow])
DEVICES = st.sampled_from(["910b1", "910b4", "950pr"])
# Rates of pipes, ports, pools and memory: larger is faster. The reads of some depend on the chip.
FASTER = ("bandwidth.gm_to_l1_l2hit_bpc", "bandwidth.gm_to_ub_l2hit_bpc", "bandwidth.ub_to_gm_bpc",
          "bandwidth.l1_to_l0a_bpc", "bandwidth.l1_to_l0b_bpc", "bandwidth.l0c_to_gm_bpc", "bandwidth.aiv_l2_bpc",
          "bandwidth.aiv_ub_to_l2_bpc", "chip_bandwidth.hbm_gbs", "chip_bandwidth.l2_read_gbs",
          "chip_bandwidth.l2_read_gbs_alt", "stream_model.hbm_read_gbs", "stream_model.hbm_write_gbs",
          "vector_stream.hbm_gbs")
QUICKER = ("latency.gm_read_latency", "latency.gm_write_latency", "pypto_runtime.scheduler_cycles",
           "pypto_runtime.completion_cycles", "pypto_runtime.resolve_cycles", "bandwidth.mte1_issue_cycles",
           "bandwidth.gm_to_ub_fixed_cycles", "cube.mad_head_cycles")


@cache
def changed(name: str, key: str, factor: float, static: bool) -> Device:
    base = Device.load(name)
    table = tomllib.loads(base.path.read_text(encoding="utf-8"))
    if key:
        section, entry = key.split(".")
        if entry not in table.get(section, {}):
            return changed(name, "", 1, static)
        table[section][entry] = dict(table[section][entry], value=table[section][entry]["value"] * factor)
    if static:
        table.setdefault("planner", {})["static"] = {"value": 1, "confidence": "assumed", "source": "this test"}
    return Device(table, base.path)


def cost(kernel, *specs, device="910b1"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pypto.estimate(kernel, *(pypto.Spec(*s) for s in specs), device=device, model="calibrated")


def rows_kernel(operation: str, tile):
    @pypto.frontend.jit()
    def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*tile)
        if operation == "exp":
            out[:] = pypto.exp(x)
        elif operation == "softmax":
            out[:] = pypto.softmax(x, -1)
        elif operation == "rms_norm":
            out[:] = pypto.rms_norm(x)
        else:
            out[:] = x * pypto.sum(x, -1, True)
    return kernel


def product_kernel(tile):
    m, k0, k1, n = tile

    @pypto.frontend.jit(pass_options={"cube_l1_reuse_setting": {-1: 1}})
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
        pypto.set_cube_tile_shapes([m, m], [k0, k1], [n, n])
        c[:] = pypto.matmul(a, b, F32)
    return kernel


def loop_kernel(trips: int, carried: bool):
    @pypto.frontend.jit()
    def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 256)
        total = pypto.tensor([8, 256], F32, "total")
        for i in pypto.loop(trips, name="i"):
            tile = pypto.view(x, [8, 256], [i * 8, 0])
            if not carried:
                pypto.assemble(pypto.exp(tile), [i * 8, 0], out)
                continue
            if pypto.is_loop_begin(i):
                total[:] = tile + 1.0
            else:
                total[:] = total + tile
            if pypto.is_loop_end(i):
                pypto.assemble(total, [0, 0], out)
    return kernel


OPERATIONS = st.sampled_from(["exp", "softmax", "rms_norm", "sum"])
TILES = st.sampled_from([(1, 512), (4, 128), (8, 64), (16, 256)])


@LAW
@given(OPERATIONS, TILES, st.integers(1, 200), st.integers(1, 100), st.sampled_from([64, 256, 513, 1000]), DEVICES)
def test_more_rows_never_cost_less(operation, tile, rows, more, columns, device):
    """Reductions in tiles of whole rows: a lone tile of a cut row makes more tasks than several do."""
    if operation != "exp":
        tile = (tile[0], -(-columns // 16) * 16)
    kernel = rows_kernel(operation, tile)
    few, many = (cost(kernel, ((n, columns), F32), ((n, columns), F32), device=device) for n in (rows, rows + more))
    assert few.time_us <= many.time_us


@LAW
@given(st.sampled_from([(16, 64, 128, 64), (128, 64, 256, 128), (64, 128, 128, 256)]), st.integers(1, 500),
       st.integers(16, 600), st.integers(16, 600), st.integers(0, 2), st.integers(1, 300), DEVICES)
def test_more_of_a_product_never_costs_less(tile, m, k, n, axis, more, device):
    """Axes grow by whole tiles: a longer last tile changes the order of operations in its task (docs/cost_model.md)."""
    kernel, size = product_kernel(tile), [m, k, n]
    larger = list(size)
    step = (tile[0], tile[2], tile[3])[axis]
    larger[axis] += -(-more // step) * step
    few, many = (cost(kernel, ((a, b), F16), ((b, c), F16), ((a, c), F32), device=device) for a, b, c in (size, larger))
    assert few.time_us <= many.time_us


@LAW
@given(st.integers(1, 300), st.integers(1, 300), st.booleans(), DEVICES)
def test_more_trips_never_cost_less(trips, more, carried, device):
    few, many = (cost(loop_kernel(n, carried), ((8 * n, 256), F32), ((8 * n, 256), F32), device=device)
                 for n in (trips, trips + more))
    assert few.time_us <= many.time_us


@LAW
@given(st.sampled_from([*FASTER, *QUICKER]), st.floats(1.01, 8), st.sampled_from(["rows", "product", "loop"]),
       OPERATIONS, TILES, st.integers(1, 400), DEVICES, st.booleans())
def test_a_faster_part_never_slows_a_kernel(key, factor, kind, operation, tile, rows, device, static):
    quick = changed(device, key, 1 / factor if key in QUICKER else factor, static)
    if kind == "rows":
        call = rows_kernel(operation, tile), ((rows, 512), F32), ((rows, 512), F32)
    elif kind == "product":
        call = product_kernel((64, 64, 128, 128)), ((rows, 320), F16), ((320, 384), F16), ((rows, 384), F32)
    else:
        call = loop_kernel(rows, rows % 2 == 0), ((8 * rows, 256), F32), ((8 * rows, 256), F32)
    assert cost(*call, device=quick).time_us <= cost(*call, device=changed(device, "", 1, static)).time_us


@LAW
@given(OPERATIONS, TILES, st.integers(1, 64), st.sampled_from([64, 512, 1000]), DEVICES)
def test_peaks_stay_within_capacity(operation, tile, rows, columns, device):
    try:
        e = cost(rows_kernel(operation, tile), ((rows, columns), F32), ((rows, columns), F32), device=device)
    except pypto.error.CapacityError:
        return
    table = Device.load(device)
    for memory in ("UB", "L1", "L0A", "L0B", "L0C", "BT"):
        assert e.peak_bytes[memory] <= table[f"capacity.{memory.lower()}"]


@LAW
@given(st.integers(1, 300), st.integers(16, 400), st.integers(16, 400))
def test_traffic_of_the_tasks_adds_up(m, k, n):
    e = cost(product_kernel((64, 64, 128, 128)), ((m, k), F16), ((k, n), F16), ((m, n), F32))
    assert e.gm_write_bytes == 4 * m * n                     # every result once, no padding
    assert e.gm_read_bytes == 2 * (m * k * -(-n // 128) + k * n * -(-m // 64))
    assert e.hbm_read_bytes == 2 * (m * k + k * n) and e.l2_hit_bytes == e.gm_read_bytes - e.hbm_read_bytes


CASE = """
import json, pypto_sim as pypto
@pypto.frontend.jit()
def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
    pypto.set_cube_tile_shapes([128, 128], [64, 256], [128, 128])
    pypto.set_vec_tile_shapes(16, 128)
    c[:] = pypto.exp(pypto.matmul(a, b, pypto.DT_FP32))
"""


@pytest.mark.parametrize("device", ["910b1", "950pr"])
def test_same_input_same_cycles(tmp_path, device):
    """In another thread and in another process too."""
    script = tmp_path / "case.py"
    script.write_text(CASE + f"""
s = pypto.Spec
e = pypto.estimate(kernel, s((900, 700), "fp16"), s((700, 500), "fp16"), s((900, 500), "fp32"), device="{device}")
print(json.dumps(e.to_dict()))
""")
    runs = [subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True,
                           timeout=120).stdout for _ in range(2)]
    scope: dict = {"__name__": "case"}
    exec(compile(script.read_text().rsplit("print", 1)[0], str(script), "exec"), scope)
    found = []
    thread = threading.Thread(target=lambda: found.append(pypto.estimate(
        scope["kernel"], *(pypto.Spec(*s) for s in (((900, 700), "fp16"), ((700, 500), "fp16"), ((900, 500), "fp32"))),
        device=device).to_dict()))
    thread.start()
    thread.join()
    assert json.loads(runs[0]) == json.loads(runs[1]) == json.loads(json.dumps(found[0]))
