"""Data flow of a traced kernel: which operation makes a value, of what, seen through views, casts and other moves."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOVES = frozenset({"view", "reshape", "unsqueeze", "squeeze", "cast", "clone", "expand_clone", "permute", "transpose",
                   "bitcast", "fillpad"})
_SCALAR_FORMS = {"adds": "add", "subs": "sub", "muls": "mul", "divs": "div", "maxs": "maximum", "mins": "minimum"}
_SHAPE = re.compile(r"(\S+): [A-Z0-9]+\[([0-9, ]*)\]")


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. op: its name, that of the tensor form for the forms with a scalar; ins: values it reads; out: the
    value it makes; numbers: float operands and attributes; ints: integer attributes; line: where it is written."""

    op: str
    ins: tuple[int, ...]
    out: int
    numbers: tuple[float, ...]
    ints: tuple[int, ...]
    line: str


class Flow:
    """Operations of a traced kernel by the values they make. A value written in several places has several makers."""

    def __init__(self, traced: Any) -> None:
        self.nodes: list[Node] = []
        self.makers: dict[int, list[Node]] = {}
        self.parts: dict[int, list[int]] = {}          # value -> values stored into it
        self.arguments = {at: argument for at, argument in enumerate(traced.arguments)}
        self._add(traced.program.items())
        shapes = {name: tuple(int(n) for n in sizes.split(",") if n.strip())
                  for name, sizes in _SHAPE.findall(str(traced))}
        self._shapes: Mapping[str, tuple[int, ...]] = shapes

    def _add(self, items: Iterable[Mapping[str, Any]]) -> None:
        for item in items:
            if item["kind"] == "op":
                for out in item["outs"]:
                    node = Node(_SCALAR_FORMS.get(item["op"], item["op"]), tuple(item["ins"]), out,
                                tuple(item["floats"]), tuple(item["ints"]), item["line"])
                    self.nodes.append(node)
                    self.makers.setdefault(out, []).append(node)
            elif item["kind"] in ("set", "assemble"):
                self.parts.setdefault(item["dst"], []).append(item["src"])
            for inner in ("body", "then", "else"):
                self._add(item.get(inner, ()))

    def shape(self, value: int) -> tuple[int, ...]:
        """Shape of a result or an argument, () when not known."""
        if value in self.arguments:
            return tuple(self.arguments[value].shape)
        return self._shapes.get(f"%{value}", ())

    def outputs(self) -> list[int]:
        """Arguments that the kernel writes."""
        return [value for value in self.arguments if value in self.parts]

    def behind(self, value: int) -> Iterator[Node | int]:
        """What a value is once moves are undone: operations, and arguments as their number."""
        seen, ahead = {value}, [value]
        while ahead:
            at = ahead.pop()
            sources = list(self.parts.get(at, ()))
            made = self.makers.get(at, ())
            for node in made:
                if node.op in MOVES:
                    sources += node.ins[:1]
                else:
                    yield node
            if at in self.arguments and not sources:
                yield at
            for source in sources:
                if source not in seen:
                    seen.add(source)
                    ahead.append(source)

    def made_by(self, value: int, *ops: str) -> list[Node]:
        """Operations of these names behind a value."""
        return [node for node in self.behind(value) if isinstance(node, Node) and node.op in ops]

    def is_argument(self, value: int) -> bool:
        """Nothing but moves of one argument."""
        found = list(self.behind(value))
        return len(found) == 1 and isinstance(found[0], int)

    def constant(self, value: int) -> float | None:
        """The number a value is filled with, None if it is anything else."""
        found = list(self.behind(value))
        if len(found) == 1 and isinstance(found[0], Node) and found[0].op == "full" and found[0].numbers:
            return found[0].numbers[-1]
        return None

    def factors(self, node: Node) -> list[float]:
        """Numbers that a sum, product or quotient is made with: of its scalar form, or filled operands."""
        return [*node.numbers, *(n for value in node.ins if (n := self.constant(value)) is not None)]

    def marks(self, rule: Any) -> dict[int, frozenset[str]]:
        """Words that hold for every value. rule(node, words of its operands) -> words of its result; moves and stores
        hand them on. Repeated until nothing changes, so values carried over iterations are seen."""
        words: dict[int, frozenset[str]] = {}
        changed = True
        while changed:
            changed = False
            for node in self.nodes:
                had: frozenset[str] = frozenset().union(*(words.get(v, frozenset()) for v in node.ins))
                changed |= _join(words, node.out, had if node.op in MOVES else rule(node, had))
            for value, sources in self.parts.items():
                for source in sources:
                    changed |= _join(words, value, words.get(source, frozenset()))
        return words


def _join(words: dict[int, frozenset[str]], value: int, more: frozenset[str]) -> bool:
    known = words.get(value, frozenset())
    if more <= known:
        return False
    words[value] = known | more
    return True
