"""Tile shapes, option groups and labels in force; restored at the end of a loop body and of `with pypto.options`."""
from __future__ import annotations

import copy
import difflib
import functools
import inspect
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..config import active
from ..errors import OptionError, PyptoError, PyptoTypeError, PyptoValueError, TileError, UnknownOption
from ..rules import RULES, message
from ..trace.context import holder, running, trial
from ..trace.scalar import SymbolicScalar, value_of
from ..trace.session import user_line
from ..trace.tensor import INT32_MAX
from ..trace.tiles import ConvTile, CubeTile, Scope, TileL0Info, TileL1Info
from .option_table import OPTIONS

MAX_VEC_AXES = 6
F = TypeVar("F", bound=Callable[..., Any])

def checked(group: str, values: dict[str, Any] | None) -> dict[str, Any]:
    """`values` after checking names and values. Raises UnknownOption (KeyError, TypeError) naming the nearest ones."""
    known = OPTIONS[group]
    if values is not None and not isinstance(values, dict):
        raise _error(PyptoTypeError, f"{group}_options must be a dict, got {values!r}", "arg.type")
    out = {}
    for name, value in (values or {}).items():
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=3)
            hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
            raise _error(UnknownOption, f"{group}_options has no {name!r}; {hint}Known: {', '.join(known)}",
                         "arg.unknown")
        if not known[name].check(value):
            raise _error(OptionError, f"{group}_options[{name!r}] must be {known[name].allowed}, got {value!r}",
                         "arg.value")
        out[name] = value
    check_versions(group, out)
    return out


def check_versions(group: str, values: Mapping[str, Any], profile: str = "") -> None:
    """Rule option.version: the release of the profile (default: the one in force) has the options."""
    session = running()
    profile = profile or (session.config if session is not None else active()).profile
    rule = RULES["option.version"]
    for name in values if rule.severity[profile] == "error" else ():
        if profile not in (versions := OPTIONS[group][name].versions):
            raise _error(rule.error, f"{group}_options[{name!r}]: only {', '.join(versions)} has it", rule.id)


def _error(kind: type[PyptoError], text: str, rule: str) -> PyptoError:
    session = running()
    if session is not None:
        return session.error(kind, text, rule=rule)
    line = user_line()
    return kind(message(text, line, ""), rule=rule, line=line)


def _set_group(group: str, values: dict[str, Any]) -> None:
    h = holder()
    h.scope = h.scope.with_options(group, checked(group, {k: v for k, v in values.items() if v is not None}))


def _get_group(group: str) -> dict[str, Any]:
    documented = {name: copy.copy(o.default) for name, o in OPTIONS[group].items() if o.default is not None}
    return {**documented, **holder().scope.groups.get(group, {})}


def _keywords(group: str) -> Callable[[F], F]:
    """Give a setter the signature of its options: all keywords, None leaves one as it is."""
    def declare(function: F) -> F:
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
             for name in OPTIONS[group]], return_annotation="None")
        return function
    return declare


@_keywords("pass")
def set_pass_options(**values: Any) -> None:
    """Set pass options in the scope in force. Raises UnknownOption or PyptoValueError."""
    _set_group("pass", values)


def get_pass_options() -> dict[str, Any]:
    """Pass options in force, with the documented defaults of the others."""
    return _get_group("pass")


@_keywords("host")
def set_host_options(**values: Any) -> None:
    """Set host options; they have no effect here."""
    _set_group("host", values)


def get_host_options() -> dict[str, Any]:
    """Host options in force, with the documented defaults of the others."""
    return _get_group("host")


@_keywords("codegen")
def set_codegen_options(**values: Any) -> None:
    """Set code generation options."""
    _set_group("codegen", values)


def get_codegen_options() -> dict[str, Any]:
    """Code generation options in force, with the documented defaults of the others."""
    return _get_group("codegen")


@_keywords("verify")
def set_verify_options(**values: Any) -> None:
    """Set verify options; they have no effect here."""
    _set_group("verify", values)


def get_verify_options() -> dict[str, Any]:
    """Verify options in force, with the documented defaults of the others."""
    return _get_group("verify")


@_keywords("debug")
def set_debug_options(**values: Any) -> None:
    """Set debug options; annotations are checked in every mode here."""
    _set_group("debug", values)


def get_debug_options() -> dict[str, Any]:
    """Debug options in force, with the documented defaults of the others."""
    return _get_group("debug")


@_keywords("runtime")
def set_runtime_options(**values: Any) -> None:
    """Set run-time options; they steer the cost only."""
    _set_group("runtime", values)


def get_runtime_options() -> dict[str, Any]:
    """Run-time options in force, with the documented defaults of the others."""
    return _get_group("runtime")


@_keywords("operation")
def set_operation_options(**values: Any) -> None:
    """Set operation options, such as combine_axis; they steer the cost only."""
    _set_group("operation", values)


def get_operation_options() -> dict[str, Any]:
    """Operation options in force, with the documented defaults of the others."""
    return _get_group("operation")


def reset_options() -> None:
    """All options back to their defaults; tile shapes stay."""
    h = holder()
    h.scope = replace(h.scope, groups={})


def set_vec_tile_shapes(*shapes: int) -> None:
    """Vector tile of the following operations: as many sizes as their result has axes, more are ignored.

    Raises TileError for sizes below 1, PyptoTypeError for anything but ints, PyptoValueError without sizes.
    """
    h = holder()
    h.scope = replace(h.scope, vec_tile=_tried(_vec_tile(shapes)))


def get_vec_tile_shapes() -> list[int]:
    """The vector tile in force, [] before one is set."""
    return list(holder().scope.vec_tile or ())


def set_cube_tile_shapes(m: Sequence[int], k: Sequence[int], n: Sequence[int], enable_split_k: bool = False) -> None:
    """Tile of the following matrix products.

    m = [mL0, mL1], k = [kL0, kL1] or [kL0, kL1 of A, kL1 of B], n = [nL0, nL1].

    Raises PyptoValueError for lists of another length. Alignment is checked by the matrix product.
    """
    h = holder()
    h.scope = replace(h.scope, cube_tile=_tried(cube_tile(m, k, n, enable_split_k)))


def get_cube_tile_shapes() -> tuple[list[int], list[int], list[int], bool]:
    """(m, k, n, enable_split_k) in force; k has three entries. Empty lists before one is set."""
    t = holder().scope.cube_tile
    return (list(t.m), list(t.k), list(t.n), t.split_k) if t else ([], [], [], False)


def set_conv_tile_shapes(tile_l1_info: TileL1Info, tile_l0_info: TileL0Info | None = None) -> None:
    """Tile of the following convolutions: the part of input and weight in L1, and the part of it in L0.

    Raises PyptoTypeError for other objects, TileError for sizes that the chip cannot take.
    """
    h = holder()
    h.scope = replace(h.scope, conv_tile=conv_tile((tile_l1_info, tile_l0_info)))


def get_conv_tile_shapes() -> tuple[TileL1Info, TileL0Info, bool]:
    """(L1 tile, L0 tile, whether the L0 tile was given) in force; tiles of zeros before one is set."""
    t = holder().scope.conv_tile
    return (t.l1, t.l0 or TileL0Info(), t.l0 is not None) if t else (TileL1Info(), TileL0Info(), False)


def set_matrix_size(size: Sequence[int]) -> None:
    """[m, k, n] of the original NZ operand."""
    h = holder()
    h.scope = replace(h.scope, matrix_size=_ints("set_matrix_size", size, (3,)))


def set_semantic_label(label: str) -> None:
    """Tag of the following operations, shown in reports. It must not look like a function's name, `func8_0`."""
    if not isinstance(label, str):
        raise _error(PyptoTypeError, f"pypto.set_semantic_label takes a string, got {label!r}", "arg.type")
    h = holder()
    if re.fullmatch(r"func\d+_\d+", label):
        raise _error(PyptoValueError, f"pypto.set_semantic_label: {label!r} is the form of a function's name, which "
                                      "the merge settings address; choose another label", "arg.value")
    h.scope = replace(h.scope, label=label)


def set_print_options(*, edgeitems: int = 3, precision: int = 4, threshold: int = 10, linewidth: int = 10) -> None:
    """How tensors print: numpy's print options of the same names. The defaults here are the documented ones; before the
    first call tensors print with a threshold of 1000 and lines of 120.
    """
    h = holder()
    h.scope = replace(h.scope, print_options=(edgeitems, precision, threshold, linewidth))


def set_options(**values: Any) -> None:
    """Set several groups in the scope in force; keywords as of `options`."""
    h = holder()
    h.scope = _changed(h.scope, values)


def get_current_scope() -> Scope:
    """Tiles and options in force, read only."""
    return holder().scope


def get_options_tree() -> str:
    """The options in force as text."""
    return holder().scope.options_text()


class options:
    """Scoped options: `with pypto.options(vec_tile_shapes=[..], pass_options={..}):`, or a decorator of a helper.

    Keywords: name, codegen_options, host_options, pass_options, runtime_options, verify_options, operation_options,
    debug_options, vec_tile_shapes, cube_tile_shapes ([m, k, n(, split)] or CubeTile), conv_tile_shapes, matrix_size.
    """

    def __init__(self, name: str = "", codegen_options: dict[str, Any] | None = None,
                 host_options: dict[str, Any] | None = None, pass_options: dict[str, Any] | None = None,
                 runtime_options: dict[str, Any] | None = None, verify_options: dict[str, Any] | None = None,
                 operation_options: dict[str, Any] | None = None, debug_options: dict[str, Any] | None = None,
                 vec_tile_shapes: Sequence[int] | None = None, cube_tile_shapes: Any = None,
                 conv_tile_shapes: Any = None, matrix_size: Sequence[int] | None = None, **unknown: Any) -> None:
        values = {"codegen_options": codegen_options, "host_options": host_options, "pass_options": pass_options,
                  "runtime_options": runtime_options, "verify_options": verify_options,
                  "operation_options": operation_options, "debug_options": debug_options,
                  "vec_tile_shapes": vec_tile_shapes, "cube_tile_shapes": cube_tile_shapes,
                  "conv_tile_shapes": conv_tile_shapes, "matrix_size": matrix_size, **unknown}
        self.name, self.values = name, {k: v for k, v in values.items() if v is not None}
        values = self.values
        _changed(Scope(), values)                      # unknown names fail here, not at the first use
        self._saved = threading.local()

    def __enter__(self) -> options:
        h = holder()
        self._stack().append((h, h.scope))
        h.scope = _changed(h.scope, self.values)
        return self

    def __exit__(self, *exc: object) -> None:
        h, scope = self._stack().pop()
        h.scope = scope

    def applied(self, scope: Scope) -> Scope:
        """`scope` with these options."""
        return _changed(scope, self.values)

    def _stack(self) -> list[Any]:
        if not hasattr(self._saved, "stack"):
            self._saved.stack = []
        return self._saved.stack

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if hasattr(function, "with_scope"):            # a jit kernel
            return function.with_scope(self)
        values = self.values

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with options(self.name, **values):
                return function(*args, **kwargs)
        return call


_GROUP_KEYS = {f"{g}_options": g for g in OPTIONS}


def _changed(scope: Scope, values: dict[str, Any]) -> Scope:
    for key, value in values.items():
        if value is None:
            continue
        if key in _GROUP_KEYS:
            scope = scope.with_options(_GROUP_KEYS[key], checked(_GROUP_KEYS[key], value))
        elif key == "vec_tile_shapes":
            scope = replace(scope, vec_tile=_tried(_vec_tile(value)))
        elif key == "cube_tile_shapes":
            tile = (cube_tile(value.m, value.k, value.n, value.enable_split_k) if isinstance(value, CubeTile)
                    else cube_tile(*value))
            scope = replace(scope, cube_tile=_tried(tile))
        elif key == "conv_tile_shapes":
            scope = replace(scope, conv_tile=conv_tile(value))
        elif key == "matrix_size":
            scope = replace(scope, matrix_size=_ints("matrix_size", value, (3,)))
        else:
            known = [*_GROUP_KEYS, "vec_tile_shapes", "cube_tile_shapes", "conv_tile_shapes", "matrix_size"]
            near = difflib.get_close_matches(key, known, n=2)
            hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
            raise _error(UnknownOption, f"pypto.options has no {key!r}; {hint}Known: {', '.join(known)}", "arg.unknown")
    return scope


def cube_tile(m: Sequence[int], k: Sequence[int], n: Sequence[int], enable_split_k: bool = False) -> CubeTile:
    """CubeTile of PyPTO's arguments; k of two entries means the same kL1 for both operands."""
    m2, k2, n2 = (_ints(f"set_cube_tile_shapes: `{name}`", v, sizes, form)
                  for name, v, sizes, form in (("m", m, (2,), "[mL0, mL1]"), ("k", k, (2, 3), "[kL0, kL1]"),
                                               ("n", n, (2,), "[nL0, nL1]")))
    return CubeTile(m2, k2 if len(k2) == 3 else (*k2, k2[1]), n2, bool(enable_split_k))  # type: ignore[arg-type]


def _tried(tile: Any) -> Any:
    """The tile itself, or the one that a running tile trial puts in its place."""
    running_trial = trial()
    return tile if running_trial is None else running_trial.tile(user_line(), tile)


def conv_tile(value: Any) -> ConvTile:
    """ConvTile of what set_conv_tile_shapes and `options(conv_tile_shapes=...)` take: it, an L1 tile, or (L1, L0)."""
    if isinstance(value, ConvTile):
        return value
    l1, l0 = (*value, None)[:2] if isinstance(value, (tuple, list)) and 1 <= len(value) <= 2 else (value, None)
    if not isinstance(l1, TileL1Info) or not (l0 is None or isinstance(l0, TileL0Info)):
        raise _error(PyptoTypeError, "pypto.set_conv_tile_shapes takes a TileL1Info and a TileL0Info, got "
                                     f"{type(l1).__name__} and {type(l0).__name__}", "arg.type")
    if fault := l1.fault() or (l0 and l0.fault()):
        raise _error(TileError, f"pypto.set_conv_tile_shapes: {fault}", "tile.conv")
    return ConvTile(replace(l1), l0 and replace(l0))       # the caller's objects may change


def _vec_tile(shapes: Any) -> tuple[int, ...]:
    if len(shapes) == 1 and isinstance(shapes[0], (list, tuple)):
        shapes = shapes[0]
    sizes = _ints("set_vec_tile_shapes", shapes, range(1, MAX_VEC_AXES + 1))
    if any(n < 1 for n in sizes):
        raise _error(TileError, f"pypto.set_vec_tile_shapes: sizes must be positive, got {list(sizes)}",
                     "tile.vec_zero")
    return sizes


def _ints(who: str, values: Any, lengths: Any, form: str = "") -> tuple[int, ...]:
    like = f" such as {form}" if form else ""
    if isinstance(values, (str, bytes)) or not isinstance(values, (list, tuple)):
        raise _error(PyptoTypeError, f"pypto.{who} takes a list of ints{like}, got {values!r}", "arg.type")
    if len(values) not in lengths:
        allowed = " or ".join(map(str, lengths)) if len(lengths) < 4 else f"{lengths[0]} to {lengths[-1]}"
        raise _error(PyptoValueError, f"pypto.{who} takes {allowed} sizes{like}, got {len(values)}: {list(values)}",
                     "arg.value")
    for v in values:
        if isinstance(v, bool) or not (isinstance(v, SymbolicScalar) or hasattr(v, "__index__")):
            raise _error(PyptoTypeError, f"pypto.{who} takes ints, got {v!r}", "arg.type")
    sizes = tuple(value_of(v) if not isinstance(v, SymbolicScalar) else int(v) for v in values)
    if any(abs(n) > INT32_MAX for n in sizes):
        raise _error(PyptoValueError, f"pypto.{who} takes sizes up to {INT32_MAX}, got {list(sizes)}", "arg.value")
    return sizes
