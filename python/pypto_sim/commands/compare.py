"""`pypto-sim compare OPERATOR`: strategies of one operator, checked, costed and ranked."""
from __future__ import annotations

from typing import Any

from . import shared

NAME, HELP = "compare", "compare the strategies of an operator"


def arguments(parser: Any) -> None:
    from ..strategies.catalogue import OPERATORS
    parser.add_argument("operator", metavar="OPERATOR", help=", ".join(OPERATORS) + ", or a .py file of your own "
                        "(docs/write_a_strategy.md)")
    parser.add_argument("--phase", default="decode", help="decode or prefill")
    parser.add_argument("--preset", help="sizes of a model; default the operator's first")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE",
                        help="sizes, tiles and options of the config")
    parser.add_argument("--full", action="store_true", help="numerics also at the largest size that fits")
    parser.add_argument("-o", dest="output", metavar="FILE.md", help="write the report as Markdown")
    shared.device_options(parser)
    shared.language_option(parser)
    shared.json_option(parser)


def run(args: Any) -> int:
    from ..strategies import compare
    with shared.progress() as say:
        found = compare(args.operator, args.phase, args.preset, shared.settings(args.set), args.device, args.model,
                        args.full, progress=say)
    shown = found.to_dict()
    if args.output:
        from ..report.markdown import comparison_report
        shared.write(args.output, comparison_report(shown, args.lang))
    if args.json:
        shared.print_json(shown)
    else:
        from ..report.tables import compare_tables
        shared.print_tables(*compare_tables(shown, args.lang))
    return 0 if found.passed else 1
