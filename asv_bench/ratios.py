"""Measure every speed ratio in one run, single thread on both sides: python asv_bench/ratios.py [--json] [NAME ...]."""
import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402

import gallery_workloads  # noqa: E402
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
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    workloads.one_thread()
    rows = []
    for workload in (*workloads.WORKLOADS, *(workloads.Workload(*w) for w in gallery_workloads.WORKLOADS)):
        if args.names and not any(n in workload.name for n in args.names):
            continue
        rows.append(measure(workload, args.repeat))
        if not args.json:
            r = rows[-1]
            times = f"ours {r['ours_s']:7.3f} s  {r['other']} {r['other_s']:7.3f} s  ratio {r['ratio']:5.2f}"
            print(f"{r['name']:32} {times}  limit {r['limit']:.2f}  {'ok' if r['ok'] else 'SLOW'}", flush=True)
    extra = {}
    if not args.names:
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
