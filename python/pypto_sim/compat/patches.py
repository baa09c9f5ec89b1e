"""Replaced attributes that can all be put back."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patches:
    """Attributes and dictionary entries that are set; `undo` restores each in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or class."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self._undo.append((lambda: delattr(owner, name)) if before is _ABSENT else lambda: setattr(owner, name, before))

    def set_item(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Set a new entry of a dictionary."""
        table[key] = value
        self._undo.append(lambda: table.pop(key, None))

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()
