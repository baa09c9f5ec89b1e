"""Configuration: which device, profile, numerics and mode are in force.

Order: options of the jit decorator, then `config(...)`, then the environment (PYPTO_SIM_DEVICE and so on), then the
defaults. `config(device="950pr")` sets; used with `with`, it restores afterwards. Settings made by the main thread are
the defaults of all threads; those made by another thread hold in that thread only.
"""
from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .device import Device
from .errors import PyptoKeyError, PyptoTypeError, PyptoValueError

WORDS: dict[str, tuple[str, ...]] = {
    "profile": ("lenient", "0.2", "master", "guide"),
    "numerics": ("current", "0.2.0"),
    "model": ("calibrated", "official"),
    "mode": ("auto", "step"),
    "poison": ("check", "trace", "off"),
    "log": ("off", "info", "debug"),
}
ENVIRONMENT = ("DEVICE", "PROFILE", "NUMERICS", "MODEL", "MODE", "THREADS", "POISON", "ISA", "LOG")
DUMPS = ("DUMP", "DUMP_DIR")               # read by testing.dumps.from_environment
PREFIX = "PYPTO_SIM_"


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of a launch. threads None: as many as the core chooses; isa None: the best level of the machine."""

    device: str = "910b1"
    profile: str = "lenient"
    numerics: str = "current"
    model: str = "calibrated"
    mode: str = "auto"
    threads: int | None = None
    poison: str = "check"
    isa: str | None = None
    log: str = "off"


KEYS = tuple(f.name for f in fields(Config))


def checked(values: Mapping[str, Any], origin: str = "") -> dict[str, Any]:
    """`values` with names and words checked. Raises PyptoKeyError or PyptoValueError naming what is allowed."""
    out = {}
    for name, value in values.items():
        if name not in KEYS:
            near = difflib.get_close_matches(name, KEYS, n=1)
            raise PyptoKeyError(f"{origin}unknown configuration key {name!r}; known: {', '.join(KEYS)}"
                                + (f". Did you mean {near[0]!r}?" if near else ""))
        if name in WORDS and value not in WORDS[name]:
            raise PyptoValueError(f"{origin}{name} must be one of {', '.join(WORDS[name])}, got {value!r}")
        if name == "threads" and value is not None:
            if isinstance(value, bool) or not isinstance(value, int):
                raise PyptoTypeError(f"{origin}threads must be an int or None, got {value!r}")
            if value < 1:
                raise PyptoValueError(f"{origin}threads must be at least 1, got {value}")
        if name == "device":
            if not isinstance(value, (str, os.PathLike)):
                raise PyptoTypeError(f"{origin}device must be a name or a path, got {value!r}")
            value = os.fspath(value)
            Device.load(value)                 # an unknown name is refused here, not at the first launch
        out[name] = value
    return out


def from_environment(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Settings of PYPTO_SIM_* variables; an empty one is not set.

    Raises PyptoKeyError for an unknown one (PYPTO_SIM_BUILD_* is the build's).
    """
    out: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name.startswith(PREFIX + "BUILD_"):
            continue
        word = name.removeprefix(PREFIX)
        if word in DUMPS:
            continue
        if word not in ENVIRONMENT:
            known = ", ".join(PREFIX + w for w in (*ENVIRONMENT, *DUMPS))
            raise PyptoKeyError(f"unknown environment variable {name}; known: {known}")
        if not text.strip():
            continue
        value: Any = text
        if word == "THREADS":
            if not text.strip().isdigit():
                raise PyptoValueError(f"{name} must be a positive integer, got {text!r}")
            value = int(text)
        out |= checked({word.lower(): value}, f"{name}: ")
    return out


_shared: dict[str, Any] = {}               # set by the main thread
_local = threading.local()                 # set by another thread
_environment: dict[str, Any] | None = None


def _own() -> dict[str, Any]:
    if threading.current_thread() is threading.main_thread():
        return _shared
    if not hasattr(_local, "values"):
        _local.values = {}
    return _local.values


def active(jit_options: Mapping[str, Any] | None = None) -> Config:
    """The configuration in force in this thread; `jit_options` win over everything else."""
    global _environment
    if _environment is None:
        _environment = from_environment()
    return Config(**{**_environment, **_shared, **_own(), **(jit_options or {})})


class _Restore:
    """What `config(...)` returns: as a context manager it restores the settings before the call."""

    def __init__(self, before: dict[str, Any]) -> None:
        self.before = before

    def __enter__(self) -> Config:
        return active()

    def __exit__(self, *exc: object) -> None:
        own = _own()
        own.clear()
        own.update(self.before)

    def __repr__(self) -> str:
        return repr(active())


def config(**settings: Any) -> _Restore:
    """Set `device`, `profile`, `numerics`, `model`, `mode`, `threads`, `poison`, `isa`, `log`.

    `with config(...):` restores.

    Raises PyptoKeyError (a KeyError) for an unknown name and PyptoValueError (a ValueError) for an unknown word.
    """
    own = _own()
    before = dict(own)
    own.update(checked(settings))
    return _Restore(before)
