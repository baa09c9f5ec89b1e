"""Where the cost of a launch comes from."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKind:
    """Tasks that run the same leaf function.

    core: "AIC" or "AIV"; ops: operations of the kernel in it; label: semantic label; line: first "file:line"; count:
    executions; cycles: from start to end of one of them; pipe_busy_cycles, peak_bytes, gm_read_bytes, gm_write_bytes,
    spill_bytes: of one.
    """

    core: str
    ops: str
    label: str
    line: str
    count: int
    cycles: int
    pipe_busy_cycles: Mapping[str, int] = field(hash=False)
    peak_bytes: Mapping[str, int] = field(hash=False)
    gm_read_bytes: int
    gm_write_bytes: int
    spill_bytes: int

    @property
    def busiest_pipe(self) -> str:
        """The pipe that works longest in one execution, "" if none does."""
        return max(self.pipe_busy_cycles, key=lambda p: self.pipe_busy_cycles[p], default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """An intermediate tensor that tasks write to global memory and other tasks read back.

    source, target: operations that make and use it, with their lines; reason: why they are not one task; tiles: copies
    out; write_bytes, read_bytes: traffic of the launch, what a fusion of the two would save at most.
    """

    source: str
    source_line: str
    target: str
    target_line: str
    reason: str
    tiles: int
    write_bytes: int
    read_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTraffic:
    """Traffic of an argument or slot. size_bytes: of the tensor; read_bytes above it means that tasks read it again."""

    name: str
    kind: str
    size_bytes: int
    read_bytes: int
    write_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Kinds of tasks, largest share of core time first; tensors between tasks, most traffic first; fusable_bytes:
    traffic of all of these, a tile that several tasks read written once; arguments and slots;
    idle_cycles: core cycles beside the tasks' own work, by what the core waits for ("predecessor", "schedule",
    "bandwidth", "no_task"); capacity_bytes: of the on-chip memories."""

    task_kinds: tuple[TaskKind, ...] = ()
    task_kinds_left_out: int = 0
    crossings: tuple[Crossing, ...] = ()
    crossings_left_out: int = 0
    fusable_bytes: int = 0
    tensors: tuple[TensorTraffic, ...] = ()
    idle_cycles: Mapping[str, int] = field(default_factory=dict, hash=False)
    capacity_bytes: Mapping[str, int] = field(default_factory=dict, hash=False)

    @staticmethod
    def of(found: Mapping[str, Any]) -> Breakdown:
        """From the core's record."""
        return Breakdown(
            task_kinds=tuple(TaskKind(**k) for k in found["task_kinds"]),
            task_kinds_left_out=found["task_kinds_left_out"],
            crossings=tuple(Crossing(source=c["from"], source_line=c["from_line"], target=c["to"],
                                     target_line=c["to_line"], reason=c["reason"], tiles=c["tiles"],
                                     write_bytes=c["write_bytes"], read_bytes=c["read_bytes"])
                            for c in found["crossings"]),
            crossings_left_out=found["crossings_left_out"], fusable_bytes=found["fusable_bytes"],
            tensors=tuple(TensorTraffic(**t) for t in found["tensors"]),
            idle_cycles=dict(found.get("idle_cycles", {})), capacity_bytes=dict(found.get("capacity_bytes", {})))

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for json."""
        return asdict(self)


Rows = Sequence[tuple[str, ...]]
TASK_HEADINGS = ("tasks", "core", "operations", "line", "cycles each", "share", "busiest pipe", "read", "written")
CROSSING_HEADINGS = ("from", "to", "written", "read back", "why it crosses global memory")
TENSOR_HEADINGS = ("tensor", "kind", "size", "read", "written", "reads per byte")


def task_rows(b: Breakdown, size: Any) -> Rows:
    """Cells under TASK_HEADINGS; `size` turns bytes into text."""
    total = sum(k.cycles * k.count for k in b.task_kinds) or 1
    return [(str(k.count), k.core, k.label and f"{k.ops} ({k.label})" or k.ops, k.line, str(k.cycles),
             f"{100 * k.cycles * k.count / total:.0f} %",
             f"{k.busiest_pipe} {100 * k.pipe_busy_cycles[k.busiest_pipe] / max(k.cycles, 1):.0f} %"
             if k.busiest_pipe else "-", size(k.gm_read_bytes), size(k.gm_write_bytes)) for k in b.task_kinds]


def crossing_rows(b: Breakdown, size: Any) -> Rows:
    """Cells under CROSSING_HEADINGS."""
    return [(f"{c.source} ({c.source_line})", f"{c.target} ({c.target_line})", size(c.write_bytes), size(c.read_bytes),
             c.reason) for c in b.crossings]


def tensor_rows(b: Breakdown, size: Any) -> Rows:
    """Cells under TENSOR_HEADINGS."""
    return [(t.name, t.kind, size(t.size_bytes), size(t.read_bytes), size(t.write_bytes),
             f"{t.read_bytes / t.size_bytes:.1f}" if t.size_bytes else "-") for t in b.tensors]
