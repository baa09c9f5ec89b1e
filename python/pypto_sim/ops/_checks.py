"""Argument checks that the operations share. Each failure is a rule, so the profile decides how loud it is.

Texts follow one form: who, what was given, what is allowed, how to fix it; the session adds file, line and kernel.
"""
from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..capacity import prepare
from ..dtypes import DataType, Element, short_list, wrap_int
from ..errors import PyptoTypeError
from ..registry import VERSIONS, Cost, OpSpec, Supported
from ..trace.scalar import SymbolicScalar, known, value_of
from ..trace.session import Out, Session, current
from ..trace.tensor import Tensor, static_shape

INT32_MAX = 2**31 - 1
MAX_RANK = 6
BLOCK_BYTES = 32            # alignment unit of the vector memory
MAX_REDUCE_TILE_BYTES = 65536
REDUCING_COMPOSITES = frozenset({"softmax", "rms_norm"})
PAGED = {("scatter_update", "input"), ("experimental.gather_in_ub", "param"), ("experimental.gather_in_l1", "src"),
         ("index_put_", "input")}          # caches that stay in GM: only the rows that are named move
FLOAT32_MAX = float(np.finfo(np.float32).max)

Valid = tuple[Any, ...] | None    # per axis an int or a SymbolicScalar; None = the full shape


class Scalar(NamedTuple):
    """A scalar operand as the core takes it: `floats[0]`, `ints[0]` and, when symbolic, `scalars`."""

    floats: tuple[float, ...]
    ints: tuple[int, ...]
    scalars: tuple[SymbolicScalar, ...]


def valid_of(t: Tensor) -> Valid:
    """Valid shape of `t`, or None when it is the full shape."""
    valid, shape = tuple(map(plain, t.valid_shape)), static_shape(t)
    return None if is_full(valid, shape) else valid


def plain(value: Any) -> Any:
    """An int for a scalar that is known, else the scalar."""
    return value_of(value) if known(value) else value


def is_full(valid: Sequence[Any], shape: Sequence[int]) -> bool:
    """True when `valid` is known to be the whole `shape`."""
    return all(isinstance(v, int) and v == n for v, n in zip(valid, shape, strict=True))


class Check:
    """The checks of one call of one operation."""

    __slots__ = ("spec", "session", "name")

    def __init__(self, spec: OpSpec) -> None:
        self.spec, self.session, self.name = spec, current(), f"pypto.{spec.name}"

    def rule(self, rule_id: str, text: str) -> None:
        """Report a violated rule in the name of the operation."""
        self.session.rule(rule_id, f"{self.name}: {text}")

    # --- one tensor -------------------------------------------------------------------------------------------------
    def tensor(self, arg: str, value: Any, dtypes: Supported | None = None, *, nz: bool = False,
               ranks: tuple[int, int] | None = None) -> Tensor:
        """`value` as a tensor operand: type, element type, rank (default: of the operation), size, format."""
        if not isinstance(value, Tensor):
            self.rule("arg.type", f"`{arg}` must be a Tensor, got {type(value).__name__}")
        if value.pending is not None:
            value = value.pending()
        if value.home is None:
            self.rule("handle.escaped", f"`{arg}` is a Tensor made outside the kernel; pass it as an argument")
        self.dtype(arg, value.dtype, dtypes or self.spec.dtypes)
        shape = static_shape(value)
        self.rank(arg, shape, ranks)
        self.size(arg, shape)
        self.static(arg, value)
        if not nz and value.format is not None and getattr(value.format, "name", "") == "TILEOP_NZ":
            self.rule("format.nz", f"`{arg}` has format NZ, which vector operations do not take; pass it as ND")
        return value

    def static(self, arg: str, value: Tensor) -> None:
        """Static sizes where the profile asks for them: 0.2, and so lenient, lets sum pass, the guide elementwise
        operations."""
        profile, cost, axes = self.session.config.profile, self.spec.cost, value.axes
        if axes is None or cost is Cost.VIEW:
            return
        if all(isinstance(n, int) for n in (axes[1:] if (self.spec.name, arg) in PAGED else axes)):
            return
        reduces = cost in (Cost.VEC_REDUCE, Cost.VEC_SORT, Cost.CUBE) or self.spec.name in REDUCING_COMPOSITES
        if (profile == "guide" and not reduces) or (profile in ("0.2", "lenient") and self.spec.name == "sum"):
            return
        self.rule("shape.dynamic", f"`{arg}` has a dynamic axis, which PyPTO refuses (`has invalid shape value: -1`). "
                                   "Loop over that axis and view blocks of a fixed size")

    def rank(self, arg: str, shape: Sequence[int], ranks: tuple[int, int] | None = None) -> None:
        """Rank within `ranks`, by default the operation's range."""
        low, high = ranks or self.spec.ranks
        if not low <= len(shape) <= MAX_RANK:
            self.rule("shape.rank", f"`{arg}` has rank {len(shape)} (shape {list(shape)}); allowed: {low} to {high}")
        elif len(shape) > high:
            self.rule("shape.rank_above", f"`{arg}` has rank {len(shape)} (shape {list(shape)}); "
                                          f"documented: {low} to {high}. Reshape it to fewer axes")

    def size(self, arg: str, shape: Sequence[int]) -> None:
        """Neither empty nor beyond INT32_MAX."""
        count = 1
        for n in shape:
            count *= n
        if count == 0:
            self.rule("shape.empty", f"`{arg}` has shape {list(shape)} and no elements; every axis must be at least 1")
        if count > INT32_MAX:
            self.rule("shape.count", f"`{arg}` has {count} elements (shape {list(shape)}); "
                                     f"allowed: at most {INT32_MAX}. Split it into blocks")

    def dtype(self, arg: str, dtype: DataType, dtypes: Supported | None) -> None:
        """`dtype` is in the operation's list for the chip and the version of the profile."""
        if dtypes is None:
            return
        chip, profile = self.session.device.chip, self.session.config.profile
        master, old = dtypes.for_version(chip, "master"), dtypes.for_version(chip, "0.2")
        allowed = old if profile == "0.2" else master
        if dtype in allowed:
            return
        text = f"`{arg}` has dtype {dtype.name}; allowed on {chip}: {short_list(allowed)}"
        if dtype in master or dtype in old:
            other = "0.2" if dtype in old else "the current release"
            self.rule("dtype.version", f"{text}. Only {other} takes it: cast first")
        elif dtype in dtypes.union():
            self.rule("dtype.chip", f"{text}. Other chips take it: cast first")
        elif dtype in dtypes.unlisted:
            self.rule("dtype.unlisted", f"{text}. Computed all the same: cast first to stay portable")
        else:
            self.rule("dtype.unsupported", f"{text}. Cast it with pypto.cast")

    def same_dtype(self, /, **tensors: Tensor) -> None:
        """All tensors have one element type."""
        (first, a), *rest = tensors.items()
        for name, t in rest:
            if t.dtype is not a.dtype:
                self.rule("dtype.mixed", f"`{first}` is {a.dtype.name} but `{name}` is {t.dtype.name}; "
                                         "tensor operands must share one dtype. Cast one of them")

    def dim(self, arg: str, dim: Any, rank: int) -> int:
        """Axis number in [-rank, rank) as a non-negative int."""
        if isinstance(dim, bool) or not isinstance(dim, int | np.integer):
            self.rule("arg.type", f"`{arg}` must be an int, got {type(dim).__name__}")
        if not -rank <= dim < rank:
            self.rule("shape.dim", f"`{arg}` is {dim}; allowed for rank {rank}: {-rank} to {rank - 1}")
        return int(dim) % rank

    def choice(self, arg: str, value: Any, kind: type) -> Any:
        """`value` is a member of the enumeration `kind`."""
        if not isinstance(value, kind):
            self.rule("arg.type", f"`{arg}` must be a pypto.{kind.__name__}, got {value!r}")
        return value

    # --- several tensors --------------------------------------------------------------------------------------------
    def broadcast(self, /, **tensors: Tensor) -> tuple[tuple[int, ...], Valid]:
        """Common shape by numpy's rule, and its valid shape: per axis that of the first operand of full size."""
        shapes = [static_shape(t) for t in tensors.values()]
        rank = max(map(len, shapes))
        padded = [(1,) * (rank - len(s)) + s for s in shapes]
        shape = tuple(max(axis) for axis in zip(*padded, strict=True))
        if any(n not in (1, full) for s in padded for n, full in zip(s, shape, strict=True)):
            given = ", ".join(f"`{name}` {list(s)}" for name, s in zip(tensors, shapes, strict=True))
            self.rule("shape.broadcast", f"shapes {given} do not broadcast; each axis must be equal or 1. "
                                         "Unsqueeze or transpose one of them")
        self.size("result", shape)
        valids = [valid_of(t) for t in tensors.values()]
        if all(v is None for v in valids):
            return shape, None
        full_valids = [(1,) * (rank - len(s)) + (s if v is None else v) for s, v in zip(shapes, valids, strict=True)]
        valid = tuple(next(v[i] for s, v in zip(padded, full_valids, strict=True) if s[i] == shape[i])
                      for i in range(rank))
        return shape, None if is_full(valid, shape) else valid

    def scalar(self, arg: str, value: Any, dtype: DataType, *, symbolic: bool = True) -> Scalar:
        """A scalar operand beside a tensor of `dtype`."""
        if isinstance(value, SymbolicScalar):
            if not symbolic:
                self.rule("scalar.symbolic", f"`{arg}` is a symbolic scalar, which this operation does not take")
            return Scalar((0.0,), (0,), (value,))
        if isinstance(value, Element):
            if value.dtype is not dtype:
                self.rule("dtype.mixed", f"`{arg}` is {value!r} next to a tensor of {dtype.name}; "
                                         f"pass Element(pypto.{dtype.name}, {value.value!r})")
            value = value.value
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, int | float):
            self.rule("arg.type", f"`{arg}` must be a Tensor, an Element or a number, got {type(value).__name__}")
        if dtype.is_float:
            return Scalar((self._float(arg, value, dtype),), (0,), ())
        if isinstance(value, float):
            if value != value or value in (float("inf"), float("-inf")):
                self.rule("scalar.range", f"`{arg}` is {value}, which {dtype.name} does not have; "
                                          "pass an int, or cast the tensor to FP32")
            elif value != int(value):
                self.rule("scalar.float_for_int", f"`{arg}` is the float {value} next to a tensor of {dtype.name}; "
                                                  "pass an int, or cast the tensor to FP32")
            else:
                self.rule("scalar.whole_float_for_int", f"`{arg}` is the float {value} next to a tensor of "
                                                        f"{dtype.name}; pass {int(value)}")
        wrapped = wrap_int(int(value), dtype)
        if wrapped != int(value):
            self.rule("scalar.wraps", f"`{arg}` is {value}, outside {dtype.name}: it counts as {wrapped}")
        return Scalar((float(wrapped),), (wrapped,), ())

    def _float(self, arg: str, value: int | float, dtype: DataType) -> float:
        try:
            value = float(value)
        except OverflowError:
            self.rule("scalar.range", f"`{arg}` is an int of {value.bit_length()} bits, which {dtype.name} cannot hold")
        if self.session.config.numerics == "0.2.0":      # that release clamps scalars to the finite fp32 range
            value = min(max(value, -FLOAT32_MAX), FLOAT32_MAX) if value == value else value
        return value

    # --- tiles ------------------------------------------------------------------------------------------------------
    def reduce_tile(self, shape: Sequence[int], dtype: DataType) -> None:
        """Alignment and size of the tile of a reduction over a tensor of `shape`; a missing tile is another rule."""
        tile = self.session.vec_tile
        if tile is None or len(tile) < len(shape) or any(n <= 0 for n in tile):
            return
        used = tile[:len(shape)]
        if used[-1] * dtype.size_bytes % BLOCK_BYTES:
            self.rule("tile.reduce_tail", f"the last axis of the vector tile {list(used)} has "
                      f"{used[-1] * dtype.size_bytes} bytes; it must be a multiple of {BLOCK_BYTES}. "
                      f"Use {-(-used[-1] * dtype.size_bytes // BLOCK_BYTES) * BLOCK_BYTES // dtype.size_bytes}")
        size_bytes = dtype.size_bytes
        for n, size in zip(used, shape, strict=True):
            size_bytes *= min(n, size)
        if size_bytes > MAX_REDUCE_TILE_BYTES:
            self.rule("tile.reduce_size", f"the vector tile {list(used)} has {size_bytes} bytes; allowed for a "
                      f"reduction: {MAX_REDUCE_TILE_BYTES}. Use a smaller tile")

    # --- results ----------------------------------------------------------------------------------------------------
    def emit(self, shape: Sequence[int], dtype: DataType, valid: Valid, ins: Sequence[Tensor], *,
             spec: OpSpec | None = None, ints: Sequence[int] = (), floats: Sequence[float] = (),
             scalars: Sequence[Any] = (), reads: bool = True) -> Tensor:
        """Emit one core row with one result. reads: False when the operands' data is not looked at."""
        return self.emit_all([Out(tuple(shape), dtype, valid)], ins, spec=spec, ints=ints, floats=floats,
                             scalars=scalars, reads=reads)[0]

    def emit_all(self, outs: Sequence[Out], ins: Sequence[Tensor], *, spec: OpSpec | None = None,
                 ints: Sequence[int] = (), floats: Sequence[float] = (),
                 scalars: Sequence[Any] = (), reads: bool = True) -> tuple[Tensor, ...]:
        """Emit one core row, after the check that its tiles fit."""
        spec = spec or self.spec
        tile = prepare(self.session, spec, outs, ins, tuple(ints), name=self.name)
        return self.session.emit(spec, list(outs), list(ins), ints=tuple(ints), floats=tuple(floats),
                                 scalars=tuple(scalars), vec_tile=tile, reads=reads)


def session() -> Session:
    """The running session; raises PyptoError outside a kernel."""
    return current()


OTHER_NAMES = {"axis": "dim", "axes": "dim", "keepdims": "keepdim", "transpose_a": "a_trans", "transpose_b": "b_trans",
               "bias": "extend_params", "dtype": "out_dtype", "out_type": "out_dtype"}     # what numpy and torch say


def raise_wrong_call(spec: OpSpec, error: TypeError) -> None:
    """Arguments that do not fit the signature: Python's reason, the name meant, the signature, the line."""
    parameters = inspect.signature(spec.function).parameters
    reason = str(error).partition("() ")[2] or str(error)
    unknown = re.search(r"keyword argument '(\w+)'", reason)
    near = ""
    if unknown and unknown[1] not in parameters:
        other = OTHER_NAMES.get(unknown[1], "")
        found = [other] if other in parameters else difflib.get_close_matches(unknown[1], parameters, n=1)
        near = f"; did you mean `{found[0]}`" if found else ""
    shown = ", ".join(str(p).partition(":")[0] + ("=" + repr(p.default) if p.default is not p.empty else "")
                      if p.kind is not p.KEYWORD_ONLY else f"{p.name}=" for p in parameters.values())
    raise current().error(PyptoTypeError, f"pypto.{spec.name} {reason}{near}. It takes ({shown})") from None


def check_available(spec: OpSpec, new_arguments: Iterable[str] = ()) -> None:
    """Operation and arguments exist in the API version of the profile and on the chip. Called before every operation.
    """
    s = current()
    for name in new_arguments:
        if s.config.profile in ("0.2", "lenient"):
            s.rule("api.version", f"pypto.{spec.name}: `{name}` exists in the current release only; 0.2 refuses it. "
                                  "Leave it out")
    if spec.versions != VERSIONS:
        profile = s.config.profile
        if profile in ("lenient", "guide") or profile not in spec.versions:
            missing = next(v for v in VERSIONS if v not in spec.versions)
            s.rule("api.version", f"pypto.{spec.name}: absent in {missing}, only {', '.join(spec.versions)} has it")
    if s.device.chip not in spec.socs:
        s.rule("api.chip", f"pypto.{spec.name}: exists on {', '.join(spec.socs)} only, the device is "
                           f"{s.config.device} ({s.device.chip})")
