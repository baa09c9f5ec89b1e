"""Breakdown of an estimate: adds up to its totals, names the operations and says why tensors cross global memory."""
import json
import pickle
import warnings

import pytest

import pypto_sim as pypto

F16, F32 = pypto.DT_FP16, pypto.DT_FP32


@pypto.frontend.jit
def chain(x: pypto.Tensor([], F16), w: pypto.Tensor([], F16), y: pypto.Tensor([], F16)):
    pypto.set_cube_tile_shapes([128, 128], [64, 128], [128, 128])
    pypto.set_vec_tile_shapes(32, 128)
    a = pypto.exp(x)
    pypto.set_semantic_label("scores")
    b = pypto.matmul(a, w, F16)
    y[:] = pypto.abs(b)


@pypto.frontend.jit
def columns_then_rows(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
    pypto.set_vec_tile_shapes(64, 16)
    a = pypto.exp(x)
    pypto.set_vec_tile_shapes(8, 128)
    y[:] = pypto.abs(a)


@pypto.frontend.jit
def running_sum(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
    pypto.set_vec_tile_shapes(16, 64)
    total = pypto.full([16, 64], 0.0, F32)
    for i in pypto.loop(4):
        total[:] = pypto.add(total, pypto.view(x, [16, 64], [i * 16, 0]))
    y[:] = total


def spec(*shape, dtype=F32):
    return pypto.Spec(shape, dtype)


@pytest.fixture(scope="module", params=["calibrated", "official"])
def found(request):
    return pypto.estimate(chain, spec(1024, 512, dtype=F16), spec(512, 2048, dtype=F16), spec(1024, 2048, dtype=F16),
                          model=request.param)


def test_task_kinds_add_up(found):
    kinds = found.breakdown.task_kinds
    assert found.breakdown.task_kinds_left_out == 0
    for core in ("AIC", "AIV"):
        assert sum(k.count for k in kinds if k.core == core) == found.tasks[core]
    assert sum(k.count * k.gm_read_bytes for k in kinds) == found.gm_read_bytes
    assert sum(k.count * k.gm_write_bytes for k in kinds) == found.gm_write_bytes
    for pipe, busy in found.pipe_busy_cycles.items():
        assert sum(k.count * k.pipe_busy_cycles.get(pipe, 0) for k in kinds) == busy
    for memory, peak in found.peak_bytes.items():
        assert max(k.peak_bytes.get(memory, 0) for k in kinds) == peak
    assert {k.ops for k in kinds} == {"exp", "matmul", "abs"}
    assert all(k.line.startswith("test_explain.py:") for k in kinds)
    assert {k.label for k in kinds if k.ops == "matmul"} == {"scores"}


def test_traffic_of_tensors_adds_up(found):
    b = found.breakdown
    read = sum(c.read_bytes for c in b.crossings) + sum(t.read_bytes for t in b.tensors)
    written = sum(c.write_bytes for c in b.crossings) + sum(t.write_bytes for t in b.tensors)
    assert (read, written) == (found.gm_read_bytes, found.gm_write_bytes)
    assert {t.name: t.size_bytes for t in b.tensors} == {"x": 1 << 20, "w": 2 << 20, "y": 4 << 20}
    assert 0 < b.fusable_bytes <= sum(c.read_bytes + c.write_bytes for c in b.crossings)


def test_why_tensors_cross(found):
    reasons = {(c.source, c.target): c.reason for c in found.breakdown.crossings}
    assert reasons == {("exp", "matmul"): "vector result that the cube uses",
                       ("matmul", "abs"): "cube result that vector operations use"}
    other = pypto.estimate(columns_then_rows, spec(64, 128), spec(64, 128)).breakdown
    assert other.crossings[0].reason == "tiles do not match: a tile feeds several tasks, or a task needs several tiles"


def test_slots_are_told_from_arguments():
    b = pypto.estimate(running_sum, spec(64, 64), spec(16, 64)).breakdown
    kinds = {t.kind for t in b.tensors}
    assert kinds == {"argument", "slot"}
    (slot,) = [t for t in b.tensors if t.kind == "slot"]
    assert slot.name.startswith("made in test_explain.py:") and slot.read_bytes >= 4 * 16 * 64 * 4


def test_explain_and_html(found):
    text = found.explain()
    for words in ("Tasks by kind", "Between tasks; fusing all of it would save", "Arguments and slots",
                  "Room is left: the fullest task takes UB", "matmul (scores)"):
        assert words in text
    page = found._repr_html_()
    assert page.count("<details>") == 3 and "cube result that vector operations use" in page
    assert page.count("<table>") == page.count("</table>")


@pypto.frontend.jit
def whole_rows(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
    pypto.set_vec_tile_shapes(1, 24576)
    e = pypto.exp(x - pypto.amax(x, -1, True))
    y[:] = x * (e / pypto.sum(e, -1, True))


def test_spills_are_named():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)          # tile.reduce_size: the point of the kernel
        e = pypto.estimate(whole_rows, spec(2, 24576), spec(2, 24576))
    assert e.spill_bytes > 0
    assert "Spills: 2 task(s)" in e.explain()


def test_json_and_pickle(found):
    assert "breakdown" not in found.to_dict()
    again = json.loads(json.dumps(found.breakdown.to_dict()))
    assert again["task_kinds"][0]["count"] == found.breakdown.task_kinds[0].count
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("model", ["calibrated", "official"])
@pytest.mark.parametrize("rows", [64, 4096])
def test_core_time_adds_up(rows, model):
    e = pypto.estimate(columns_then_rows, spec(rows, 128), spec(rows, 128), model=model)
    idle = e.breakdown.idle_cycles
    assert set(idle) == {"predecessor", "schedule", "bandwidth", "no_task"} and min(idle.values()) >= 0
    work = sum(k.count * k.cycles for k in e.breakdown.task_kinds)
    cores = 48                                        # nothing for the cube cores
    whole = (work + sum(idle.values())) / cores       # cycles without the launch
    assert whole <= e.cycles
    assert e.core_span_cycles <= whole
    assert "Core time: " in e.explain()
    if rows == 64:                                    # fewer tasks than cores: the second kind waits for the first
        assert idle["predecessor"] > 0 and "waiting for earlier tasks" in e.explain()


def test_device_tasks_that_follow_one_another_are_explained():
    @pypto.frontend.jit
    def rows(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
        pypto.set_vec_tile_shapes(1, 64)
        for i in pypto.loop(x.shape[0]):
            pypto.assemble(pypto.exp(pypto.view(x, [1, 64], [i, 0])), [i, 0], y)
    many, few = (pypto.estimate(rows, spec(n, 64), spec(n, 64)) for n in (300, 100))
    assert many.device_tasks == 3 and "3 device tasks run one after another" in many.explain()
    assert few.device_tasks == 1 and "one after another" not in few.explain()


def test_arguments_that_are_read_again():
    @pypto.frontend.jit(pass_options={"cube_l1_reuse_setting": {-1: 1}})
    def product(x: pypto.Tensor([], F16), w: pypto.Tensor([], F16), y: pypto.Tensor([], F32)):
        pypto.set_cube_tile_shapes([64, 64], [64, 64], [128, 128])
        y[:] = pypto.matmul(x, w, F32)
    # 4 x 2 output tiles: x is read twice, w four times, both are 32 KiB
    again = pypto.estimate(product, spec(256, 64, dtype=F16), spec(64, 256, dtype=F16), spec(256, 256))
    assert "Tasks read every byte of the arguments 3.0 times on average" in again.explain()
    once = pypto.estimate(product, spec(64, 64, dtype=F16), spec(64, 128, dtype=F16), spec(64, 128))
    assert "every byte of the arguments" not in once.explain()


@pypto.frontend.jit
def shared_tiles(x: pypto.Tensor(), w: pypto.Tensor(), out: pypto.Tensor(), other: pypto.Tensor()):
    pypto.set_vec_tile_shapes(16, 64)
    pypto.set_cube_tile_shapes([64, 64], [64, 64], [64, 64])
    y = pypto.matmul(x, w, F32)
    pypto.set_vec_tile_shapes(64, 64)
    out[:] = pypto.exp(y)
    pypto.set_vec_tile_shapes(16, 64)
    other[:] = pypto.sum(y, 0, True)


@pytest.mark.parametrize("model", ["calibrated", "official"])
def test_a_tile_that_several_tasks_read_is_written_once(model):
    b = pypto.estimate(shared_tiles, spec(64, 64), spec(64, 64), spec(64, 64), spec(1, 64), model=model).breakdown
    assert len(b.crossings) > 1
    read, written = sum(c.read_bytes for c in b.crossings), sum(c.write_bytes for c in b.crossings)
    assert read + written - b.fusable_bytes == 64 * 64 * 4


def test_writes_of_one_window_in_an_unrolled_loop_all_count():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(4, 64)
        for i in pypto.loop(64, unroll_list=[4]):
            pypto.assemble(pypto.view(x, [4, 64], [i * 4, 0]) * 2.0, [0, 0], out)

    found = pypto.estimate(kernel, spec(256, 64), spec(256, 64))
    written = {t.name: t.write_bytes for t in found.breakdown.tensors}
    assert found.gm_write_bytes == written["out"] == 64 * 4 * 64 * 4


@pytest.mark.parametrize("model", ["calibrated", "official"])
def test_tasks_that_do_not_wait_are_no_chain(model):
    @pypto.frontend.jit
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
        pypto.set_cube_tile_shapes([64, 64], [64, 64], [64, 64])
        c[:] = pypto.matmul(a, b, F32)

    found = pypto.estimate(kernel, spec(128, 64), spec(64, 128), spec(128, 128), model=model)
    assert found.bound_by != "dependencies"
