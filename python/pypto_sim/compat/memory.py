"""Memory of `torch.npu`: that of this computer; sizes of tensors are not counted."""
from __future__ import annotations

import os
import resource
import sys
from typing import Any


def empty_cache() -> None:
    """There is no cache of device memory."""


def total_memory() -> int:
    """Bytes of this computer's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _peak_memory() -> int:
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes: this computer's memory less the largest size this process had."""
    total = total_memory()
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
