"""Which operator of the guide a kernel is, judged by the operations it uses."""
from __future__ import annotations

from collections.abc import Iterable

# (operator, operations that must be there, operations of which one must be there); the first that fits wins
_SIGNS: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = (
    ("repeat_kv", frozenset({"expand_clone"}), frozenset({"matmul", "reshape"})),
    ("attention", frozenset({"matmul"}), frozenset({"softmax", "exp", "experimental.online_softmax"})),
    ("moe_routing", frozenset({"topk"}), frozenset({"gather", "sum", "sigmoid", "exp"})),
    ("linear", frozenset({"matmul"}), frozenset({"add", "matmul"})),
    ("rope", frozenset({"mul", "add"}), frozenset({"gathermask", "deinterleave"})),
    ("rope", frozenset({"neg", "concat", "mul"}), frozenset({"add"})),
    ("embedding", frozenset(), frozenset({"index_select"})),
    ("gelu", frozenset({"mul"}), frozenset({"tanh", "erf"})),
    ("moe_routing", frozenset({"exp", "add", "div", "sum"}), frozenset({"exp"})),
    ("gelu", frozenset({"mul"}), frozenset({"sigmoid"})),
    ("mean", frozenset({"sum", "div"}), frozenset({"sum"})),
    ("mean", frozenset({"sum", "mul"}), frozenset({"sum"})),
)
_SPELLINGS = {"adds": "add", "subs": "sub", "muls": "mul", "divs": "div", "maxs": "maximum", "mins": "minimum",
              "rsubs": "sub", "rdivs": "div", "expand": "expand_clone"}


def matching_operator(names: Iterable[str]) -> str | None:
    """Operator of the guide that uses these operations, or None."""
    used = {_SPELLINGS.get(n, n) for n in names}
    for operator, needed, one_of in _SIGNS:
        if needed <= used and one_of & used:
            return operator
    return None
