"""Digests of Python state: what a loop body or a kernel function can read besides its arguments.

A digest is a hashable value; equal digests mean equal state as far as it can be seen: what the code names by a chain of
attributes and constant indices (chains.py), and `DEPTH` levels of containers, attributes or helper functions. Not seen:
state behind C objects, what lies deeper, and large arrays changed in place.
"""
from __future__ import annotations

import ast
import collections
import enum
import functools
import random
import sys
import types
from collections.abc import Container, Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from .chains import chain_values
from .scalar import SymbolicScalar, known, value_of
from .session import inside_package
from .source import names_after
from .tensor import Tensor

DEPTH = 3
MAX_ITEMS = 4096              # larger containers count by identity and length
MAX_ARRAY_BYTES = 4096        # larger arrays count by identity
UNBOUND = "<unbound>"
NOTHING = (("str", UNBOUND), ("NoneType", None))
OPAQUE_MODULES = ("builtins", "numpy", "ml_dtypes", "torch", "typing", "enum", "pypto_sim")


class Same:
    """Equal for the same object only; keeps it alive."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.obj is other.obj

    def __hash__(self) -> int:
        return id(self.obj)

    def __repr__(self) -> str:
        return f"Same({type(self.obj).__name__})"


class Changing:
    """Never equal: an iterator whose position cannot be seen."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return False


def digest(v: Any, depth: int = DEPTH) -> Hashable:
    """Digest of a value."""
    usual = _USUAL.get(type(v))                       # the types that nearly every value has
    if usual is not None:
        return usual(v)
    if type(v) is types.FunctionType and depth:
        return _function_digest(v, depth)
    if v is None or isinstance(v, (bool, int, str, bytes)) and type(v).__module__ == "builtins":
        return (type(v).__name__, v)
    if isinstance(v, float):
        return ("float", v.hex())
    if isinstance(v, (np.generic, np.dtype)):
        return (type(v).__name__, v.tobytes() if isinstance(v, np.generic) else v)
    if isinstance(v, SymbolicScalar) and known(v):
        return ("scalar", value_of(v))
    if isinstance(v, (Tensor, SymbolicScalar, types.ModuleType, enum.Enum)):
        return Same(v)
    if isinstance(v, np.ndarray):
        return (Same(v), v.tobytes() if v.nbytes <= MAX_ARRAY_BYTES else None)
    if depth == 0:
        return Same(v)
    if hasattr(v, "__next__"):
        return Changing()
    if isinstance(v, (list, tuple, set, frozenset, dict, collections.deque)) and len(v) > MAX_ITEMS:
        return (Same(v), len(v))
    if isinstance(v, (list, tuple, collections.deque)):
        return (type(v).__name__, tuple(digest(x, depth - 1) for x in v))
    if isinstance(v, dict):
        return ("dict", tuple((digest(k, 1), digest(x, depth - 1)) for k, x in v.items()))
    if isinstance(v, (set, frozenset)):
        return ("set", frozenset(digest(x, depth - 1) for x in v))
    if isinstance(v, types.FunctionType):
        return _function_digest(v, depth)
    if isinstance(v, types.MethodType):
        return ("method", Same(v.__func__), digest(v.__func__, depth - 1), digest(v.__self__, depth))
    if isinstance(v, functools.partial):
        return ("partial", digest(v.func, depth), digest(v.args, depth - 1), digest(v.keywords, depth - 1))
    if hasattr(v, "traced_state"):                    # a jit kernel: what it reads, not its caches
        return digest(v.traced_state(), depth)
    generator = generator_of(v)
    if generator is not None:
        return digest(generator_state(generator), 3)
    if isinstance(v, type):
        return _class_digest(v, depth)
    if isinstance(v, types.BuiltinFunctionType):
        return Same(v)
    return (Same(v), _attributes(v, depth))


def _named(v: Any) -> Hashable:
    return (type(v).__name__, v)


_USUAL: dict[type, Any] = {type(None): _named, bool: _named, int: _named, str: _named, bytes: _named,
                           float: lambda v: ("float", v.hex()), types.ModuleType: Same, Tensor: Same}


def generator_of(v: Any) -> Any:
    """The random generator that `v` is, or that it draws from (`random.random`, `numpy.random.rand`); else None."""
    own = v.__self__ if isinstance(v, types.BuiltinFunctionType) else v
    if isinstance(own, random.Random):
        return own
    numpy_random = sys.modules.get("numpy.random")        # numpy imports it on first use
    kinds = (numpy_random.Generator, numpy_random.RandomState) if numpy_random else ()
    return own if isinstance(own, kinds) else None


def generator_state(generator: Any) -> Any:
    """State of a random generator as plain values."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    state = generator.bit_generator.state if hasattr(generator, "bit_generator") else generator.get_state(legacy=False)
    return repr({k: v.tobytes() if isinstance(v, np.ndarray) else {a: b.tobytes() if isinstance(b, np.ndarray) else b
                 for a, b in v.items()} if isinstance(v, dict) else v for k, v in state.items()})


def _attributes(v: Any, depth: int) -> Hashable:
    names = [n for c in type(v).__mro__ for n in getattr(c, "__slots__", ()) if isinstance(n, str) and hasattr(v, n)]
    held = {n: getattr(v, n) for n in names} | dict(getattr(v, "__dict__", {}))
    return digest(held, depth - 1) if held and depth > 1 else None


def _class_digest(v: type, depth: int) -> Hashable:
    if v.__module__.partition(".")[0] in OPAQUE_MODULES:
        return Same(v)
    own = {n: x for n, x in vars(v).items() if not n.startswith("__") and not callable(x)
           and not isinstance(x, (property, staticmethod, classmethod, types.MemberDescriptorType))}
    return (Same(v), digest(own, depth - 1) if depth > 1 else None)


def _function_digest(v: types.FunctionType, depth: int) -> Hashable:
    if inside_package(v.__code__):
        inner = getattr(v, "__wrapped__", None)           # pypto.options as a decorator
        return Same(v) if inner is None else ("wrapped", Same(v), digest(inner, depth))
    held: list[Any] = [v.__defaults__, v.__kwdefaults__]
    for cell in v.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:
            held.append(UNBOUND)
    names = code_names(v.__code__)
    found = [v.__globals__.get(n, UNBOUND) for n in names]
    for _ in range(2):                                    # `helpers.f`, `np.random.rand`
        modules = [m for m in found if isinstance(m, types.ModuleType) and m.__name__.partition(".")[0] != "pypto_sim"]
        found += [getattr(m, n) for m in modules for n in names if hasattr(m, n)]
    return (Same(v.__code__), tuple(digest(x, depth - 1) for x in held + found), chain_values(v))


@functools.lru_cache(maxsize=1024)
def code_names(code: types.CodeType) -> tuple[str, ...]:
    """Global and attribute names that a code object and those nested in it refer to."""
    names = dict.fromkeys(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names |= dict.fromkeys(code_names(inner))
    return tuple(names)


def reachable_codes(fn: types.FunctionType, depth: int = DEPTH) -> Iterator[types.CodeType]:
    """Code of `fn` and of the user functions it can call, `depth` levels down."""
    if inside_package(fn.__code__):
        inner = getattr(fn, "__wrapped__", None)
        if isinstance(inner, types.FunctionType):
            yield from reachable_codes(inner, depth)
        return
    yield fn.__code__
    if depth:
        for n in code_names(fn.__code__):
            inner = fn.__globals__.get(n)
            if isinstance(inner, types.FunctionType):
                yield from reachable_codes(inner, depth - 1)


def handle_like(d: Hashable) -> bool:
    """True for the digest of an unbound name, None, a handle or a symbol."""
    return d in NOTHING or (isinstance(d, Same) and isinstance(d.obj, (Tensor, SymbolicScalar)))


def gone(d: Hashable, alive: Container[Any]) -> bool:
    """True for the digest of an unbound name, None, or a handle or symbol of a body that is not `alive`: using it is
    noticed, so it may be left behind by a traced body."""
    return d in NOTHING or dead(d, alive)


def dead(d: Hashable, alive: Container[Any]) -> bool:
    """True for the digest of a handle or symbol of a body that is not `alive`."""
    if not isinstance(d, Same):
        return False
    if isinstance(d.obj, Tensor):
        return d.obj.home not in alive
    return isinstance(d.obj, SymbolicScalar) and any(b not in alive for b in d.obj.deps)


class Watch:
    """The values of some names (or "base.attribute" pairs) in the frame that runs a loop."""

    def __init__(self, frame: types.FrameType, names: Iterable[str]) -> None:
        self.frame, self.names = frame, sorted(names)

    def state(self) -> dict[str, Hashable]:
        """Digest of every watched name."""
        local, glob = self.frame.f_locals, self.frame.f_globals
        out = {}
        for name in self.names:
            base, _, attribute = name.partition(".")
            v = local.get(base, glob.get(base, UNBOUND))
            if attribute:
                v = getattr(v, attribute, None) if isinstance(v, types.ModuleType) else None
            out[name] = digest(v)
        return out


class AfterLoop:
    """Names that a loop body stores and that are read after the loop: do they mean the same as after stepping it?"""

    def __init__(self, frame: types.FrameType, node: ast.For) -> None:
        fate = names_after(frame.f_code.co_filename, node)
        escaping = set(frame.f_code.co_cellvars) | set(frame.f_code.co_freevars)
        everywhere = frame.f_code.co_name == "<module>"
        self.sure = fate.surely_stored
        self.watch = Watch(frame, {n for n in fate.stored if n in fate.read_after or n in escaping or everywhere
                                   or n not in frame.f_code.co_varnames})
        self.before = self.watch.state()
        self.seen: list[dict[str, Hashable]] = []

    def look(self) -> None:
        """Note the values at the end of one path."""
        if self.watch.names:
            self.seen.append(self.watch.state())

    def leaking(self, alive: Container[Any], runs: bool) -> str:
        """A name whose value after tracing may not be the one after stepping, "" when there is none.

        runs: the loop is known to run at least once.
        """
        for n in self.watch.names:
            values = [s[n] for s in self.seen]
            if not values or all(v == self.before[n] for v in values) or dead(values[-1], alive):
                continue
            if not (n in self.sure and runs and all(v == values[0] for v in values)):
                return n
        return ""
