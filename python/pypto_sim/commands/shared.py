"""Options and output that several commands share."""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import PyptoKeyError


def device_options(parser: Any, model: bool = True) -> None:
    """--device and --model."""
    parser.add_argument("--device", help="device name or the path of a .toml file")
    if model:
        parser.add_argument("--model", help="cost model: calibrated or official")


def json_option(parser: Any) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="machine-readable result on standard output")


def language_option(parser: Any) -> None:
    """--lang."""
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the headings")


def folder(path: str) -> Path:
    """A folder for output, made when missing. Raises PyptoKeyError when it cannot be written."""
    found = Path(path)
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise PyptoKeyError(f"{path}: {e.strerror}; give a folder that can be written") from None
    if not os.access(found, os.W_OK):
        raise PyptoKeyError(f"{path}: not writable; give a folder that can be written")
    return found


def print_json(value: Any) -> None:
    """JSON to standard output; infinities become null-safe strings."""
    json.dump(clean(value), sys.stdout, ensure_ascii=False, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def clean(value: Any) -> Any:
    """Plain JSON values: numpy scalars unwrapped, tuples as lists, non-finite numbers as text."""
    if isinstance(value, dict):
        return {str(k): clean(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(v) for v in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def print_tables(*tables: Any) -> None:
    """rich tables to standard output."""
    from ..report.tables import console
    out = console()
    for one in tables:
        out.print(one)
        out.print()


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A status line on standard error, only when that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from ..report.tables import console
    with console(stderr=True).status("starting") as status:
        yield lambda text: status.update(text)


def settings(pairs: list[str]) -> dict[str, str]:
    """key=value arguments as a dict. Raises PyptoKeyError for a bad form."""
    found = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise PyptoKeyError(f"--set takes key=value, got {pair!r}")
        found[key.strip()] = value.strip()
    return found


def write(path: str, text: str) -> None:
    """Write a report; missing folders are made. Raises PyptoKeyError where that is not possible."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as e:
        raise PyptoKeyError(f"{path}: {e.strerror}; give a file that can be written") from None
