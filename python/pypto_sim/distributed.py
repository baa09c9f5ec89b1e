"""`pypto.distributed`: communication between devices. One device is simulated, so every name raises."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .enums import AtomicType, OpType
from .errors import PyptoNotImplementedError

# name: parameters as documented
SIGNATURES: dict[str, Callable[..., Any]] = {
    "create_shmem_tensor": lambda group_name, n_pes, dtype, shape: None,
    "create_shmem_signal": lambda group_name, n_pes: None,
    "shmem_view": lambda src, shape, offsets, *, valid_shape=None: None,
    "shmem_put": lambda src, offsets, dst, dst_pe, *, put_op=AtomicType.SET, pred=None: None,
    "shmem_get": lambda src, src_pe, shape=None, offsets=None, *, valid_shape=None, pred=None: None,
    "shmem_signal": lambda src, src_pe, signal, shape=None, offsets=None, *, target_pe, sig_op=AtomicType.SET,
                           pred=None: None,
    "shmem_wait_until": lambda src, src_pe, cmp_value=0, shape=None, offsets=None, *, cmp=OpType.EQ,
                               clear_signal=False, pred=None: None,
    "shmem_barrier_all": lambda src, pred=None: None,
    "shmem_clear_data": lambda src, shape=None, offsets=None, *, pred=None: None,
    "shmem_clear_signal": lambda src, *, pred=None: None,
    "my_symbolic_pe": lambda group_name: None,
}
NAMES = tuple(SIGNATURES)


def refusal(name: str, parameters: Callable[..., Any] | None = None) -> Any:
    """A function that refuses: several devices are needed."""
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise PyptoNotImplementedError(f"{name}: several devices are needed, one is simulated; run the part of one "
                                       "device and pass what the others send as arguments", rule="api.not_implemented")
    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    refuse.__doc__ = "Needs several devices: raises PyptoNotImplementedError."
    if parameters is not None:
        refuse.__signature__ = inspect.signature(parameters)  # type: ignore[attr-defined]
    return refuse


globals().update({name: refusal(f"pypto.distributed.{name}", parameters) for name, parameters in SIGNATURES.items()})
__all__ = [*NAMES]
