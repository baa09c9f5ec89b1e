"""What a loop looks like in the source text: is it a plain `for`, and which names does its body carry?"""
from __future__ import annotations

import ast
import builtins
import functools
import linecache
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

Site = tuple[Any, ...]        # (file, first line, last line, first column, last column) of the loop call
SURE_CONTEXTS = ("options", "function", "label", "config")     # `with` of these never swallows an exception
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp,
          ast.GeneratorExp)


def find_for(frame: types.FrameType) -> tuple[Site, ast.For | None]:
    """Site of the call that `frame` is making, and the `for` statement that iterates over just this call.

    None: not a plain `for x in loop(...)`, or no source text.
    """
    code = frame.f_code
    position = _position(code, frame.f_lasti)
    if None in position:
        return (code.co_filename, frame.f_lineno, frame.f_lasti), None
    return (code.co_filename, *position), _for_statements(code.co_filename).get(position)


@functools.lru_cache(maxsize=4096)
def _position(code: types.CodeType, offset: int) -> tuple[int | None, ...]:
    return list(code.co_positions())[offset // 2]


@functools.lru_cache(maxsize=256)
def syntax_tree(file: str) -> ast.Module | None:
    """Syntax tree of a source file, None without source text."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None


@functools.lru_cache(maxsize=256)
def _for_statements(file: str) -> dict[tuple[int | None, ...], ast.For]:
    tree = syntax_tree(file)
    return {(n.iter.lineno, n.iter.end_lineno, n.iter.col_offset, n.iter.end_col_offset): n
            for n in ast.walk(tree) if isinstance(n, ast.For)} if tree else {}


@functools.lru_cache(maxsize=256)
def _calls(file: str) -> dict[tuple[int | None, ...], tuple[str, bool]]:
    """Position of a call -> (called name or "", it is a statement of its own: what it gives is dropped)."""
    tree = syntax_tree(file)
    if tree is None:
        return {}
    dropped = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    return {(n.lineno, n.end_lineno, n.col_offset, n.end_col_offset):
            (n.func.id if isinstance(n.func, ast.Name) else "", id(n) in dropped)
            for n in ast.walk(tree) if isinstance(n, ast.Call)}


@functools.lru_cache(maxsize=4096)
def _call(code: types.CodeType, offset: int) -> tuple[str, bool]:
    position = _position(code, offset)
    return ("", False) if None in position else _calls(code.co_filename).get(position, ("", False))


def builtin_extreme(frame: types.FrameType) -> str:
    """ "min" or "max" when the frame is calling that builtin now, else ""."""
    name = _call(frame.f_code, frame.f_lasti)[0]
    if name not in ("min", "max"):
        return ""
    found = frame.f_locals.get(name, frame.f_globals.get(name, getattr(builtins, name)))
    return name if found is getattr(builtins, name) else ""


def result_dropped(frame: types.FrameType) -> bool:
    """Whether the call that the frame is making is a statement of its own."""
    return _call(frame.f_code, frame.f_lasti)[1]


@functools.lru_cache(maxsize=1024)
def leaves_early(node: ast.For) -> bool:
    """True when the body has a break, return or yield at its own level."""
    return _leaves(node.body)


def _leaves(stmts: Iterable[ast.AST], inner_loop: bool = False) -> bool:
    for s in stmts:
        if isinstance(s, (ast.Return, ast.Yield, ast.YieldFrom)) or (isinstance(s, ast.Break) and not inner_loop):
            return True
        if isinstance(s, SCOPES):
            continue
        if isinstance(s, (ast.For, ast.While, ast.AsyncFor)):      # a break in there belongs to that loop
            if _leaves(s.body, True) or _leaves(s.orelse, inner_loop):
                return True
        elif _leaves(ast.iter_child_nodes(s), inner_loop):
            return True
    return False


@functools.lru_cache(maxsize=1024)
def carried_names(node: ast.For) -> frozenset[str]:
    """Names (and "base.attribute" pairs) that the body reads before it has surely assigned them."""
    out: set[str] = set()
    _exposed(node.body, {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}, out)
    return frozenset(out)


@functools.lru_cache(maxsize=1024)
def rebound_names(node: ast.For) -> frozenset[str]:
    """Names the body both stores and reads before it has surely assigned them: state that crosses iterations."""
    stored = {n for s in node.body for n in _stores(s)}
    return frozenset(stored & carried_names(node))


class Fate(NamedTuple):
    """Names that a loop stores. read_after: may be read after it (or in the next round of an enclosing loop)."""

    stored: frozenset[str]
    surely_stored: frozenset[str]
    read_after: frozenset[str]


@functools.lru_cache(maxsize=1024)
def names_after(file: str, node: ast.For) -> Fate:
    """What becomes of the names that the loop `node` stores."""
    target = set(_stores(node.target))
    sure = frozenset(_exposed(node.body, target, set()))
    stored = frozenset(n for s in node.body for n in _all_stores(s)) | target
    out: set[str] = set()
    done: set[str] = set()
    path = _path_to(syntax_tree(file), node)
    for block, position, parent in reversed(path):
        done = _exposed(block[position + 1:], done, out)
        if isinstance(parent, (ast.For, ast.While)):
            inner = done | (set(_stores(parent.target)) if isinstance(parent, ast.For) else set())
            if isinstance(parent, ast.While):
                _reads(parent.test, inner, out)
            _exposed(parent.body, inner, out)
        for other in _sibling_blocks(parent, block):
            _exposed(other, done, out)
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)):
            break
    return Fate(stored, sure, frozenset(out) if path else stored)


def _path_to(tree: ast.AST | None, node: ast.AST) -> list[tuple[list[ast.stmt], int, ast.AST]]:
    """(block, position in it, statement that owns the block) from the module down to `node`."""
    def search(parent: ast.AST) -> list[tuple[list[ast.stmt], int, ast.AST]] | None:
        for block in _blocks(parent):
            for position, s in enumerate(block):
                if s is node:
                    return [(block, position, parent)]
                if s.lineno <= node.lineno <= (s.end_lineno or s.lineno) and (found := search(s)):
                    return [(block, position, parent), *found]
        return None
    return (search(tree) if tree else None) or []


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    own = [getattr(node, f) for f in ("body", "orelse", "finalbody") if isinstance(getattr(node, f, None), list)]
    inner = [h.body for h in getattr(node, "handlers", [])] + [c.body for c in getattr(node, "cases", [])]
    return own + inner


def _sibling_blocks(parent: ast.AST, block: list[ast.stmt]) -> list[list[ast.stmt]]:
    """Blocks of a try or loop that can run after `block`."""
    if not isinstance(parent, (ast.Try, ast.For, ast.While)):
        return []
    return [b for b in _blocks(parent) if b is not block and b is not getattr(parent, "body", None)]


def _all_stores(node: ast.AST) -> list[str]:
    """Names that a statement may bind in its own scope."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Lambda):
        return []
    own = [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else []
    own += [a.asname or a.name.partition(".")[0] for a in getattr(node, "names", []) if isinstance(a, ast.alias)]
    own += [node.name] if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name else []
    return own + [n for child in ast.iter_child_nodes(node) for n in _all_stores(child)]


def parameter_rebinds(tree: ast.AST, names: Iterable[str]) -> dict[str, tuple[int, bool]]:
    """Of a function's body: name -> (line, surely lost) for parameters that are assigned to.

    Surely lost: `t += x`, and a value that nothing reads afterwards.
    """
    found: dict[str, tuple[int, bool]] = {}
    wanted = set(names)
    for n in ast.walk(tree):
        if isinstance(n, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]
            for t in (x for target in targets for x in ast.walk(target)):
                if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store) and t.id in wanted:
                    lost = isinstance(n, ast.AugAssign) or not _read_later(tree, n, t.id)
                    if t.id not in found or lost > found[t.id][1]:
                        found[t.id] = (n.lineno, lost)
    return found


def _read_later(tree: ast.AST, statement: ast.stmt, name: str) -> bool:
    """Whether `name` may be read after the statement, in program order or in the next round of a loop."""
    own = {id(x) for x in ast.walk(statement)}
    around = [n for n in ast.walk(tree) if isinstance(n, (ast.For, ast.While)) and id(n) not in own
              and any(x is statement for x in ast.walk(n))]
    loops = {id(x) for n in around for x in ast.walk(n)}
    return any(isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Load) and id(x) not in own
               and (x.lineno > (statement.end_lineno or statement.lineno) or id(x) in loops) for x in ast.walk(tree))


def _exposed(stmts: list[ast.stmt], assigned: set[str], out: set[str]) -> set[str]:
    """Add exposed reads to `out`; returns the names that are surely assigned afterwards."""
    done = set(assigned)
    for s in stmts:
        if isinstance(s, ast.If):
            _reads(s.test, done, out)
            done |= _exposed(s.body, done, out) & _exposed(s.orelse, done, out)
        elif isinstance(s, (ast.For, ast.While)):
            _reads(s.iter if isinstance(s, ast.For) else s.test, done, out)
            inner = done | (set(_stores(s.target)) if isinstance(s, ast.For) else set())
            _exposed(s.body, inner, out)
            _exposed(s.orelse, done, out)
        elif isinstance(s, ast.Try):
            after = _exposed(s.orelse, _exposed(s.body, done, out), out)
            for h in s.handlers:
                if h.type:
                    _reads(h.type, done, out)
                after &= _exposed(h.body, done, out)
            done = after | _exposed(s.finalbody, done, out)
        elif isinstance(s, ast.With):
            for item in s.items:
                _reads(item, done, out)
            inside = done | {n for item in s.items if item.optional_vars for n in _stores(item.optional_vars)}
            after = _exposed(s.body, inside, out)
            if all(_is_sure(item.context_expr) for item in s.items):
                done = after
        elif isinstance(s, ast.Match):
            _reads(s.subject, done, out)
            for case in s.cases:
                bound = {n.name for n in ast.walk(case.pattern)
                         if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name}
                if case.guard:
                    _reads(case.guard, done | bound, out)
                _exposed(case.body, done | bound, out)
        else:
            _reads(s, done, out)
            if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name) and s.target.id not in done:
                out.add(s.target.id)
            done |= set(_stores(s))
    return done


def _is_sure(expr: ast.AST) -> bool:
    if not isinstance(expr, ast.Call):
        return False
    f = expr.func
    return (f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "")) in SURE_CONTEXTS


def _stores(node: ast.AST) -> list[str]:
    """Names that a simple statement surely binds in its own scope."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (*SCOPES, ast.NamedExpr)):
        return []
    if isinstance(node, ast.Name):
        return [node.id] if isinstance(node.ctx, ast.Store) else []
    return [n for child in ast.iter_child_nodes(node) for n in _stores(child)]


def _reads(node: ast.AST, done: set[str], out: set[str]) -> None:
    for n in ast.walk(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id not in done:
            out.add(n.id)
        elif isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id not in done:
            out.add(f"{n.value.id}.{n.attr}")
