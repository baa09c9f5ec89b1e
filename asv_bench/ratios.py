"""Measure every speed ratio in one run, single thread on both sides:

    python asv_bench/ratios.py [--json] [--operations] [NAME ...]
"""
import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402

import gallery_workloads  # noqa: E402
import operation_workloads  # noqa: E402
import workloads  # noqa: E402


def best(call, repeat):
    """Shortest of `repeat` timed calls after one untimed, in seconds."""
    call()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(workload, repeat):
    """Seconds of both sides, in alternation, and their ratio."""
    ours, other = workload.setup()
    a = best(ours, repeat)
    b = best(other, repeat)
    return {"name": workload.name, "other": workload.other, "ours_s": a, "other_s": b, "ratio": a / b,
            "limit": workload.limit, "ok": a / b <= workload.limit}


def measure_operation(name):
    """The same of one operation at [1024, 1024]."""
    a, b = operation_workloads.best_of_both(*operation_workloads.pair(name))
    limit = operation_workloads.CASES[name].limit
    return {"name": name, "other": "numpy" if operation_workloads.CASES[name].numpy else "torch", "ours_s": a,
            "other_s": b, "ratio": a / b, "limit": limit, "ok": a / b <= limit}


def show(row):
    """One line of the table."""
    times = f"ours {row['ours_s']:9.5f} s  {row['other']} {row['other_s']:9.5f} s  ratio {row['ratio']:5.2f}"
    print(f"{row['name']:36} {times}  limit {row['limit']:.2f}  {'ok' if row['ok'] else 'SLOW'}", flush=True)


def once(call):
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def estimates():
    """Cold and warm estimates, in seconds."""
    found = {}
    for name, make, other, size in (("decode_kv131072", workloads.decode_estimate, 65536, 131072),
                                    ("matmul_8192", workloads.matmul_estimate, 4096, 8192)):
        found[f"{name}_cold"] = once(make(size))
        if name.startswith("decode"):
            make(other)()
        warm = make(size if name.startswith("decode") else size)
        found[f"{name}_warm"] = once(warm)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names to measure; default all")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--operations", action="store_true", help="every operation instead of the workloads")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    workloads.one_thread()
    rows = []
    both = (*workloads.WORKLOADS, *(workloads.Workload(*w) for w in gallery_workloads.WORKLOADS))
    for workload in () if args.operations else both:
        if args.names and not any(n in workload.name for n in args.names):
            continue
        rows.append(measure(workload, args.repeat))
        if not args.json:
            show(rows[-1])
    for name in operation_workloads.CASES if args.operations else ():
        if not args.names or name in args.names:
            rows.append(measure_operation(name))
            if not args.json:
                show(rows[-1])
    extra = {}
    if not args.names and not args.operations:
        kernel, arrays = workloads.long_loop()
        extra["long_loop_s"] = once(lambda: kernel(*arrays))
        extra["long_loop_traces"] = workloads.traces(kernel)
        extra |= estimates()
    extra["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if args.json:
        print(json.dumps({"ratios": rows, **extra}, indent=1))
    else:
        for name, value in extra.items():
            print(f"{name:32} {value:.4g}")


if __name__ == "__main__":
    main()
