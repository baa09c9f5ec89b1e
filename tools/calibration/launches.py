"""One prediction: the launches of a row, the chip they run on, and the sum of their estimates."""
from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pypto_sim as pypto
from pypto_sim.device import Device

from .table import Row, Unpredictable

_CORES = re.compile(r"(\d+)\s*(AIC|AIV)\b")


@dataclass(frozen=True, slots=True)
class Launch:
    """A jit kernel and the `pypto.Spec` of its arguments, `count` times in a row.
    static: a hand-written kernel, one program per core, not tasks under the AICPU."""
    kernel: Any
    specs: Sequence[Any]
    count: int = 1
    static: bool = False


def by_hand(kernel: Any, specs: Sequence[Any], count: int = 1) -> Launch:
    """A launch of a hand-written kernel."""
    return Launch(kernel, specs, count, static=True)


@dataclass(frozen=True, slots=True)
class Chip:
    """What a tile rule may ask of the device."""
    name: str
    aic: int
    aiv: int
    ub: int
    l1: int
    l0c: int
    is_950: bool


@cache
def device_with(name: str, aic: int | None, aiv: int | None, warm: bool, static: bool = False) -> Device:
    """The device table with the row's core counts, and operands in L2 at the start where `warm`."""
    base = Device.load(name)
    if aic is None and aiv is None and not warm and not static:
        return base
    table = tomllib.loads(base.path.read_text(encoding="utf-8"))
    def entry(value: Any) -> dict[str, Any]:
        return {"value": value, "confidence": "documented", "source": "the row of the calibration table"}
    if aic:
        table["cores"]["aic"] = entry(aic)
    if aiv:
        table["cores"]["aiv"] = entry(aiv)
    if static:
        table.setdefault("planner", {})["static"] = entry(1)
    if warm:
        table.setdefault("planner", {})["warm"] = entry(1)
    return Device(table, base.path)


def cores_of(row: Row) -> tuple[int | None, int | None]:
    """(AIC, AIV) that the row states."""
    found = {kind: int(count) for count, kind in _CORES.findall(row.cores)}
    return found.get("AIC"), found.get("AIV")


def chip_of(row: Row) -> Chip:
    aic, aiv = cores_of(row)
    device = Device.load(row.device)
    return Chip(row.device, aic or int(device["cores.aic"]), aiv or int(device["cores.aiv"]),
                int(device["capacity.ub"]), int(device["capacity.l1"]), int(device["capacity.l0c"]),
                device.chip == "950")


def predict(row: Row, operators: dict[str, Callable[[Row, Chip], list[Launch]]]) -> float:
    """Microseconds of a row. Raises Unpredictable with the reason."""
    build = operators.get(row.operator)
    if build is None:
        raise Unpredictable(f"no kernel for operator {row.operator!r}")
    total = 0.0
    with warnings.catch_warnings(), pypto.config(profile="lenient", device=row.device):
        warnings.simplefilter("ignore")
        try:
            for launch in build(row, chip_of(row)):
                device = device_with(row.device, *cores_of(row), row.warm, launch.static)
                total += launch.count * estimate_on(launch.kernel, launch.specs, device).time_us
        except pypto.PyptoError as error:
            raise Unpredictable(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from None
    return total


def estimate_on(kernel: Any, specs: Sequence[Any], device: Device) -> Any:
    return pypto.estimate(kernel, *specs, device=device, model="calibrated")
