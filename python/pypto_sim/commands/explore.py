"""`pypto-sim explore FILE.py:KERNEL`: an API report of a user's kernel."""
from __future__ import annotations

from typing import Any

from . import shared

NAME, HELP = "explore", "report what a kernel of yours uses and costs, and what the guide advises"


def arguments(parser: Any) -> None:
    parser.add_argument("target", metavar="FILE.py:KERNEL",
                        help="the file is imported: what it does at its top level runs, its prints go to "
                             "standard error")
    parser.add_argument("--arg", nargs="+", action="extend", default=[], metavar="NAME=VALUE",
                        help="shape of a tensor (x=4096x128 or x=4096x128:bf16), or value of a scalar")
    parser.add_argument("--tiles", action="store_true", help="search tile shapes that make the kernel cheaper")
    parser.add_argument("-o", dest="output", metavar="FILE.md", help="write the report as Markdown")
    shared.device_options(parser)
    shared.language_option(parser)
    shared.json_option(parser)


def run(args: Any) -> int:
    from ..report.markdown import explore_report
    from ..strategies.explore import explore
    with shared.progress() as say:
        say(args.target)
        found = explore(args.target, shared.settings(args.arg), args.device, args.model,
                        args.tiles)
    if args.output:
        shared.write(args.output, explore_report(found, args.lang))
    if args.json:
        shared.print_json(found)
    else:
        from ..report.tables import explore_tables
        shared.print_tables(*explore_tables(found, args.lang))
    return 0 if found["reason"] is None else 1
