"""`Tensor`: annotation of kernel parameters, and handle of a value while a kernel runs.

A handle is a name bound to an immutable value: `t[:] = x` and `assemble` make its next version. Operators and most
methods are attached from the registry by `ops`.
"""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtypes import DataType
from ..enums import StatusType, TileOpFormat
from ..errors import PyptoIndexError, PyptoTypeError, PyptoValueError, ShapeError
from ..usual_names import MissingNameError
from . import context
from .scalar import SymbolicScalar, known, lin, value_of

INT32_MAX = 2**31 - 1
_ids = itertools.count(1)


def _public_names() -> list[str]:
    """Methods and properties of a Tensor."""
    return [n for n, v in vars(Tensor).items() if n[0] != "_" and (callable(v) or isinstance(v, property))]


class Tensor:
    """Tensor(shape=None, dtype=None, name="", format=None).

    Outside a kernel it is an annotation: axes are ints, `DYNAMIC`, `STATIC`, `frontend.dynamic("B")` or a final `...`;
    what is left out is taken from the argument. Inside a kernel it declares an unwritten local: `shape` must be ints.
    `Tensor[[shape], dtype]` is an annotation anywhere.

    shape: list of int | SymbolicScalar; dtype: DataType. Raises ShapeError and PyptoTypeError for wrong arguments.
    """

    dtype: Any                     # a DataType; None in an annotation that takes it from the argument
    static_shape: tuple[int, ...]  # handles only, as `valid`
    valid: tuple[Any, ...]
    home: Any = None               # the launch or traced body that made the handle; None: an annotation
    key: Any = None                # name in the trace, or tensor id of the core while stepping
    arg: int = -1                  # number among the tensor arguments
    depth: int = 0                 # number of loops that were open where it was made
    alias: int = -1                # for an argument reshaped in place: its number
    axes: tuple[Any, ...] | None = None   # for an argument with dynamic axes: ints and SymbolicScalars
    look_up: Any = None            # for a gather that may stand for an embedding look-up: (table, index, scope)
    pending: Any = None            # for such a gather: gives its elements when something else uses it
    data: Any = None               # for from_torch outside a kernel: the caller's array

    def __init__(self, shape: Any = None, dtype: DataType | None = None, name: str = "",
                 format: TileOpFormat | None = None, data_ptr: Any = None, device: Any = None,
                 ori_shape: Any = None) -> None:
        self.name = name
        self.id = next(_ids)
        self.format = format or TileOpFormat.TILEOP_ND
        if dtype is not None and not isinstance(dtype, DataType):
            raise PyptoTypeError(f"Tensor: dtype must be a DataType such as pypto.DT_FP32, got {dtype!r}")
        session = context.running()
        if session is None or (shape is None and dtype is None):
            self.dtype = dtype
            self.given_format = format
            self.declared = _annotation_shape(shape)
            return
        if dtype is None:
            raise PyptoTypeError("Tensor: a local tensor needs a dtype")
        sizes = static_sizes(shape, "Tensor")
        session.declare(sizes, dtype, name, into=self)

    @classmethod
    def handle(cls, shape: tuple[int, ...], dtype: DataType, valid: tuple[Any, ...] | None, home: Any, key: Any,
               name: str = "", into: Tensor | None = None) -> Tensor:
        """A handle of a running kernel; `into` is an object to turn into it."""
        t = cls.__new__(cls) if into is None else into
        t.static_shape, t.dtype, t.home, t.key, t.name = shape, dtype, home, key, name
        t.valid = shape if valid is None else valid
        t.format = TileOpFormat.TILEOP_ND
        t.id = next(_ids)
        return t

    def __class_getitem__(cls, items: Any) -> Tensor:
        parts = items if isinstance(items, tuple) else (items,)
        found: dict[str, Any] = {}
        for p in parts:
            if isinstance(p, dict):
                found.update(p)
            elif isinstance(p, DataType):
                found["dtype"] = p
            elif isinstance(p, TileOpFormat):
                found["format"] = p
            elif isinstance(p, str):
                found["name"] = p
            elif isinstance(p, (list, tuple)):
                found["shape"] = p
            else:
                raise PyptoTypeError(f"Tensor[...] takes a shape, a DataType, a format, a name or a dict, got {p!r}")
        if unknown := set(found) - {"shape", "dtype", "name", "format"}:
            raise PyptoTypeError(f"Tensor[...]: unknown entries {sorted(unknown)}; known: shape, dtype, name, format")
        t = cls.__new__(cls)
        t.name, t.id, t.dtype = found.get("name", ""), next(_ids), found.get("dtype")
        t.given_format = found.get("format")
        t.format = t.given_format or TileOpFormat.TILEOP_ND
        t.declared = _annotation_shape(found.get("shape"))
        return t

    if not TYPE_CHECKING:                 # a checker is to report unknown names itself
        def __getattr__(self, name: str) -> Any:
            raise MissingNameError("a pypto Tensor", name, _public_names, of_tensor=True)

    # --- properties
    @property
    def is_arg(self) -> bool:
        """True for an argument of the kernel: memory, not a value."""
        return self.arg >= 0

    @property
    def memory(self) -> int:
        """Number of the argument whose memory this is, directly or reshaped in place; -1: a value."""
        return self.arg if self.arg >= 0 else self.alias

    @property
    def shape(self) -> list[Any]:
        """Sizes: ints, and SymbolicScalars for dynamic axes."""
        if self.home is None:
            return list(self.declared or ())
        return list(self.axes if self.axes is not None else self.static_shape)

    @property
    def valid_shape(self) -> list[Any]:
        """Extents that hold data: ints and SymbolicScalars."""
        return list(self.valid if self.home is not None else self.declared or ())

    @property
    def dim(self) -> int:
        """Rank."""
        return len(self.static_shape if self.home is not None else self.declared or ())

    @property
    def ndim(self) -> int:
        """Rank."""
        return self.dim

    def set_cache_policy(self, policy: Any, value: bool) -> None:
        """Use of the L2 cache: a hint without effect on values."""
        self.__dict__.setdefault("cache_policy", {})[policy] = bool(value)

    def get_cache_policy(self, policy: Any) -> bool:
        """What set_cache_policy has set, False before."""
        return self.__dict__.get("cache_policy", {}).get(policy, False)

    # --- handles of the framework: here a tensor is its own base
    @classmethod
    def from_base(cls, base: Tensor) -> Tensor:
        """The tensor of what `base()` gave."""
        if not isinstance(base, Tensor):
            raise PyptoTypeError(f"Tensor.from_base takes what Tensor.base() gave, got {type(base).__name__}")
        return base

    @classmethod
    def from_logical_tensor(cls, logical_tensor: Tensor) -> Tensor:
        """The tensor of what `logical_tensor()` gave."""
        if not isinstance(logical_tensor, Tensor):
            raise PyptoTypeError("Tensor.from_logical_tensor takes what Tensor.logical_tensor() gave, got "
                                 f"{type(logical_tensor).__name__}")
        return logical_tensor

    def base(self) -> Tensor:
        """What the framework wraps; here the tensor itself."""
        return self

    def logical_tensor(self) -> Tensor:
        """The compiler's tensor; here the tensor itself."""
        return self

    def set_logical_tensor(self, logical_tensor: Tensor) -> None:
        """Bind to the contents of another tensor: `t[:] = other`."""
        self.move(logical_tensor)

    def to_tensor(self, name: str = "") -> Tensor:
        """The tensor itself, named `name` where that is given."""
        if name:
            self.name = name
        return self

    def is_empty(self) -> bool:
        """True without storage: an annotation."""
        return self.home is None and self.data is None

    def copy(self, name: str = "") -> Tensor:
        """An unwritten tensor of the same shape and element type."""
        if self.home is None:
            return Tensor(list(self.declared) if self.declared is not None else None, self.dtype, name,
                          self.given_format)
        return context.current().declare(self.static_shape, self.dtype, name)

    # --- reading and writing parts
    def __getitem__(self, index: Any) -> Any:
        from ..registry import REGISTRY
        session = context.current()
        if isinstance(index, slice) and isinstance(index.stop, Tensor):
            return REGISTRY["gather"].function(self, index.start or 0, index.stop)
        entries = _entries(self, index)
        if not any(isinstance(e, slice) for e in entries):
            return load(self, entries)
        offsets, sizes, dropped = [], [], []
        for axis, (e, size) in enumerate(zip(entries, self.static_shape, strict=True)):
            start, stop = (_bounds(e, size)) if isinstance(e, slice) else (_wrapped(e, size), None)
            offsets.append(start)
            if stop is None:
                sizes.append(1)
                dropped.append(axis)
                continue
            extent = lin(stop, 1, start, -1)
            if not known(extent):
                raise session.error(PyptoTypeError, f"slice {_text(e)} of axis {axis}: its extent must not depend on a "
                                    "run-time value; use pypto.view with valid_shape")
            sizes.append(value_of(extent))
        part = REGISTRY["view"].function(self, sizes, offsets)
        if dropped:
            from ..ops.views import drop_axis
        for axis in reversed(dropped):
            part = drop_axis(part, axis)
        return part

    def __setitem__(self, index: Any, value: Any) -> None:
        from ..registry import REGISTRY
        session = context.current()
        if index is Ellipsis or (isinstance(index, slice) and index == slice(None)):
            self.move(value)
            return
        if isinstance(index, slice) and isinstance(index.stop, Tensor):
            raise session.error(PyptoValueError, "`t[dim:index] = src` writes nothing in PyPTO (the scatter's result "
                                "is dropped): use pypto.scatter_(t, dim, index, src)", rule="scatter.assigned")
        entries = _entries(self, index)
        if not any(isinstance(e, slice) for e in entries):
            if isinstance(value, Tensor):
                raise session.error(PyptoTypeError, "one element takes an integer, got a tensor")
            store(self, value, entries)
            return
        if not isinstance(value, Tensor):
            raise session.error(PyptoTypeError, f"`t[...] = x` takes a tensor, got {type(value).__name__}; use "
                                "pypto.full for a constant")
        offsets = []
        for axis, (e, size) in enumerate(zip(entries, self.static_shape, strict=True)):
            if isinstance(e, slice):
                offsets.append(_bounds(e, size)[0])
            else:
                offsets.append(_wrapped(e, size))
                value = REGISTRY["unsqueeze"].function(value, axis)
        self._check_extents(entries, offsets, value)
        REGISTRY["assemble"].function(value, offsets, self)

    def _check_extents(self, entries: Sequence[Any], offsets: Sequence[Any], value: Tensor) -> None:
        for axis, (e, start) in enumerate(zip(entries, offsets, strict=True)):
            if not isinstance(e, slice) or e.stop is None or axis >= len(value.static_shape):
                continue
            extent, size = lin(_bounds(e, self.static_shape[axis])[1], 1, start, -1), value.static_shape[axis]
            if known(extent) and value_of(extent) != size:
                context.current().rule("assign.extent", f"the slice {_text(e)} of axis {axis} has {value_of(extent)} "
                                       f"elements, the tensor assigned to it {size}: the stop is ignored, as in PyPTO, "
                                       f"and all {size} are written. Make them equal")

    def move(self, other: Tensor) -> None:
        """Replace the contents: `t[:] = other`.

        An argument is written at offset 0 (rank and dtype as of assemble; a smaller tensor writes its corner); a local
        takes shape and dtype of `other`.
        """
        from ..registry import REGISTRY
        session = context.current()
        if not isinstance(other, Tensor):
            raise session.error(PyptoTypeError, f"`t[:] = x` takes a tensor, got {type(other).__name__}; use "
                                "pypto.full for a constant")
        if other is self:               # `cache.move(scatter_update(cache, ...))`: written already
            session.use(self, reads=False)
        elif self.is_arg:
            REGISTRY["assemble"].function(other, [0] * self.dim, self)
        else:
            session.set(self, other)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Any:
        raise PyptoTypeError("a tensor cannot be iterated: slice it")

    def __bool__(self) -> bool:
        return True                     # PyPTO has no guard here

    __hash__ = object.__hash__

    def __str__(self) -> str:
        session = context.running()
        if self.pending is not None and session is not None:
            return str(self.pending())
        if self.home is None:
            return f"Tensor({list(self.declared or ())}, {self.dtype}, {self.name!r})"
        if session is None:
            return f"Tensor({list(self.static_shape)}, {self.dtype.name}, {self.name!r})"
        return session.show_tensor(self)

    __repr__ = __str__

    __array_ufunc__ = None                      # numpy scalars on the left leave the operation to us

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise PyptoTypeError("a pypto.Tensor is no numpy array: inside a kernel use pypto operations, and print(t) to "
                             "look at values; outside, read the array that was passed")

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.home is not None:
            raise PyptoTypeError("a tensor of a running kernel cannot be copied or pickled by Python: use "
                                 "pypto.clone(t)")
        return super().__reduce_ex__(protocol)

    def __del__(self) -> None:
        home = self.home
        if home is not None and self.arg < 0:
            home.release(self)


def static_shape(t: Tensor) -> tuple[int, ...]:
    """Buffer sizes of a handle as ints."""
    return t.static_shape


def static_sizes(shape: Any, who: str) -> tuple[int, ...]:
    """`shape` as positive ints. Raises ShapeError or PyptoTypeError naming `who`."""
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence):
        raise PyptoTypeError(f"{who}: shape must be a list of ints, got {shape!r}")
    sizes = []
    for n in shape:
        if isinstance(n, bool) or not (isinstance(n, SymbolicScalar) or hasattr(n, "__index__")):
            raise PyptoTypeError(f"{who}: shape entries must be ints, got {n!r}")
        if not known(n):
            raise PyptoTypeError(f"{who}: the shape must not depend on a run-time value; give the static extent, and "
                                 "the rest as valid_shape")
        sizes.append(value_of(n))
    if any(n < 1 for n in sizes):
        raise ShapeError(f"{who}: sizes must be at least 1, got {sizes}")
    count = 1
    for n in sizes:
        count *= n
    if count > INT32_MAX:
        raise ShapeError(f"{who}: {count} elements are more than INT32_MAX ({INT32_MAX})", rule="shape.count")
    return tuple(sizes)


def named(t: Tensor) -> str:
    """ "`x`", or "a tensor [8, 64]" for a result without a name."""
    return f"`{t.name}`" if t.name else f"a tensor {list(t.static_shape)}"


def load(t: Tensor, index: Sequence[Any]) -> SymbolicScalar:
    """Element of an INT32 tensor as a scalar."""
    session = context.current()
    if t.dtype not in (DataType.DT_INT32, DataType.DT_INT64):
        raise session.error(PyptoTypeError, f"elements can be read from INT32 tensors only, {named(t)} is "
                            f"{t.dtype.name}. Choose between values with pypto.where, look at them with print(t)")
    return session.load(t, [_wrapped(i, n) for i, n in zip(index, t.static_shape, strict=True)])


def store(t: Tensor, value: Any, index: Sequence[Any]) -> None:
    """Write one element of an INT32 tensor."""
    session = context.current()
    if t.dtype is not DataType.DT_INT32:
        raise session.error(PyptoTypeError, f"elements can be written to INT32 tensors only, {named(t)} is "
                            f"{t.dtype.name}. Fill it with pypto.full, or write a block with pypto.assemble")
    if not (isinstance(value, SymbolicScalar) or (hasattr(value, "__index__") and not isinstance(value, bool))):
        raise session.error(PyptoTypeError, f"one element takes an integer, got {value!r}")
    session.store(t, value, [_wrapped(i, n) for i, n in zip(index, t.static_shape, strict=True)])


def _annotation_shape(shape: Any) -> tuple[Any, ...] | None:
    if shape is None:
        return None
    if isinstance(shape, (str, bytes)) or not isinstance(shape, (list, tuple)):
        raise PyptoTypeError(f"Tensor: shape must be a list of sizes, got {shape!r}")
    for i, n in enumerate(shape):
        if n is Ellipsis:
            if i != len(shape) - 1:
                raise PyptoTypeError("Tensor: `...` is allowed as the last entry of a shape only")
        elif isinstance(n, bool) or not isinstance(n, (int, SymbolicScalar, StatusType)):
            if not hasattr(n, "__index__"):
                raise PyptoTypeError(f"Tensor: a size is an int, pypto.DYNAMIC, pypto.STATIC, "
                                     f"pypto.frontend.dynamic(..) or a final `...`, got {n!r}")
        elif isinstance(n, int) and n < -1:
            raise PyptoTypeError(f"Tensor: a size must not be negative, got {n}")
    return tuple(shape)


def _entries(t: Tensor, index: Any) -> tuple[Any, ...]:
    given = index if isinstance(index, tuple) else (index,)
    rank = len(t.static_shape)
    error = context.current().error
    if sum(e is Ellipsis for e in given) > 1:
        raise error(PyptoIndexError, "only one `...` is allowed")
    entries: list[Any] = []
    for e in given:
        if e is Ellipsis:
            entries += [slice(None)] * (rank - len(given) + 1)
        elif isinstance(e, slice):
            if e.step is not None and not (known(e.step) and value_of(e.step) == 1):
                raise error(PyptoValueError, f"a slice must have step 1, got {_text(e)}:{e.step}")
            entries.append(e)
        elif isinstance(e, (bool, Tensor)) or not (isinstance(e, SymbolicScalar) or hasattr(e, "__index__")):
            raise error(PyptoTypeError, f"a tensor is indexed by integers and slices, got {type(e).__name__}")
        else:
            entries.append(e)
    if len(entries) > rank:
        raise error(PyptoIndexError, f"{len(entries)} indices for a tensor of rank {rank}")
    return tuple(entries + [slice(None)] * (rank - len(entries)))


def _bounds(e: slice, size: int) -> tuple[Any, Any]:
    start = 0 if e.start is None else _wrapped(e.start, size, "slice start")
    stop = size if e.stop is None else e.stop
    if not isinstance(stop, SymbolicScalar) and value_of(stop) < 0:
        stop = value_of(stop) + size
    return start, stop


def _wrapped(i: Any, size: int, what: str = "index") -> Any:
    """A negative int counts from the end; a negative SymbolicScalar does not, whether its value is known or not."""
    if not isinstance(i, SymbolicScalar) and value_of(i) < 0:
        wrapped = value_of(i) + size
        if wrapped < 0:
            raise context.current().error(PyptoIndexError, f"{what} {value_of(i)} is out of range for an axis of "
                                          f"{size}", rule="element.past_end")
        return wrapped
    return i


def _text(e: slice) -> str:
    return f"{'' if e.start is None else e.start}:{'' if e.stop is None else e.stop}"
