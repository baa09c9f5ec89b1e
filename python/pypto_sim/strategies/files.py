"""Python files of a user, imported by path. One that imports `pypto` or `torch_npu` gets the alias while it loads."""
from __future__ import annotations

import contextlib
import importlib.util
import sys
import types
from pathlib import Path

from ..compat import install, installed

STOOD_IN = ("pypto", "torch_npu")


def load_file(path: Path) -> types.ModuleType:
    """Module of a .py file, entered in sys.modules under its stem; its folder is importable while it runs."""
    try:
        return _run(path)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in STOOD_IN or installed():
            raise
    with install(subprocesses=False):
        return _run(path)


def _run(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[spec.name]
        raise
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(path.resolve().parent))
    return made
