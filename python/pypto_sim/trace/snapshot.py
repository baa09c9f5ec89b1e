"""Undoing what tracing did to Python state.

Tracing runs the kernel function several times. What a kernel changes in captured or global state (a list it appends to,
a counter) must happen once per launch, so the state that a digest can see is put back after tracing.
"""
from __future__ import annotations

import collections
import copy
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .scalar import SymbolicScalar
from .session import inside_package
from .tensor import Tensor
from .watch import DEPTH, MAX_ITEMS, OPAQUE_MODULES, UNBOUND, code_names, generator_of

MAX_ARRAY_BYTES = 1 << 20
ATOMS = (int, float, complex, str, bytes, type(None), Tensor, SymbolicScalar, types.ModuleType, type, np.generic)


class Snapshot:
    """State reachable from a function, `DEPTH` levels down; `restore()` puts back what has changed since."""

    def __init__(self, function: types.FunctionType) -> None:
        self._undo: list[Callable[[], None]] = []
        self._seen: set[int] = set()
        self._visit(function, DEPTH)

    def restore(self) -> None:
        """Put everything back."""
        for undo in self._undo:
            undo()

    def _visit(self, v: Any, depth: int) -> None:
        if isinstance(v, ATOMS) or depth < 0 or id(v) in self._seen:
            return
        self._seen.add(id(v))
        if isinstance(v, types.FunctionType):
            self._function(v, depth)
        elif isinstance(v, types.MethodType):
            self._visit(v.__self__, depth)
        elif isinstance(v, (list, collections.deque, dict, set, bytearray)):
            self._container(v, depth)
        elif isinstance(v, tuple):
            for x in v[:MAX_ITEMS]:
                self._visit(x, depth - 1)
        elif isinstance(v, np.ndarray):
            if v.nbytes <= MAX_ARRAY_BYTES and v.flags.writeable and not v.dtype.hasobject:
                saved = v.copy()
                self._undo.append(lambda: np.copyto(v, saved))
        elif (generator := generator_of(v)) is not None:
            self._generator(generator)
        elif isinstance(getattr(v, "__dict__", None), dict) and not hasattr(v, "traced_state"):
            if type(v).__module__.partition(".")[0] not in OPAQUE_MODULES:
                self._container(v.__dict__, depth)

    def _generator(self, generator: Any) -> None:
        if isinstance(generator, random.Random):
            state = generator.getstate()
            self._undo.append(lambda: generator.setstate(state))
        elif hasattr(generator, "bit_generator"):
            bits, saved = generator.bit_generator, copy.deepcopy(generator.bit_generator.state)
            self._undo.append(lambda: setattr(bits, "state", saved))
        else:
            legacy = generator.get_state()
            self._undo.append(lambda: generator.set_state(legacy))

    def _container(self, v: Any, depth: int) -> None:
        if len(v) > MAX_ITEMS:
            return
        saved = v.copy()
        self._undo.append(lambda: _refill(v, saved))
        for x in (v.values() if isinstance(v, dict) else v if not isinstance(v, bytearray) else ()):
            self._visit(x, depth - 1)

    def _function(self, f: types.FunctionType, depth: int) -> None:
        if inside_package(f.__code__):
            inner = getattr(f, "__wrapped__", None)
            if inner is not None:
                self._visit(inner, depth)
            return
        for cell in f.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:
                continue
            self._undo.append(lambda cell=cell, held=held: setattr(cell, "cell_contents", held)
                              if cell.cell_contents is not held else None)
            self._visit(held, depth - 1)
        for x in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            self._visit(x, depth - 1)
        for name in code_names(f.__code__):
            held = f.__globals__.get(name, UNBOUND)
            self._undo.append(lambda name=name, held=held: _reset_global(f.__globals__, name, held))
            if held is not UNBOUND:
                self._visit(held, depth - 1)
            if isinstance(held, types.ModuleType) and held.__name__ in ("random", "numpy", "numpy.random"):
                module = held if held.__name__ == "random" else sys.modules.get("numpy.random")
                self._visit(getattr(module, "random", None), depth - 1)


def _refill(v: Any, saved: Any) -> None:
    if isinstance(v, dict):
        same = len(v) == len(saved) and all(k in v and v[k] is x for k, x in saved.items())
    elif isinstance(v, set):
        same = v == saved
    else:
        same = len(v) == len(saved) and all(a is b for a, b in zip(v, saved, strict=True))
    if same:
        return
    v.clear()
    if isinstance(v, (dict, set)):
        v.update(saved)
    else:
        v.extend(saved)


def _reset_global(names: dict[str, Any], name: str, held: Any) -> None:
    now = names.get(name, UNBOUND)
    if now is held:
        return
    if held is UNBOUND:
        del names[name]
    else:
        names[name] = held
