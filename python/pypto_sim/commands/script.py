"""`pypto-sim run SCRIPT [args]`: run a Python script with `import pypto` and `npu:0` standing for this package."""
from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from .. import compat
from ..errors import PyptoKeyError

NAME, HELP = "run", "run a script (or -m MODULE) unmodified: pypto, torch_npu and npu devices are stood in for"


def arguments(parser: Any) -> None:
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module, such as pytest")
    parser.add_argument("--dump", metavar="NAME[@INDEX=N],...", help="intermediate values of kernels to write as .npz")
    parser.add_argument("--dump-dir", metavar="DIR", default="dump", help="folder for --dump, default dump")
    parser.add_argument("script", metavar="SCRIPT", help="Python file")
    rest = parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")
    rest.required = False                    # argparse would list it as missing


def execute(path: str, arguments: list[str], module: bool = False) -> None:
    """Run a script as __main__ with its own folder on the path, under the alias.

    module: `path` is a module's name, as of `python -m`. Raises PyptoKeyError when there is no such file or module.
    """
    if module:
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        if importlib.util.find_spec(path.partition(".")[0]) is None:
            raise PyptoKeyError(f"no such module: {path}")
    elif not Path(path).is_file():
        raise PyptoKeyError(f"no such script: {path}")
    aliased = compat.installed()
    compat.install()
    before = sys.argv, sys.path[:]
    sys.argv = [path, *arguments]
    try:
        if module:
            runpy.run_module(path, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(path).resolve().parent))
            runpy.run_path(path, run_name="__main__")
        for thread in threading.enumerate():              # as the interpreter does at its end
            if thread is not threading.main_thread() and not thread.daemon:
                thread.join()
    finally:
        sys.argv, sys.path[:] = before
        if not aliased:
            compat.uninstall()


def run(args: Any) -> int:
    try:
        with _dumping(args.dump, args.dump_dir) if args.dump else nullcontext():
            execute(args.script, args.args, args.module)
    except PyptoKeyError as error:
        if not _in_script(error):
            raise
        _print(error)
        return 1
    except Exception as error:
        _print(error)
        return 1
    return 0


@contextmanager
def _dumping(names: str, folder: str) -> Iterator[None]:
    """Dump the script's launches, and those of processes that it starts."""
    from ..testing.dumps import dump
    with dump(names, directory=folder):
        before = {k: os.environ.get(k) for k in ("PYPTO_SIM_DUMP", "PYPTO_SIM_DUMP_DIR")}
        os.environ.update(PYPTO_SIM_DUMP=names, PYPTO_SIM_DUMP_DIR=os.path.abspath(folder))
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def _in_script(error: BaseException) -> bool:
    """Whether the script had been started."""
    return any(frame.f_globals.get("__name__") == "runpy" for frame, _ in traceback.walk_tb(error.__traceback__))


def _print(error: BaseException) -> None:
    """The traceback as python prints it: from the script on."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_globals.get("__name__") != "runpy":
        tb = tb.tb_next
    while tb is not None and tb.tb_frame.f_globals.get("__name__") == "runpy":
        tb = tb.tb_next
    traceback.print_exception(type(error), error, tb if tb is not None else error.__traceback__)
