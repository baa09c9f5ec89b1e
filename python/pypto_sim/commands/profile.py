"""`pypto-sim profile SCRIPT -o DIR`: run a script and write what every launch costs and when its tasks run."""
from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from . import shared
from .script import execute

NAME, HELP = "profile", "run a script; write estimate.json, report.md, merged_swimlane.json and swim.json"
SCHEMA = 1


def arguments(parser: Any) -> None:
    parser.add_argument("script", metavar="SCRIPT", help="Python file")
    parser.add_argument("-o", dest="output", metavar="DIR", required=True, help="folder for the reports")
    parser.add_argument("args", nargs="*", help="arguments of the script, after -- where they look like options")
    shared.device_options(parser)
    shared.language_option(parser)
    shared.json_option(parser)


def run(args: Any) -> int:
    import pypto_sim as pypto

    from ..config import active
    from ..report.markdown import profile_report
    folder = shared.folder(args.output)      # before the script runs, which may take long
    with pypto.profile(device=args.device, model=args.model, timeline=True) as found:
        if args.json:                        # standard output is the result's
            with contextlib.redirect_stdout(sys.stderr):
                execute(args.script, args.args)
        else:
            execute(args.script, args.args)
    launches = [{"kernel": one.kernel, "estimate": one.estimate.to_dict()} for one in found.launches]
    shown = shared.clean({"schema": SCHEMA, "script": args.script, "launches": launches})
    (folder / "estimate.json").write_text(json.dumps(shown, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    device = launches[0]["estimate"]["device"] if launches else str(args.device or active().device)
    command = f"pypto-sim profile {args.script} -o {args.output}" + (f" --device {args.device}" if args.device else "")
    command += f" --model {args.model}" if args.model else ""
    paths = found.write_timeline(folder)
    (folder / "report.md").write_text(profile_report(launches, device, command, args.lang), encoding="utf-8")
    if args.json:
        shared.print_json(shown)
    else:
        names = ", ".join(str(path) for path in (folder / "estimate.json", folder / "report.md", *paths))
        print(f"{len(launches)} launches: {names}")
        left = sum(one.estimate.timeline.tasks_left_out for one in found.launches if one.estimate.timeline)
        if left:
            print(f"the timeline leaves out {left} tasks that start last", file=sys.stderr)
    return 0
