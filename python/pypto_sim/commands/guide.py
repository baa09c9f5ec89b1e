"""`pypto-sim guide`: every operator in both phases, with the decision table."""
from __future__ import annotations

from typing import Any

from . import shared

NAME, HELP = "guide", "run every strategy of every operator and print the decision table"


def arguments(parser: Any) -> None:
    parser.add_argument("--quick", action="store_true", help="fewer presets and sizes")
    parser.add_argument("-o", dest="output", metavar="FILE.md", help="write an API report as Markdown")
    shared.device_options(parser)
    shared.language_option(parser)
    shared.json_option(parser)


def run(args: Any) -> int:
    from ..strategies import guide
    with shared.progress() as say:
        found = guide(args.quick, args.device, args.model, progress=say)
    shown = found.to_dict()
    if args.output:
        from ..report.markdown import guide_report
        words = ["pypto-sim", "guide", *(["--quick"] if args.quick else []),
                 *(["--device", args.device] if args.device else []), *(["--model", args.model] if args.model else [])]
        shared.write(args.output, guide_report(shown, args.lang, " ".join(words)))
    if args.json:
        shared.print_json(shown)
    else:
        from ..report.tables import guide_tables
        shared.print_tables(*guide_tables(shown, args.lang))
    return 0 if found.passed else 1
