"""UB tiles and scratch of single operations against the operand lists that the public 0.2.0 package reports."""
import json
import math
import re
from collections import namedtuple
from pathlib import Path

import pytest

from pypto_sim import (
    capacity,
    ops,  # noqa: F401 - fills the registry
)
from pypto_sim.dtypes import DataType
from pypto_sim.registry import REGISTRY, ROWS

FILE = Path(__file__).resolve().parents[3] / "shared" / "official_sim" / "reference.json"
Operand = namedtuple("Operand", "shape dtype")
FLOAT = {4: DataType.DT_FP32, 2: DataType.DT_FP16, 1: DataType.DT_BOOL}
# opcode -> (kernel, axis or None)
OPCODES = {
    "CMP": ("gt", None), "CMPS": ("gts", None), "WHERE_TT": ("where", None), "ROWSUM_SINGLE": ("sum", -1),
    "ROWMAX_SINGLE": ("amax", -1), "ROWMIN_SINGLE": ("amin", -1), "ROWSUMLINE": ("sum", -2), "ROWMAXLINE": ("amax", -2),
    "TRANSPOSE_VNCHWCONV": ("transpose", None), "GATHER_ELEMENT": ("gather", 0), "BITSORT": ("topk", None),
    "ADD": ("add", None), "MUL": ("mul", None), "EXP": ("exp", None), "RECIPROCAL": ("reciprocal", None),
    "EXPAND": ("expand", None),
}
SHARED = {"add", "mul", "exp", "where"}                     # the result takes an operand's place


def samples():
    """(opcode, inputs, outputs): lists of (shape, bytes) of distinct UB operand lists."""
    if not FILE.is_file():
        return []
    found = set()
    for record in json.loads(FILE.read_text())["kernels"].values():
        for text in record.get("samples", {}):
            opcode, _, operands = text.partition(" ")
            if opcode in OPCODES and "DDR" not in operands and "-1" not in operands:
                found.add((opcode, *(tuple(
                    (tuple(map(int, shape.split(","))), int(size))
                    for shape, size in re.findall(r"UB\[([\d,]+)\](\d+)", side)) for side in operands.split("->"))))
    return sorted(found)


def row(kernel):
    return REGISTRY[kernel] if kernel in REGISTRY else next(r for r in ROWS if r.kernel == kernel)


@pytest.mark.parametrize(("opcode", "ins", "outs"), samples())
def test_bytes_of_one_tile_operation(opcode, ins, outs):
    kernel, axis = OPCODES[opcode]
    operands = [Operand(shape, FLOAT[size // math.prod(shape)]) for shape, size in ins]
    results = [Operand(shape, FLOAT[size // math.prod(shape)]) for shape, size in outs[:1]]
    if opcode == "BITSORT":
        operands = operands[:1]
    rank = len(ins[0][0])
    if opcode == "GATHER_ELEMENT":
        axis = next(i for i, (a, b) in enumerate(zip(ins[0][0], ins[1][0], strict=True)) if a != b)
    order = (*range(rank - 2), rank - 1, rank - 2) if kernel == "transpose" else ()
    call = capacity.Call(row(kernel), results, operands, order or ((axis % rank,) if axis is not None else ()), "0.2.0")
    tile = outs[0][0] if kernel in ("gather", "expand") else ins[-1][0]
    (live,) = capacity.stages_of(call, tile)
    reported = sum(size for _, size in (*ins, *outs)) - (outs[0][1] if kernel in SHARED else 0)
    assert sum(b.bytes for b in live) == reported


@pytest.mark.skipif(not FILE.is_file(), reason="reference data folder is absent")
def test_every_opcode_was_seen():
    assert {s[0] for s in samples()} == set(OPCODES)
