"""Speed of gallery kernels at realistic sizes, as ratios to torch or numpy in the same run (single thread)."""
from . import bench_strategies, gallery_workloads, workloads

_SETUPS = {name: setup for name, _, _, setup in gallery_workloads.WORKLOADS}


class Ratio(bench_strategies.Ratio):
    """ours / other, the better of three calls each."""

    params = [list(_SETUPS)]

    def setup(self, name):
        workloads.one_thread()
        self.ours, self.other = _SETUPS[name]()
        self.ours()
        self.other()


class Estimate:
    """Warm estimate of the paged decode of 16 sequences, KV 8192."""

    def setup(self):
        gallery_workloads.paged_decode.estimate()

    def time_estimate(self):
        gallery_workloads.paged_decode.estimate()

    def track_cycles(self):
        return gallery_workloads.paged_decode.estimate().cycles

    track_cycles.unit = "cycles"
