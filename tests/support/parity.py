"""The documented names and parameters, and how one of them is looked up and compared."""
from __future__ import annotations

import csv
import inspect
from pathlib import Path
from typing import Any

import pypto_sim as pypto
from pypto_sim.ops.option_table import OPTIONS
from pypto_sim.trace.tensor import Tensor

LIST = Path(__file__).with_name("parity.txt")          # name<TAB>parameters, one row per documented name
PROPERTIES = ("Tensor.dtype", "Tensor.shape", "Tensor.name", "Tensor.id", "Tensor.format")
OPERATORS = {"SymbolicScalar.__arith__": "add sub mul floordiv truediv mod neg", "SymbolicScalar.__cmp__":
             "eq ne lt le gt ge", "Tensor.__operators__": "add sub mul truediv floordiv mod pow matmul neg lt le gt ge "
             "eq ne"}
EXTENDED = ("bias_tensor", "scale", "scale_tensor", "relu_type", "trans_mode")
# rows whose signature is no parameter list, or that are wider here: loop_unroll takes what loop takes, the output of
# the list form of assemble is its second argument, options of jit are keywords only
SPECIAL = ("arange", "loop", "loop_unroll", "assemble", "frontend.jit", "Tensor.__bool__", "SymbolicScalar", "function",
           "frontend.function", "extend_params.bias_tensor", "extend_params.scale", "extend_params.scale_tensor",
           "extend_params.relu_type", "extend_params.trans_mode", "loop.name", "loop.idx_name", "loop.unroll_list",
           "loop.submit_before_loop", "loop.parallel", "jit", "platform")
MARKERS = ("[0.2:", "[doc says", "   |  ")             # what follows in the table is the other release's form
DEFAULTS: dict[str, Any] = {"HIGH_PRECISION": pypto.PrecisionType.HIGH_PRECISION,
                            "INTRINSIC": pypto.PrecisionType.INTRINSIC, "MERGE_SORT": pypto.TopKAlgo.MERGE_SORT,
                            "CAST_NONE": pypto.CastMode.CAST_NONE, "OFF": pypto.SaturationMode.OFF,
                            "DT_FP8E4M3": pypto.DT_FP8E4M3, "ROUND_DOWN": pypto.ROUND_DOWN}


def split(text: str) -> list[str]:
    """Entries of a parameter list, at its outer commas."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "[({") - (c in "])}")
        if c == "," and not depth:
            parts.append(text[last:i])
            last = i + 1
    return [p.strip() for p in [*parts, text[last:]] if p.strip()]


def parameters(row: dict[str, str]) -> str:
    """Names, order and defaults of a row's signature, such as "input, dim, keepdim=False"; "" when it has none."""
    text = row["signature"]
    if row["kind"] == "enum" and row["name"].isidentifier() and row["name"][1].islower():
        names = [e.strip() for e in text.partition("(")[0].split(",")]
        return "{" + ", ".join(e for e in names if e.isupper()) + "}"
    for marker in MARKERS:
        text = text.partition(marker)[0]
    begin = text.find("(")
    if begin < 0 or "_options." in row["name"] or row["name"] in SPECIAL:
        return ""
    inside = text[begin + 1:closing(text, begin)]
    if "..." in inside:
        return ""
    shown = []
    for part in split(inside):
        name, _, default = (s.strip() for s in part.partition("="))
        name = name.partition(":")[0].strip()
        if name in ("self", "cls") and row["name"].startswith("Tensor."):
            continue
        shown.append(name + ("=" + (default or "?") if "=" in part else ""))
    return ", ".join(shown)


def closing(text: str, begin: int) -> int:
    """Place of the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] in "[({") - (text[i] in "])}")
        if not depth:
            return i
    return len(text)


def table(shared_dir: Path) -> list[tuple[str, str]]:
    """(name, parameters) of every row of the operation table."""
    with (shared_dir / "pypto_api" / "operations.csv").open(newline="", encoding="utf-8") as f:
        return [(r["name"], parameters(r)) for r in csv.DictReader(f)]


def listed() -> list[tuple[str, str]]:
    """The same from the list beside this file."""
    rows = LIST.read_text().splitlines()
    return [tuple((r + "\t").split("\t")[:2]) for r in rows]  # type: ignore[misc]


def resolve(name: str) -> Any:
    """What `pypto.<name>` is here. Raises AttributeError."""
    if name in PROPERTIES:
        return getattr(Tensor([1], pypto.DT_FP32), name.partition(".")[2])
    if name in OPERATORS:
        owner = getattr(pypto, name.partition(".")[0])
        return [getattr(owner, f"__{o}__") for o in OPERATORS[name].split()]
    first, _, rest = name.partition(".")
    if first.endswith("_options") and rest:
        if rest not in OPTIONS[first.removesuffix("_options")]:
            raise AttributeError(name)
        return OPTIONS[first.removesuffix("_options")][rest]
    if first == "extend_params":
        if rest and rest not in EXTENDED:
            raise AttributeError(name)
        return inspect.signature(pypto.matmul).parameters["extend_params"]
    if first == "loop" and rest:
        return inspect.signature(pypto.loop).parameters[rest]
    found: Any = pypto
    for part in name.split("."):
        found = getattr(found, part)
    return found


def differences(name: str, documented: str) -> str:
    """"" when `name` has the documented parameters in order, with their defaults; else what differs."""
    if not documented:
        return ""
    if documented.startswith("{"):
        return members(name, documented)
    found = list(inspect.signature(resolve(name)).parameters.values())
    if name.startswith(("Tensor.", "SymbolicScalar.")) and found and found[0].name in ("self", "input", "y"):
        found = found[1:]
    ours = {p.name: p for p in found}
    keyword_only, last = False, -1
    for part in split(documented):
        if part in ("*", "/"):
            keyword_only |= part == "*"
            continue
        p, _, default = part.partition("=")
        if p.startswith("*"):
            if not any(q.kind in (q.VAR_POSITIONAL, q.VAR_KEYWORD) for q in found):
                return f"no {p}"
            keyword_only |= not p.startswith("**")
            continue
        if p not in ours:
            return f"no parameter {p!r}"
        here = ours[p]
        if (here.kind is here.KEYWORD_ONLY) is not keyword_only:
            return f"{p!r} is {here.kind.description}"
        if not keyword_only:
            if list(ours).index(p) <= last:
                return f"{p!r} stands elsewhere"
            last = list(ours).index(p)
        if default == "?":
            continue
        if default:
            value = DEFAULTS[default.rpartition(".")[2]] if default.rpartition(".")[2] in DEFAULTS else \
                eval(default, {"AtomicType": pypto.AtomicType, "OpType": pypto.OpType})
            given = list(here.default) if isinstance(here.default, tuple) else here.default
            if given != value:
                return f"{p!r} defaults to {here.default!r}, documented {default}"
        elif here.default is not here.empty and not keyword_only and not name.startswith("Tensor."):
            return f"{p!r} has the default {here.default!r}, documented none"
    return ""


def members(name: str, documented: str) -> str:
    """"" when the enumeration has the documented members, with their values where there are any."""
    kind = resolve(name)
    for part in split(documented.strip("{}")):
        member, _, value = part.partition("=")
        if member not in kind.__members__ or (value and int(kind[member]) != int(value)):
            return f"no member {part}"
    return ""


def needed_by_table(name: str, documented: str) -> str:
    """Parameters without default that the table does not have; "" when none."""
    if not documented or documented.startswith("{"):
        return ""
    known = {p.partition("=")[0].lstrip("*") for p in split(documented)}
    return ", ".join(p.name for p in inspect.signature(resolve(name)).parameters.values()
                     if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
                     and p.name not in known | {"self", "input", "y", "cls"})
