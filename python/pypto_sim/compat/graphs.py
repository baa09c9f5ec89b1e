"""NPU graphs: capture runs eagerly and records; replay runs what was recorded again, into the same tensors."""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_capturing = threading.local()              # .graph: the graph that this thread captures, .depth: inside an operation


class NPUGraph:
    """Records torch operations and kernel launches between capture_begin and capture_end."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._steps: list[Callable[[], None]] = []
        self._mode: _Recorder | None = None
        self._before: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Start recording what this thread does."""
        if getattr(_capturing, "graph", None) is not None:
            raise RuntimeError("an NPU graph is being captured already in this thread")
        self._steps.clear()
        _capturing.graph = self
        self._mode = _Recorder(self._steps)
        self._mode.__enter__()

    def capture_end(self) -> None:
        """Stop recording."""
        if self._mode is None:
            raise RuntimeError("capture_end without capture_begin")
        mode, self._mode = self._mode, None
        mode.__exit__(None, None, None)
        _capturing.graph = None

    def replay(self) -> None:
        """Run everything again on the present contents of the captured tensors."""
        if self._mode is not None:
            raise RuntimeError("the NPU graph is still being captured")
        with torch.no_grad():
            for step in self._steps:
                step()

    def reset(self) -> None:
        """Forget what was recorded."""
        self._steps.clear()

    def pool(self) -> tuple[int, int]:
        """A memory pool's id, without meaning here."""
        return (0, 0)

    def debug_dump(self, debug_path: str) -> None:
        """Write how many steps were recorded."""
        with open(debug_path, "w", encoding="utf-8") as f:
            f.write(f"{len(self._steps)} steps\n")


class graph:
    """`with torch.npu.graph(g): ...` - capture into `g`."""

    def __init__(self, npu_graph: NPUGraph, pool: Any = None, stream: Any = None, **options: Any) -> None:
        self.npu_graph = npu_graph

    def __enter__(self) -> NPUGraph:
        self.npu_graph.capture_begin()
        return self.npu_graph

    def __exit__(self, *exc: Any) -> None:
        self.npu_graph.capture_end()


def make_graphed_callables(callables: Any, sample_args: Any = None, **options: Any) -> Any:
    """The callables themselves: they run eagerly."""
    return callables


def graph_pool_handle() -> tuple[int, int]:
    """A memory pool's id, without meaning here."""
    return (0, 0)


def is_current_stream_capturing() -> bool:
    """True while this thread captures a graph."""
    return getattr(_capturing, "graph", None) is not None


def record_launches(call: Callable[..., Any]) -> Callable[..., Any]:
    """Method Kernel.__call__ that records launches of a capturing thread."""
    @functools.wraps(call)
    def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        found = getattr(_capturing, "graph", None)
        if found is None or getattr(_capturing, "depth", 0):
            return call(kernel, *args, **kwargs)
        found._steps.append(lambda: call(kernel, *args, **kwargs))
        _capturing.depth = 1                       # a kernel inside a kernel is part of it
        try:
            return call(kernel, *args, **kwargs)
        finally:
            _capturing.depth = 0
    return launch


class _Recorder(TorchDispatchMode):
    """Appends each dispatched operation to `steps`."""

    def __init__(self, steps: list[Callable[[], None]]) -> None:
        super().__init__()
        self.steps = steps

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        _capturing.depth = getattr(_capturing, "depth", 0) + 1
        try:
            outputs = func(*args, **kwargs)
        finally:
            _capturing.depth -= 1
        if not _capturing.depth and not func.is_view:
            self.steps.append(lambda: _run_again(func, args, kwargs, outputs))
        return outputs


def _run_again(func: Any, args: Any, kwargs: Any, outputs: Any) -> None:
    """Repeat an operation and put its results where the captured ones are."""
    before = [o for o in tree_leaves(outputs) if isinstance(o, torch.Tensor)]
    after = [o for o in tree_leaves(func(*args, **kwargs)) if isinstance(o, torch.Tensor)]
    for old, new in zip(before, after, strict=True):
        if old is not new and old.data_ptr() != new.data_ptr():
            old.copy_(new)
