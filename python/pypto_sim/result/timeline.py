"""When each task of a launch runs, on which core and pipe; swim.json and a trace for Perfetto."""
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_TASKS, MOST_TILE_OPS = 20_000, 100_000      # of one file; the rest is counted and named in it
PROCESS, FLOW, HUB_TRACK = "Machine View", "machine-view-last-dep", "Fake Core_0"
COLORS = {"AIC": "thread_state_running", "AIV": "rail_response", "HUB": "generic_work"}
INSTANCE = 20                                    # bits of a task id below its instance number
PIPES = ("MTE_IN", "MTE1", "CUBE", "VECTOR_ALU", "MTE_OUT", "PIPE_S")
FILES = ("merged_swimlane.json", "swim.json", "pipe.swim.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class TileOp:
    """One tile operation. pipe: "MTE_IN", "MTE1", "CUBE", "VECTOR_ALU", "MTE_OUT" or "PIPE_S"; start, end: cycles after
    the start of its task."""

    name: str
    pipe: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """Work that tasks share. core: "AIC", "AIV" or "HUB"; ops: operations of the kernel in it; label: semantic label;
    line: first "file:line"; cycles: from start to end; inputs, outputs: tiles loaded and stored; tile_ops: in the order
    of the core."""

    core: str
    ops: str
    label: str
    line: str
    cycles: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tile_ops: tuple[TileOp, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One execution. device_task: number of the DeviceTask; task_id: instance of the root function and number in it;
    root, leaf, sub_graph: numbers, -1 where a hub has none; core: AIC first, then AIV, -1 for a hub; start, end:
    cycles; last: place of the task it waited for longest, -1 for none."""

    device_task: int
    task_id: int
    root: int
    leaf: int
    sub_graph: int
    core: int
    start: int
    end: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Schedule of one launch. aic, aiv: cores of the chip; cycles_per_us: clock of the cycles; launch_us: time before
    cycle 0; tasks: by DeviceTask and id, hubs included; tasks_left_out: tasks that start later than all that are kept.
    """

    aic: int
    aiv: int
    cycles_per_us: float
    launch_us: float
    leaves: tuple[Leaf, ...]
    tasks: tuple[Task, ...]
    tasks_left_out: int

    @staticmethod
    def of(found: Mapping[str, Any]) -> Timeline:
        """From the core's record."""
        pipes = found["pipes"]
        leaves = tuple(
            Leaf(core=one["core"], ops=one["ops"], label=one["label"], line=one["line"], cycles=one["cycles"],
                 inputs=tuple(one["inputs"]), outputs=tuple(one["outputs"]),
                 tile_ops=tuple(TileOp(name=name, pipe=pipes[pipe], start=start, end=end)
                                for (pipe, start, end), name in zip(one["timings"], one["names"], strict=True)))
            for one in found["leaves"])
        tasks = tuple(
            Task(device_task=d, task_id=instance << INSTANCE | number, root=root, leaf=leaf, sub_graph=sub_graph,
                 core=core, start=start, end=end, last=last)
            for d, instance, number, root, leaf, sub_graph, core, start, end, last in found["tasks"])
        return Timeline(aic=found["aic"], aiv=found["aiv"], cycles_per_us=found["cycles_per_us"],
                        launch_us=found["launch_us"], leaves=leaves, tasks=tasks,
                        tasks_left_out=found["tasks_left_out"])

    def core_name(self, core: int) -> str:
        """Such as "AIC_3" or "AIV_24"; numbers run over both kinds."""
        return f"{self.core_type(core)}_{core}"

    def core_type(self, core: int) -> str:
        """ "AIC" or "AIV"."""
        return "AIC" if core < self.aic else "AIV"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedLaunch:
    """A launch on the common clock of a file. start_us: when it begins; time_us: how long it takes."""

    kernel: str
    timeline: Timeline
    start_us: float
    time_us: float
    first_device_task: int

    def us(self, cycle: int) -> float:
        """Time of a cycle of this launch, rounded to 0.1 ns."""
        return round(self.start_us + self.timeline.launch_us + cycle / self.timeline.cycles_per_us, 4)


def in_a_row(launches: Sequence[tuple[str, float, Timeline]]) -> list[TimedLaunch]:
    """(kernel, time_us, timeline) per launch, one after the other."""
    out, now, device_tasks = [], 0.0, 0
    for kernel, time_us, timeline in launches:
        out.append(TimedLaunch(kernel=kernel, timeline=timeline, start_us=now, time_us=time_us,
                               first_device_task=device_tasks))
        now += time_us
        device_tasks += 1 + max((t.device_task for t in timeline.tasks), default=-1)
    return out


def swim(launches: Sequence[TimedLaunch]) -> list[dict[str, Any]]:
    """swim.json: per core its tasks in order of start. execStart and execEnd count cycles of the model's clock from the
    first launch on; completeSeq is the place in the order of completion."""
    ended = sorted((one.us(t.end), place, number) for place, one in enumerate(launches)
                   for number, t in enumerate(one.timeline.tasks) if t.core >= 0)
    order = {(place, number): rank for rank, (_, place, number) in enumerate(ended)}
    cores: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for place, one in enumerate(launches):
        shift = _shift(one)
        for number, t in enumerate(one.timeline.tasks):
            if t.core >= 0:
                cores.setdefault((one.timeline.core_type(t.core), t.core), []).append({
                    "taskId": t.task_id, "seqNo": one.first_device_task + t.device_task, "subGraphId": t.sub_graph,
                    "execStart": shift + t.start, "execEnd": shift + t.end, "completeSeq": order[place, number]})
    return [{"blockIdx": core, "coreType": kind, "tasks": sorted(tasks, key=lambda t: t["execStart"])}
            for (kind, core), tasks in sorted(cores.items(), key=lambda item: item[0][1])]


def pipe_swim(launches: Sequence[TimedLaunch]) -> list[dict[str, Any]]:
    """pipe.swim.json: per core and pipe the tile operations in order of start."""
    cores: dict[tuple[str, int], dict[str, list[dict[str, Any]]]] = {}
    for one, t, op in _tile_ops(launches):
        begin = _shift(one) + t.start
        logs = cores.setdefault((one.timeline.core_type(t.core), t.core), {})
        logs.setdefault(op.pipe, []).append({"execStart": begin + op.start, "execEnd": begin + op.end,
                                             "tileOp": op.name})
    return [{"blockIdx": core, "coreType": kind,
             "pipeLogs": {pipe: sorted(log, key=lambda entry: entry["execStart"]) for pipe, log in logs.items()}}
            for (kind, core), logs in sorted(cores.items(), key=lambda item: item[0][1])]


def swimlane(launches: Sequence[TimedLaunch]) -> dict[str, Any]:
    """merged_swimlane.json, a Chrome trace: one track per core and one per pipe of it, arrows from the task that was
    waited for longest, counters of busy cores. Times are microseconds."""
    events: list[dict[str, Any]] = [_meta("process_name", 0, PROCESS)]
    tracks: dict[str, int] = {}
    if len(launches) > 1:
        track = _track(events, tracks, "Launches", -1)
        events += [{"name": one.kernel, "ph": "X", "pid": 1, "tid": track, "ts": round(one.start_us, 4),
                    "dur": round(one.time_us, 4), "args": {}} for one in launches]
    flow = 0
    for one in launches:
        t0 = one.timeline
        cores = sorted({t.core for t in t0.tasks if t.core >= 0})
        track_of = {core: _track(events, tracks, t0.core_name(core), core * 16) for core in cores}
        if any(t.core < 0 for t in t0.tasks):
            track_of[-1] = _track(events, tracks, HUB_TRACK, (t0.aic + t0.aiv) * 16)
        for t in t0.tasks:
            events.append(_task_event(one, t, track_of[t.core]))
            if t.last >= 0:
                before = t0.tasks[t.last]
                link = {"cat": FLOW, "name": FLOW, "id": flow, "pid": 1}
                events.append({**link, "ph": "s", "tid": track_of[before.core], "ts": one.us(before.end)})
                events.append({**link, "ph": "f", "bp": "e", "tid": track_of[t.core], "ts": one.us(t.start)})
                flow += 1
        events += _counters(one)
    shown = 0
    for one, t, op in _tile_ops(launches):
        name = one.timeline.core_name(t.core)
        pipe = PIPES.index(op.pipe)
        track = _track(events, tracks, f"{name} {op.pipe}", t.core * 16 + 1 + pipe)
        start = t.start + op.start
        events.append({"name": op.name, "ph": "X", "pid": 1, "tid": track, "ts": one.us(start),
                       "dur": round((op.end - op.start) / one.timeline.cycles_per_us, 4),
                       "args": {"cycles": op.end - op.start, "taskId": t.task_id}})
        shown += 1
    total = sum(len(one.timeline.leaves[t.leaf].tile_ops)
                for one in launches for t in one.timeline.tasks if t.core >= 0)
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {
        "tasks_left_out": sum(one.timeline.tasks_left_out for one in launches), "tile_ops_left_out": total - shown,
        "left_out": "tasks that start last, and tile operations of the tasks that start last"}}


def write(folder: str | Path, launches: Sequence[tuple[str, float, Timeline]]) -> list[Path]:
    """Write merged_swimlane.json, swim.json and pipe.swim.json of (kernel, time_us, timeline) per launch."""
    timed = in_a_row(launches)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    paths = [target / name for name in FILES]
    for path, content in zip(paths, (swimlane(timed), swim(timed), pipe_swim(timed)), strict=True):
        path.write_text(json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n", encoding="utf-8")
    return paths


def _shift(one: TimedLaunch) -> int:
    return round((one.start_us + one.timeline.launch_us) * one.timeline.cycles_per_us)


def _tile_ops(launches: Sequence[TimedLaunch]) -> Iterator[tuple[TimedLaunch, Task, TileOp]]:
    """Tile operations of whole tasks, in the order in which tasks start, at most MOST_TILE_OPS."""
    left = MOST_TILE_OPS
    for one in launches:
        for t in sorted((t for t in one.timeline.tasks if t.core >= 0), key=lambda t: t.start):
            ops = one.timeline.leaves[t.leaf].tile_ops
            left -= len(ops)
            if left < 0:
                return
            for op in ops:
                yield one, t, op


def _meta(kind: str, track: int, name: str | int) -> dict[str, Any]:
    value = {"sort_index": name} if kind == "thread_sort_index" else {"name": name}
    return {"name": kind, "ph": "M", "pid": 1, "tid": track, "args": value}


def _track(events: list[dict[str, Any]], tracks: dict[str, int], name: str, place: int) -> int:
    """Number of a track; the first use adds its name and its place from top to bottom."""
    if name not in tracks:
        tracks[name] = len(tracks) + 1
        events += [_meta("thread_name", tracks[name], name), _meta("thread_sort_index", tracks[name], place)]
    return tracks[name]


def _task_event(one: TimedLaunch, t: Task, track: int) -> dict[str, Any]:
    hub = t.leaf < 0
    leaf = None if hub else one.timeline.leaves[t.leaf]
    sequence = one.first_device_task + t.device_task
    name = f"{sequence}-{t.root}-{t.task_id}-{t.leaf}-{t.sub_graph}"
    label = "hub" if leaf is None else leaf.label or leaf.ops
    kind = "HUB" if leaf is None else leaf.core
    return {"name": f"{name}({label})", "ph": "X", "cat": "event", "pid": 1, "tid": track, "ts": one.us(t.start),
            "dur": round((t.end - t.start) / one.timeline.cycles_per_us, 4), "cname": COLORS[kind], "args": {
                "event-hint": f"Task:[{name}], kernel:{one.kernel}" + (f", ops:{leaf.ops}, at:{leaf.line}" if leaf
                                                                       else ""),
                "ioperand-hint": list(leaf.inputs) if leaf else [], "ooperand-hint": list(leaf.outputs) if leaf else [],
                "execution-hint": f"{t.end - t.start} cycles, from {t.start} to {t.end}", "color": COLORS[kind],
                "taskId": t.task_id, "seqNo": sequence}}


def _counters(one: TimedLaunch) -> list[dict[str, Any]]:
    """Busy cores of each type, one event per change."""
    out = []
    for kind in ("AIC", "AIV"):
        steps: dict[int, int] = {}
        for t in one.timeline.tasks:
            if t.core >= 0 and one.timeline.core_type(t.core) == kind:
                steps[t.start] = steps.get(t.start, 0) + 1
                steps[t.end] = steps.get(t.end, 0) - 1
        busy = 0
        for cycle in sorted(steps):
            busy += steps[cycle]
            out.append({"name": f"busy {kind}", "ph": "C", "pid": 1, "ts": one.us(cycle), "args": {"cores": busy}})
    return out
