"""`pypto-sim doctor`: what this installation runs on."""
from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from . import shared

NAME, HELP = "doctor", "print instruction set, threads, versions and device tables"
PACKAGES = ("pypto_sim", "numpy", "ml_dtypes", "rich", "torch")


def arguments(parser: Any) -> None:
    shared.json_option(parser)


def facts() -> dict[str, Any]:
    """Everything the command prints."""
    import pypto_sim  # noqa: F401  (fills the registry)

    from .. import _core
    from ..config import active
    from ..device import Device, names
    from ..registry import REGISTRY
    from ..rules import RULES
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    settings = {k: getattr(active(), k) for k in ("device", "profile", "numerics", "mode", "threads", "poison")}
    return {"python": sys.version.split()[0], "platform": platform.platform(), "cpus": os.cpu_count(),
            "isa": _core.isa(), "available_isas": list(_core.available_isas()), "threads": _core.threads(),
            "versions": versions, "config": settings, "operations": len(REGISTRY), "rules": len(RULES),
            "devices": [d.name for d in map(Device.load, names(variants=True))],
            "core": str(getattr(_core, "__file__", ""))}


def run(args: Any) -> int:
    from ..report.tables import table
    found = facts()
    if args.json:
        shared.print_json(found)
        return 0
    rows = []
    for key, value in found.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v if v is not None else '-'}" for k, v in value.items())
        rows.append((key, ", ".join(map(str, value)) if isinstance(value, list) else value))
    shared.print_tables(table("pypto_sim", ("", ""), rows))
    return 0
