"""Configuration of the compiler and its passes. What has no meaning for a simulator is kept and given back."""
from __future__ import annotations

import copy
import difflib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..enums import PassConfigKey
from ..errors import PyptoTypeError, UnknownOption
from . import options
from .option_table import OPTIONS

_lock = threading.Lock()
_default: dict[PassConfigKey, bool] = {}
_passes: dict[tuple[str, str], dict[PassConfigKey, bool]] = {}


@dataclass(frozen=True, slots=True)
class PassConfigs:
    """Configuration of one pass of one strategy. dumpGraph: write the graph after the pass (not written here)."""

    strategy: str
    identifier: str
    dumpGraph: bool = False


def _key(who: str, key: Any) -> PassConfigKey:
    if not isinstance(key, PassConfigKey):
        raise PyptoTypeError(f"pypto.{who}: `key` must be a pypto.PassConfigKey, got {key!r}")
    return key


def _names(who: str, strategy: Any, identifier: Any) -> tuple[str, str]:
    if not isinstance(strategy, str) or not isinstance(identifier, str):
        raise PyptoTypeError(f"pypto.{who} takes the names of a strategy and a pass, got {strategy!r}, {identifier!r}")
    return strategy, identifier


def get_pass_default_config(key: PassConfigKey, default_value: bool) -> bool:
    """What set_pass_default_config has set for `key`, else `default_value`."""
    with _lock:
        return _default.get(_key("get_pass_default_config", key), default_value)


def set_pass_default_config(key: PassConfigKey, value: bool) -> None:
    """Set `key` for all passes; kept, without effect here."""
    with _lock:
        _default[_key("set_pass_default_config", key)] = bool(value)


def get_pass_config(strategy: str, identifier: str, key: PassConfigKey, default_value: bool) -> bool:
    """What is set for `key` of one pass, else for all passes, else `default_value`."""
    names = _names("get_pass_config", strategy, identifier)
    with _lock:
        return _passes.get(names, {}).get(_key("get_pass_config", key), _default.get(key, default_value))


def set_pass_config(strategy: str, identifier: str, key: PassConfigKey, value: bool) -> None:
    """Set `key` of one pass; kept, without effect here."""
    names = _names("set_pass_config", strategy, identifier)
    with _lock:
        _passes.setdefault(names, {})[_key("set_pass_config", key)] = bool(value)


def get_pass_configs(strategy: str, identifier: str) -> PassConfigs:
    """All configuration of one pass."""
    dump = get_pass_config(strategy, identifier, PassConfigKey.KEY_DUMP_GRAPH, False)
    return PassConfigs(*_names("get_pass_configs", strategy, identifier), dump)


def _find(who: str, key: Any) -> tuple[str, str]:
    known = {f"{group}.{name}": (group, name) for group, name in _options()}
    if isinstance(key, str):
        if key in known:
            return known[key]
        if same := [pair for pair in known.values() if pair[1] == key]:
            return same[0]
    near = difflib.get_close_matches(str(key), [*known, *(n for _, n in known.values())], n=3)
    hint = f"; did you mean {' or '.join(map(repr, near))}" if near else f"; known: {', '.join(known)}"
    raise UnknownOption(f"pypto.{who} has no key {key!r}{hint}", rule="arg.unknown")


def _options() -> Iterator[tuple[str, str]]:
    return ((group, name) for group, known in OPTIONS.items() for name in known)


def get_global_config(key: str) -> Any:
    """Value in force of an option by its full name, such as "pass.vec_nbuffer_setting", or by its own name.

    None where nothing is set and no default is documented. Raises UnknownOption naming the nearest keys.
    """
    group, name = _find("get_global_config", key)
    value = options.holder().scope.groups.get(group, {}).get(name, OPTIONS[group][name].default)
    return copy.copy(value)


def set_global_config(key: str, value: Any) -> None:
    """Set an option by its full name, such as "pass.vec_nbuffer_setting", or by its own name.

    Raises UnknownOption naming the nearest keys, OptionError for a value that the option cannot have.
    """
    group, name = _find("set_global_config", key)
    h = options.holder()
    h.scope = h.scope.with_options(group, options.checked(group, {name: value}))
