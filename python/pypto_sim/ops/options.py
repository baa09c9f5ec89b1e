"""Tile shapes, option groups and labels in force; restored at the end of a loop body and of `with pypto.options`."""
from __future__ import annotations

import difflib
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..errors import PyptoError, PyptoKeyError, PyptoTypeError, PyptoValueError, TileError
from ..rules import message
from ..trace.context import holder, running, trial
from ..trace.scalar import SymbolicScalar, value_of
from ..trace.session import user_line
from ..trace.tensor import INT32_MAX
from ..trace.tiles import CubeTile, Scope

MAX_VEC_AXES = 6

Check = Callable[[Any], bool]


def _between(low: int, high: int) -> tuple[Check, str]:
    return lambda v: not isinstance(v, bool) and hasattr(v, "__index__") and low <= int(v) <= high, f"{low} to {high}"


def _one_of(*words: Any) -> tuple[Check, str]:
    return lambda v: v in words, ", ".join(map(repr, words))


_ANY: tuple[Check, str] = (lambda v: True, "any value")
_BOOL: tuple[Check, str] = (lambda v: v in (True, False), "True or False")
_INT: tuple[Check, str] = (lambda v: not isinstance(v, bool) and hasattr(v, "__index__"), "an int")
_DICT: tuple[Check, str] = (lambda v: isinstance(v, dict) and not (
    any(isinstance(k, int) for k in v) and any(isinstance(k, str) for k in v)),
    "a dict whose keys are all strings (\"DEFAULT\", \"func8_0\", labels) or all ints")
_LIST: tuple[Check, str] = (lambda v: isinstance(v, (list, tuple)), "a list")
_STR: tuple[Check, str] = (lambda v: isinstance(v, str), "a string")
_SCOPE: tuple[Check, str] = (lambda v: _INT[0](v) or isinstance(v, (tuple, list)) and len(v) == 3,
                             "an int or (id, bool, bool)")

# group -> option -> (check, what is allowed); the union of both API versions
OPTIONS: dict[str, dict[str, tuple[Check, str]]] = {
    "runtime": {
        "run_mode": (lambda v: v in (0, 1), "RunMode.NPU or RunMode.SIM"), "device_sched_mode": _between(0, 3),
        "stitch_function_max_num": _between(1, 1024), "max_workspace_kb": _between(0, 2**31 - 1),
        "valid_shape_optimize": _between(0, 1), "ready_on_host_tensors": _LIST,
        "device_sched_parallelism": _between(1, 8), "launch_sched_aicpu_num": _between(1, 7),
        "launch_early_mode": _between(0, 2), "stitch_function_inner_memory": _INT,
        "stitch_function_outcast_memory": _INT,
        "stitch_function_num_initial": _INT, "stitch_function_num_step": _INT, "stitch_cfgcache_size": _INT,
        "stitch_function_size": _INT, "triple_stream_sched": _ANY,
    },
    "pass": {
        "vec_nbuffer_setting": _DICT, "cube_l1_reuse_setting": _DICT, "cube_nbuffer_setting": _DICT,
        "sg_set_scope": _SCOPE, "sg_set_ooo_scope": _between(-1, 100000),
        "ooo_sched_mode": _one_of("", "GAPMIN", "HLF"),
        "auto_mix_partition": _between(0, 1), "sg_set_tunevf_mode": _between(0, 2), "enable_slice": _BOOL,
        "pg_skip_partition": _BOOL, "pg_upper_bound": _INT,
    },
    "host": {"compile_stage": _ANY, "compile_monitor_enable": (lambda v: v in (0, 1, 2), "0 to 2"),
             "compile_timeout": _ANY, "compile_timeout_stage": _ANY, "compile_monitor_print_interval": _ANY},
    "codegen": {"support_dynamic_aligned": _BOOL, "soc_version": _STR, "enable_pmu_trace": _BOOL, "vf_options": _STR},
    "debug": {"compile_debug_mode": _between(0, 2), "runtime_debug_mode": _between(0, 4), "dump_pass_graph": _LIST},
    "verify": {"enable_pass_verify": _BOOL, "pass_verify_save_tensor": _BOOL, "pass_verify_save_tensor_dir": _STR,
               "pass_verify_pass_filter": _LIST, "pass_verify_error_tol": _LIST},
    "operation": {"combine_axis": _BOOL, "force_combine_axis": _BOOL},
}


def checked(group: str, values: dict[str, Any] | None) -> dict[str, Any]:
    """`values` after checking names and values. Raises PyptoKeyError (also TypeError) naming the nearest options."""
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
        check, allowed = known[name]
        if not check(value):
            raise _error(OptionError, f"{group}_options[{name!r}] must be {allowed}, got {value!r}", "arg.value")
        out[name] = value
    return out


class OptionError(PyptoError, ValueError, RuntimeError):
    """An option has a value that it cannot have."""


class UnknownOption(PyptoKeyError, TypeError):
    """No such option; a KeyError, and a TypeError as PyPTO raises."""


def _error(kind: type[PyptoError], text: str, rule: str) -> PyptoError:
    session = running()
    if session is not None:
        return session.error(kind, text, rule=rule)
    line = user_line()
    return kind(message(text, line, ""), rule=rule, line=line)


def _set_group(group: str, values: dict[str, Any]) -> None:
    h = holder()
    h.scope = h.scope.with_options(group, checked(group, values))


def _get_group(group: str) -> dict[str, Any]:
    return dict(holder().scope.groups.get(group, {}))


def set_pass_options(**values: Any) -> None:
    """Set pass options in the scope in force. Raises UnknownOption or PyptoValueError."""
    _set_group("pass", values)


def get_pass_options() -> dict[str, Any]:
    """Pass options in force."""
    return _get_group("pass")


def set_host_options(**values: Any) -> None:
    """Set host options; they have no effect here."""
    _set_group("host", values)


def get_host_options() -> dict[str, Any]:
    """Host options in force."""
    return _get_group("host")


def set_codegen_options(**values: Any) -> None:
    """Set code generation options."""
    _set_group("codegen", values)


def get_codegen_options() -> dict[str, Any]:
    """Code generation options in force."""
    return _get_group("codegen")


def set_verify_options(**values: Any) -> None:
    """Set verify options; they have no effect here."""
    _set_group("verify", values)


def get_verify_options() -> dict[str, Any]:
    """Verify options in force."""
    return _get_group("verify")


def set_debug_options(**values: Any) -> None:
    """Set debug options; annotations are checked in every mode here."""
    _set_group("debug", values)


def get_debug_options() -> dict[str, Any]:
    """Debug options in force."""
    return _get_group("debug")


def set_runtime_options(**values: Any) -> None:
    """Set run-time options; they steer the cost only."""
    _set_group("runtime", values)


def get_runtime_options() -> dict[str, Any]:
    """Run-time options in force."""
    return _get_group("runtime")


def set_operation_options(**values: Any) -> None:
    """Set operation options, such as combine_axis; they steer the cost only."""
    _set_group("operation", values)


def get_operation_options() -> dict[str, Any]:
    """Operation options in force."""
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


def set_matrix_size(size: Sequence[int]) -> None:
    """[m, k, n] of the original NZ operand."""
    h = holder()
    h.scope = replace(h.scope, matrix_size=_ints("set_matrix_size", size, (3,)))


def set_semantic_label(label: str) -> None:
    """Tag of the following operations, shown in reports."""
    if not isinstance(label, str):
        raise _error(PyptoTypeError, f"pypto.set_semantic_label takes a string, got {label!r}", "arg.type")
    h = holder()
    h.scope = replace(h.scope, label=label)


def set_print_options(*, edgeitems: int = 3, precision: int = 4, threshold: int = 1000, linewidth: int = 120) -> None:
    """How tensors print: numpy's print options of the same names."""
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

    def __init__(self, name: str = "", **values: Any) -> None:
        self.name, self.values = name, values
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
            tile = value if isinstance(value, CubeTile) else cube_tile(*value)
            scope = replace(scope, cube_tile=_tried(tile))
        elif key == "conv_tile_shapes":
            scope = replace(scope, conv_tile=tuple(value) if isinstance(value, (list, tuple)) else (value,))
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
