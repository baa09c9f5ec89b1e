"""Command line `pypto-sim`. Exit codes: 0 ok, 1 a check or budget failed, 2 usage."""
from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Sequence

from .errors import PyptoError

EXAMPLES = """\
examples:
  pypto-sim guide --quick                               every operator, decision table
  pypto-sim compare attention --phase decode --set kv=32768
  pypto-sim explore my_kernels.py:softmax_kernel        what a kernel of yours uses and costs
"""
OK, FAILED, USAGE = 0, 1, 2


class _Parser(argparse.ArgumentParser):
    """Usage errors in one line, with the nearest known word and where to look."""

    def error(self, message: str):    # noqa: ANN201  (argparse's signature)
        given = re.search(r"invalid choice: '([^']*)'|unrecognized arguments: (\S+)", message)
        near = difflib.get_close_matches(given[1] or given[2], self._known(), n=1) if given else []
        meant = f". Did you mean {near[0]!r}?" if near else ""
        self.exit(USAGE, f"{self.prog}: {message}{meant}\n{self.prog} --help lists what there is.\n")

    def _known(self) -> list[str]:
        """Option names and choices of this parser and of the commands under it."""
        found = list(self._option_string_actions)
        for action in self._actions:
            if isinstance(action.choices, dict):
                found += action.choices
                for sub in action.choices.values():
                    found += sub._option_string_actions
            elif action.choices:
                found += map(str, action.choices)
        return found


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    from .commands import COMMANDS
    made = _Parser(prog="pypto-sim", description="Run and cost Ascend PyPTO kernels on this computer.",
                   epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--version", action="store_true", help="print the version")
    sub = made.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for command in COMMANDS:
        one = sub.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        command.arguments(one)
        one.set_defaults(run=command.run)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    made = parser()
    try:
        args = made.parse_args(arguments)
    except SystemExit as e:
        return int(e.code or 0)
    if args.version:
        from importlib.metadata import version
        print(version("pypto_sim"))
        return OK
    if args.command is None:
        made.print_help()
        return OK
    try:
        return args.run(args)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyError as e:
        if not isinstance(e, PyptoError):
            raise
        print(f"pypto-sim {args.command}: {e}", file=sys.stderr)
        return USAGE
    except PyptoError as e:
        print(f"pypto-sim {args.command}: {e}", file=sys.stderr)
        return USAGE if isinstance(e, ValueError) and not getattr(e, "line", "") else FAILED
