"""Device tables: every number of a chip with its confidence and source.

`Device.load("910b1")` reads the table shipped with the package, `Device.load("my_chip.toml")` one of the user's.
"""
import difflib
import functools
import math
import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .errors import PyptoError

DEFAULT = "910b1"
FOLDER = Path(__file__).with_name("devices")
CHIPS = ("A2A3", "950")
REQUIRED = ("capacity.ub", "capacity.l1", "capacity.l0a", "capacity.l0b", "capacity.l0c", "capacity.bt", "cores.aic",
            "cores.aiv", "cores.freq_ghz", "chip_bandwidth.hbm_gbs", "chip_bandwidth.l2_read_gbs")

# Required value -> least, most, unit; a value outside is most likely in another unit.
RANGES = {"cores.aic": (1, 1024, "cores"), "cores.aiv": (1, 2048, "cores"), "cores.freq_ghz": (0.05, 20, "GHz"),
          "chip_bandwidth.hbm_gbs": (1, 1e6, "GB/s"), "chip_bandwidth.l2_read_gbs": (1, 1e6, "GB/s"),
          **{key: (512, 2**40, "bytes") for key in REQUIRED if key.startswith("capacity.")}}
WHOLE = ("cores", "bytes")                   # units without fractions
MOST = 1e9                                   # cycles, GB/s, us, ...: of any value that is not a capacity
MOST_BYTES = 2**50
LINES = ("vector_instr.", "tile_reduce.")    # two numbers each
OPTIONAL_RANGES = {"pypto_runtime.aicpu_machines": (1, 64, "cores")}     # checked where given


class DeviceError(PyptoError, ValueError):
    """An unknown device name, or a device table that cannot be used."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a device table. confidence: documented, measured, inferred, assumed (or a finer form of these)."""
    value: Any
    confidence: str
    source: str


def names(variants: bool = False) -> tuple[str, ...]:
    """Names of the devices shipped with the package, the default first; `variants` adds the bins."""
    found = [p.stem for p in sorted(FOLDER.glob("*.toml"))]
    if not variants:
        found = [n for n in found if Device.load(n).kind == "device"]
    return tuple(sorted(found, key=lambda n: (n != DEFAULT, n)))


class Device:
    """A device table. `dev["capacity.ub"]` is the number, `dev.entry("capacity.ub")` also tells where it is from."""
    __slots__ = ("name", "chip", "kind", "confidence", "source", "calibration_soc", "path", "entries", "_numbers")

    def __init__(self, table: dict[str, Any], path: Path) -> None:
        head = dict(table.get("device", {}))
        self.path = path
        shipped = path.parent == FOLDER
        self.kind: str = str(head.get("kind", "device")) if shipped else "user"
        self.name: str = str(head.get("name", path.stem))
        if not shipped and (FOLDER / f"{self.name}.toml").is_file():
            self.name += f" ({path.name})"           # a copy that kept the name
        self.confidence: str = str(head.get("confidence", ""))
        self.source: str = str(head.get("source", str(path)))
        self.calibration_soc: tuple[str, ...] = tuple(head.get("calibration_soc", ()))
        self.entries = MappingProxyType(dict(_entries(table, path)))
        arch = str(self.entries["chip.npu_arch"].value) if "chip.npu_arch" in self.entries else ""
        self.chip: str = str(head.get("chip", {"2201": "A2A3", "3510": "950"}.get(arch, "")))
        if self.chip not in CHIPS:
            raise DeviceError(f"{path}: [device] chip must be one of {', '.join(CHIPS)}, got {self.chip!r}")
        missing = [key for key in REQUIRED if key not in self.entries]
        if missing:
            raise DeviceError(f"{path}: missing {', '.join(missing)}")
        _check(self.entries, path)
        self._numbers = MappingProxyType(dict(_numbers(self.entries)) | {"chip.is_950": float(self.chip == "950")})

    @staticmethod
    def load(name: "str | os.PathLike[str] | Device" = DEFAULT) -> "Device":
        """Device by name (`910b1`, case ignored), or from the path of a TOML file.

        Raises DeviceError (a ValueError) for an unknown name, listing the known ones, and for a table that lacks a
        required value or has a number without confidence and source.
        """
        if isinstance(name, Device):
            return name
        if not isinstance(name, (str, os.PathLike)):
            raise DeviceError(f"a device is a name or the path of a .toml file, got {name!r}")
        text = os.fspath(name)
        if text.endswith(".toml") or os.sep in text:
            path = Path(text)
            try:
                return _read(path.resolve(), path.stat().st_mtime_ns)
            except OSError as e:
                raise DeviceError(f"device table {text}: {e.strerror}") from e
        path = FOLDER / f"{text.lower()}.toml"
        if not path.is_file():
            known = sorted(p.stem for p in FOLDER.glob("*.toml"))
            close = difflib.get_close_matches(text.lower(), known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise DeviceError(f"unknown device {text!r}. Known: {', '.join(known)}, or the path of a .toml file.{hint}")
        return _read(path, 0)

    def entry(self, key: str) -> Entry:
        """Value with confidence and source. Raises KeyError naming close keys."""
        try:
            return self.entries[key]
        except KeyError:
            close = difflib.get_close_matches(key, self.entries, n=3)
            hint = f"; close: {', '.join(close)}" if close else ""
            raise KeyError(f"device {self.name} has no {key!r}{hint}") from None

    def __getitem__(self, key: str) -> Any:
        return self.entry(key).value

    def get(self, key: str, default: Any = None) -> Any:
        """Value of `key`, or `default` where the table has none."""
        return self.entries[key].value if key in self.entries else default

    def __contains__(self, key: object) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def numbers(self) -> "MappingProxyType[str, float]":
        """Flat `section.key` -> number for the compiled core; element i of a list is `section.key.i`."""
        return self._numbers

    def __repr__(self) -> str:
        return f"Device({self.name!r}, chip={self.chip!r})"


def _entries(table: dict[str, Any], path: Path) -> Iterator[tuple[str, Entry]]:
    for section, keys in table.items():
        if section == "device":
            continue
        if not isinstance(keys, dict):
            raise DeviceError(f"{path}: {section} must be a table of `key = {{value, confidence, source}}`")
        for key, item in keys.items():
            if not isinstance(item, dict) or not {"value", "confidence", "source"} <= set(item):
                raise DeviceError(f"{path}: {section}.{key} must be {{value = .., confidence = .., source = ..}}")
            if not str(item["source"]).strip() or not str(item["confidence"]).strip():
                raise DeviceError(f"{path}: {section}.{key} has no source or no confidence")
            yield f"{section}.{key}", Entry(item["value"], str(item["confidence"]), str(item["source"]))


def _check(entries: "MappingProxyType[str, Entry]", path: Path) -> None:
    """Numbers are finite and not negative, rates above 0; required ones are in the range that their unit allows."""
    for key, entry in entries.items():
        values = entry.value if isinstance(entry.value, list) else [entry.value]
        most = MOST_BYTES if key.startswith("capacity.") else MOST
        if key.startswith(LINES) and isinstance(entry.value, list) and len(values) != 2:
            raise DeviceError(f"{path}: {key} must be a pair of numbers, got {entry.value!r}")
        for value in values:
            if isinstance(value, (int, float)) and not 0 <= value < math.inf:
                raise DeviceError(f"{path}: {key} must be finite and not negative, got {entry.value!r}")
            if isinstance(value, (int, float)) and value > most and key not in RANGES:
                raise DeviceError(f"{path}: {key} must be at most {most:g}, got {entry.value!r}")
            if value == 0 and (key.endswith(("_gbs", "_bpc")) or ".hbm_eff" in key):
                raise DeviceError(f"{path}: {key} is a rate and must be above 0, got {entry.value!r}")
    given = {key: limits for key, limits in OPTIONAL_RANGES.items() if key in entries}
    for key, (least, most, unit) in {**RANGES, **given}.items():
        value, kind = entries[key].value, "a whole number" if unit in WHOLE else "a number"
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most or (
                unit in WHOLE and value != int(value)):
            raise DeviceError(f"{path}: {key} must be {kind} of {unit} from {least:g} to {most:g}, got {value!r}")


def _numbers(entries: "MappingProxyType[str, Entry]") -> Iterator[tuple[str, float]]:
    for key, entry in entries.items():
        value = entry.value
        if isinstance(value, (bool, int, float)):
            yield key, float(value)
        elif isinstance(value, list) and all(isinstance(v, (int, float)) for v in value):
            yield from ((f"{key}.{i}", float(v)) for i, v in enumerate(value))


@functools.lru_cache(maxsize=64)
def _read(path: Path, _stamp: int) -> Device:
    try:
        return Device(tomllib.loads(path.read_text(encoding="utf-8")), path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise DeviceError(f"device table {path}: {e}") from e
