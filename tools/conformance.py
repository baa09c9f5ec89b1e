"""Run operation cases (JSON lines) against expected values in float64 or exact integers.

    python tools/conformance.py CASES.jsonl [--json] [--op NAME ...] [--line N ...] [--sample N] [--shard I/N]
"""
from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from conform.cases import Case, read_cases  # noqa: E402

OUTCOMES = ("passed", "passed_reduced", "error_as_expected", "failed", "skipped")
CASES_PER_PROCESS = 150          # a fresh process now and then gives memory back


def run(case: Case) -> tuple[int, str, str, float]:
    """(line, outcome, reason, seconds) of one case, in a worker."""
    from conform.run import run_case
    begin = time.perf_counter()
    outcome = run_case(case)
    return case.line, outcome.word, outcome.reason, time.perf_counter() - begin


def run_all(cases: list[Case], processes: int) -> Iterator[tuple[int, str, str, float]]:
    """Outcomes in the order they are ready; large cases start first."""
    order = sorted(cases, key=lambda c: -c.elements)
    if processes == 1:
        yield from map(run, order)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, maxtasksperchild=CASES_PER_PROCESS) as pool:
        yield from pool.imap_unordered(run, order)


def chosen(cases: list[Case], args: argparse.Namespace) -> list[Case]:
    """The cases that the options select."""
    if args.op:
        cases = [c for c in cases if c.op in args.op]
    if args.line:
        cases = [c for c in cases if c.line in args.line]
    if args.sample:
        cases = [c for c in cases if c.elements <= args.most]
        count = min(args.sample, len(cases))
        cases = [cases[i * len(cases) // count] for i in range(count)]
    if args.shard:
        i, n = map(int, args.shard.split("/"))
        cases = cases[i - 1::n]
    return cases


def summary(cases: list[Case], outcomes: dict[int, tuple[str, str]]) -> dict[str, Any]:
    """Counts of the five outcomes, over all, per operation and per type, and every failure and skip."""
    total: dict[str, Any] = dict.fromkeys(OUTCOMES, 0)
    per_op: dict[str, dict[str, int]] = collections.defaultdict(lambda: dict.fromkeys(OUTCOMES, 0))
    per_dtype: dict[str, dict[str, int]] = collections.defaultdict(lambda: dict.fromkeys(OUTCOMES, 0))
    listed: dict[str, list[dict[str, Any]]] = {"failed": [], "skipped": []}
    for case in sorted(cases, key=lambda c: c.line):
        word, reason = outcomes[case.line]
        for counts in (total, per_op[case.op], per_dtype[case.ins[0].dtype if case.ins else "none"]):
            counts[word] += 1
        if word in listed:
            listed[word].append({"op": case.op, "case": case.name, "line": case.line, "reason": reason})
    return {**total, "per_op": dict(sorted(per_op.items())), "per_dtype": dict(sorted(per_dtype.items())),
            "failures": listed["failed"], "skips": listed["skipped"]}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="file of cases, one JSON object a line")
    parser.add_argument("--json", action="store_true", help="the whole result as JSON on standard output")
    parser.add_argument("--op", nargs="+", help="only these operations")
    parser.add_argument("--line", nargs="+", type=int, help="only these lines of the file")
    parser.add_argument("--sample", type=int, help="about this many cases, evenly spread")
    parser.add_argument("--most", type=int, default=2**18, help="with --sample: largest case, in elements")
    parser.add_argument("--shard", help="I/N: every N-th case from the I-th on")
    parser.add_argument("--processes", type=int, default=2, help="default 2")
    parser.add_argument("--page", type=Path, help="also write the result as a page of the documentation")
    parser.add_argument("--times", type=int, default=0, help="list the slowest N cases on standard error")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 when no case failed, 1 when one did, 2 for a wrong call."""
    args = arguments(argv)
    try:
        cases = chosen(read_cases(args.cases), args)
    except (OSError, ValueError) as e:
        print(e, file=sys.stderr)
        return 2
    outcomes, times, shown = {}, [], sys.stderr.isatty()
    for line, word, reason, seconds in run_all(cases, args.processes):
        outcomes[line] = (word, reason)
        times.append((seconds, line))
        if shown:
            print(f"\r{len(outcomes)} of {len(cases)}", end="", file=sys.stderr, flush=True)
    if shown:
        print(file=sys.stderr)
    by_line = {c.line: c for c in cases}
    for seconds, line in sorted(times, reverse=True)[:args.times]:
        print(f"{seconds:8.2f} s  {by_line[line].op} line {line}", file=sys.stderr)
    result = summary(cases, outcomes)
    if args.page:
        from conform.page import page
        from conform.run import TABLE
        args.page.write_text(page(result, {op: row.tolerance for op, row in TABLE.items()}), encoding="utf-8")
    if args.json:
        json.dump(result, sys.stdout, indent=1)
        print()
    else:
        for row in result["failures"]:
            print(f"{row['op']} {row['case']} (line {row['line']}): {row['reason'][:300]}")
        print(", ".join(f"{word} {result[word]}" for word in OUTCOMES))
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
