"""The eight operators by name, and modules of a user's own. Modules are imported when asked for."""
from __future__ import annotations

import importlib
import types
from pathlib import Path
from typing import Any

from ..errors import PyptoKeyError, PyptoTypeError
from .base import unknown
from .files import load_file

OPERATORS = ("gelu", "rope", "attention", "moe_routing", "linear", "embedding", "repeat_kv", "mean")
NAMES = ("OPERATOR", "STRATEGIES", "PRESETS", "CLAIMS", "golden")


def module(name: Any) -> Any:
    """Module of an operator: OPERATOR, STRATEGIES, PRESETS, CLAIMS, golden.

    name: one of OPERATORS, the path of a .py file, or a module. Raises PyptoKeyError for an unknown one, PyptoTypeError
    for a module that lacks a name.
    """
    if isinstance(name, types.ModuleType):
        return _complete(name)
    text = str(name)
    if text.endswith(".py"):
        return _complete(_loaded(Path(text)))
    if text not in OPERATORS:
        raise unknown("operator", text, (*OPERATORS, "the path of a .py file"))
    return importlib.import_module(f".{text}", __package__)


def _loaded(path: Path) -> types.ModuleType:
    if not path.is_file():
        raise PyptoKeyError(f"no such strategy module: {path}")
    return load_file(path)


def _complete(found: types.ModuleType) -> types.ModuleType:
    if missing := [n for n in NAMES if not hasattr(found, n)]:
        raise PyptoTypeError(f"strategy module {found.__name__} lacks {', '.join(missing)}; it needs "
                             f"{', '.join(NAMES)} (docs/write_a_strategy.md)")
    return found
