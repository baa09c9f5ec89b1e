"""`pypto.frontend`: the jit decorator, helpers, named axes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .run.jit import jit as jit
from .trace.scalar import SymbolicScalar


def dynamic(name: str) -> SymbolicScalar:
    """A named dynamic axis for annotations; the same name must bind equal sizes in one call."""
    return SymbolicScalar(name)


def function(helper: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a helper that kernels call: it is inlined, as every Python function is."""
    return helper
