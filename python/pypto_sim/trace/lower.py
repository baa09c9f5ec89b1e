"""From recorded items to the core's Program."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from ..errors import PyptoValueError
from .scalar import INT64_MAX, LEAVES, Key

CONST, INDEX, LOAD, ADD, MUL, FLOORDIV, MOD, MIN, MAX, GE0, EQ0 = range(11)     # ExprOp of program.h
_BINARY = {"*": MUL, "//": FLOORDIV, "%": MOD, "min": MIN, "max": MAX}
_UNARY = {"ge": GE0, "eq": EQ0}
NUMERICS = {"current": 0, "0.2.0": 1}

Shape = tuple[int, ...]


def carried_extent(tensor: str, axis: int) -> str:
    """Name of the valid extent that a local tensor of the trace brings along from earlier iterations."""
    return f"{tensor}#{axis}"


class Builder:
    """A Program under construction: hands out ids and keeps equal lines, labels, tiles and expressions once."""

    def __init__(self, numerics: str, args: Sequence[tuple[Shape, int, str]]) -> None:
        """args: (shape, dtype code, name) of the tensor arguments, in order; their tensor ids are `self.args`."""
        self.program = _core.Program(NUMERICS[numerics])
        self.args = [self.program.tensor(code, shape, n, name) for n, (shape, code, name) in enumerate(args)]
        self._ids: dict[Any, int] = {}

    def tensor(self, shape: Shape, code: int, name: str = "") -> int:
        """A local tensor."""
        return self.program.tensor(code, shape, -1, name)

    def line(self, text: str) -> int:
        """Id of a "file:line"."""
        return self._once(("line", text), lambda: self.program.line(text)) if text else -1

    def label(self, text: str) -> int:
        """Id of a semantic label."""
        return self._once(("label", text), lambda: self.program.label(text)) if text else -1

    def options(self, text: str) -> int:
        """Id of an options text."""
        return self._once(("options", text), lambda: self.program.options(text)) if text else -1

    def tile(self, tile: tuple[Shape, Shape, bool]) -> int:
        """Id of (vector tile, flat cube tile, split k)."""
        return self._once(("tile", tile), lambda: self.program.tile(*tile))

    def const(self, value: int) -> int:
        """Id of a constant expression."""
        if not -INT64_MAX <= value <= INT64_MAX:
            raise PyptoValueError(f"scalar {value} does not fit 64 bits", rule="scalar.overflow")
        return self._once(("const", value), lambda: self.program.const(value))

    def expr(self, k: Key, names: Mapping[str, int]) -> int:
        """Id of a scalar's expression; `names` maps loop indices and loaded elements to expression ids."""
        if isinstance(k, int):
            return self.const(k)
        total = -1
        for a, c in k[2]:
            if a[0] in LEAVES:
                part = names[a[1]]
            elif a[0] in _UNARY:
                part = self._expr(_UNARY[a[0]], self.expr(a[1], names), -1)
            else:
                part = self._expr(_BINARY[a[0]], self.expr(a[1], names), self.expr(a[2], names))
            if c != 1:
                part = self._expr(MUL, part, self.const(c))
            total = part if total < 0 else self._expr(ADD, total, part)
        return self._expr(ADD, total, self.const(k[1])) if k[1] else total

    def exprs(self, keys: Sequence[Key], names: Mapping[str, int]) -> list[int]:
        """Ids of several expressions."""
        return [self.expr(k, names) for k in keys]

    def _expr(self, op: int, a: int, b: int) -> int:
        return self._once((op, a, b), lambda: self.program.expr(op, a, b))

    def _once(self, what: Any, make: Any) -> int:
        found = self._ids.get(what)
        if found is None:
            found = self._ids[what] = make()
        return found


class Lowering:
    """Lowers a decision tree. Names are those of the trace; the same name may mean different things on two paths."""

    def __init__(self, builder: Builder, arg_keys: Sequence[str]) -> None:
        self.b, self.p = builder, builder.program
        self.tensors: dict[str, int] = dict(zip(arg_keys, builder.args, strict=True))
        self.names: dict[str, int] = {}      # loop indices and loaded elements -> expression id
        self.carried: dict[tuple[int, str], int] = {}    # (tensor, axis) -> expression of the extent it brings along
        self.unknown: int | None = None      # expression without a value
        self.traps: list[tuple[str, ...]] = []

    def items(self, tree: Sequence[Any]) -> None:
        """Append a body to the program."""
        for item in tree:
            getattr(self, "_" + item[0])(*item[1:])

    def _op(self, row, outs, ins, ints, floats, scalars, tile, options, label, line) -> None:
        b = self.b
        sources = [self.tensors[n] for n in ins]
        results = []
        for name, shape, code, valid in outs:
            self.tensors[name] = b.tensor(shape, code)
            results.append(self.tensors[name])
            if valid is not None:
                self.p.extents(self.tensors[name], [self._extent(k) for k in valid])
        self.p.op(row, results, sources, ints, floats, b.exprs(scalars, self.names), b.tile(tile), b.options(options),
                  b.label(label), b.line(line))

    def _extent(self, k: Key) -> int:
        try:
            return self.b.expr(k, _Extents(self))
        except KeyError:                     # of a loop that is over
            if self.unknown is None:
                self.unknown = self.p.scalar(LOAD)[1]
            return self.unknown

    def _decl(self, key, shape, code, name, line) -> None:
        self.tensors[key] = self.b.tensor(shape, code, name)
        self.p.decl(self.tensors[key], self.b.line(line))

    def _set(self, dst, src, line, retyped) -> None:
        if retyped:
            self.tensors[dst] = self.b.tensor(*retyped)
        self.p.set(self.tensors[dst], self.tensors[src], self.b.line(line))

    def _assemble(self, dst, src, offsets, in_place, line) -> None:
        self.p.assemble(self.tensors[dst], self.tensors[src], self.b.exprs(offsets, self.names), self.b.line(line),
                        in_place)

    def _load(self, name, tensor, index, line) -> None:
        slot, self.names[name] = self.p.scalar(LOAD)
        self.p.load(slot, self.tensors[tensor], self.b.exprs(index, self.names), self.b.line(line))

    def _store(self, tensor, value, index, line) -> None:
        self.p.store(self.tensors[tensor], self.b.expr(value, self.names), self.b.exprs(index, self.names),
                     self.b.line(line))

    def _block(self) -> None:
        self.p.block()

    def _held(self, keys) -> None:
        self.p.held([self.tensors[k] for k in keys if k in self.tensors])

    def _if(self, condition, then, other, line) -> None:
        self.p.begin_if(self.b.expr(condition, self.names), self.b.line(line))
        outer = self.tensors, self.names
        self.tensors, self.names = dict(outer[0]), dict(outer[1])
        self.items(then)
        self.p.begin_else()
        self.tensors, self.names = dict(outer[0]), dict(outer[1])
        self.items(other)
        self.tensors, self.names = outer
        self.p.end_if()

    def _loop(self, name, start, stop, step, flags, tree, line) -> None:
        parallel, unroll, submit_before = flags
        bounds = self.b.exprs((start, stop, step), self.names)
        slot, index = self.p.scalar(INDEX)
        outer = self.tensors, self.names
        self.tensors, self.names = dict(outer[0]), {**outer[1], name + "!": index}
        self.p.begin_loop(slot, *bounds, parallel, self.b.line(line), unroll, submit_before)
        self.items(tree)
        self.p.end_loop()
        self.tensors, self.names = outer

    def _trap(self, *item) -> None:
        self.p.trap(len(self.traps), self.b.line(item[2]))
        self.traps.append(item)


class _Extents(dict[str, int]):
    """Names of a Lowering, and the extents that locals bring along."""

    def __init__(self, lowering: Lowering) -> None:
        super().__init__(lowering.names)
        self.of = lowering

    def __missing__(self, name: str) -> int:
        key, mark, axis = name.rpartition("#")
        tensor = self.of.tensors[key] if mark else self.of.tensors[name]
        carried = self.of.carried.get((tensor, axis))
        if carried is None:
            slot, carried = self.of.p.scalar(LOAD)
            self.of.p.carries(tensor, int(axis), slot)
            self.of.carried[tensor, axis] = carried
        return carried


def lower(tree: Sequence[Any], numerics: str, args: Sequence[tuple[Shape, int, str]],
          arg_keys: Sequence[str]) -> tuple[Any, list[tuple[str, ...]]]:
    """(finished Program, trap items by number) of a decision tree. args as for Builder; arg_keys: their trace names."""
    lowering = Lowering(Builder(numerics, args), arg_keys)
    lowering.items(tree)
    lowering.p.finish()
    return lowering.p, lowering.traps
