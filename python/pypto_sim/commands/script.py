"""`pypto-sim run SCRIPT [args]`: run a Python script that defines and calls kernels."""
from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Any

from ..errors import PyptoKeyError

NAME, HELP = "run", "run a script"


def arguments(parser: Any) -> None:
    parser.add_argument("script", metavar="SCRIPT", help="Python file")
    rest = parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")
    rest.required = False                    # argparse would list it as missing


def execute(path: str, arguments: list[str]) -> None:
    """Run a script as __main__ with its own folder on the path. Raises PyptoKeyError when there is no such file."""
    if not Path(path).is_file():
        raise PyptoKeyError(f"no such script: {path}")
    if importlib.util.find_spec("pypto_sim.compat") is not None:
        importlib.import_module("pypto_sim.compat").install()
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[:0] = [path, *arguments], [str(Path(path).resolve().parent)]
    try:
        runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before


def run(args: Any) -> int:
    execute(args.script, args.args)
    return 0
