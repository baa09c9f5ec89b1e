"""Replaced attributes that can all be put back."""
from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """Attributes set on modules and classes; `undo` restores each in reverse order."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Set an attribute; returns what getattr gave before, None when there was none."""
        own = vars(owner).get(name, _ABSENT)
        found = getattr(owner, name, None)
        self._before.append((owner, name, own))
        setattr(owner, name, value)
        return found

    def undo(self) -> None:
        """Put everything back."""
        for owner, name, own in reversed(self._before):
            if own is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
        self._before.clear()
