"""Cost-only runs: plan a traced kernel and predict its cost. No tensor data is allocated."""
from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from .. import _core
from ..config import active, config
from ..device import Device
from ..errors import CapacityError, NeedsData, PyptoTypeError, PyptoValueError, PyptoWarning
from ..result.breakdown import Breakdown
from ..result.estimate import CORES, MEMORIES, PIPES, Estimate
from ..result.timeline import MOST_TASKS, Timeline
from ..rules import message
from ..trace.faults import raise_core_error
from ..trace.session import warn
from .arrays import Argument, Spec
from .assumed import assumed_values
from .error_band import error_band, error_medians
from .jit import Kernel
from .launch import fresh
from .limits import limits_of

MODELS = ("calibrated", "official")
EXPLAIN_SECONDS = 3.0    # for the largest tiles in an explanation


def estimate(kernel: Any, *args: Any, device: str | os.PathLike[str] | None = None, model: str | None = None,
             assume: Mapping[str, Any] | None = None, timeline: bool = False, **scalars: Any) -> Estimate:
    """Predict what `kernel(*args)` costs, without running it.

    Parameters
    ----------
    kernel: a jit kernel. args: arrays or `pypto.Spec(shape, dtype)`, then the kernel's scalars; integer arguments with
    data may decide loop bounds and conditions.
    device: name or .toml path. model: "calibrated" or "official". Default of both: the configured one.
    assume: {scalar name, "file:line" or line: value or (low, high)} for values that a cost-only run cannot know; of a
    range the middle is used. timeline: also keep when each task runs (`Estimate.timeline`, `write_timeline`), of at
    most 20,000 tasks. scalars: the kernel's scalars by keyword.

    Returns
    -------
    Estimate.

    Raises
    ------
    NeedsData: a bound or condition depends on data that is not there; it names the scalar and the line.
    CapacityError: a tile does not fit an on-chip memory. PyptoValueError: unknown model or device.
    """
    if not isinstance(kernel, Kernel):
        raise PyptoTypeError(f"estimate: expected a kernel made by pypto.frontend.jit, got {type(kernel).__name__}")
    table = Device.load(active().device if device is None else device)
    with config(**({} if device is None else {"device": str(table.path) if table.kind == "user" else table.name})):
        traced = kernel.program(*args, **scalars)
    if device is None:
        table = Device.load(traced.config.device)
    for found in traced.findings:
        if found.severity == "warn":
            warn(found)
    try:
        found = cost_of(traced.program, traced.kernel, int_data(traced.arguments), table, model or traced.config.model,
                        assume, timeline)
    except _core.TrapReached as reached:     # the kernel raises on the path that these sizes take
        raise fresh(traced.trapped[reached.args[0]]) from None
    for text in found.assumptions:
        if text.startswith("a window starts outside of"):
            warnings.warn(f"estimate of kernel `{traced.kernel}`: {text}; running it is refused", PyptoWarning,
                          stacklevel=2)
    lean, scalars = [_without_data(a) for a in args], {k: _without_data(v) for k, v in scalars.items()}
    return replace(found, limits=cache(lambda: limits_of(
        lambda: estimate(kernel, *lean, device=device, model=model, assume=assume, **scalars), EXPLAIN_SECONDS)))


def _without_data(value: Any) -> Any:
    """An argument that holds no more than an estimate needs: arrays other than of integers by shape and type."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in "iub":
        return Spec(value.shape, value.dtype)
    return value


def int_data(arguments: Sequence[Argument]) -> list[np.ndarray | None]:
    """Data of the integer arguments, None for the others: what a cost-only run may read."""
    return [a.array if a.array is not None and a.array.dtype.kind in "iub" else None for a in arguments]


def cost_of(program: Any, kernel: str, data: Sequence[np.ndarray | None], device: Device, model: str = "calibrated",
            assume: Mapping[str, Any] | None = None, timeline: bool = False) -> Estimate:
    """Estimate of a finished core Program; `data` as of `int_data`, in the Program's argument order."""
    return build(core_result(program, kernel, data, device, model, assume, timeline), device, model)


def core_result(program: Any, kernel: str, data: Sequence[np.ndarray | None], device: Device, model: str,
                assume: Mapping[str, Any] | None, timeline: bool = False) -> dict[str, Any]:
    """What the core found, with the details that reports and tools read."""
    if model not in MODELS:
        raise PyptoValueError(f"model must be one of {', '.join(MODELS)}, got {model!r}")
    try:
        return _core.plan_and_cost(program, device.numbers(), model, _views(data), assumed_values(assume, program),
                                   MOST_TASKS if timeline else 0)
    except _core.CoreError as error:
        _raise(error, kernel)


def public_record(program: Any, kernel: str, data: Sequence[np.ndarray | None]) -> dict[str, Any]:
    """Fields that the public 0.2.0 simulator reports of a run, with its counting: padded tiles, L0C tiles as fp32."""
    try:
        return _core.official_record(program, _views(data), {})
    except _core.CoreError as error:
        _raise(error, kernel)


def _views(data: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
    return [None if d is None else np.ascontiguousarray(d).reshape(-1).view(np.uint8) for d in data]


def build(found: Mapping[str, Any], device: Device, model: str) -> Estimate:
    """Estimate from what the core found."""
    inferred = []
    for key in found["device_keys"]:
        if key.startswith(("bandwidth.mte1_", "bandwidth.nd_row")) and not found["pipe_busy_cycles"].get("MTE1"):
            continue                         # the core reads it before it knows that no task loads into L0
        entry = device.entries.get(_entry_of(key, device))
        if entry is not None and (entry.confidence.startswith(("inferred", "assumed"))
                                  or "fit" in entry.confidence):
            inferred.append(f"{_entry_of(key, device)} = {entry.value} ({entry.confidence})")
    return Estimate(
        **{name: found[name] for name in (
            "time_us", "cycles", "core_span_cycles", "launches", "device_tasks", "root_functions", "leaf_functions",
            "gm_read_bytes", "gm_write_bytes", "hbm_read_bytes", "hbm_write_bytes", "l2_hit_bytes", "spill_bytes",
            "workspace_bytes", "bound_by")},
        tasks=_frozen(found["tasks"], CORES), peak_bytes=_frozen(found["peak_bytes"], MEMORIES),
        pipe_busy_cycles=_frozen(found["pipe_busy_cycles"], PIPES), device=device.name, model=model,
        error_band=error_band(model, device.chip, found["detail"]["ops"], own_table=device.kind == "user"),
        error_medians=MappingProxyType(error_medians(model, device.chip, found["detail"]["ops"])),
        unmodelled=tuple(found["unmodelled"]), assumptions=tuple(found["assumptions"]),
        assumed_numbers=tuple(dict.fromkeys(inferred)),
        breakdown=Breakdown.of(found["breakdown"]) if "breakdown" in found else Breakdown(),
        timeline=Timeline.of(found["timeline"]) if "timeline" in found else None)


def _frozen(values: Mapping[str, int], keys: Sequence[str]) -> Mapping[str, int]:
    return MappingProxyType({k: values.get(k, 0) for k in keys})


def _entry_of(key: str, device: Device) -> str:
    return key if key in device.entries else key.rpartition(".")[0]


def _raise(error: _core.CoreError, kernel: str) -> NoReturn:
    code, text, line = (*error.args, "", "", "")[:3]
    if code == "needs_data":
        raise NeedsData(message(text, line, kernel), line=line, kernel=kernel) from None
    if code == "trap":
        raise _core.TrapReached(int(text)) from None
    if code == "usage":
        raise PyptoValueError(text) from None
    if code != "capacity":
        raise_core_error(error, kernel)
    f = json.loads(text)
    live = tuple((x["name"], tuple(x["shape"]), x["bytes"]) for x in f["live"])
    shown = ", ".join(f"{name} {list(shape)} {size} B" if shape else f"{name} {size} B" for name, shape, size in live)
    fits = f" Largest tile that fits: {tuple(f['fits'])}." if f["fits"] and f["fits"] != f["tile"] else ""
    pieces = f" Free room is in pieces, the largest {f['largest_gap']} B." if f["largest_gap"] >= 0 else ""
    raise CapacityError(message(f"{f['op']}: tile {tuple(f['tile'])} needs {f['bytes']} B of {f['memory']}, which has "
                                f"{f['limit']} B. Live: {shown}.{pieces}{fits}", line, kernel),
                        op=f["op"], tile=tuple(f["tile"]), bytes=f["bytes"], limit=f["limit"], memory=f["memory"],
                        live=live, rule="capacity", line=line, kernel=kernel) from None
