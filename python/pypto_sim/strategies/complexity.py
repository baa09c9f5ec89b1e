"""How complex a strategy is, read off its traced kernels."""
from __future__ import annotations

import linecache
import math
import os
import re
import types
from collections.abc import Mapping, Sequence
from typing import Any

from ..dtypes import DataType
from ..registry import REGISTRY, ROWS
from .base import Launch, Strategy
from .check import collected

CHIPS = 2
MARKERS = ("is_loop_begin", "is_loop_end")
_OP = re.compile(r"= ([a-z_0-9.]+)\(")
_CALL = re.compile(r"pypto\.((?:experimental\.)?\w+)\(")
_DECLARED = re.compile(r"^\s*declare .*: ([A-Z0-9]+)\[([0-9, ]+)\]")
_MOVES = frozenset({"view", "reshape", "unsqueeze", "squeeze"})


def lines_of(launch: Launch, specs: Mapping[str, Any]) -> list[str]:
    """Listing of a launch's Program, one line per item."""
    with collected():
        return str(launch.kernel.program(*(specs[n] for n in launch.args), *launch.scalars)).splitlines()


def operations_of(launch: Launch, specs: Mapping[str, Any], moves: bool = False) -> list[str]:
    """Operations of a kernel in program order, each written one once (paths and unrolling repeat them)."""
    seen: dict[tuple[str, str], None] = {}
    for line in lines_of(launch, specs):
        if (found := _OP.search(line)) and (moves or found[1] not in _MOVES):
            seen.setdefault((found[1], line.rpartition("# ")[2]))
    return [name for name, _ in seen]


def codes_of(function: types.FunctionType) -> set[types.CodeType]:
    """Code of a kernel function and of the helpers it names."""
    from ..trace.watch import reachable_codes
    return set(reachable_codes(function))


def calls_at(function: types.FunctionType, where: str) -> list[str]:
    """Operations called on a source line "file.py:57" of a kernel or its helpers, if one of them is a composite."""
    file, _, number = where.rpartition(":")
    path = next((c.co_filename for c in codes_of(function) if c.co_filename.endswith(os.sep + file)), "")
    calls = _CALL.findall(linecache.getline(path, int(number))) if path and number.isdigit() else []
    known = [name for name in calls if name in REGISTRY and name != "assemble"]
    return known if any(not REGISTRY[name].kernel for name in known) else []


def written_operations(launch: Launch, specs: Mapping[str, Any]) -> list[str]:
    """Operations as the source has them: a composite counts once, not by its parts."""
    by_line: dict[str, list[str]] = {}
    for line in lines_of(launch, specs):
        if found := _OP.search(line):
            names = by_line.setdefault(line.rpartition("# ")[2], [])
            if found[1] not in names:
                names.append(found[1])
    return [name for where, names in by_line.items()
            for name in calls_at(launch.kernel.function, where) or names]


def declared_bytes(launch: Launch, specs: Mapping[str, Any]) -> int:
    """Bytes of the tensors a kernel makes for itself with pypto.tensor: state, and buffers such as copies."""
    total = 0
    for line in lines_of(launch, specs):
        if found := _DECLARED.search(line):
            shape = [int(n) for n in found[2].split(",")]
            total += math.prod(shape) * DataType[f"DT_{found[1]}"].size_bytes
    return total


def chip_only(names: Sequence[str]) -> list[str]:
    """Those operations that exist on some chips only."""
    by_name = {spec.name: spec for spec in ROWS} | dict(REGISTRY)
    return sorted({n for n in names if n in by_name and len(by_name[n].socs) < CHIPS})


def complexity_of(launches: Sequence[Launch], specs: Mapping[str, Any], maturity: str) -> dict[str, Any]:
    """{ops, loops, state_tensors, begin_end, chip_only, maturity} of the kernels of one call."""
    ops = loops = state = 0
    begin_end, names = False, []
    for one in launches:
        lines = lines_of(one, specs)
        listed = written_operations(one, specs)
        names += [*listed, *operations_of(one, specs)]
        ops += len(listed)
        loops += len({line.rpartition("# ")[2] for line in lines if line.lstrip().startswith("for ")})
        state += sum(line.startswith("declare ") for line in lines)    # outside all loops: outlives an iteration
        codes = codes_of(one.kernel.function)
        begin_end |= any(m in code.co_names for code in codes for m in MARKERS)
    return {"ops": ops, "loops": loops, "state_tensors": state, "begin_end": begin_end,
            "chip_only": chip_only(names), "maturity": maturity}


def unknown_complexity(strategy: Strategy) -> dict[str, Any]:
    """Complexity of a strategy whose kernels cannot be traced at a config."""
    return {"ops": 0, "loops": 0, "state_tensors": 0, "begin_end": False, "chip_only": [],
            "maturity": strategy.maturity}
