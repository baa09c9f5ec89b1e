"""Speed of whole strategies, as ratios to torch or numpy in the same run (single thread), and predicted cycles."""
import time

from . import workloads

_BY_NAME = {w.name: w for w in workloads.WORKLOADS}


class Ratio:
    """ours / other, the better of three calls each."""

    params = [list(_BY_NAME)]
    param_names = ["workload"]
    timeout = 600

    def setup(self, name):
        workloads.one_thread()
        self.ours, self.other = _BY_NAME[name].setup()
        self.ours()
        self.other()

    def track_ratio(self, name):
        """Time ours / time of the other side."""
        def shortest(call):
            found = []
            for _ in range(3):
                start = time.perf_counter()
                call()
                found.append(time.perf_counter() - start)
            return min(found)
        return shortest(self.ours) / shortest(self.other)

    track_ratio.unit = "ours/other"


class Decode:
    """Simulated decode, and the cycles the model gives it."""

    params = [["whole_row", "online"], [4096, 16384]]
    param_names = ["strategy", "kv_len"]

    def setup(self, strategy, kv_len):
        workloads.one_thread()
        self.call, _ = workloads.case("attention", strategy, "decode", "llama3-8b", kv=kv_len)
        self.call()
        self.estimate = workloads._estimate("attention", strategy, "decode", "llama3-8b", kv=kv_len)

    def time_simulate(self, *_):
        self.call()

    def track_cycles(self, *_):
        return self.estimate().cycles

    track_cycles.unit = "cycles"


class LongLoop:
    """A loop of 65,536 iterations: traced a few times, then replayed."""

    def setup(self):
        workloads.one_thread()
        self.kernel, self.arrays = workloads.long_loop()

    def time_run(self):
        self.kernel(*self.arrays)

    def track_traces(self):
        self.kernel(*self.arrays)
        return workloads.traces(self.kernel)

    track_traces.unit = "traces"


class Estimates:
    """Time of an estimate whose kernel was traced before with another length."""

    params = [["decode_131072", "matmul_8192"]]
    param_names = ["estimate"]

    def setup(self, name):
        make, other, size = {"decode_131072": (workloads.decode_estimate, 65536, 131072),
                             "matmul_8192": (workloads.matmul_estimate, 8192, 8192)}[name]
        make(other)()
        self.call = make(size)

    def time_warm(self, name):
        self.call()
