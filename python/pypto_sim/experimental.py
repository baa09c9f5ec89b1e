"""`pypto.experimental`: what PyPTO keeps under that name."""
from __future__ import annotations

from .distributed import refusal as _refusal
from .ops.options import get_operation_options as get_operation_options
from .ops.options import set_operation_options as set_operation_options
from .registry import REGISTRY as _REGISTRY
from .usual_names import MissingNameError as _MissingNameError

shmem_load, shmem_store = (_refusal(f"pypto.experimental.{name}") for name in ("shmem_load", "shmem_store"))


def __getattr__(name: str):
    spec = _REGISTRY.get(f"experimental.{name}")
    if spec is None or spec.function is None:
        raise _MissingNameError("module 'pypto_sim.experimental'", name, lambda: [
            n.removeprefix("experimental.") for n in _REGISTRY if n.startswith("experimental.")])
    return spec.function
