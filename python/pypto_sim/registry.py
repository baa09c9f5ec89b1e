"""One row per operation: everything else (function, method, checks, cost, docs, tests) is derived from it.

`@op(...)` turns a function of the public interface into a registry row. A row with a `kernel` is also a row of the core
(`push_rows`); `forms` are further core rows of the same operation, such as the tensor-with-scalar form `adds` of `add`.
Composites have no kernel: they emit rows of other operations under one label.
"""
from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from .dtypes import DataType, from_short, short_list

VERSIONS = ("0.2", "master")
CHIPS = ("A2A3", "950")


class Cost(enum.StrEnum):
    """Cost classes; the planner prices a class by the instruction named in the row."""

    VEC_UNARY = "VEC_UNARY"          # one vector instruction per repeat
    VEC_BINARY = "VEC_BINARY"        # tensor with tensor, broadcasting
    VEC_SCALAR = "VEC_SCALAR"        # tensor with scalar
    VEC_COMPARE = "VEC_COMPARE"      # compare, or logical operation, to a mask
    VEC_SELECT = "VEC_SELECT"        # where
    VEC_CAST = "VEC_CAST"            # change of element type
    VEC_LONG = "VEC_LONG"            # a sequence of vector instructions with scratch, such as tanh
    VEC_REDUCE = "VEC_REDUCE"        # along one axis
    VEC_SORT = "VEC_SORT"            # topk, argsort
    VEC_FILL = "VEC_FILL"            # full, arange, fillpad
    VEC_MOVE = "VEC_MOVE"            # data movement inside UB: transpose, concat, expand, tril
    INDEX = "INDEX"                  # gather and scatter by index
    VIEW = "VIEW"                    # no data moved: view, reshape, unsqueeze
    CUBE = "CUBE"                    # matrix product
    COMPOSITE = "COMPOSITE"          # expanded into other rows


@dataclass(frozen=True, slots=True)
class Supported:
    """Element types of an operand: of A2/A3, those the 950 adds, those only the 0.2 front end lets through."""

    a2a3: frozenset[DataType]
    only_950: frozenset[DataType] = frozenset()
    only_0_2: frozenset[DataType] = frozenset()
    unlisted: frozenset[DataType] = frozenset()   # no version lists them, the result is obvious: `lenient` computes it

    def documented(self, chip: str) -> frozenset[DataType]:
        """Types that the documentation of the current source lists for `chip`."""
        return self.a2a3 | self.only_950 if chip == "950" else self.a2a3

    def for_version(self, chip: str, version: str) -> frozenset[DataType]:
        """Types that `version` ("0.2" or "master") takes on `chip`."""
        return self.documented(chip) | (self.only_0_2 if version == "0.2" else frozenset())

    def union(self) -> frozenset[DataType]:
        """Types with a defined result on some chip in some version."""
        return self.a2a3 | self.only_950 | self.only_0_2

    def __str__(self) -> str:
        parts = [short_list(self.a2a3)] if self.a2a3 else []
        if self.only_950:
            parts.append(f"950 also {short_list(self.only_950)}")
        if self.only_0_2:
            parts.append(f"0.2 also {short_list(self.only_0_2)}")
        if self.unlisted:
            parts.append(f"lenient also {short_list(self.unlisted)}")
        return "; ".join(parts)


def _set_of(names: str) -> frozenset[DataType]:
    return frozenset(from_short(n) for n in names.split())


def supported(a2a3: str, *, only_950: str = "", only_0_2: str = "", unlisted: str = "") -> Supported:
    """Supported from short names: `supported("fp32 fp16 bf16", only_950="int8")`."""
    return Supported(_set_of(a2a3), _set_of(only_950), _set_of(only_0_2), _set_of(unlisted))


@dataclass(eq=False, slots=True)
class OpSpec:
    """One operation. `row` is the id of its core row, -1 for composites and for rows not pushed yet."""

    name: str
    kernel: str = ""                       # executor entry, docs/core_operations.md; "" for a composite
    cost: Cost = Cost.VEC_UNARY
    instr: str = ""                        # instruction of the device table that prices it
    dtypes: Supported | None = None
    ranks: tuple[int, int] = (1, 4)
    bf16_arith: bool = True                # False: bf16 operands become fp32 (numerics.csv, "no bf16 arithmetic")
    fp16_arith: bool = True                # False: fp16 operands become fp32 under numerics "current"
    methods: tuple[str, ...] = ()          # attribute names on Tensor
    versions: tuple[str, ...] = VERSIONS   # API versions that have it
    socs: tuple[str, ...] = CHIPS          # chips that have it
    forms: dict[str, OpSpec] = field(default_factory=dict)
    reference: Callable[..., Any] | None = None   # numpy function on float64 or exact integers
    samples: tuple[float, float] = (-4.0, 4.0)    # range of the float inputs of the contract tests
    ulp: float = 0.5                       # bound against the float64 reference, in units of the output type
    constraints: tuple[str, ...] = ()      # sentences for the docs page
    numerics: str = ""                     # how results are computed and rounded
    torch: str = ""                        # what differs from torch
    source: str = ""                       # where the facts come from
    new_arguments: tuple[str, ...] = ()    # arguments that 0.2 does not have
    function: Any = None                   # the public function
    parent: str = ""                       # for a form: the public operation it belongs to
    row: int = -1

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0] if self.function else ""


REGISTRY: dict[str, OpSpec] = {}
ROWS: list[OpSpec] = []          # index = row id of the core

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Operation(Protocol[P, R]):
    """A public function with its registry row."""

    spec: OpSpec

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


# Called with the row and the names of the new arguments given, before every public operation; ops installs the version
# and chip check. The registry lies below the sessions and must not know them.
before_call: Callable[[OpSpec, Iterable[str]], None] | None = None
# Called with the row and Python's TypeError when the arguments do not fit the signature; raises the user's error.
wrong_call: Callable[[OpSpec, TypeError], None] | None = None


def _add_row(spec: OpSpec) -> None:
    spec.row = len(ROWS)
    ROWS.append(spec)


def op(name: str | None = None, *, kernel: str = "", forms: Mapping[str, tuple[str, str]] | None = None,
       form_cost: Cost = Cost.VEC_SCALAR, methods: Iterable[str] = (),
       **facts: Any) -> Callable[[Callable[P, R]], Operation[P, R]]:
    """Declare a public operation.

    name: registry name, default the function's. forms: {form: (kernel, instruction)} of further core rows with the
    same facts, priced by `form_cost`. facts: fields of OpSpec. The decorated function gets `.spec`.
    """
    def declare(function: Callable[P, R]) -> Operation[P, R]:
        row_name = name or function.__name__.removesuffix("_op")
        if row_name in REGISTRY:
            raise ValueError(f"operation {row_name!r} is declared twice")
        spec = OpSpec(name=row_name, kernel=kernel, methods=tuple(methods), **facts)
        if kernel:
            _add_row(spec)
        for form, (form_kernel, form_instr) in (forms or {}).items():
            facts_of_form = {k: v for k, v in facts.items() if k not in ("cost", "instr")}
            sub = OpSpec(name=form_kernel, kernel=form_kernel, cost=form_cost, instr=form_instr, parent=row_name,
                         **facts_of_form)
            spec.forms[form] = sub
            _add_row(sub)

        places = list(inspect.signature(function).parameters)
        new = tuple((a, places.index(a)) for a in spec.new_arguments)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if before_call is not None:
                before_call(spec, [a for a, at in new if a in kwargs or len(args) > at] if new else ())
            try:
                return function(*args, **kwargs)
            except TypeError as e:
                if wrong_call is not None and e.__traceback__ is not None and e.__traceback__.tb_next is None:
                    wrong_call(spec, e)      # raised by the call itself, not inside the function
                raise

        operation = cast(Operation[P, R], call)
        operation.spec = spec
        spec.function = operation
        REGISTRY[row_name] = spec
        return operation
    return declare


def internal_row(name: str, *, kernel: str = "", cost: Cost, **facts: Any) -> OpSpec:
    """A core row without a public function of its own."""
    spec = OpSpec(name=name, kernel=kernel or name, cost=cost, **facts)
    _add_row(spec)
    return spec


def core_rows() -> list[tuple[str, str, str, str, bool, bool]]:
    """(name, kernel, cost_class, instr, bf16_arith, fp16_arith) per row, in the order of the row ids."""
    return [(s.name, s.kernel, str(s.cost), s.instr, s.bf16_arith, s.fp16_arith) for s in ROWS]


def push_rows() -> None:
    """Hand the rows to the core. Called once, after all operation modules are imported."""
    from . import _core
    _core.set_op_rows(core_rows())


def _signature(function: Callable[..., Any]) -> str:
    """Signature text; annotations are strings in the source and lose their quotes."""
    return str(inspect.signature(function)).replace("'", "")


def describe(name: str) -> dict[str, Any]:
    """Everything a reference page needs about one operation.

    Raises PyptoKeyError with the nearest names for an unknown one.
    """
    import difflib

    from .errors import PyptoKeyError
    spec = REGISTRY.get(name)
    if spec is None:
        near = difflib.get_close_matches(name, REGISTRY, n=5)
        raise PyptoKeyError(f"no operation {name!r}"
                            + (f"; nearest: {', '.join(near)}" if near else ". pypto-sim ops lists all"))
    return {
        "name": name, "summary": spec.summary, "doc": inspect.getdoc(spec.function) or "",
        "signature": name + _signature(spec.function) if spec.function else name,
        "methods": list(spec.methods), "versions": list(spec.versions), "chips": list(spec.socs),
        "dtypes": {chip: {v: [d.name for d in sorted(spec.dtypes.for_version(chip, v), key=lambda d: d.value)]
                          for v in spec.versions} for chip in spec.socs} if spec.dtypes else {},
        "ranks": list(spec.ranks), "kernel": spec.kernel, "forms": {k: v.kernel for k, v in spec.forms.items()},
        "cost": str(spec.cost), "instruction": spec.instr, "bf16_arithmetic": spec.bf16_arith,
        "fp16_arithmetic": spec.fp16_arith, "constraints": list(spec.constraints), "numerics": spec.numerics,
        "torch": spec.torch, "source": spec.source,
    }


def catalogue() -> list[dict[str, Any]]:
    """One short row per operation, by name: name, summary, element types, versions, chips, cost class."""
    return [{"name": s.name, "summary": s.summary, "dtypes": str(s.dtypes or ""), "versions": ", ".join(s.versions),
             "chips": ", ".join(s.socs), "cost": str(s.cost)} for _, s in sorted(REGISTRY.items())]
