"""Streams and events of `torch.npu`: work is done when it is called."""
from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from .device import NpuDevice, placed
from .factories import as_npu

_local = threading.local()


class Stream:
    """Order of work; here all work is done at once."""

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        self.device = NpuDevice(placed(as_npu(device)))
        self.device_index, self.priority = self.device.index, priority
        self.npu_stream = self.stream_id = id(self)

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Any = None) -> Event:
        """Record an event now."""
        made = Event() if event is None else event
        made.record(self)
        return made

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """True: everything is done."""
        return True

    def __enter__(self) -> Stream:
        self.__dict__.setdefault("entered", []).append(current_stream())
        set_stream(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        set_stream(self.__dict__["entered"].pop())


class Event:
    """A moment; elapsed_time is this computer's, not the device's."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                 external: bool = False) -> None:
        self.enable_timing, self.at = enable_timing, None

    def record(self, stream: Any = None) -> None:
        """Note the time."""
        self.at = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """True: everything is done."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds on this computer. Raises RuntimeError unless both events have timing and were recorded."""
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("both events must be created with enable_timing=True")
        if self.at is None or end_event.at is None:
            raise RuntimeError("both events must be recorded before calculating elapsed time")
        return (end_event.at - self.at) * 1e3


ExternalEvent = Event
ExternalStream = Stream


def current_stream(device: Any = None) -> Stream:
    """Stream of this thread."""
    found = getattr(_local, "stream", None)
    if found is None:
        found = _local.stream = default_stream()
    return found


def default_stream(device: Any = None) -> Stream:
    """The stream that is there from the beginning."""
    if not hasattr(_local, "default"):
        _local.default = Stream()
    return _local.default


def set_stream(stream: Stream) -> None:
    """Make a stream the current one of this thread."""
    _local.stream = stream


def stream(stream: Stream | None) -> Any:
    """`with torch.npu.stream(s):`."""
    return contextlib.nullcontext() if stream is None else stream


class StreamContext:
    """`with torch.npu.StreamContext(s):`."""

    def __new__(cls, stream: Stream | None) -> Any:
        return contextlib.nullcontext() if stream is None else stream
