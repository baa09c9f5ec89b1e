"""Timelines of both models: against the estimate they belong to, and in the form of the public simulator's files."""
import json
import pickle
import warnings

import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.commands import profile as command
from pypto_sim.result import timeline as t

F16, F32 = pypto.DT_FP16, pypto.DT_FP32
MODELS = ("official", "calibrated")


@pypto.frontend.jit
def layer(x: pypto.Tensor([], F16), w: pypto.Tensor([], F16), y: pypto.Tensor([], F16)):
    pypto.set_cube_tile_shapes([128, 128], [64, 128], [128, 128])
    pypto.set_vec_tile_shapes(32, 128)
    a = pypto.exp(x)
    pypto.set_semantic_label("scores")
    y[:] = pypto.abs(pypto.matmul(a, w, F16))


@pypto.frontend.jit
def blocks(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32)):
    pypto.set_vec_tile_shapes(8, 64)
    for i in pypto.loop(x.shape[0] // 8):
        pypto.assemble(pypto.view(x, [8, 64], [i * 8, 0]) * 2.0, [i * 8, 0], y)


def spec(*shape, dtype=F16):
    return pypto.Spec(shape, dtype)


@pytest.fixture(scope="module", params=MODELS)
def found(request):
    return pypto.estimate(layer, spec(256, 256), spec(256, 512), spec(256, 512), model=request.param, timeline=True)


def test_only_when_asked_for():
    e = pypto.estimate(blocks, spec(64, 64, dtype=F32), spec(64, 64, dtype=F32))
    assert e.timeline is None
    with pytest.raises(ValueError, match="timeline=True"):
        e.write_timeline("anywhere")
    with pypto.profile() as prof:
        pass
    with pytest.raises(ValueError, match="timeline=True"):
        prof.write_timeline("anywhere")


def test_tasks_are_those_of_the_estimate(found):
    line = found.timeline
    assert line.tasks_left_out == 0
    run = [task for task in line.tasks if task.core >= 0]
    for kind in ("AIC", "AIV"):
        assert sum(line.core_type(task.core) == kind for task in run) == found.tasks[kind]
        assert all(line.leaves[task.leaf].core == kind for task in run if line.core_type(task.core) == kind)
    assert max(task.end for task in run) - min(task.start for task in run) == found.core_span_cycles
    assert max(task.device_task for task in run) + 1 == found.device_tasks
    assert len({task.root for task in run}) == found.root_functions
    assert "timeline" not in found.to_dict() and pickle.loads(pickle.dumps(found)) == found


def test_a_core_does_one_thing_at_a_time(found):
    line, busy = found.timeline, {}
    for task in line.tasks:
        if task.core >= 0:
            busy.setdefault(task.core, []).append((task.start, task.end))
    for spans in busy.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    for leaf in line.leaves:
        pipes = {}
        for op in leaf.tile_ops:
            assert 0 <= op.start < op.end <= leaf.cycles
            pipes.setdefault(op.pipe, []).append((op.start, op.end))
        for spans in pipes.values():
            spans.sort()
            assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))


def test_tasks_wait_for_what_they_read(found):
    line = found.timeline
    for task in line.tasks:
        if task.last >= 0:
            assert line.tasks[task.last].end <= task.start
    cube = [task for task in line.tasks if task.core >= 0 and line.core_type(task.core) == "AIC"]
    assert cube and all(task.last >= 0 for task in cube)          # products need exp's tiles


def test_busy_cycles_add_up(found):
    line = found.timeline
    total = sum(op.end - op.start for task in line.tasks if task.core >= 0 for op in line.leaves[task.leaf].tile_ops)
    assert total == sum(found.pipe_busy_cycles.values())


def test_files(found, tmp_path):
    trace, swim, pipes = (json.loads(path.read_text()) for path in found.write_timeline(tmp_path, "layer"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(t.FILES)
    # swim.json and pipe.swim.json
    assert sum(len(core["tasks"]) for core in swim) == sum(found.tasks.values())
    for core in swim:
        assert set(core) == {"blockIdx", "coreType", "tasks"} and core["coreType"] in ("AIC", "AIV")
        for task in core["tasks"]:
            assert set(task) == {"taskId", "seqNo", "subGraphId", "execStart", "execEnd", "completeSeq"}
            assert task["execStart"] < task["execEnd"]
    assert sorted(x["completeSeq"] for c in swim for x in c["tasks"]) == list(range(sum(found.tasks.values())))
    assert {(c["blockIdx"], c["coreType"]) for c in pipes} == {(c["blockIdx"], c["coreType"]) for c in swim}
    for core in pipes:
        assert set(core["pipeLogs"]) <= set(t.PIPES)
        for log in core["pipeLogs"].values():
            assert all(set(x) == {"execStart", "execEnd", "tileOp"} and x["execStart"] < x["execEnd"] for x in log)
    # merged_swimlane.json
    events = trace["traceEvents"]
    by = {kind: [e for e in events if e["ph"] == kind] for kind in "MXsfC"}
    assert len(events) == sum(map(len, by.values())) and all(by.values())
    assert [e["args"]["name"] for e in by["M"] if e["name"] == "process_name"] == ["Machine View"]
    names = {e["tid"]: e["args"]["name"] for e in by["M"] if e["name"] == "thread_name"}
    assert len(set(names.values())) == len(names)
    cores = {f"{c['coreType']}_{c['blockIdx']}" for c in swim}
    assert cores <= set(names.values())
    assert {f"{c['coreType']}_{c['blockIdx']} {pipe}" for c in pipes for pipe in c["pipeLogs"]} <= set(names.values())
    tasks = [e for e in by["X"] if names[e["tid"]] in cores]
    assert len(tasks) == sum(found.tasks.values())
    for e in tasks:
        assert e["name"].count("-") == 4 and e["name"].endswith(")") and e["dur"] > 0 and e["ts"] >= 0
        assert set(e["args"]) == {"event-hint", "ioperand-hint", "ooperand-hint", "execution-hint", "color", "taskId",
                                  "seqNo"}
    assert any("(scores)" in e["name"] for e in tasks)
    starts, ends = ({e["id"]: e for e in by[kind]} for kind in "sf")
    assert starts.keys() == ends.keys() and {e["cat"] for e in by["s"] + by["f"]} == {"machine-view-last-dep"}
    assert all(starts[i]["ts"] <= ends[i]["ts"] for i in starts)
    last = max(e["ts"] + e["dur"] for e in tasks)
    assert last <= found.time_us + 1e-3
    assert {e["name"] for e in by["C"]} == {"busy AIC", "busy AIV"}
    assert trace["otherData"]["tasks_left_out"] == trace["otherData"]["tile_ops_left_out"] == 0


@pytest.mark.parametrize("model", MODELS)
def test_hubs_have_a_track(model, tmp_path):
    e = pypto.estimate(layer, spec(256, 256), spec(256, 512), spec(256, 512), model=model, timeline=True)
    hubs = [task for task in e.timeline.tasks if task.core < 0]
    trace = json.loads(e.write_timeline(tmp_path)[0].read_text())["traceEvents"]
    (track,) = [x["tid"] for x in trace if x["name"] == "thread_name" and x["args"]["name"] == "Fake Core_0"]
    assert len([x for x in trace if x["ph"] == "X" and x["tid"] == track]) == len(hubs) > 0


@pytest.mark.parametrize("model", MODELS)
def test_huge_kernels_are_cut_off(model, monkeypatch, tmp_path):
    from pypto_sim.run import estimate as run
    monkeypatch.setattr(run, "MOST_TASKS", 300)
    monkeypatch.setattr(t, "MOST_TILE_OPS", 500)
    e = pypto.estimate(blocks, spec(4000, 64, dtype=F32), spec(4000, 64, dtype=F32), model=model, timeline=True)
    line = e.timeline
    assert e.tasks["AIV"] == 500 and len(line.tasks) == 300 and line.tasks_left_out == 200
    trace = json.loads(e.write_timeline(tmp_path)[0].read_text())
    assert trace["otherData"]["tasks_left_out"] == 200
    shown = sum("taskId" in x["args"] and "cycles" in x["args"] for x in trace["traceEvents"])
    assert 400 < shown <= 500 and shown + trace["otherData"]["tile_ops_left_out"] == 300 * 3


def test_launches_follow_each_other(tmp_path):
    x = np.ones((64, 64), np.float32)
    y = np.zeros_like(x)
    with pypto.profile(model="official", timeline=True) as prof:
        blocks(x, y)
        blocks(y, x)
    trace, swim, _ = (json.loads(path.read_text()) for path in prof.write_timeline(tmp_path))
    first = prof.launches[0].estimate
    rows = sorted((x for core in swim for x in core["tasks"]), key=lambda x: x["seqNo"])
    assert [x["seqNo"] for x in rows] == [0] * 8 + [1] * 8
    assert min(x["execStart"] for x in rows[8:]) >= first.cycles
    launches = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["name"] == "blocks"]
    assert [e["ts"] for e in launches] == [0, pytest.approx(first.time_us, abs=1e-3)]


def test_command_writes_the_timeline(tmp_path, capsys):
    script = tmp_path / "one.py"
    script.write_text("import numpy as np\nimport pypto_sim as pypto\n"
                      "@pypto.frontend.jit\ndef k(a: pypto.Tensor, b: pypto.Tensor):\n"
                      "    pypto.set_vec_tile_shapes(8, 64)\n    b[:] = pypto.exp(a)\n"
                      "x = np.ones((16, 64), np.float32)\nk(x, np.zeros_like(x))\n")
    from pypto_sim.cli import main
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["profile", str(script), "-o", str(tmp_path / "out"), "--model", "official"]) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"estimate.json", "report.md", *t.FILES}
    launches = json.loads((tmp_path / "out" / "estimate.json").read_text())["launches"]
    assert launches[0]["estimate"]["model"] == "official"
    assert "merged_swimlane.json" in capsys.readouterr().out and "swim.json" in command.HELP
