"""Every operation at [1024, 1024] on one thread, as a ratio to torch or numpy in the same run."""
from . import operation_workloads, workloads


class Ratio:
    """ours / other, the best of several calls each, taken in turns."""

    params = [list(operation_workloads.CASES)]
    param_names = ["operation"]
    timeout = 120

    def setup(self, operation):
        workloads.one_thread()
        self.ours, self.other = operation_workloads.pair(operation)

    def track_ratio(self, _):
        ours, other = operation_workloads.best_of_both(self.ours, self.other)
        return ours / other

    track_ratio.unit = "ours / other"


class Launch:
    """A launch of the same kernels: what a call costs beyond the work."""

    params = [["abs", "sum", "index_select"]]
    param_names = ["operation"]

    def setup(self, operation):
        workloads.one_thread()
        self.ours, _ = operation_workloads.pair(operation)
        self.ours()

    def time_launch(self, _):
        self.ours()
