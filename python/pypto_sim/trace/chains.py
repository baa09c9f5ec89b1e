"""Values that a function's code names by a chain from a captured or global name: `cfg.model.scale`, `table["k"][3]`.

The digest of a function looks a few levels deep into what it can reach. A chain is followed to its end however long it
is, through properties and into large arrays, and its value counts when it is plain data.
"""
from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from .scalar import SymbolicScalar
from .tensor import Tensor

MAX_ITEMS = 256               # of a list or dict at the end of a chain
MAX_ARRAY_BYTES = 4096
PLAIN = (bool, int, float, complex, str, bytes, np.generic)
Chain = tuple[bool, str, tuple[tuple[str, Any], ...]]


@functools.lru_cache(maxsize=1024)
def code_chains(code: types.CodeType) -> tuple[Chain, ...]:
    """(captured or global, root name, steps ("attr", name) and ("item", constant)) of a code object and those in it."""
    found: dict[Chain, None] = {}
    root: tuple[bool, str] | None = None
    steps: list[tuple[str, Any]] = []
    constant: Any = None
    for i in dis.get_instructions(code):
        name = i.opname
        if name in ("LOAD_ATTR", "LOAD_METHOD") and root:
            steps.append(("attr", i.argval))
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT") and root and isinstance(i.argval, (int, str)):
            constant = i.argval
            continue
        elif constant is not None and (name == "BINARY_SUBSCR" or name == "BINARY_OP" and i.argrepr == "[]"):
            steps.append(("item", constant))
        elif name not in ("CACHE", "EXTENDED_ARG", "PRECALL"):
            if root and steps:
                found[(*root, tuple(steps))] = None
            root, steps = (name == "LOAD_DEREF", i.argval) if name in ("LOAD_GLOBAL", "LOAD_DEREF") else None, []
        constant = None
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= dict.fromkeys(code_chains(inner))
    return tuple(found)


def chain_values(f: types.FunctionType) -> tuple[Hashable, ...]:
    """Plain data at the ends of the chains of `f`, None where a chain ends elsewhere."""
    chains = code_chains(f.__code__)
    if not chains:
        return ()
    package = sys.modules[__name__.partition(".")[0]]     # its names stay what they are
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    out = []
    for captured, name, steps in chains:
        try:
            x = cells[name].cell_contents if captured else f.__globals__[name]
            if x is package:
                out.append(None)
                continue
            for kind, step in steps:
                x = _step(x, kind, step)
            out.append(plain(x))
        except Exception:                 # whatever a property raises: the kernel will raise it where it asks
            out.append(None)
    return tuple(out)


def _step(x: Any, kind: str, step: Any) -> Any:
    if isinstance(x, (Tensor, SymbolicScalar)):
        return None
    if kind == "attr":
        return getattr(x, step)
    if isinstance(x, Mapping):
        return x.get(step)                # a defaultdict must not grow
    return x[step] if isinstance(x, (list, tuple, str, bytes, np.ndarray)) or _is_torch(x) else None


def plain(x: Any) -> Hashable:
    """Value of plain data, None for anything else."""
    if isinstance(x, float):
        return ("float", x.hex())
    if isinstance(x, np.generic):
        return (x.dtype.str, x.tobytes())
    if isinstance(x, PLAIN):
        return (type(x).__name__, x)
    if isinstance(x, np.ndarray) and not x.dtype.hasobject:
        return (x.dtype.str, x.shape, x.tobytes()) if x.nbytes <= MAX_ARRAY_BYTES else None
    if _is_torch(x):
        return torch_state(x)
    if isinstance(x, (list, tuple)) and len(x) <= MAX_ITEMS:
        return tuple(map(plain, x))
    if isinstance(x, dict) and len(x) <= MAX_ITEMS:
        return tuple((plain(k), plain(v)) for k, v in x.items())
    return None


def torch_state(x: Any) -> Hashable:
    """Changes with every change in place of a torch tensor; the values of one element."""
    if x.numel() == 1 and x.device.type == "cpu":
        return (str(x.dtype), tuple(x.shape), repr(x.item()))
    return (str(x.dtype), tuple(x.shape), x._version)


def _is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "Tensor") and isinstance(x, torch.Tensor)
