"""`torch.npu`: one device that does everything at once. Names as torch_npu has them."""
from __future__ import annotations

import contextlib
import sys
import threading
import time
import types
from typing import Any

import torch

from ..config import active
from ..device import Device
from . import formats, graphs
from .device import NpuDevice, current_index, placed, set_index
from .factories import as_npu, device_count

_local = threading.local()


def _index(value: Any) -> int:
    """Device number of an int, "npu:1" or a device. Raises RuntimeError for anything else."""
    return placed(as_npu(value))


# --- devices
def is_available() -> bool:
    """True: this computer stands in."""
    return True


def set_device(device: Any) -> None:
    """Make a device number the current one of this thread."""
    set_index(_index(device))


def current_device() -> int:
    """Number set by set_device, TILE_FWK_DEVICE_ID before."""
    return current_index()


class device:
    """`with torch.npu.device(1):` - another current device inside."""

    def __init__(self, device: Any) -> None:
        self.idx = _index(device)

    def __enter__(self) -> None:
        self.before = current_index()
        set_index(self.idx)

    def __exit__(self, *exc: Any) -> None:
        set_index(self.before)


class device_of(device):
    """The device of a tensor inside the block."""

    def __init__(self, tensor: Any) -> None:
        super().__init__(tensor.npu_index if tensor.is_npu else current_index())


def synchronize(device: Any = None) -> None:
    """Everything has run already."""


def init() -> None:
    """Nothing to do."""


def is_initialized() -> bool:
    """True."""
    return True


def get_device_name(device: Any = None) -> str:
    """Ascend name of the simulated device, such as "Ascend910B1"."""
    return str(_table().get("chip.soc", _table().name)).partition(" ")[0]


def _table() -> Device:
    return Device.load(active().device)


class _Properties(types.SimpleNamespace):
    """What get_device_properties returns."""


def get_device_properties(device: Any = None) -> _Properties:
    """name and numbers of cores of the simulated device, memory of this computer."""
    table = _table()
    return _Properties(name=get_device_name(), total_memory=_total_memory(), cube_core_num=int(table["cores.aic"]),
                       vector_core_num=int(table["cores.aiv"]), multi_processor_count=int(table["cores.aic"]))


def get_device_capability(device: Any = None) -> None:
    """None, as torch_npu answers."""
    return None


def can_device_access_peer(device: Any, peer: Any) -> bool:
    """False: there is one device."""
    return False


def is_bf16_supported() -> bool:
    """True."""
    return True


# --- streams and events: work is done when it is called
class Stream:
    """Order of work; here all work is done at once."""

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        self.device = NpuDevice(_index(device))
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


# --- memory: the operating system's
def empty_cache() -> None:
    """There is no cache of device memory."""


def _total_memory() -> int:
    import os
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _peak_memory() -> int:
    import resource
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes: this computer's memory less the largest size this process had."""
    total = _total_memory()
    return max(0, total - _peak_memory()), total


def memory_allocated(device: Any = None) -> int:
    """0: memory of tensors is not counted."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing is counted."""


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats


def memory_stats(device: Any = None) -> dict[str, int]:
    """Empty: memory of tensors is not counted."""
    return {}


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Says that memory is not counted."""
    return "memory of tensors is not counted by the stand-in"


def memory_snapshot() -> list[Any]:
    """Empty."""
    return []


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Without effect."""


# --- random numbers: the CPU's generator
def manual_seed(seed: int) -> None:
    """Seeds the CPU's generator, which draws for the NPU too."""
    torch.default_generator.manual_seed(int(seed))         # torch.manual_seed itself calls that of torch.cuda


manual_seed_all = manual_seed


def seed() -> None:
    """Seeds with a new number."""
    torch.default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    """Seed of the CPU's generator."""
    return torch.initial_seed()


def get_rng_state(device: Any = None) -> torch.Tensor:
    """State of the CPU's generator."""
    return torch.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Set the state of the CPU's generator."""
    torch.set_rng_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """One state per device."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Set the state from the first."""
    set_rng_state(new_states[0])


# --- settings without effect here
def _ignored(name: str) -> Any:
    def ignore(*args: Any, **kwargs: Any) -> None:
        return None
    ignore.__name__ = ignore.__qualname__ = name
    ignore.__doc__ = "A setting of the real device, without effect here."
    return ignore


IGNORED = ("set_compile_mode", "set_option", "set_aoe", "set_dump", "init_dump", "finalize_dump", "enable_graph_mode",
           "disable_graph_mode", "set_sync_debug_mode", "set_deterministic_level", "set_stream_limit",
           "reset_stream_limit", "set_device_limit", "ipc_collect", "obfuscation_initialize", "clear_npu_overflow_flag",
           "prof_init", "prof_start", "prof_stop", "prof_finalize")
globals().update({_name: _ignored(_name) for _name in IGNORED})


def get_npu_overflow_flag() -> bool:
    """False: overflows are not recorded."""
    return False


def is_jit_compile_false() -> bool:
    """True."""
    return True


class _Settings(types.SimpleNamespace):
    """Attributes that can be set and read, without effect."""


config = _Settings(allow_internal_format=True)
matmul = _Settings(allow_hf32=False, allow_fp16_reduced_precision_reduction=False)
conv = _Settings(allow_hf32=True)
get_npu_format, npu_format_cast = formats.get_npu_format, formats.npu_format_cast
NPUGraph, graph, make_graphed_callables = graphs.NPUGraph, graphs.graph, graphs.make_graphed_callables
graph_pool_handle, is_current_stream_capturing = graphs.graph_pool_handle, graphs.is_current_stream_capturing


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"torch.npu.{name} is not stood in for; what is there: docs/compat.md")
