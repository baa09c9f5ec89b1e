"""What the gallery scripts share: random tensors, the comparison with float64 and the printed report."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
BF16_STEP = 2.0**-8                        # largest relative distance of neighbouring bf16 numbers


@dataclass
class Case:
    """One launch with its goldens.

    kernel: jit kernel; args: its arguments; golden: argument number -> (name, float64 array, allowed error). The
    error is the largest |difference| / (|golden| + root mean square of the golden).
    """

    kernel: Any
    args: Sequence[Any]
    golden: dict[int, tuple[str, np.ndarray, float]]
    note: str = ""
    errors: dict[str, float] = field(default_factory=dict)

    def run(self) -> float:
        """Launch and compare. Returns the largest error as a share of what is allowed."""
        self.kernel(*self.args)
        return self.compare(self.args)

    def compare(self, args: Sequence[Any]) -> float:
        """Compare outputs with their goldens; fills `errors`."""
        worst = 0.0
        for number, (name, want, allowed) in self.golden.items():
            got = np.asarray(args[number]).astype(np.float64)
            scale = float(np.sqrt(np.mean(np.square(want)))) or 1.0
            error = float(np.max(np.abs(got - want) / (np.abs(want) + scale)))
            self.errors[name] = error
            worst = max(worst, error / allowed if error == error else float("inf"))
        return worst


def normal(seed: int, *shape: int, scale: float = 1.0, dtype: Any = BF16) -> np.ndarray:
    """Normal random numbers."""
    return (np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)).astype(dtype)


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    """float64 copies."""
    return [a.astype(np.float64) for a in arrays]


def report(title: str, cases: Sequence[Case], estimates: dict[str, Callable[[], Any]]) -> float:
    """Run the cases and print accuracy and predicted cost. Returns the worst error as a share of what is allowed."""
    print(title)
    worst = 0.0
    for case in cases:
        share = case.run()
        worst = max(worst, share)
        found = ", ".join(f"{name} {error:.1e}" for name, error in case.errors.items())
        print(f"  {case.note or case.kernel.__name__}: error against float64: {found}"
              f"  ({'ok' if share <= 1 else 'TOO LARGE'})")
    for name, make in estimates.items():
        e = make()
        print(f"  {name}: {e.time_us:,.1f} us on {e.device}, {e.gm_read_bytes / 2**20:,.1f} MiB read, "
              f"{e.gm_write_bytes / 2**20:,.1f} MiB written, tasks {e.tasks}, bound by {e.bound_by}")
    return worst
