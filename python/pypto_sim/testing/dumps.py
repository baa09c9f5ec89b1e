"""Values of a kernel's variables, by name and iteration, without editing the kernel."""
from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from ..errors import PyptoRuntimeError, PyptoTypeError, PyptoValueError
from ..run.launch import watchers
from ..trace.session import inside_package
from ..trace.tensor import Tensor
from .watch import WatchingStepper

Iteration = int | Mapping[str, int] | Callable[[dict[str, int]], bool] | None


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A variable after a line of the kernel. values: its valid box; indices: open loops, outermost first; launch:
    number of the launch inside the block; line: "file:line" after which it held."""

    name: str
    values: np.ndarray
    indices: dict[str, int]
    kernel: str
    launch: int
    line: str

    @property
    def where(self) -> str:
        """ "name [b=0, s2_idx=3]"."""
        at = ", ".join(f"{k}={v}" for k, v in self.indices.items())
        return f"{self.name} [{at}]" if at else self.name


class dump:
    """`with dump("sij", "mi", iteration=3) as found: kernel(...)` - then `found["sij"][0].values`.

    names: Python variables of the kernel and its helpers, names of tensors, or arguments that it writes;
    "name@s2_idx=3@b=0" and "name@3" choose the iteration of one name, "a,b@3" stands for several. iteration: for names
    without one: the number of the innermost loop's iteration, {loop variable or idx_name: value}, a function of such a
    dict, None for all.
    directory: each snapshot is written there as .npz (values, valid box, in fp32 where numpy lacks the type).
    limit: snapshots kept per name.

    Launches of this thread are stepped inside the block. Raises PyptoValueError for a bad name; a name that nothing
    was recorded for is listed in `missing` and raises KeyError when asked for.
    """

    def __init__(self, *names: str, iteration: Iteration = None, directory: Any = None, limit: int = 1000) -> None:
        if not names or not all(isinstance(n, str) for n in names):
            raise PyptoTypeError("dump takes names of variables of a kernel, such as dump(\"scores\", iteration=3)")
        if not (iteration is None or callable(iteration) or isinstance(iteration, (int, Mapping))):
            raise PyptoTypeError(f"dump: iteration must be a number, a dict of loop indices or a function, got "
                                 f"{iteration!r}")
        self.wanted: dict[str, list[Iteration]] = {}
        for name in (part.strip() for n in names for part in n.split(",")):
            plain, chosen = _parsed(name)
            self.wanted.setdefault(plain, []).append(iteration if chosen is None else chosen)
        self.directory = None if directory is None else Path(directory)
        self.limit, self.launches = limit, 0
        self.snapshots: list[Snapshot] = []
        self.dropped: dict[str, int] = {}

    # --- results
    def __getitem__(self, name: str) -> list[Snapshot]:
        found = [s for s in self.snapshots if s.name == name]
        if not found:
            raise KeyError(f"nothing was recorded for {name!r}; recorded: {', '.join(sorted(set(self))) or 'nothing'}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(s.name for s in self.snapshots))

    def __len__(self) -> int:
        return len(self.snapshots)

    @property
    def missing(self) -> list[str]:
        """Names that were asked for and never seen in the chosen iterations."""
        return [n for n in self.wanted if n not in set(self)]

    def __str__(self) -> str:
        lines = [f"{s.where}: {list(s.values.shape)} {s.values.dtype} after {s.line} in `{s.kernel}`"
                 for s in self.snapshots]
        lines += [f"{n}: {count} more not kept (limit {self.limit})" for n, count in self.dropped.items()]
        return "\n".join(lines + [f"{n}: never seen" for n in self.missing])

    # --- the block
    def __enter__(self) -> dump:
        if getattr(watchers, "stepper", None) is not None:
            raise PyptoRuntimeError("another dump is running in this thread")
        watchers.stepper = self._stepper
        return self

    def __exit__(self, *exc: object) -> None:
        watchers.stepper = None

    def _stepper(self, *arguments: Any) -> WatchingStepper:
        self.launches += 1
        return _Dumping(self, *arguments)

    def record(self, name: str, stepper: WatchingStepper, t: Tensor, line: str) -> None:
        """Keep a variable when this iteration was asked for."""
        indices = dict(stepper.indices)
        count = stepper.counts[-1] if stepper.counts else 0
        if not any(_chosen(want, indices, count) for want in self.wanted[name]):
            return
        if sum(s.name == name for s in self.snapshots) >= self.limit:
            self.dropped[name] = self.dropped.get(name, 0) + 1
            return
        one = Snapshot(name, stepper.array(t).copy(), indices, stepper.kernel, self.launches - 1, line)
        self.snapshots.append(one)
        if self.directory is not None:
            self._write(one)

    def _write(self, one: Snapshot) -> None:
        assert self.directory is not None
        self.directory.mkdir(parents=True, exist_ok=True)
        at = "".join(f"-{k}{v}" for k, v in one.indices.items())
        known = one.values.dtype.kind in "biuf" and one.values.dtype.isbuiltin == 1
        values = one.values if known else one.values.astype(np.float32)
        target = self.directory / f"{len(self.snapshots) - 1:04d}-{one.kernel}{one.launch}-{one.name}{at}.npz"
        np.savez(target, values=values, dtype=str(one.values.dtype), line=one.line, kernel=one.kernel,
                 indices=np.array(list(one.indices.items()), dtype=str).reshape(-1, 2))


def from_environment() -> dump | None:
    """PYPTO_SIM_DUMP names what launches of the main thread write, PYPTO_SIM_DUMP_DIR the folder (default dump); each
    process writes into a folder of its own there. None when it is not set."""
    names = os.environ.get("PYPTO_SIM_DUMP", "")
    if not names:
        return None
    folder = Path(os.environ.get("PYPTO_SIM_DUMP_DIR") or "dump") / str(os.getpid())
    return dump(names, directory=folder).__enter__()


class _Dumping(WatchingStepper):
    """Looks at the kernel's variables after each of its lines."""

    def __init__(self, into: dump, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.into = into
        self.known: set[tuple[str, int, int]] = set()                # (name, tensor, version)
        self.lines: dict[int, int] = {}                              # frame -> line that is being executed

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        before = sys.gettrace()                        # a debugger's or coverage tool's
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if inside_package(frame.f_code):
            return None
        self.lines[id(frame)] = frame.f_lineno
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event in ("line", "return"):
            self._look(frame)
            self.lines[id(frame)] = frame.f_lineno
        return self._line

    def _look(self, frame: FrameType) -> None:
        for name, t in frame.f_locals.items():
            if isinstance(t, Tensor) and t.home is self and t.pending is None:
                for known in {name, t.name} & self.into.wanted.keys():
                    self._changed(frame, known, t)

    def _changed(self, frame: FrameType, name: str, t: Tensor) -> None:
        version = self.versions.get(t.id, 0)
        if version and (name, t.id, version) not in self.known:
            self.known.add((name, t.id, version))
            file = frame.f_code.co_filename.rpartition("/")[2]
            self.into.record(name, self, t, f"{file}:{self.lines[id(frame)]}")


def _parsed(name: str) -> tuple[str, Iteration]:
    plain, *choices = name.split("@")
    if not plain.isidentifier():
        raise PyptoValueError(f"dump: {name!r} is no variable name; NAME, NAME@3 or NAME@index=3@other=0 is needed")
    if not choices:
        return plain, None
    if len(choices) == 1 and choices[0].isdigit():
        return plain, int(choices[0])
    indices = {}
    for choice in choices:
        key, sign, value = choice.partition("=")
        if not sign or not key.isidentifier() or not value.lstrip("-").isdigit():
            raise PyptoValueError(f"dump: {name!r}: after @ stands a number or index=number, got {choice!r}")
        indices[key] = int(value)
    return plain, indices


def _chosen(want: Iteration, indices: dict[str, int], count: int) -> bool:
    if want is None:
        return True
    if callable(want):
        return bool(want(dict(indices)))
    if isinstance(want, Mapping):
        return all(indices.get(k) == v for k, v in want.items())
    return count == want
