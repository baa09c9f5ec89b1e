"""Existing PyPTO scripts and tests run unmodified: `import pypto` is this package, `npu:0` is this computer.

    import pypto_sim
    pypto_sim.compat.install()

The same by `python -m pypto_sim run script.py`, `pytest --pypto-alias` and `%load_ext pypto_sim`. While installed,
`pypto` and its submodules are the module objects of `pypto_sim`; `torch_npu`, `torch.npu` and `torchair` are stood in
for when the script imports torch; and Python processes that the script starts get the same. docs/compat.md says what
the stand-in does and where it differs.
"""
from __future__ import annotations

import os
import sys
from pathlib import Path

from ..errors import PyptoRuntimeError
from .alias import AliasFinder

__all__ = ["install", "installed", "uninstall"]

SITE = str(Path(__file__).resolve().parent / "subprocess_site")
DEVICE_ID = "TILE_FWK_DEVICE_ID"

_finder: AliasFinder | None = None
_environment: dict[str, str | None] = {}       # variables before install


def installed() -> bool:
    """True between install() and uninstall()."""
    return _finder is not None


def finder() -> AliasFinder:
    """The import hook. Raises PyptoRuntimeError when not installed."""
    if _finder is None:
        raise PyptoRuntimeError("pypto_sim.compat is not installed")
    return _finder


class _Uninstall:
    """What install() returns: as a context manager it uninstalls at the end."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        uninstall()


def install(*, subprocesses: bool = True) -> _Uninstall:
    """Make `import pypto` mean this package and stand in for the NPU; a second call changes nothing.

    `with install():` uninstalls at the end of the block.

    subprocesses: Python processes started from now on get the same, by PYTHONPATH. TILE_FWK_DEVICE_ID becomes 0 where
    it is not set. Raises PyptoRuntimeError when a real `pypto` or `torch_npu` is imported already, or when
    TILE_FWK_DEVICE_ID is no device number.
    """
    global _finder
    if _finder is not None:
        return _Uninstall()
    own = sys.modules["pypto_sim"]
    for name in ("pypto", "torch_npu"):
        found = sys.modules.get(name)
        if found is not None and found is not own:
            raise PyptoRuntimeError(f"cannot stand in for `{name}`: a real one is imported already from "
                                    f"{getattr(found, '__file__', None) or 'an unknown place'}. Start a new process "
                                    "and call pypto_sim.compat.install() before anything imports it, or use "
                                    "`python -m pypto_sim run SCRIPT`")
    device = os.environ.get(DEVICE_ID)
    if device is not None and not device.strip().isdigit():
        raise PyptoRuntimeError(f"{DEVICE_ID} must be a device number such as 0, got {device!r}")
    _set_environment(DEVICE_ID, device if device is not None else "0")
    if subprocesses:
        before = os.environ.get("PYTHONPATH")
        parts = before.split(os.pathsep) if before else []
        if SITE not in parts:
            _set_environment("PYTHONPATH", os.pathsep.join([SITE, *parts]))
    _finder = AliasFinder(own)
    _finder.install()
    return _Uninstall()


def uninstall() -> None:
    """Undo install(): modules, torch and environment are as they were. Does nothing when not installed."""
    global _finder
    if _finder is None:
        return
    _finder.uninstall()
    _finder = None
    for name, before in _environment.items():
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
    _environment.clear()


def _set_environment(name: str, value: str) -> None:
    _environment[name] = os.environ.get(name)
    os.environ[name] = value
