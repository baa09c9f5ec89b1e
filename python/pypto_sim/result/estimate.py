"""Predicted cost of one launch, or of several in a row."""
from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import PyptoValueError
from . import breakdown as parts
from .breakdown import Breakdown
from .timeline import Timeline, write

MEMORIES = ("UB", "L1", "L0A", "L0B", "L0C", "BT", "FB")
PIPES = ("MTE2", "MTE1", "CUBE", "FIX", "VEC", "MTE3", "SCALAR")
CORES = ("AIC", "AIV")
APART = ("breakdown", "timeline", "error_medians", "limits")     # fields that to_dict() leaves out

WHY = {
    "launch": "the fixed cost of a launch is larger than the work",
    "HBM": "data that was not on the chip before has to come from, or go to, HBM",
    "L2": "all cores together move more than L2 delivers",
    "dispatch": "handing out and collecting tasks, or the pause between device tasks, leaves the cores idle",
    "dependencies": "the longest chain of tasks that wait for each other takes most of the time while other cores idle",
    "tasks": "tasks that do not wait for each other, and over all cores no pipe is busy half of the time: some cores "
             "have fewer tasks than others, or loads, computation and stores within a task wait for each other",
    "MTE2": "loads from global memory", "MTE1": "loads from L1 into L0", "CUBE": "the cube unit",
    "FIX": "copies out of L0C", "VEC": "the vector unit", "MTE3": "stores to global memory",
    "SCALAR": "the scalar unit",
}

WAITS = {"predecessor": "waiting for earlier tasks", "schedule": "waiting for dispatch",
         "bandwidth": "waiting for L2 or HBM that the cores share", "no_task": "without a task"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a launch is predicted to cost.

    Parameters
    ----------
    time_us: from launch to the last task's end; cycles: the same in cycles of the chip's clock (model `official`: of
    its own simulator); core_span_cycles: first task start to last task end.
    launches: calls of the kernel; device_tasks: batches of root functions that the AICPU submits; root_functions and
    leaf_functions: distinct ones compiled; tasks: leaf executions per core type.
    gm_read_bytes, gm_write_bytes: tile copies between global memory and the cores, re-reads counted; hbm_read_bytes,
    hbm_write_bytes: the part that crosses HBM; l2_hit_bytes: the re-reads that L2 serves; spill_bytes: copies forced by
    a full UB or L1, part of the traffic above; workspace_bytes: intermediate tensors and slots in global memory.
    peak_bytes: largest occupancy of an on-chip memory within a task; pipe_busy_cycles: sum over all tasks.
    bound_by: what the time is spent on; device, model: what it was computed for; error_band: how far to trust it.
    unmodelled: what has no cost rule; assumptions: what was taken as given; assumed_numbers: device values in use that
    are inferred or fitted, not documented or measured directly. breakdown: kinds of tasks, tensors that cross global
    memory and why; timeline: when each task runs, where it was asked for; error_medians: median error of published
    times by kind of kernel, behind error_band; limits: finds the largest tile that fits at each place that sets one
    (a copy that was pickled has none); these four are not part of `to_dict()`.
    """

    time_us: float
    cycles: int
    core_span_cycles: int
    launches: int
    device_tasks: int
    root_functions: int
    leaf_functions: int
    tasks: Mapping[str, int] = field(hash=False)
    gm_read_bytes: int
    gm_write_bytes: int
    hbm_read_bytes: int
    hbm_write_bytes: int
    l2_hit_bytes: int
    spill_bytes: int
    workspace_bytes: int
    peak_bytes: Mapping[str, int] = field(hash=False)
    pipe_busy_cycles: Mapping[str, int] = field(hash=False)
    bound_by: str
    device: str
    model: str
    error_band: str
    unmodelled: tuple[str, ...]
    assumptions: tuple[str, ...]
    assumed_numbers: tuple[str, ...]
    breakdown: Breakdown = field(default_factory=Breakdown, repr=False)
    timeline: Timeline | None = field(default=None, repr=False)
    error_medians: Mapping[str, float] = field(default_factory=dict, repr=False, hash=False)
    limits: Callable[[], tuple[Any, ...]] | None = field(default=None, repr=False, compare=False)

    def write_timeline(self, folder: str | Path, kernel: str = "kernel") -> list[Path]:
        """Write merged_swimlane.json (Chrome trace, opens in Perfetto), swim.json and pipe.swim.json into a folder.

        Raises PyptoValueError when the estimate was made without timeline=True.
        """
        if self.timeline is None:
            raise PyptoValueError("this estimate has no timeline: use pypto.estimate(..., timeline=True)")
        return write(folder, [(kernel, self.time_us, self.timeline)])

    def to_dict(self) -> dict[str, Any]:
        """Plain dict with the fields in order, ready for json."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in APART}

    def rows(self) -> list[tuple[str, str]]:
        """(label, text) per line of the short table."""
        tasks = " + ".join(f"{self.tasks[c]} {c}" for c in CORES if self.tasks.get(c)) or "0"
        lines = [
            ("time", f"{self.time_us:.2f} us ({self.cycles} cycles), bound by {self.bound_by}"),
            ("tasks", f"{tasks} in {self.device_tasks} device task(s), {self.launches} launch(es)"),
            ("functions", f"{self.root_functions} root, {self.leaf_functions} leaf"),
            ("GM traffic", f"{_size(self.gm_read_bytes)} read, {_size(self.gm_write_bytes)} written"),
            ("HBM traffic", f"{_size(self.hbm_read_bytes)} read, {_size(self.hbm_write_bytes)} written; "
                            f"{_size(self.l2_hit_bytes)} of re-reads from L2"),
            ("workspace", _size(self.workspace_bytes) + (f", spills {_size(self.spill_bytes)}" if self.spill_bytes
                                                         else "")),
            ("peak", ", ".join(f"{m} {_size(self.peak_bytes[m])}" for m in MEMORIES if self.peak_bytes.get(m)) or "-"),
            ("busy cycles", ", ".join(f"{p} {self.pipe_busy_cycles[p]}" for p in PIPES if self.pipe_busy_cycles.get(p))
                            or "-"),
            ("model", f"{self.model} on {self.device}; {self.error_band}"),
        ]
        lines += [("unmodelled", text) for text in self.unmodelled]
        return lines

    def explain(self) -> str:
        """The table; what limits the kernel; idle cores, room on the chip and spills; the largest tile that fits at
        each place that sets one, for which the kernel is planned again; kinds of tasks; what crosses global memory and
        why; what was assumed and which numbers are inferred."""
        width = max(len(label) for label, _ in self.rows())
        out = [f"{label:<{width}}  {text}" for label, text in self.rows()]
        out += ["", f"Bound by {self.bound_by}: {WHY.get(self.bound_by, self.bound_by)}."]
        busiest = max(PIPES, key=lambda p: self.pipe_busy_cycles.get(p, 0))
        if self.pipe_busy_cycles.get(busiest):
            out.append(f"Busiest pipe over all tasks: {busiest} ({WHY[busiest]}).")
        read = [t for t in self.breakdown.tensors if t.kind == "argument" and t.read_bytes]
        if (once := sum(t.size_bytes for t in read)) and sum(t.read_bytes for t in read) >= 1.05 * once:
            out.append(f"Tasks read every byte of the arguments {sum(t.read_bytes for t in read) / once:.1f} times on "
                       "average.")
        if self.device_tasks > self.launches:
            out.append(f"{self.device_tasks} device tasks run one after another" + (
                ", each of as many root functions as stitch_function_max_num allows (128 by default): do more per loop "
                "iteration, or raise it in runtime_options." if self.model == "calibrated" else "."))
        found = self.limits() if self.limits is not None else ()
        out += self._idle() + self._room() + self._spills()
        if found:
            out += ["", "Tiles, all operations under a place planned with the same one:",
                    *(f"  - {limit}" for limit in found)]
        out += self._tables()
        for title, items in (("Assumed", self.assumptions),
                             ("Inferred or fitted among the device numbers that were read", self.assumed_numbers)):
            if items:
                out += ["", title + ":", *(f"  - {item}" for item in items)]
        return "\n".join(out)

    def _idle(self) -> list[str]:
        idle = {name: cycles for name, cycles in self.breakdown.idle_cycles.items() if cycles}
        if not idle:
            return []
        work = sum(k.cycles * k.count for k in self.breakdown.task_kinds)
        total = work + sum(idle.values())
        return [f"Core time: {100 * work / total:.0f} % tasks, " + ", ".join(
            f"{100 * cycles / total:.0f} % {WAITS[name]}" for name, cycles in idle.items()) + "."]

    def _room(self) -> list[str]:
        free = [(m, self.peak_bytes.get(m, 0), self.breakdown.capacity_bytes.get(m, 0)) for m in ("UB", "L1", "L0C")]
        room = [f"{memory} {_size(peak)} of {_size(limit)}" for memory, peak, limit in free
                if peak and limit >= 2 * peak]
        return [f"Room is left: the fullest task takes {', '.join(room)}."] if room else []

    def _spills(self) -> list[str]:
        found: dict[tuple[str, str], list[int]] = {}
        for k in self.breakdown.task_kinds:
            if k.spill_bytes:
                total = found.setdefault((k.ops, k.line), [0, 0])
                total[0] += k.count
                total[1] += k.count * k.spill_bytes
        return [f"Spills: {count} task(s) `{ops}` ({line}) move {_size(moved)} in all out of a full memory and back, "
                "for they hold more tiles at once than fit. A smaller tile avoids it where a task is one tile; "
                "where many tiles are merged into a task, fewer (cube_l1_reuse_setting, vec_nbuffer_setting) or larger "
                "ones do. An estimate tells whether that is faster."
                for (ops, line), (count, moved) in found.items()]

    def _tables(self) -> list[str]:
        out = []
        for title, headings, rows in self.tables():
            widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
            out += ["", title + ":"]
            out += ["  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
                    for row in (headings, *rows)]
        return out

    def tables(self, most: int = 10) -> list[tuple[str, tuple[str, ...], parts.Rows]]:
        """(title, headings, rows) of the breakdown, at most `most` rows each; tables without rows are left out."""
        b = self.breakdown
        fusable = f"; fusing all of it would save {_size(b.fusable_bytes)} at most" if b.crossings else ""
        found = [("Tasks by kind", parts.TASK_HEADINGS, parts.task_rows(b, _size), b.task_kinds_left_out),
                 ("Between tasks" + fusable, parts.CROSSING_HEADINGS, parts.crossing_rows(b, _size),
                  b.crossings_left_out),
                 ("Arguments and slots", parts.TENSOR_HEADINGS, parts.tensor_rows(b, _size), 0)]
        out = []
        for title, headings, rows, left_out in found:
            hidden = max(len(rows) - most, 0) + left_out
            if rows:
                out.append((title + (f" (and {hidden} more)" if hidden else ""), headings, rows[:most]))
        return out

    def __reduce__(self) -> Any:                 # the read-only mappings cannot be pickled as they are
        return _of_fields, ({f.name: getattr(self, f.name) if not isinstance(getattr(self, f.name), Mapping)
                             else dict(getattr(self, f.name)) for f in fields(self) if f.name != "limits"},)

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th style='text-align:left'>{html.escape(a)}</th><td style='text-align:left'>"
                        f"{html.escape(b)}</td></tr>" for a, b in self.rows())
        more = "".join(f"<details><summary>{html.escape(title)}</summary><table>{_html_rows(headings, rows)}</table>"
                       "</details>" for title, headings, rows in self.tables())
        return f"<table>{cells}</table>{more}"

    def __str__(self) -> str:
        return "\n".join(f"{label}: {text}" for label, text in self.rows())


def _html_rows(headings: tuple[str, ...], rows: parts.Rows) -> str:
    head = "".join(f"<th style='text-align:left'>{html.escape(h)}</th>" for h in headings)
    return f"<tr>{head}</tr>" + "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)


def _of_fields(values: Mapping[str, Any]) -> Estimate:
    return Estimate(**{k: MappingProxyType(v) if isinstance(v, dict) else v for k, v in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _size(count: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= 10 * scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"
