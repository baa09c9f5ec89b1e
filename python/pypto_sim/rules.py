"""Rules are data: what PyPTO and the strategy guide allow, and how loudly each profile says so.

A check calls `report(rule_id, text, ...)`; the active profile decides whether that is silent, noted, a warning (once
per line) or the rule's exception. Profiles: `lenient` (union of both API versions: undefined results are errors, the
rest warns and names the real rule), `0.2` and `master` (as those releases document), `guide` (hard constraints of the
strategy guide).
"""
from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from . import errors
from .errors import PyptoError, PyptoWarning

PROFILES = ("lenient", "0.2", "master", "guide")
SEVERITIES = ("off", "note", "warn", "error")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `severity` has one entry per profile; `error` is raised where the severity is "error"."""

    id: str
    text: str
    source: str
    severity: dict[str, str]
    error: type[PyptoError]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that fired without raising."""

    rule: str
    severity: str
    text: str
    line: str
    kernel: str


RULES: dict[str, Rule] = {}


def define(rule_id: str, text: str, *, lenient: str, v0_2: str, master: str, guide: str,
           error: type[PyptoError] = errors.PyptoRuntimeError, source: str) -> Rule:
    """Add a rule to the catalogue. Severities are words of SEVERITIES."""
    severity = {"lenient": lenient, "0.2": v0_2, "master": master, "guide": guide}
    if rule_id in RULES:
        raise ValueError(f"rule {rule_id!r} is defined twice")
    if bad := set(severity.values()) - set(SEVERITIES):
        raise ValueError(f"rule {rule_id!r} has unknown severities {sorted(bad)}")
    RULES[rule_id] = Rule(rule_id, text, source, severity, error)
    return RULES[rule_id]


def message(text: str, line: str, kernel: str) -> str:
    """`text` followed by where it happened: "(file.py:57, in kernel `qk`)"."""
    where = ", ".join(p for p in (line, f"in kernel `{kernel}`" if kernel else "") if p)
    return f"{text}   ({where})" if where else text


def report(rule_id: str, text: str, *, profile: str, line: str = "", kernel: str = "",
           seen: set[tuple[str, str]] | None = None, **attributes: Any) -> Finding | None:
    """Say that a rule is violated.

    seen: (rule, line) pairs warned about before in this launch; a repeated one stays silent.
    attributes: further keyword arguments of the rule's exception (CapacityError has some).
    Returns the finding for "note" and "warn", None for "off". Raises the rule's exception for "error".
    """
    rule = RULES.get(rule_id)
    if rule is None:
        raise errors.InternalError(f"no rule has the id {rule_id!r}")
    severity = rule.severity[profile]
    if severity == "off":
        return None
    full = message(text, line, kernel)
    if severity == "error":
        raise rule.error(full, rule=rule_id, line=line, kernel=kernel, **attributes)
    finding = Finding(rule_id, severity, text, line, kernel)
    if severity == "warn":
        if seen is not None:
            if (rule_id, line) in seen:
                return finding
            seen.add((rule_id, line))
        file, _, number = line.rpartition(":")
        warnings.warn_explicit(PyptoWarning(f"{full} [{rule_id}]", rule=rule_id, line=line, kernel=kernel),
                               PyptoWarning, file or "<kernel>", int(number) if number.isdigit() else 0)
    return finding


def listing() -> list[dict[str, str]]:
    """All rules as rows for the docs and the command line: id, text, source, error, one column per profile."""
    return [{"id": r.id, "text": r.text, "source": r.source, "error": r.error.__name__, **r.severity}
            for r in sorted(RULES.values(), key=lambda r: r.id)]


_API = "pypto_api: hard-constraint list and operation table"
_DESIGN = "simulator: results would be undefined"
_GUIDE = "strategy guide"


def _always(rule_id: str, text: str, error: type[PyptoError], source: str = _API) -> None:
    define(rule_id, text, lenient="error", v0_2="error", master="error", guide="error", error=error, source=source)


def _lenient_warns(rule_id: str, text: str, error: type[PyptoError], source: str = _API, *, v0_2: str = "error",
                   master: str = "error", guide: str = "error") -> None:
    define(rule_id, text, lenient="warn", v0_2=v0_2, master=master, guide=guide, error=error, source=source)


# --- names and versions ---------------------------------------------------------------------------------------------
_lenient_warns("api.version", "The operation or argument does not exist in the API version of the profile.",
               errors.PyptoNotImplementedError, guide="off")
_lenient_warns("api.chip", "The operation exists on other chips only.", errors.PyptoNotImplementedError)
_always("api.not_implemented", "The name exists in PyPTO but this form is not simulated.",
        errors.PyptoNotImplementedError)
_always("api.broken_method", "The method form cannot work in PyPTO; the function form does.", errors.PyptoTypeError)
define("option.version", "The option does not exist in the API version of the profile.", lenient="off", v0_2="error",
       master="error", guide="off", error=errors.UnknownOption, source=_API)
_always("arg.type", "An argument has the wrong type.", errors.PyptoTypeError)
_always("arg.value", "An argument has a value outside the documented ones.", errors.PyptoValueError)

# --- element types --------------------------------------------------------------------------------------------------
_always("dtype.unsupported", "The element type is not in the operation's list on any chip or version.",
        errors.DTypeError)
_lenient_warns("dtype.unlisted", "No version lists the element type, but the result is obvious.", errors.DTypeError)
_lenient_warns("dtype.chip", "The element type is supported on another chip only.", errors.DTypeError)
define("dtype.version", "The element type is accepted by the other API version only.", lenient="warn", v0_2="error",
       master="error", guide="warn", error=errors.DTypeError, source=_API)
_always("dtype.mixed", "Tensor operands must share one element type.", errors.DTypeError)
define("scalar.float_for_int", "A float scalar with a fraction has no value in an integer type; 0.2 truncates it.",
       lenient="error", v0_2="warn", master="error", guide="error", error=errors.PyptoTypeError, source=_API)
define("scalar.whole_float_for_int", "A float scalar next to an integer tensor, although whole.", lenient="warn",
       v0_2="off", master="error", guide="warn", error=errors.PyptoTypeError, source=_API)
define("scalar.wraps", "An integer scalar outside the tensor's type wraps modulo 2^n.", lenient="note", v0_2="note",
       master="note", guide="note", error=errors.PyptoValueError, source=_API)
_lenient_warns("scalar.symbolic", "The operation takes no symbolic scalar.", errors.PyptoTypeError)
define("scalar.dtype", "A float scalar counts as FP32; next to FP16 or BF16 an Element of the tensor's type is needed.",
       lenient="warn", v0_2="off", master="error", guide="warn", error=errors.PyptoTypeError, source=_API)
define("scalar.int_compare", "Comparisons take a float or Element scalar, not a bare int.", lenient="warn",
       v0_2="error", master="error", guide="warn", error=errors.PyptoTypeError, source=_API)
_always("scalar.range", "A scalar has no value in the tensor's element type.", errors.PyptoValueError)

_lenient_warns("scalar.nonfinite", "A scalar operand must be finite.", errors.PyptoValueError, v0_2="off",
               guide="warn")
_always("scalar.overflow", "A scalar expression leaves 64 bits.", errors.PyptoValueError, _DESIGN)
_always("scalar.division_by_zero", "A scalar is divided by zero.", errors.PyptoZeroDivisionError, _DESIGN)
_always("scalar.zero", "An integer division by zero has no result.", errors.PyptoValueError)

# --- shapes ---------------------------------------------------------------------------------------------------------
_always("shape.rank", "The rank is outside the documented range.", errors.ShapeError)
_lenient_warns("shape.rank_above", "The rank is above the documented maximum, although the result is obvious.",
               errors.ShapeError, guide="warn")
_always("shape.broadcast", "The operand shapes do not broadcast to one shape.", errors.ShapeError)
define("shape.broadcast_axes", "Only one axis may be broadcast.", lenient="warn", v0_2="error", master="off",
       guide="off", error=errors.ShapeError, source=_API)
define("shape.rank_differs", "The operands must have equal ranks.", lenient="warn", v0_2="error", master="error",
       guide="warn", error=errors.ShapeError, source=_API)
_always("shape.empty", "A tensor operand has no elements.", errors.ShapeError)
_always("shape.count", "A tensor or an axis has more than INT32_MAX elements.", errors.ShapeError)
_always("shape.dim", "An axis number is out of range.", errors.ShapeError)
define("shape.dynamic", "A dynamic (-1) axis reaches an operation that needs static sizes.", lenient="warn",
       v0_2="error", master="error", guide="error", error=errors.ShapeError, source=_API + "; " + _GUIDE)
_always("shape.mismatch", "Shapes or values of the operands do not fit each other.", errors.ShapeError)
define("format.nz", "Only matrix products and plain data movement take NZ tensors.", lenient="error", v0_2="off",
       master="error", guide="error", error=errors.PyptoRuntimeError, source=_API)

# --- tiles ----------------------------------------------------------------------------------------------------------
_lenient_warns("tile.vec_unset", "set_vec_tile_shapes must be called before a vector operation.", errors.TileError)
_always("tile.vec_zero", "Entries of the vector tile must be positive.", errors.TileError)
_lenient_warns("tile.vec_rank", "The vector tile needs at least as many entries as the tensor has axes.",
               errors.TileError)
define("tile.reduce_tail", "The last axis of a reduce tile must be a multiple of 32 bytes.", lenient="warn",
       v0_2="error", master="error", guide="error", error=errors.TileError, source=_API)
define("tile.reduce_size", "The tile of a reduction may have at most 64 KB.", lenient="warn", v0_2="warn",
       master="error", guide="error", error=errors.TileError, source=_API)
define("tile.vec_tail", "The last axis of a vector tile should be a multiple of 32 bytes.", lenient="off", v0_2="off",
       master="off", guide="error", error=errors.TileError, source=_API + "; " + _GUIDE)
_lenient_warns("tile.cube_unset", "set_cube_tile_shapes must be called before a matrix product.", errors.TileError)
_lenient_warns("tile.conv_unset", "set_conv_tile_shapes must be called before a convolution.", errors.TileError)
_always("tile.conv", "The convolution tile has a size that the chip cannot take.", errors.TileError)
_always("tile.cube", "The cube tile breaks an alignment or divisibility rule.", errors.TileError)
define("topk.k_over_tile", "k must not exceed the last entry of the vector tile.", lenient="warn", v0_2="off",
       master="error", guide="error", error=errors.PyptoValueError, source=_API)
define("topk.tile", "The last tile axis of a merge sort must stay below 22 KB.", lenient="warn", v0_2="warn",
       master="error", guide="error", error=errors.TileError, source=_API)
_lenient_warns("online.tile", "The rows of an online softmax must fit the first entry of the vector tile.",
               errors.TileError)
_always("capacity", "A tile and what has to live beside it do not fit an on-chip memory.", errors.CapacityError)

# --- operations whose guide spelling differs -------------------------------------------------------------------------
define("sum.fp32_only", "The guide allows sum on FP32 only: cast first.", lenient="off", v0_2="off", master="off",
       guide="error", error=errors.DTypeError, source=_GUIDE)
define("sigmoid.expand", "The guide expands sigmoid into exp, add and div.", lenient="off", v0_2="off", master="off",
       guide="error", error=errors.PyptoNotImplementedError, source=_GUIDE)
define("guide.unverified", "The guide marks the operation as not verified.", lenient="off", v0_2="off", master="off",
       guide="note", error=errors.PyptoRuntimeError, source=_GUIDE)
define("cast.pair", "The chip has no direct conversion between the two element types.", lenient="warn", v0_2="off",
       master="error", guide="error", error=errors.DTypeError, source=_API)
define("cast.mode", "The rounding mode has no effect for this pair; the default is used.", lenient="warn",
       v0_2="off", master="off", guide="warn", error=errors.PyptoValueError, source=_API)
_always("quantise.type", "INT8 goes without zero points, UINT8 with them; dequantize gives FP32.", errors.DTypeError)
define("div.int_result", "Division of integers gives FP32 in the current source and an integer in 0.2.",
       lenient="warn", v0_2="off", master="off", guide="warn", error=errors.DTypeError, source=_API)
define("alpha.removed", "alpha= of add and sub exists in 0.2 only.", lenient="warn", v0_2="off", master="error",
       guide="warn", error=errors.PyptoTypeError, source=_API)
define("gather.embedding", "gather picks elements (index rank = input rank); the look-up of rows is index_select.",
       lenient="warn", v0_2="error", master="error", guide="warn", error=errors.ShapeError, source=_API)
_lenient_warns("where.bit_mask", "A UINT8 condition of where is a bit mask, which the Python interface refuses.",
               errors.DTypeError)
_lenient_warns("matmul.bias_rank", "The bias must be [1, N].", errors.ShapeError)
_lenient_warns("matmul.bias_dtype", "A BF16 bias with BF16 operands needs the 950; use FP32.", errors.DTypeError,
               master="error")
_lenient_warns("matmul.rank", "Both operands of a matrix product need the same rank.", errors.ShapeError)
_lenient_warns("assemble.dtype", "assemble needs equal element types.", errors.DTypeError)

# --- memory and control flow -----------------------------------------------------------------------------------------
_always("view.past_end", "A view starts past the end of its source's shape.", errors.PyptoIndexError, _DESIGN)
_lenient_warns("element.past_end", "An element is read past the end of a table.", errors.PyptoIndexError, _DESIGN)
_lenient_warns("assemble.overlap", "Two assembles of one block write the same region.", errors.PyptoRuntimeError)
define("arg.read_write", "One argument is both read and written in one block.", lenient="warn", v0_2="error",
       master="error", guide="warn", error=errors.PyptoRuntimeError, source=_API)
_lenient_warns("arg.same_twice", "The same array is passed for two arguments.", errors.PyptoRuntimeError, _DESIGN,
               v0_2="warn", master="warn", guide="warn")
define("assign.extent", "A slice that is assigned to is smaller or larger than the tensor; its stops are ignored.",
       lenient="warn", v0_2="warn", master="warn", guide="warn", error=errors.ShapeError, source=_API)
_always("arg.overlap", "The memory of two arguments overlaps partly.", errors.PyptoRuntimeError, _DESIGN)
_always("handle.escaped", "A tensor handle of another launch is used.", errors.HandleError, _DESIGN)
define("loop.rebound_name", "A name rebound in a loop is carried to the next iteration in the current source only.",
       lenient="warn", v0_2="error", master="off", guide="warn", error=errors.PyptoRuntimeError, source=_API)
_lenient_warns("output.unwritten", "An output argument is rebound or never written.", errors.PyptoRuntimeError,
               v0_2="warn", master="warn", guide="warn")
_lenient_warns("output.partly_written", "A part of an output that the kernel never reads is never written; checked "
               "under poison='trace'.", errors.PyptoRuntimeError, _DESIGN, v0_2="warn", master="warn", guide="warn")
_always("read.unwritten", "A tensor is read before anything was written to it.", errors.PyptoRuntimeError)
_always("kernel.return_value", "A kernel returns a value: results are written through parameters.",
        errors.PyptoValueError)
_lenient_warns("kernel.return", "A kernel has a return statement, which PyPTO refuses.", errors.PyptoValueError,
               guide="warn")
_lenient_warns("loop.parallel_race", "Iterations of a parallel=True loop touch each other's data.",
               errors.PyptoRuntimeError)
define("loop.descending_end", "is_loop_end of a descending loop is true from its first iteration on.", lenient="warn",
       v0_2="warn", master="warn", guide="warn", error=errors.PyptoRuntimeError, source=_API)
define("scalar.builtin_min_max", "The builtin min or max is asked about a symbolic size: use pypto.min, pypto.max.",
       lenient="warn", v0_2="warn", master="warn", guide="warn", error=errors.PyptoTypeError, source=_API)
define("scatter.dropped", "The result of a scatter is not used: it has to be assigned back.", lenient="warn",
       v0_2="warn", master="warn", guide="warn", error=errors.PyptoRuntimeError, source=_API)
_always("scatter.assigned", "`t[dim:index] = src` writes nothing in PyPTO.", errors.PyptoValueError)

# --- movement, indexing, matrix products -----------------------------------------------------------------------------
_lenient_warns("api.extension", "PyPTO has no such function.", errors.PyptoNotImplementedError, "simulator")
_always("arg.unknown", "An option or key has an unknown name.", errors.PyptoKeyError)
define("shape.symbolic", "Sizes must be ints, not SymbolicScalars.", lenient="off", v0_2="error", master="error",
       guide="error", error=errors.PyptoTypeError, source=_API)
define("view.valid_above", "A valid extent is larger than the shape.", lenient="warn", v0_2="off", master="error",
       guide="warn", error=errors.PyptoValueError, source=_API)
_always("index.out_of_range", "An index lies outside the axis it counts.", errors.PyptoIndexError, _DESIGN)
_always("assemble.past_end", "A tensor is written past the end of its destination.", errors.PyptoIndexError, _DESIGN)
define("transpose.pair", "The current release swaps certain axis pairs of 4-D and 5-D tensors only.", lenient="warn",
       v0_2="off", master="error", guide="warn", error=errors.ShapeError, source=_API)
_lenient_warns("concat.count", "concat joins 2 to 128 tensors.", errors.ShapeError)
_lenient_warns("pad.float_for_int", "The fill value of an integer tensor must be an int.", errors.PyptoValueError)
_always("pad.side", "pad grows the right and the bottom only.", errors.ShapeError)
_always("matmul.mixed", "Both operands of a matrix product must share one element type.", errors.PyptoValueError)
_always("matmul.out_dtype", "The result type does not go with the operands.", errors.DTypeError)
define("matmul.inner_axis", "The last axis of an ND operand may have at most 65535 elements.", lenient="warn",
       v0_2="warn", master="error", guide="error", error=errors.ShapeError, source=_API)
define("matmul.batch_extend", "0.2 takes extend_params for 2-D products only.", lenient="off", v0_2="error",
       master="off", guide="off", error=errors.PyptoRuntimeError, source=_API)
_lenient_warns("matmul.valid_k", "The contracted axis holds data to different extents in the two operands.",
               errors.ShapeError)
_always("matmul.split_k", "enable_split_k goes with FP32 or INT32 results and nothing fused.", errors.PyptoValueError)
define("tile.l1_total", "The L1 tiles of both operands together must fit L1.", lenient="warn", v0_2="off",
       master="error", guide="error", error=errors.TileError, source=_API)

# --- what only a run can know ----------------------------------------------------------------------------------------
_lenient_warns("poison.stored", "Undefined elements were stored to an argument.", errors.PyptoRuntimeError, _DESIGN)
define("poison.unchecked", "Undefined elements may have been stored; the arguments are too large to check.",
       lenient="warn", v0_2="warn", master="warn", guide="warn", error=errors.PyptoRuntimeError, source=_DESIGN)
_lenient_warns("loop.idx_name", "Nested loops need different idx_names.", errors.PyptoRuntimeError)
_always("arg.read_only", "An argument that the kernel writes has read-only memory.", errors.PyptoValueError, _DESIGN)
define("kernel.impure", "The kernel changes captured or global Python state, so it is stepped and never replayed.",
       lenient="note", v0_2="note", master="note", guide="note", error=errors.PyptoRuntimeError, source=_DESIGN)
