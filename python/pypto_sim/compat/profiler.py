"""`torch_npu.profiler`: accepts what scripts set; nothing is recorded. `pypto-sim profile` predicts the cost."""
from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any


class ProfilerActivity(enum.Enum):
    """What the real profiler can record."""

    CPU = 0
    NPU = 1


class ProfilerLevel(enum.Enum):
    """Detail of the real profiler."""

    Level_none = "Level_none"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class _Word(str):
    """A setting by name."""


class _Words(type):
    def __getattr__(cls, name: str) -> _Word:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Word(name)


class AiCMetrics(metaclass=_Words):
    """Names of counters."""


class ExportType(metaclass=_Words):
    """Names of file forms."""


class ProfilerAction(enum.Enum):
    """What a step does."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class _ExperimentalConfig:
    """Settings of the real profiler, kept as attributes."""

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)


def schedule(*, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0,
             **options: Any) -> Callable[[int], ProfilerAction]:
    """Action per step; all steps do nothing."""
    return lambda step: ProfilerAction.NONE


def tensorboard_trace_handler(dir_name: Any = None, worker_name: Any = None, analyse_flag: bool = True,
                              **options: Any) -> Callable[[Any], None]:
    """A handler that is never called, since nothing is recorded."""
    return lambda profiler: None


class profile:
    """`with torch_npu.profiler.profile(...) as p: ... p.step()` - runs the block, records nothing."""

    def __init__(self, **settings: Any) -> None:
        self.settings, self.step_num = settings, 0

    def start(self) -> None:
        """Nothing is recorded."""

    def stop(self) -> None:
        """Nothing is recorded."""

    def step(self) -> None:
        """Count a step."""
        self.step_num += 1

    def add_metadata(self, key: str, value: str) -> None:
        """Nothing is recorded."""

    add_metadata_json = add_metadata

    def export_chrome_trace(self, output_path: str) -> None:
        """Says that there is no trace."""
        raise RuntimeError("the stand-in of torch_npu.profiler records nothing; `pypto-sim profile SCRIPT -o DIR` "
                           "writes the predicted timeline")

    def __enter__(self) -> profile:
        return self

    def __exit__(self, *exc: Any) -> None:
        return None


_KinetoProfile = profile
