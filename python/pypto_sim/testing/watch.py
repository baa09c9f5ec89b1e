"""A stepper that tells a listener about every item it has executed, and in which iteration."""
from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..registry import OpSpec
from ..trace.loops import Loop
from ..trace.scalar import SymbolicScalar, value_of
from ..trace.stepper import Stepper
from ..trace.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Item:
    """An executed item. operation: name, "set", "assemble" or "store"; written: results; read: operands."""

    operation: str
    written: tuple[Tensor, ...]
    read: tuple[Tensor, ...]
    line: str


class WatchingStepper(Stepper):
    """Calls `self.seen_item(item)` after each item; `indices` holds the open loops' names and values, outermost first.

    versions: id of a tensor -> how often it was written.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.indices: list[tuple[str, int]] = []
        self.counts: list[int] = []                      # number of the iteration in each open loop
        self.versions: dict[int, int] = {}

    def seen_item(self, item: Item) -> None:
        """What to do with an item; overridden."""

    def array(self, t: Tensor) -> np.ndarray:
        """Values in the valid box of a tensor."""
        whole = self.values(t)
        return whole[tuple(slice(0, value_of(n)) for n in t.valid)]

    def _seen(self, operation: str, written: Sequence[Tensor], read: Sequence[Tensor]) -> None:
        for t in written:
            self.versions[t.id] = self.versions.get(t.id, 0) + 1
        self.seen_item(Item(operation, tuple(written), tuple(read), self.line()))

    def _op(self, spec: OpSpec, outs, ins, ints, floats, scalars, tile) -> None:
        super()._op(spec, outs, ins, ints, floats, scalars, tile)
        within = [label for label in self.labels if label != spec.name]
        self._seen("/".join([*within, spec.name]), outs, ins)

    def _set(self, dst: Tensor, src: Tensor) -> None:
        super()._set(dst, src)
        self._seen("set", [dst], [src])

    def _assemble(self, dst: Tensor, src: Tensor, offsets, in_place) -> None:
        super()._assemble(dst, src, offsets, in_place)
        self._seen("assemble", [dst], [src])

    def _store(self, t: Tensor, value, index) -> None:
        super()._store(t, value, index)
        self._seen("store", [t], [])

    def run_loop(self, loop: Loop, node: ast.For | None, frame: types.FrameType) -> Iterator[SymbolicScalar]:
        inner = super().run_loop(loop, node, frame)
        name = loop.idx_name or _target(node) or loop.name
        return self._counted(inner, name)

    def _counted(self, inner: Iterator[SymbolicScalar], name: str) -> Iterator[SymbolicScalar]:
        try:
            for count, index in enumerate(inner):
                self.indices.append((name, value_of(index)))
                self.counts.append(count)
                try:
                    yield index
                finally:
                    self.indices.pop()
                    self.counts.pop()
        finally:
            inner.close()                            # type: ignore[attr-defined]


def _target(node: ast.For | None) -> str:
    """Name of a loop variable, of the first one where there are several."""
    if node is None:
        return ""
    target = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
    return target.id if isinstance(target, ast.Name) else ""
