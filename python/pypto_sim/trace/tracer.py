"""Tracing: one run of the kernel function that records items instead of executing them.

`pypto.loop` hands out a symbolic index and runs the body once per feasible path of decisions; the paths are merged into
a decision tree. A loop that cannot be traced this way is given up: the kernel starts again with that loop concrete.
"""
from __future__ import annotations

import ast
import collections
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import HandleError, PyptoValueError
from ..registry import OpSpec
from ..rules import RULES, Finding
from .feasible import implied, never_negative, outcomes
from .loops import Loop, concrete
from .lower import carried_extent
from .scalar import SymbolicScalar, key, known, leaf, leaves, lin, resolved, text_of, value_of
from .session import Session, inside_package
from .source import Site, carried_names, leaves_early
from .tensor import Tensor
from .watch import AfterLoop, Watch, gone, handle_like

MAX_PATHS = 64                # of one body
MAX_DECISIONS = 256           # on one path
MAX_ITEMS = 100_000           # of one run of the kernel
MAX_BODY_RUNS = 2_000         # of one trace, restarts included
NAN = float("nan")            # one object, so that equal items with NaN compare equal


class Abandon(BaseException):
    """The trace is given up: make the loops at `sites` concrete and start again; without sites, step the launch."""

    def __init__(self, reason: str, sites: frozenset[Site] = frozenset(), line: str = "") -> None:
        super().__init__(reason)
        self.reason, self.sites, self.line = reason, sites, line


class Body:
    """One trace of one loop body, or of the kernel: its items along one path of decisions."""

    def __init__(self, loop: Loop | None, name: str, path: Sequence[bool], ident: tuple[Any, ...]) -> None:
        self.loop, self.name, self.path, self.ident = loop, name, list(path), ident
        self.index_name = name + "!"
        self.index: SymbolicScalar | None = None
        self.items: list[tuple[Any, ...]] = []
        self.facts: list[tuple[SymbolicScalar, bool]] = []
        self.kept: Any = None                # of feasible.py: (state of the stack, what is known in it)
        self.taken = 0                       # decisions so far
        self.count = 0                       # names given out
        self.retrace = False                 # it changed a handle that an earlier path may have looked at

    def fresh(self) -> str:
        """A name that is the same in every trace of this path."""
        self.count += 1
        return f"{self.name}.{self.count}"

    def next_path(self) -> list[bool] | None:
        """Decisions of the next path: true before false."""
        path = self.path[:self.taken]
        while path and not path[-1]:
            path.pop()
        return [*path[:-1], False] if path else None

    def release(self, t: Tensor) -> None:
        """Handles of a trace hold no memory."""


class Shared:
    """What survives a restart of the kernel function."""

    def __init__(self) -> None:
        self.concrete: dict[Site, str] = {}                  # loops that must not be traced, with the reason
        self.traps: dict[tuple[Any, ...], list[Body]] = {}   # body identity -> paths that raised
        self.trapped: dict[tuple[str, ...], Exception] = {}  # item -> the exception
        self.bodies: set[Body] = set()
        self.confirmed: set[Site] = set()
        self.runs: collections.Counter[Site] = collections.Counter()
        self.seen: dict[Site, Loop] = {}
        self.restarts: list[Abandon] = []
        self.carried: dict[tuple[str, str], Any] = {}        # rule loop.rebound_name, found by giving a trace up


def insert(tree: list[Any], items: Sequence[Any]) -> None:
    """Merge one path into the decision tree; a shared prefix must be the same text. The extents noted last hold: the
    first trace of a loop does not know yet what locals bring along from the iteration before."""
    for n, item in enumerate(items):
        if n == len(tree):
            if item[0] != "if":
                tree.append(item)
                continue
            tree.append(("if", item[1], [], [], item[3]))
        old = tree[n]
        if item[0] == "if" == old[0] and old[1] == item[1]:
            insert(old[2 if item[2] else 3], items[n + 1:])
            return
        if old != item:
            if not same_but_extents(old, item):
                raise Abandon("two traces of one path differ")
            tree[n] = item
    if len(tree) > len(items):
        raise Abandon("two traces of one path differ")


def same_but_extents(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Equal, or operations that differ only in the valid extents of their results, which steer the cost alone."""
    if one == other or one[0] != "op" or other[0] != "op":
        return one == other
    plain = [(*item[:2], tuple(o[:3] for o in item[2]), *item[3:]) for item in (one, other)]
    return plain[0] == plain[1]


def freeze(tree: Sequence[Any]) -> tuple[Any, ...]:
    """The tree as nested tuples."""
    return tuple(("if", i[1], freeze(i[2]), freeze(i[3]), i[4]) if i[0] == "if" else i for i in tree)


def partial_extents(t: Tensor) -> tuple[Any, ...] | None:
    """Keys of the valid extents of `t`, None where they are known to be its shape."""
    valid = tuple(map(key, t.valid))
    return None if valid == t.static_shape else valid


def frame_of(code: types.CodeType) -> types.FrameType | None:
    """The innermost frame that runs this code."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame


def held_results(frame: types.FrameType | None, home: Body) -> tuple[str, ...]:
    """Names of the results made in `home` that variables of the kernel and its helpers hold, also in containers."""
    found: set[str] = set()
    while frame is not None and not inside_package(frame.f_code):
        for value in frame.f_locals.values():
            inner = value.values() if isinstance(value, dict) else value
            inner = inner if isinstance(value, (dict, list, tuple)) else (value,)
            found.update(t.key for t in inner if isinstance(t, Tensor) and t.home is home and not t.is_arg)
        frame = frame.f_back
    return tuple(sorted(found))


class Tracer(Session):
    """Records one run of the kernel function along one path of decisions outside loops.

    Items: ("op", row, outs, ins, ints, floats, scalars, tile, options, label, line), outs being (name, shape, dtype,
    valid extents or None); ("decl", key, shape, dtype, name, line); ("set", dst, src, line, retyped or None);
    ("assemble", dst, src, offsets, in_place, line); ("load", name, tensor, index, line);
    ("store", tensor, value, index, line); ("block",);
    ("if", condition, taken, line), in a tree ("if", condition, then, else, line); ("loop", name, start, stop, step,
    (parallel, unroll factors, submit before), tree, line); ("held", results that variables hold where a block ends);
    ("trap", class, arguments, line).
    """

    def __init__(self, shared: Shared, path: Sequence[bool], values: bool, *session: Any) -> None:
        self.shared, self.root = shared, Body(None, "k", path, ("k",))
        self.values = values                 # False: a cost-only run, a print does not ask for values
        self.stack = [self.root]
        self.left: Body | None = None        # a loop that was left early
        self.dead: Abandon | None = None
        self.code: types.CodeType | None = None          # of the kernel function, to find its frame
        self.frame: types.FrameType | None = None
        self.total = 0
        shared.bodies.add(self.root)
        super().__init__(*session)

    # --- giving up
    def give_up(self, reason: str, sites: Sequence[Site] | set[Site] = ()) -> Any:
        """Raise Abandon, now and at every later call: a bare `except:` in the kernel cannot swallow it."""
        self.dead = Abandon(reason, frozenset(sites), self.line())
        raise self.dead

    def alive(self) -> None:
        """Raise when the trace was given up or a loop was left early."""
        if self.dead:
            raise self.dead
        if self.left:
            self.give_up("the loop was left early (break, return or a caught exception)", {self.left.loop.site})

    def check_home(self, t: Tensor) -> None:
        self.alive()
        if t.home in self.stack:
            return
        if t.home not in self.shared.bodies:
            raise self.error(HandleError, f"tensor `{t.name or t.id}` was made in another launch of a kernel",
                             rule="handle.escaped")
        loop = t.home.loop
        if loop and any(open_.site == loop.site for open_ in self.loops):
            self._carried(t)
        self.give_up("a tensor is carried to the next iteration or used after its loop", {loop.site} if loop else ())

    def _carried(self, t: Tensor) -> None:
        """Rule loop.rebound_name; reported after the trace that is given up now has been replaced."""
        rule, line = "loop.rebound_name", self.line()
        text = (f"{f'`{t.name}`' if t.name else 'a tensor'} of an earlier iteration is used: 0.2 knows this "
                "iteration's only, here it is carried on as in the current release. Use `t[:] = ...` on a tensor "
                "declared before the loop")
        severity = RULES[rule].severity[self.config.profile]
        if severity != "off":
            self.shared.carried[rule, line] = Finding(rule, severity, text, line, self.kernel)

    def check_owners(self, scalars: Sequence[int | SymbolicScalar]) -> None:
        for s in scalars:
            if not isinstance(s, SymbolicScalar) or not s.terms:
                continue
            s = resolved(s)
            if s.terms and not s.deps:
                raise self.error(PyptoValueError, f"Not concrete value: {text_of(key(s))}")
            for body in s.deps:
                if body not in self.stack:
                    if body not in self.shared.bodies:
                        raise self.error(HandleError, "a scalar was made in another launch of a kernel",
                                         rule="handle.escaped")
                    self.give_up("a scalar is carried to the next iteration or used after its loop",
                                 {body.loop.site} if body.loop else ())

    def need_value(self, s: SymbolicScalar, reason: str) -> int:
        self.alive()
        sites = {b.loop.site for b in s.deps if b.loop}
        data = any(a[0] == "ld" for a in leaves(key(s)))
        return self.give_up("the value of an element is asked for" if data else reason, () if data else sites)

    @property
    def bodies(self) -> Sequence[Any]:
        return self.stack

    def show_scalar(self, s: SymbolicScalar) -> str:
        if not self.values:
            return text_of(key(s))
        return self.give_up("a scalar is printed")

    def show_tensor(self, t: Tensor) -> str:
        if not self.values:
            return f"Tensor({list(t.static_shape)}, {t.dtype.name}, {t.name!r})"
        return self.give_up("a tensor is printed")

    def tensor_values(self, t: Tensor) -> Any:
        return self.give_up("the data of a tensor is asked for") if self.values else None

    # --- items
    def append(self, *item: Any) -> None:
        """Add an item to the innermost body."""
        self.alive()
        self.total += 1
        if self.total > MAX_ITEMS:
            self.give_up("the program is too long")
        if self.frame is None and self.code is not None:
            self.frame = frame_of(self.code)
        self.stack[-1].items.append(item)

    def _handle(self, shape, dtype, valid, into=None, name="") -> Tensor:
        body = self.stack[-1]
        return Tensor.handle(shape, dtype, valid, body, body.fresh(), name, into)

    def _op(self, spec: OpSpec, outs, ins, ints, floats, scalars, tile) -> None:
        cube = self.scope.cube_tile
        self.append("op", spec.row, tuple((t.key, t.static_shape, t.dtype.code, partial_extents(t)) for t in outs),
                    tuple(t.key for t in ins), ints, tuple(NAN if f != f else f for f in floats), scalars,
                    (tile or (), cube.flat if cube else (), bool(cube and cube.split_k)), self.scope.options_text(),
                    self._label_text(), self.line())

    def _declare(self, t: Tensor) -> None:
        self.append("decl", t.key, t.static_shape, t.dtype.code, t.name, self.line())

    def _set(self, dst: Tensor, src: Tensor) -> None:
        here = self.stack[-1]
        same = (dst.static_shape, dst.dtype) == (src.static_shape, src.dtype)
        if not same and dst.home is not here:
            self.give_up("a local tensor made outside the loop changes shape or element type in it (slot.retyped)",
                         {here.loop.site})
        if same:
            self.append("set", dst.key, src.key, self.line(), None)
        else:
            dst.key, dst.static_shape, dst.dtype = here.fresh(), src.static_shape, src.dtype
            self.append("set", dst.key, src.key, self.line(), (dst.static_shape, dst.dtype.code))
        self._new_extents(dst, src.valid)

    def _new_extents(self, dst: Tensor, valid: tuple[Any, ...]) -> None:
        if tuple(map(key, dst.valid)) == tuple(map(key, valid)):
            return
        if dst.home is self.stack[-1]:
            dst.valid = valid
            return
        # The extents of a later iteration are those of an earlier one: asking for them must give the loop up.
        at = self.stack.index(dst.home) + 1
        ghost = Body(self.stack[at].loop, "ghost", (), ())
        self.shared.bodies.add(ghost)
        dst.valid = tuple(leaf("i", carried_extent(dst.key, axis), ghost) for axis in range(len(valid)))
        for body in self.stack[at:]:
            body.retrace = True

    def _assemble(self, dst: Tensor, src: Tensor, offsets, in_place) -> None:
        self.append("assemble", dst.key, src.key, offsets, in_place, self.line())
        if not dst.is_arg:
            self._new_extents(dst, dst.static_shape)

    def _load(self, t: Tensor, index) -> SymbolicScalar:
        body = self.stack[-1]
        name = body.fresh()
        self.append("load", name, t.key, index, self.line())
        return leaf("ld", name, body)

    def _store(self, t: Tensor, value, index) -> None:
        self.append("store", t.key, value, index, self.line())

    def hold(self, frame: types.FrameType | None) -> None:
        """Note which results of the innermost body variables hold at the end of a block; `frame`: the innermost one."""
        body = self.stack[-1]
        if names := held_results(frame, body):
            body.items.append(("held", names))

    def block(self) -> None:
        """A new block begins."""
        self.append("block")
        self._new_block()

    # --- decisions
    def decide(self, s: SymbolicScalar) -> bool:
        self.alive()
        self.check_owners((s,))
        (op, *_), factor = s.terms[0]
        comparison = len(s.terms) == 1 and op in ("ge", "eq")
        if not (comparison and factor == 1 and not s.const):
            if comparison and factor == -1 and s.const == 1:          # 1 - comparison
                return not self.decide(lin(1, 1, s, -1))
            return not (s == 0)                                       # any integer
        possible = outcomes(s, self.stack)
        if len(possible) == 1:
            return possible.pop()
        body = self.stack[-1]
        if body.taken >= MAX_DECISIONS:
            self.give_up("too many decisions on one path", {body.loop.site} if body.loop else ())
        if body.taken == len(body.path):
            body.path.append(True)
        value = body.path[body.taken]
        body.taken += 1
        body.items.append(("if", key(s), value, self.line()))
        body.facts.append((s, value))
        return value

    def never_negative(self, s: SymbolicScalar) -> bool:
        return s.deps <= set(self.stack) and never_negative(s, self.stack)

    # --- loops
    def count_run(self, loop: Loop) -> None:
        """Count a run of the body."""
        self.shared.runs[loop.site] += 1
        self.shared.seen.setdefault(loop.site, loop)

    def run_loop(self, loop: Loop, node: ast.For | None, frame: types.FrameType) -> Iterator[SymbolicScalar]:
        """Indices of a loop: one symbol per path of its body, or concrete ones."""
        self.alive()
        self.check_scalars(loop[1:4])
        self.shared.seen.setdefault(loop.site, loop)
        why = self.shared.concrete.get(loop.site)
        if why is None and node is None:
            why = "not a plain `for x in pypto.loop(...)` statement, or no source text"
        elif why is None and leaves_early(node):
            why = "break, return or yield in the body"
        elif why is None and not (known(loop.step) and value_of(loop.step) > 0):
            why = "the step is not a known positive number"
        if why is None:
            return self._traced(loop, node, frame)
        self.shared.concrete[loop.site] = why
        bounds = loop[1:4]
        if all(map(known, bounds)):
            return concrete(self, loop)
        if any(a[0] == "ld" for v in bounds for a in leaves(key(v))):
            return self.give_up("the bounds of a loop that has to be concrete are data")
        outer = frozenset().union(*(resolved(v).deps for v in bounds if isinstance(v, SymbolicScalar)))
        return self.give_up("the bounds of a concrete loop need the outer index",
                            {b.loop.site for b in outer if b.loop})

    def _traced(self, loop: Loop, node: ast.For, frame: types.FrameType) -> Iterator[SymbolicScalar]:
        parent, shared = self.stack[-1], self.shared
        if all(map(known, loop[1:4])) and not range(*map(value_of, loop[1:4])):
            self.block()
            return
        watch, after = Watch(frame, carried_names(node)), AfterLoop(frame, node)
        self.hold(frame)
        name = parent.fresh()
        ident = (*((b.name, tuple(b.path[:b.taken])) for b in self.stack), name)
        confirm = loop.site not in shared.confirmed
        shared.confirmed.add(loop.site)
        scope = self.scope
        tree: list[Any] = []
        path: list[bool] | None = []
        traced: list[Body] = []
        changed = 0                          # this many first paths have to be traced again

        def begin(path: Sequence[bool]) -> tuple[Body, dict[str, Any]]:
            body = Body(loop, name, path, ident)
            body.index = leaf("i", body.index_name, body)
            body.index.loop = loop
            shared.bodies.add(body)
            self.stack.append(body)
            self.loops.append(loop)
            self.count_run(loop)
            if shared.runs.total() > MAX_BODY_RUNS:
                self.give_up("too many body runs")
            self._new_block()
            return body, watch.state()

        def end(body: Body, before: dict[str, Any]) -> bool:
            self.alive()
            self.hold(frame)
            assert self.stack.pop() is body
            self.loops.pop()
            self.scope = scope
            now = watch.state()
            different = [n for n in before if before[n] != now[n]]
            for n in different:              # a handle left behind is noticed when it is used; other values are not
                if not (handle_like(before[n]) and gone(now[n], self.stack)) or shared.traps.get(ident):
                    self.give_up(f"Python state is carried across iterations: {n}", {loop.site})
            after.look()
            return bool(different) or body.retrace

        try:
            while path is not None:
                body = next((b for b in shared.traps.get(ident, ())        # the path of this prefix raised before
                             if b.path[:len(path)] == path and all(b.path[len(path):])), None)
                if body is None:
                    body, before = begin(path)
                    yield body.index
                    if end(body, before):
                        changed = len(traced) + 1
                traced.append(body)
                self._merge(tree, body, loop)
                if len(traced) > MAX_PATHS:  # concrete indices settle it only if no loaded element decides
                    data = any(a[0] == "ld" for c, _ in body.facts for a in leaves(key(c)))
                    self.give_up("too many paths", () if data else {loop.site})
                path = body.next_path()
            # Names now hold handles of finished traces: the paths traced before the last such change run again.
            for old in traced[:changed] or traced[-1:] * confirm:
                if old.items and old.items[-1][0] == "trap":
                    continue
                body, before = begin(old.path[:old.taken])
                yield body.index
                end(body, before)
                if len(body.items) != len(old.items):
                    self.give_up("two traces of one path differ", {loop.site})
                if body.items != old.items:
                    self._merge(tree, body, loop)
        except GeneratorExit:
            self.left = self.left or self.stack[-1]
            raise
        runs = implied(lin(loop.stop, 1, loop.start, -1) - 1, self.stack)
        if left := after.leaking(self.stack, runs):
            self.give_up(f"a value that the loop leaves in `{left}` is used after it", {loop.site})
        self._new_block()
        flags = (loop.parallel, loop.unroll, loop.submit_before)
        parent.items.append(("loop", name, *map(key, loop[1:4]), flags, freeze(tree), loop.line))

    def _merge(self, tree: list[Any], body: Body, loop: Loop) -> None:
        try:
            insert(tree, body.items)
        except Abandon as a:
            self.give_up(a.reason, {loop.site})
