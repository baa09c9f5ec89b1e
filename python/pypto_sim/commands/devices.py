"""`pypto-sim devices [NAME]`: the device tables."""
from __future__ import annotations

from typing import Any

from . import shared

NAME, HELP = "devices", "list the devices, or print one table with the source of every number"
_SHOWN = ("cores.aic", "cores.aiv", "cores.freq_ghz", "capacity.ub", "capacity.l1", "capacity.l0c",
          "chip_bandwidth.hbm_gbs", "chip_bandwidth.l2_read_gbs")


def arguments(parser: Any) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="device name or the path of a .toml file")
    shared.json_option(parser)


def run(args: Any) -> int:
    from ..device import Device, names
    from ..report.tables import table
    if args.name:
        dev = Device.load(args.name)
        entries = {key: dev.entry(key) for key in dev}
        if args.json:
            shared.print_json({"name": dev.name, "chip": dev.chip, "confidence": dev.confidence, "source": dev.source,
                               "entries": {k: {"value": e.value, "confidence": e.confidence, "source": e.source}
                                           for k, e in entries.items()}})
        else:
            shared.print_tables(table(f"{dev.name} ({dev.chip})", ("key", "value", "confidence", "source"),
                                      [(k, e.value, e.confidence, e.source) for k, e in entries.items()]))
        return 0
    found = [Device.load(n) for n in names()]
    if args.json:
        shared.print_json([{"name": d.name, "chip": d.chip, **{k: d.get(k) for k in _SHOWN}} for d in found])
    else:
        shared.print_tables(table("Devices", ("name", "chip", *_SHOWN),
                                  [(d.name, d.chip, *(d.get(k) for k in _SHOWN)) for d in found]))
    return 0
