"""`pypto.experimental`: what PyPTO keeps under that name."""
from __future__ import annotations

from .distributed import refusal as _refusal
from .ops.options import get_operation_options as get_operation_options
from .ops.options import set_operation_options as set_operation_options
from .registry import REGISTRY as _REGISTRY

shmem_load, shmem_store = (_refusal(f"pypto.experimental.{name}") for name in ("shmem_load", "shmem_store"))


def __getattr__(name: str):
    spec = _REGISTRY.get(f"experimental.{name}")
    if spec is None or spec.function is None:
        raise AttributeError(f"pypto.experimental has no {name!r}")
    return spec.function
