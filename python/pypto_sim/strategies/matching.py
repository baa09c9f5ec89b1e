"""Which operators of the guide a kernel contains, judged by its data flow and constants."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .dataflow import Flow, Node

CLOSE = 5e-3                                                   # constants are written with few digits
GELU_CONSTANTS = {"cubic": 0.044715, "erf": 0.5 ** 0.5, "sigmoid": 1.702}
GELU_FUNCTIONS = {"tanh": {"cubic"}, "exp": {"cubic", "sigmoid"}, "erf": {"erf"}}
REDUCTIONS = frozenset({"sum", "amax", "amin", "prod", "argmax", "argmin", "topk"})
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Match:
    """An operator of the guide found in a kernel, and the operations that show it ("matmul a.py:7", ...)."""

    operator: str
    evidence: tuple[str, ...]


def matching_operators(traced: Any) -> list[Match]:
    """Operators of the guide in a traced kernel (`kernel.program(...)`), those that say most about it first."""
    flow = Flow(traced)
    found = []
    for operator, sign in _SIGNS.items():
        if nodes := sign(flow):
            found.append(Match(operator, tuple(dict.fromkeys(f"{n.op} {n.line}" for n in nodes))))
    return found


def _repeat_kv(flow: Flow) -> list[Node]:
    """A copy of every head: an axis of 1 expanded, then merged into the axis before or after it."""
    for node in flow.nodes:
        if node.op != "expand_clone":
            continue
        narrow, wide = flow.shape(node.ins[0]), flow.shape(node.out)
        axes = [at for at, (a, b) in enumerate(zip(narrow, wide, strict=False)) if a == 1 and b > 1]
        merged = {(*wide[:at], wide[at] * wide[at + 1], *wide[at + 2:]) for axis in axes for at in (axis - 1, axis)
                  if 0 <= at < len(wide) - 1}
        squeezed = {tuple(n for n in shape if n != 1) for shape in merged}
        for user in flow.nodes:
            if user.op == "reshape" and user.ins[0] == node.out and len(wide) >= 4 and \
                    tuple(n for n in flow.shape(user.out) if n != 1) in squeezed and flow.is_argument(node.ins[0]):
                return [node, user]
    return []


def _attention(flow: Flow) -> list[Node]:
    """A product, exp of it, the sum of that, and a second product with it."""
    def rule(node: Node, had: frozenset[str]) -> frozenset[str]:
        if node.op == "matmul":
            return frozenset({"product"})
        return had | {"exp"} if node.op == "exp" and "product" in had else had

    words = flow.marks(rule)

    def takes(node: Node, word: str) -> bool:
        return any(word in words.get(value, NOTHING) for value in node.ins)

    second = [n for n in flow.nodes if n.op == "matmul" and takes(n, "exp")]
    sums = [n for n in flow.nodes if n.op == "sum" and takes(n, "exp")]
    first = [n for n in flow.nodes if n.op == "matmul" and not takes(n, "exp")]
    exps = [n for n in flow.nodes if n.op == "exp" and takes(n, "product")]
    return [first[0], exps[0], sums[0], second[0]] if first and exps and sums and second else []


def _moe_routing(flow: Flow) -> list[Node]:
    """top-k of a gate's scores (sigmoid or softmax, both by exp), or all scores divided by their sum."""
    def rule(node: Node, had: frozenset[str]) -> frozenset[str]:
        return NOTHING if node.op == "matmul" else had | {"exp"} if node.op == "exp" else had

    words = flow.marks(rule)
    chosen = [n for n in flow.nodes if n.op == "topk" and any("exp" in words.get(v, NOTHING) for v in n.ins)]
    if chosen:
        return [*[n for n in flow.nodes if n.op == "exp"][:1], chosen[0]]
    for output in flow.outputs():
        for share in flow.made_by(output, "div"):
            scores = flow.made_by(share.ins[0], "div")
            total = flow.made_by(share.ins[-1], "sum")
            if scores and total and scores == flow.made_by(total[0].ins[0], "div") and \
                    (e := _logistic(flow, scores[0])):
                return [e, scores[0], total[0], share]
    return []


def _logistic(flow: Flow, quotient: Node) -> Node | None:
    """exp of 1 / (1 + exp(..)), None for another quotient."""
    for plus in flow.made_by(quotient.ins[-1], "add"):
        if flow.constant(quotient.ins[0]) == 1.0 and 1.0 in flow.factors(plus):
            for value in plus.ins:
                if exps := flow.made_by(value, "exp"):
                    return exps[0]
    return None


def _linear(flow: Flow) -> list[Node]:
    """A product of two arguments and a bias: third operand, or a row of an argument added to the product alone."""
    for node in flow.nodes:
        if node.op == "matmul" and len(node.ins) == 3 and all(flow.is_argument(v) for v in node.ins):
            return [node]
        if node.op != "add" or len(node.ins) != 2:
            continue
        for value, other in (node.ins, node.ins[::-1]):
            products = flow.made_by(value, "matmul")
            shape = flow.shape(other)
            row = not shape or all(n == 1 for n in shape[:-1])
            if len(products) == 1 and row and flow.is_argument(other) and \
                    all(flow.is_argument(v) for v in products[0].ins):
                return [products[0], node]
    return []


def _rope(flow: Flow) -> list[Node]:
    """x cos + turned(x) sin with turned = concat(-b, a); or both lines of a rotation written out."""
    for node in flow.nodes:
        if node.op != "add" or len(node.ins) != 2:
            continue
        products = [flow.made_by(value, "mul") for value in node.ins]
        if not all(products):
            continue
        for turned in [c for p in products for mul in p for c in _concats(flow, mul)]:
            negated = [flow.made_by(value, "neg") for value in turned.ins]
            if len(turned.ins) == 2 and any(negated) and not all(negated):
                return [next(n for found in negated for n in found), turned, node]
    return _rotation(flow)


def _concats(flow: Flow, mul: Node) -> list[Node]:
    """concat among the operands of a product, also where a table or a scale was multiplied in first."""
    found = []
    for value in mul.ins:
        found += flow.made_by(value, "concat")
        for inner in flow.made_by(value, "mul"):
            found += [c for v in inner.ins for c in flow.made_by(v, "concat")]
    return found


def _rotation(flow: Flow) -> list[Node]:
    """a c - b s and b c + a s (or a s + b c), the four values shared."""
    def terms(op: str) -> list[tuple[Node, list[frozenset[int]]]]:
        found = []
        for node in flow.nodes:
            if node.op == op and len(node.ins) == 2:
                muls = [flow.made_by(value, "mul") for value in node.ins]
                if all(len(m) == 1 and len(m[0].ins) == 2 for m in muls):
                    found.append((node, [frozenset(_plain(flow, v) for v in m[0].ins) for m in muls]))
        return found

    plus = terms("add")
    for minus, (ac, bs) in terms("sub"):
        for other, (one, two) in plus:
            # every product of the sum takes one value of each product of the difference
            if all(len(p) == 2 and len(p & ac) == 1 and len(p & bs) == 1 for p in (one, two)) and \
                    not one & two and len(ac | bs) == 4:
                return [minus, other]
    return []


def _plain(flow: Flow, value: int) -> int:
    """The value before casts and changes of its shape alone."""
    made = flow.makers.get(value, ())
    while len(made) == 1 and made[0].op in ("cast", "reshape", "unsqueeze", "squeeze"):
        value = made[0].ins[0]
        made = flow.makers.get(value, ())
    return value


def _embedding(flow: Flow) -> list[Node]:
    """Rows of an argument chosen by an argument, written out as they are, scaled, or set to zero for one id."""
    for output in flow.outputs():
        ahead, seen, found = [output], {output}, []
        while ahead:
            for node in flow.behind(ahead.pop()):
                if isinstance(node, int):
                    continue
                if node.op == "index_select" and all(flow.is_argument(v) for v in node.ins) and node.ints[-1:] == (0,):
                    found.append(node)
                elif node.op in ("mul", "where"):
                    ahead += [v for v in node.ins if v not in seen]
                    seen.update(node.ins)
                elif node.op not in ("full", "eq", "ne", "eqs", "nes"):
                    return []
        if found:
            return found
    return []


def _gelu(flow: Flow) -> list[Node]:
    """tanh, erf or exp of x times the constants of GELU, and a product with it."""
    def rule(node: Node, had: frozenset[str]) -> frozenset[str]:
        if node.op in REDUCTIONS or node.op == "matmul":
            return NOTHING
        numbers = node.numbers if node.op in ("full", "mul", "div") else ()
        words = {name for name, c in GELU_CONSTANTS.items() for n in numbers
                 if any(abs(abs(n) - v) < CLOSE * v for v in (c, 1 / c if node.op == "div" else c))}
        if GELU_FUNCTIONS.get(node.op, set()) & had:
            words |= {f"{node.op} done"}
        return had | words

    words = flow.marks(rule)
    for node in flow.nodes:
        for name in GELU_FUNCTIONS:
            if node.op == "mul" and any(f"{name} done" in words.get(v, NOTHING) for v in node.ins):
                function = next(n for n in flow.nodes if n.op == name and f"{name} done" in words[n.out])
                return [function, node]
    return []


def _mean(flow: Flow) -> list[Node]:
    """An output that is the sum of an argument's axis over its length."""
    for output in flow.outputs():
        for node in flow.made_by(output, "div", "mul"):
            for total in (n for value in node.ins for n in flow.made_by(value, "sum")):
                shape = flow.shape(total.ins[0])
                if not shape or not flow.is_argument(total.ins[0]):
                    continue
                length = shape[total.ints[0]]
                wanted = length if node.op == "div" else 1 / length
                if any(abs(n - wanted) <= CLOSE * wanted for n in flow.factors(node)):
                    return [total, node]
    return []


_SIGNS: Mapping[str, Callable[[Flow], Iterable[Node]]] = {
    "repeat_kv": _repeat_kv, "attention": _attention, "moe_routing": _moe_routing, "rope": _rope, "linear": _linear,
    "embedding": _embedding, "gelu": _gelu, "mean": _mean}
