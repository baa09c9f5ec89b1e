"""Predict every row of a calibration table with the `calibrated` model and score the predictions.

    python tools/accuracy.py TABLE.csv [--json] [--row ID ...] [--operator NAME ...] [--family NAME ...] [--processes N]
    python tools/accuracy.py TABLE.csv --write .      # docs/accuracy.md, its plot, README figures, error bands
"""
from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from calibration import attention, others, products, reductions, streaming  # noqa: E402
from calibration.launches import predict  # noqa: E402
from calibration.score import summary  # noqa: E402
from calibration.table import Row, Unpredictable, read  # noqa: E402

OPERATORS = {name: build for module in (streaming, reductions, products, attention, others)
             for name, build in module.OPERATORS.items()}


def run(row: Row) -> dict[str, Any]:
    """The record of one row: what was measured, what is predicted, or why not."""
    begin = time.perf_counter()
    record: dict[str, Any] = {"id": row.id, "family": row.family, "tier": row.tier, "device": None,
                              "measured_us": row.time_us, "predicted_us": None, "operator": row.operator,
                              "reason": None}
    try:
        record["device"] = row.device
        record["predicted_us"] = predict(row, OPERATORS)
    except Unpredictable as error:
        record["reason"] = str(error)
    except Exception as error:      # one row must not stop the table; the reason is in the report
        record["reason"] = f"{type(error).__name__}: {error}"
    record["seconds"] = time.perf_counter() - begin
    return record


def run_all(rows: list[Row], processes: int) -> list[dict[str, Any]]:
    if processes <= 1 or len(rows) < 8:
        return [run(row) for row in rows]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return list(pool.imap(run, rows, chunksize=4))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--row", nargs="+", default=[])
    parser.add_argument("--operator", nargs="+", default=[])
    parser.add_argument("--family", nargs="+", default=[])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", type=Path, metavar="ROOT")
    args = parser.parse_args(argv)
    try:
        rows = read(args.table)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    for name, value in (("id", args.row), ("operator", args.operator), ("family", args.family)):
        if value:
            rows = [r for r in rows if getattr(r, name) in value]
    records = run_all(rows, args.processes)
    result = {"rows": records, "summary": summary(rows, records)}
    if args.write:
        from calibration.page import write
        write(args.write, rows, result)
    if args.json:
        json.dump(result, sys.stdout, indent=1)
        print()
        return 0
    from calibration.score import show
    show(rows, result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
