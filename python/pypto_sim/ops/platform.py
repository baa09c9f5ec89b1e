"""`pypto.platform`: the architecture that kernels are built for."""
from __future__ import annotations

import difflib

from ..config import active, config
from ..device import Device
from ..errors import PyptoRuntimeError, PyptoValueError
from ..trace.context import running

ARCHITECTURES = {"A2A3": "DAV_2201", "950": "DAV_3510"}
DEVICES = {"DAV_2201": "910b1", "DAV_3510": "950pr"}      # what setting an architecture of another chip selects


class Platform:
    """The target. `npuarch` is "DAV_2201" for A2/A3 chips and "DAV_3510" for the 950."""

    @property
    def npuarch(self) -> str:
        """Architecture of the device in force; setting it selects a device of that architecture."""
        session = running()
        device = session.device if session is not None else Device.load(active().device)
        return ARCHITECTURES[device.chip]

    @npuarch.setter
    def npuarch(self, name: str) -> None:
        if name not in DEVICES:
            near = difflib.get_close_matches(str(name), DEVICES, n=1)
            hint = f"; did you mean {near[0]!r}" if near else ""
            allowed = " or ".join(map(repr, DEVICES))
            raise PyptoValueError(f"pypto.platform.npuarch must be {allowed}, got {name!r}{hint}")
        if running() is not None:
            raise PyptoRuntimeError("pypto.platform.npuarch is set outside kernels")
        if self.npuarch != name:
            config(device=DEVICES[name])

    def __repr__(self) -> str:
        return f"<pypto platform {self.npuarch}>"


platform = Platform()
