"""`torch.npu`: one device that does everything at once. Names as torch_npu has them."""
from __future__ import annotations

import types
from typing import Any

from ..config import active
from ..device import Device
from . import formats, graphs
from .device import current_index, placed, set_index
from .factories import as_npu
from .factories import device_count as device_count
from .memory import empty_cache as empty_cache
from .memory import max_memory_allocated as max_memory_allocated
from .memory import max_memory_cached as max_memory_cached
from .memory import max_memory_reserved as max_memory_reserved
from .memory import mem_get_info as mem_get_info
from .memory import memory_allocated as memory_allocated
from .memory import memory_cached as memory_cached
from .memory import memory_reserved as memory_reserved
from .memory import memory_snapshot as memory_snapshot
from .memory import memory_stats as memory_stats
from .memory import memory_summary as memory_summary
from .memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from .memory import reset_max_memory_allocated as reset_max_memory_allocated
from .memory import reset_max_memory_cached as reset_max_memory_cached
from .memory import reset_peak_memory_stats as reset_peak_memory_stats
from .memory import set_per_process_memory_fraction as set_per_process_memory_fraction
from .memory import total_memory as _total_memory
from .random import get_rng_state as get_rng_state
from .random import get_rng_state_all as get_rng_state_all
from .random import initial_seed as initial_seed
from .random import manual_seed as manual_seed
from .random import manual_seed_all as manual_seed_all
from .random import seed as seed
from .random import seed_all as seed_all
from .random import set_rng_state as set_rng_state
from .random import set_rng_state_all as set_rng_state_all
from .streams import Event as Event
from .streams import ExternalEvent as ExternalEvent
from .streams import ExternalStream as ExternalStream
from .streams import Stream as Stream
from .streams import StreamContext as StreamContext
from .streams import current_stream as current_stream
from .streams import default_stream as default_stream
from .streams import set_stream as set_stream
from .streams import stream as stream


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
