"""The eight operators by name. Modules are imported when asked for."""
from __future__ import annotations

import importlib
from typing import Any

from .base import unknown

OPERATORS = ("gelu", "rope", "attention", "moe_routing", "linear", "embedding", "repeat_kv", "mean")


def module(name: str) -> Any:
    """Module of an operator: OPERATOR, STRATEGIES, PRESETS, CLAIMS, golden. Raises PyptoKeyError."""
    if name not in OPERATORS:
        raise unknown("operator", name, OPERATORS)
    return importlib.import_module(f".{name}", __package__)
