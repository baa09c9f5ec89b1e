"""`pypto.distributed`: communication between devices. One device is simulated, so every name raises."""
from __future__ import annotations

from typing import Any

from .errors import PyptoNotImplementedError

NAMES = ("create_shmem_tensor", "create_shmem_signal", "shmem_view", "shmem_put", "shmem_get", "shmem_signal",
         "shmem_wait_until", "shmem_barrier_all", "shmem_clear_data", "shmem_clear_signal", "my_symbolic_pe")


def refusal(name: str) -> Any:
    """A function that refuses: several devices are needed."""
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise PyptoNotImplementedError(f"{name}: several devices are needed, one is simulated; run the part of one "
                                       "device and pass what the others send as arguments", rule="api.not_implemented")
    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    refuse.__doc__ = "Needs several devices: raises PyptoNotImplementedError."
    return refuse


globals().update({name: refusal(f"pypto.distributed.{name}") for name in NAMES})
__all__ = [*NAMES]
