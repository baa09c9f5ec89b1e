"""Parameters of a kernel: which are tensors, and does a call fit their annotations?"""
from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..dtypes import DataType
from ..enums import StatusType
from ..errors import DTypeError, PyptoRuntimeError, PyptoTypeError, PyptoValueError, ShapeError
from ..trace.scalar import SymbolicScalar, constant, evaluate, key, known, leaves, value_of
from ..trace.session import inside_package
from ..trace.source import parameter_rebinds
from ..trace.tensor import Tensor
from .arrays import Argument, is_array

MISSING = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. annotation: a Tensor for tensor parameters, None for scalars."""

    name: str
    annotation: Tensor | None
    default: Any = MISSING


class Signature:
    """Parameters of a kernel function; string annotations are resolved with the names visible where it is defined."""

    def __init__(self, function: types.FunctionType, frame: types.FrameType | None) -> None:
        self.function, self.name = function, function.__name__
        self._frame_names = _visible_names(function, frame)
        self._parameters: tuple[Parameter, ...] | None = None
        try:
            self.parameters  # noqa: B018  (report mistakes where the kernel is defined)
        except NameError:
            self._parameters = None               # a forward reference: resolved at the first call

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters, tensors first. Raises PyptoValueError for a signature that PyPTO does not take."""
        if self._parameters is None:
            self._parameters = self._classify()
            self._frame_names = {}
        return self._parameters

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        """The tensor parameters."""
        return tuple(p for p in self.parameters if p.annotation is not None)

    def _classify(self) -> tuple[Parameter, ...]:
        out: list[Parameter] = []
        for p in inspect.signature(self.function).parameters.values():
            if p.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
                raise PyptoValueError(f"kernel `{self.name}`: parameter `{p.name}` is {p.kind.description}; kernels "
                                      "take plain parameters only")
            annotation = self._tensor_annotation(p)
            if annotation is not None and out and out[-1].annotation is None:
                raise PyptoValueError("Non-tensor parameters must come after all tensor parameters: in kernel "
                                      f"`{self.name}` `{p.name}` comes after `{out[-1].name}`")
            out.append(Parameter(p.name, annotation, p.default))
        return tuple(out)

    def _tensor_annotation(self, p: inspect.Parameter) -> Tensor | None:
        a = p.annotation
        if isinstance(a, str):
            a = eval(a, {**self.function.__globals__, **self._frame_names})
        if isinstance(a, type) and issubclass(a, Tensor):
            a = a()
        return a if isinstance(a, Tensor) else None

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any],
             tensors_by_name: bool) -> tuple[list[Any], list[Any]]:
        """(tensor arguments, scalar arguments) in the order of the parameters, defaults filled in.

        Raises PyptoRuntimeError for too few or too many arguments, unknown keywords, a missing scalar, a tensor where a
        scalar is expected, and for tensors by keyword unless `tensors_by_name`.
        """
        parameters, tensors = self.parameters, self.tensors
        given = dict(zip((p.name for p in parameters), args, strict=False))
        if len(args) > len(parameters):
            raise self._wrong(f"takes {len(parameters)} arguments, got {len(args)}")
        names = {p.name for p in parameters}
        for name, value in kwargs.items():
            if name not in names:
                raise self._wrong(f"has no parameter `{name}`")
            if name in given:
                raise self._wrong(f"got `{name}` twice")
            if not tensors_by_name and any(t.name == name for t in tensors):
                raise self._wrong(f"Expected at least {len(tensors)} tensor argument(s): tensors are positional, "
                                  f"`{name}` was given by keyword")
            given[name] = value
        for p in parameters:
            if p.name in given:
                continue
            if p.default is MISSING:
                missing = [q.name for q in tensors if q.name not in given]
                raise self._wrong(f"Expected at least {len(tensors)} tensor argument(s), missing: {', '.join(missing)}"
                                  if p.annotation is not None else f"misses the argument `{p.name}`")
            given[p.name] = p.default
        for p in parameters:
            if p.annotation is None and is_array(given[p.name]):
                raise self._wrong(f"got a tensor for `{p.name}`, which is not annotated as one: write "
                                  f"`{p.name}: pypto.Tensor()`")
        return [given[p.name] for p in tensors], [given[p.name] for p in parameters if p.annotation is None]

    def _wrong(self, text: str) -> PyptoRuntimeError:
        shown = ", ".join(p.name + ("" if p.default is MISSING else "=...") for p in self.parameters)
        return PyptoRuntimeError(f"kernel {self.name}({shown}) {text}", kernel=self.name)


def check_arguments(kernel: str, parameters: Sequence[Parameter], arguments: Sequence[Argument]) -> dict[str, int]:
    """Check shapes and element types against the annotations; fills in the dynamic axes and formats.

    Returns the sizes of the named axes. Raises ShapeError or DTypeError naming parameter, expected and got.
    """
    symbols: dict[str, int] = {}
    later: list[tuple[Parameter, Argument, int, SymbolicScalar]] = []
    for p, a in zip(parameters, arguments, strict=True):
        note = p.annotation
        assert note is not None
        if note.dtype is not None and note.dtype is not a.dtype and not _stands_for(a.dtype, note.dtype):
            raise DTypeError(f"kernel `{kernel}`: argument `{p.name}` has element type {a.dtype.name}, its annotation "
                             f"says {note.dtype.name}. {_conversion(p.name, note.dtype)}", kernel=kernel)
        if note.dtype is not None:
            a.dtype = note.dtype
        if note.given_format is not None:
            a.format = note.given_format
        if note.declared:
            _check_shape(kernel, p, a, symbols, later)
    for p, a, axis, size in later:
        k = key(size)
        unbound = {leaf[1] for leaf in leaves(k)} - symbols.keys()
        want = None if unbound else evaluate(k, symbols)
        if want != a.shape[axis]:
            raise _wrong_shape(kernel, p, a, f"axis {axis} must be {size}" + ("" if want is None else f" = {want}"))
    return symbols


def _check_shape(kernel: str, p: Parameter, a: Argument, symbols: dict[str, int], later: list[Any]) -> None:
    assert p.annotation is not None and p.annotation.declared is not None
    entries = list(p.annotation.declared)
    if entries[-1] is Ellipsis:
        entries.pop()
        if len(a.shape) < len(entries):
            raise _wrong_shape(kernel, p, a, f"at least {len(entries)} axes")
        entries += [StatusType.STATIC] * (len(a.shape) - len(entries))
    if len(entries) != len(a.shape):
        raise _wrong_shape(kernel, p, a, f"{len(entries)} axes")
    axes: list[Any] = list(a.shape)
    for axis, (entry, size) in enumerate(zip(entries, a.shape, strict=True)):
        if entry is StatusType.DYNAMIC or (isinstance(entry, int) and entry == -1):
            axes[axis] = constant(size)
        elif isinstance(entry, SymbolicScalar) and not known(entry):
            axes[axis] = constant(size)
            if entry.is_symbol():
                name = entry.terms[0][0][1]
                if symbols.setdefault(name, size) != size:
                    raise _wrong_shape(kernel, p, a, f"axis {axis} is `{name}`, which is {symbols[name]} elsewhere")
            else:
                later.append((p, a, axis, entry))
        elif entry is not StatusType.STATIC and value_of(entry) != size:
            raise _wrong_shape(kernel, p, a, f"axis {axis} must be {value_of(entry)}")
    if any(not isinstance(n, int) for n in axes):
        a.axes = tuple(axes)


def _wrong_shape(kernel: str, p: Parameter, a: Argument, what: str) -> ShapeError:
    assert p.annotation is not None and p.annotation.declared is not None
    shown = ", ".join("..." if n is Ellipsis else repr(n) for n in p.annotation.declared)
    return ShapeError(f"kernel `{kernel}`: argument `{p.name}` has shape {list(a.shape)}, its annotation says "
                      f"[{shown}]: {what}", kernel=kernel)


def _conversion(name: str, wanted: DataType) -> str:
    """How to make the argument fit, with numpy and with torch."""
    if not wanted.arithmetic:
        return "Change the argument or the annotation"
    kind = wanted.np_dtype
    torch = f" (torch: {name}.to(torch.{wanted.torch_name}))" if wanted.torch_name else ""
    return (f"Pass {name}.astype({'np' if kind.isbuiltin == 1 else 'ml_dtypes'}.{kind.name}){torch}, or change the "
            "annotation")


def _stands_for(given: DataType, declared: DataType) -> bool:
    """torch has no type for some 8-bit formats; uint8 carries them."""
    return given is DataType.DT_UINT8 and not declared.arithmetic


@functools.lru_cache(maxsize=1024)
def source_tree(code: types.CodeType) -> ast.FunctionDef | None:
    """Syntax tree of a function's code, line numbers as in its file; None without source."""
    text = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    best = None
    for n in ast.walk(tree):
        if isinstance(n, ast.FunctionDef) and n.name == code.co_name:
            first = min([n.lineno, *(d.lineno for d in n.decorator_list)])
            if first <= code.co_firstlineno <= n.lineno:
                best = n
    return best


@functools.lru_cache(maxsize=1024)
def rebound_parameters(code: types.CodeType, names: tuple[str, ...]) -> dict[str, tuple[int, bool]]:
    """Parameters that the kernel's body assigns to: name -> (line, surely lost)."""
    tree = source_tree(code)
    return parameter_rebinds(tree, names) if tree else {}


@functools.lru_cache(maxsize=1024)
def returns(code: types.CodeType) -> tuple[tuple[int, bool], ...]:
    """(line, it gives a value) of every `return` at the kernel's own level, those with a value first."""
    tree = source_tree(code)
    found = []
    todo: list[ast.AST] = list(tree.body) if tree else []
    while todo:
        n = todo.pop()
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(n, ast.Return):
            bare = n.value is None or (isinstance(n.value, ast.Constant) and n.value.value is None)
            found.append((n.lineno, not bare))
        todo += ast.iter_child_nodes(n)
    return tuple(sorted(found, key=lambda r: (not r[1], r[0])))


def _visible_names(function: Callable[..., Any], frame: types.FrameType | None) -> dict[str, Any]:
    """Names of the enclosing functions and of the closure, for string annotations."""
    if not any(isinstance(a, str) for a in getattr(function, "__annotations__", {}).values()):
        return {}
    names: dict[str, Any] = {}
    while frame is not None and frame.f_code.co_name != "<module>":
        if not inside_package(frame.f_code):
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    closure = inspect.getclosurevars(function).nonlocals if isinstance(function, types.FunctionType) else {}
    return {**names, **closure}


def defining_frame() -> types.FrameType | None:
    """The frame that applies the decorator."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and inside_package(frame.f_code):
        frame = frame.f_back
    return frame


def plain_function(function: Any) -> types.FunctionType:
    """`function` if it is one. Raises PyptoTypeError otherwise."""
    if not isinstance(function, types.FunctionType):
        raise PyptoTypeError(f"pypto.frontend.jit decorates a function, got {type(function).__name__}")
    if function.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise PyptoTypeError(f"pypto.frontend.jit: `{function.__name__}` is a generator or a coroutine, whose body a "
                             "call does not run: write a plain function without yield and async")
    return function
