"""`pypto-sim ops [NAME] [--torch NAME]`: the operations there are, and the PyPTO forms of torch operations."""
from __future__ import annotations

from typing import Any

from . import shared

NAME, HELP = "ops", "list the operations, or describe one"


def arguments(parser: Any) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="operation, such as matmul")
    parser.add_argument("--torch", metavar="NAME", help="PyPTO form of a torch operation, such as nn.GELU")
    shared.json_option(parser)


def run(args: Any) -> int:
    import pypto_sim  # noqa: F401  (fills the registry)

    from ..registry import REGISTRY, describe
    from ..report.tables import table
    if args.torch is not None:
        return _torch(args.torch, args.json)
    if args.name:
        found = _described(args.name)
        if args.json:
            shared.print_json(found)
            return 0
        rows = [(k, v if isinstance(v, str) else _text(v)) for k, v in found.items()
                if v not in ("", [], {}, None) and k != "summary"]
        shared.print_tables(table(f"{args.name}: {found['summary']}", ("fact", "value"), rows))
        return 0
    rows = [describe(name) for name in sorted(REGISTRY)]
    if args.json:
        shared.print_json(rows)
    else:
        shared.print_tables(table(f"{len(rows)} operations", ("operation", "summary", "versions", "chips", "cost"),
                                  [(r["name"], r["summary"], " ".join(r["versions"]), " ".join(r["chips"]), r["cost"])
                                   for r in rows]))
    return 0


def _torch(name: str, as_json: bool) -> int:
    from ..report.tables import console, table
    from ..torch_forms import find
    page = find(name).page()
    if as_json:
        shared.print_json(page)
        return 0
    script = page.pop("script")
    shared.print_tables(table(f"{page.pop('name')}: {page['kind']}", ("fact", "value"),
                              [(k, _text(v)) for k, v in page.items() if v]))
    console().print(script, markup=False, highlight=False, soft_wrap=True)
    return 0


def _described(name: str) -> dict[str, Any]:
    """`describe`, which for an operator of the guide says how to see its strategies."""
    from ..errors import PyptoKeyError
    from ..registry import REGISTRY, describe
    from ..strategies.catalogue import OPERATORS
    if name in REGISTRY or name not in OPERATORS:
        return describe(name)
    raise PyptoKeyError(f"{name!r} is no single operation: it is built of several. Its strategies: "
                        f"pypto-sim compare {name}")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{k}: {_text(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(str(v) for v in value)
    return str(value)
