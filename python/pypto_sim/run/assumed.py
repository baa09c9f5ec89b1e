"""`assume=` of an estimate: values of scalars that a cost-only run cannot know."""
from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import PyptoTypeError, PyptoValueError
from ..trace.scalar import INT64_MAX

_LOAD = re.compile(r"^\s*l\d+ = (\S+?)\[(.*)\](?:    # (.*))?$")
_CONTROL = re.compile(r"^\s*(?:for i\d+ in loop\(.*\)|if .*):    # (.*)$")


def assumed_values(assume: Mapping[str, Any] | None, program: Any) -> dict[str, tuple[int, int]]:
    """{name or line: (low, high)} for the core. Raises PyptoTypeError for a wrong form, PyptoValueError for a key that
    names nothing the program reads, with what it does read."""
    if assume is None:
        return {}
    if not isinstance(assume, Mapping):
        raise PyptoTypeError(f"assume must be a dict of name or line: value, got {assume!r}")
    out = {str(key): _range(key, value) for key, value in assume.items()}
    if out:
        _check_keys(out, str(program))
    return out


def _range(key: Any, value: Any) -> tuple[int, int]:
    pair = value if isinstance(value, (tuple, list)) else (value, value)
    if len(pair) != 2 or not all(_is_int(v) for v in pair):
        raise PyptoTypeError(f"assume[{key!r}] must be an int or (low, high), got {value!r}")
    low, high = (int(v) for v in pair)
    if low > high:
        raise PyptoTypeError(f"assume[{key!r}] must be an int or (low, high) with low <= high, got {value!r}")
    if any(abs(v) > INT64_MAX for v in (low, high)):
        raise PyptoValueError(f"assume[{key!r}] does not fit 64 bits: {value!r}")
    return low, high


def _is_int(value: Any) -> bool:
    """An integer, and not a truth value, which would count as 0 or 1."""
    return hasattr(value, "__index__") and not isinstance(value, (bool, np.bool_))


def _check_keys(keys: Mapping[str, Any], listing: str) -> None:
    """Refuse keys that no scalar read of the listing could ask for."""
    elements: dict[str, set[str]] = {}
    lines: set[str] = set()
    for name, index, line in _reads(listing):
        if name:
            elements.setdefault(name, set()).add(index)
        lines.add(line)
    known = [*(f"{name}[{index}]" for name, found in elements.items() for index in sorted(found)), *elements]
    for key in keys:
        bare, sign, index = key.partition("[")
        found = elements.get(bare)
        if sign and found is not None and (index[:-1] in found or not all(_constant(i) for i in found)):
            continue
        if not sign and (found is not None or key in lines or key in {line.rpartition(":")[2] for line in lines}):
            continue
        if not elements:
            raise PyptoValueError(f"assume[{key!r}] names nothing: the kernel reads no element of a tensor, so every "
                                  "bound and condition is known without it")
        close = difflib.get_close_matches(key, known, n=1)
        shown = ", ".join(list(dict.fromkeys(known))[:12])
        raise PyptoValueError(f"assume[{key!r}] names nothing the kernel reads; it reads {shown} (give a name, an "
                              "element or the line of a read)." + (f" Did you mean {close[0]!r}?" if close else ""))


def _reads(listing: str) -> Iterator[tuple[str, str, str]]:
    """(tensor, index, "file:line") of every element read, and ("", "", line) of every loop and condition."""
    for text in listing.splitlines():
        if found := _LOAD.match(text):
            name = "tensor" if found[1].startswith("%") else found[1]
            yield name, found[2], found[3] or ""
        elif found := _CONTROL.match(text):
            yield "", "", found[1]


def _constant(index: str) -> bool:
    return all(part.strip().lstrip("-").isdigit() for part in index.split(","))
