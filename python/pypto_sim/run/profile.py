"""Cost of every launch in a block of user code, beside its numerics."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config import active
from ..device import Device
from ..errors import PyptoError, PyptoRuntimeError, PyptoValueError
from ..result.estimate import Estimate
from ..result.timeline import write
from .estimate import MODELS, cost_of
from .launch import Launch, observers


@dataclass(slots=True)
class ProfiledLaunch:
    """One call of a kernel. mode: "replay" or "step"; findings: rules that fired; error: why there is no estimate."""

    kernel: str
    mode: str
    findings: list[Any]
    arguments: list[tuple[str, tuple[int, ...], str]]     # (name, shape, element type)
    error: PyptoError | None = None
    _estimate: Estimate | None = field(default=None, repr=False)

    @property
    def estimate(self) -> Estimate:
        """Its predicted cost. Raises what the planner raised, such as CapacityError."""
        if self._estimate is None:
            raise self.error or PyptoRuntimeError(f"launch of `{self.kernel}` has no estimate")
        return self._estimate


class profile:
    """`with pypto.profile(device="910b1") as prof:` - numerics and cost of every launch inside, of this thread.

    device: name or .toml path, default the one each launch is configured for; model: "calibrated" or "official",
    default the configured one; timeline: also keep when each task runs (`write_timeline`).
    `prof.launches[i].estimate` is the cost with the values the launch really had; `prof.time_us` adds them up.
    """

    def __init__(self, device: str | os.PathLike[str] | None = None, model: str | None = None,
                 timeline: bool = False) -> None:
        model = active().model if model is None else model
        if model not in MODELS:
            raise PyptoValueError(f"model must be one of {', '.join(MODELS)}, got {model!r}")
        self.device = None if device is None else Device.load(device)
        self.model = model
        self.timeline = timeline
        self.launches: list[ProfiledLaunch] = []

    def __enter__(self) -> profile:
        observers.list = [*getattr(observers, "list", ()), self._observe]
        return self

    def __exit__(self, *exc: object) -> None:
        observers.list = [o for o in observers.list if o != self._observe]

    def _observe(self, launch: Launch) -> None:
        device = self.device or Device.load(launch.config.device)
        seen = ProfiledLaunch(launch.kernel, launch.mode, list(launch.findings),
                              [(a.name, tuple(a.shape), a.dtype.name) for a in launch.arguments])
        try:
            seen._estimate = cost_of(launch.program, launch.kernel, launch.int_data, device, self.model,
                                     timeline=self.timeline)
        except PyptoError as error:
            seen.error = error
        self.launches.append(seen)

    def write_timeline(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write merged_swimlane.json (Chrome trace, opens in Perfetto), swim.json and pipe.swim.json of all launches in
        a row. Raises PyptoValueError without timeline=True, or what the planner raised for a launch."""
        if not self.timeline:
            raise PyptoValueError("this profile has no timelines: use pypto.profile(timeline=True)")
        found = [(one.kernel, one.estimate) for one in self.launches]
        return write(os.fspath(folder), [(kernel, e.time_us, e.timeline) for kernel, e in found if e.timeline])

    @property
    def time_us(self) -> float:
        """Sum over the launches."""
        return sum(one.estimate.time_us for one in self.launches)

    def rows(self) -> list[tuple[str, str]]:
        """(kernel, text) per launch."""
        return [(one.kernel, f"{one.estimate.time_us:.2f} us, bound by {one.estimate.bound_by}" if one.error is None
                 else f"no estimate: {one.error}") for one in self.launches]

    def __repr__(self) -> str:
        return f"<profile of {len(self.launches)} launch(es) on {self.device or 'the configured device'}>"
