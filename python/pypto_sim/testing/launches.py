"""Which launch wrote an array: remembered while a recording runs, so that a failed comparison can ask the kernel."""
from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from ..run.launch import Launch, observers
from .arrays import as_array

SEARCH_SECONDS = 30.0          # a failed test should not wait long for its explanation
MAX_KEPT_BYTES = 512 << 20     # of arguments of the launches that are kept, the latest


class recording:
    """`with recording():` - comparators inside tell which operation produced the first NaN of a kernel's result.

    Arguments of the latest launches of this thread, 512 MiB together, stay alive until the end of the block; a larger
    launch is not kept.
    """

    def __enter__(self) -> recording:
        self.launches: deque[Launch] = deque()
        self.kept_bytes = 0
        observers.list = [*getattr(observers, "list", ()), self._observe]
        _open.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        observers.list = [o for o in observers.list if o != self._observe]
        _open.remove(self)
        self.launches.clear()

    def _observe(self, launch: Launch) -> None:
        self.kept_bytes += _bytes(launch)
        self.launches.append(launch)
        while self.kept_bytes > MAX_KEPT_BYTES:
            self.kept_bytes -= _bytes(self.launches.popleft())


def _bytes(launch: Launch) -> int:
    return sum(a.array.nbytes for a in launch.arguments if a.array is not None)


_open: list[recording] = []


def origin_of_nan(array: Any) -> str:
    """One line about the first NaN of the latest recorded launch that wrote this memory; "" when there is none."""
    if not _open:
        return ("which operation made the NaN: pypto_sim.testing.first_nan(kernel, *args), or compare inside "
                "`with pypto_sim.testing.recording():`")
    launch = _writer(array)
    if launch is None:
        return "the NaN was in no result of a recorded launch (a copy, or torch's or numpy's own work)"
    from .nan import search
    both = [a.name for n, a in enumerate(launch.arguments) if n in launch.written and n in launch.read]
    note = f"{', '.join(both)}: read and written, so its values after the launch were used" if both else ""
    try:
        found = search(launch.call, note, SEARCH_SECONDS)
    except Exception as error:                  # the search must not hide the comparison's outcome
        return f"the search in `{launch.kernel}` for the first NaN: {error}"
    return str(found) if found is not None else f"run again, `{launch.kernel}` produced no NaN"


def _writer(array: Any) -> Launch | None:
    """The latest launch that wrote this memory, else one that wrote the same values (a copy of a result)."""
    try:
        memory = as_array(array)
    except Exception:                           # no array: nobody wrote it
        return None
    latest = [launch for r in reversed(_open) for launch in reversed(r.launches)]
    written = [(launch, a.array) for launch in latest for n, a in enumerate(launch.arguments)
               if n in launch.written and a.array is not None]
    return next((launch for launch, a in written if np.may_share_memory(a, memory)), None) or next(
        (launch for launch, a in written if _equal(a, memory)), None)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.size == b.size and a.dtype.kind == b.dtype.kind and np.array_equal(
        a.reshape(-1).astype(np.float64), b.reshape(-1).astype(np.float64), equal_nan=True)


def nan_report(launches: Any) -> str:
    """first_nan of the first of these launches that left a NaN in a result; "" when none did."""
    for launch in launches:
        for n, a in enumerate(launch.arguments):
            if n in launch.written and a.array is not None and a.array.dtype.kind not in "iub" \
                    and np.isnan(a.array.astype(np.float32, copy=False)).any():
                return origin_of_nan(a.array)
    return ""
