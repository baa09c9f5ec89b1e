"""Cost of every launch in a block of user code, beside its numerics."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from ..config import active
from ..device import Device
from ..errors import PyptoError, PyptoRuntimeError, PyptoValueError
from ..result.estimate import Estimate
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
    default the configured one.
    `prof.launches[i].estimate` is the cost with the values the launch really had; `prof.time_us` adds them up.
    """

    def __init__(self, device: str | os.PathLike[str] | None = None, model: str | None = None) -> None:
        model = active().model if model is None else model
        if model not in MODELS:
            raise PyptoValueError(f"model must be one of {', '.join(MODELS)}, got {model!r}")
        self.device = None if device is None else Device.load(device)
        self.model = model
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
            seen._estimate = cost_of(launch.program, launch.kernel, launch.int_data, device, self.model)
        except PyptoError as error:
            seen.error = error
        self.launches.append(seen)

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
