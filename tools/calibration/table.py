"""Rows of a calibration table: shapes, element types and devices read from the published texts."""
from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pypto_sim import device as devices

DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float": "fp32", "half": "fp16",
          "fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "int8": "int8", "int32": "int32", "int64": "int64",
          "int16": "int16", "uint8": "uint8", "bool": "bool", "int4": "int4"}
BYTES = {"fp32": 4, "int32": 4, "fp16": 2, "bf16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1, "int64": 8}
FLOATS = ("fp32", "fp16", "bf16")

# Family of an operator; `attention` splits by query length. The same facts as the families.csv beside a table.
FAMILIES = {
    "streaming": "copy_d2d exp gelu_erf gelu_tanh maximum mish rope sigmoid swiglu",
    "reduction": "add_rms_norm_dynamic_quant dynamic_quant gemma_rms_norm mean_all rms_norm rms_norm_cast softmax",
    "gemm": "grouped_matmul grouped_mx_matmul matmul mx_matmul quant_matmul weight_quant_batch_matmul",
    "decode_attention": "mla_decode sparse_flash_mla_decode",
    "attention": "flash_attention gqa mha mla",
}
FAMILY = {operator: family for family, names in FAMILIES.items() for operator in names.split()}
DECODE_QUERIES = 8                      # attention with at most so many queries is decode
CLASS_DEVICE = {"A2": "910b1", "A3": "910c", "A2/A3": "910b1", "A5": "950pr"}   # the soc text names no device

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([kM]?)\b")
_PAIR = re.compile(r"((?:[A-Za-z][\w/]*\s*=\s*)+)(\[[\d,\s]*\]|\d+(?:\.\d+)?(?:\+\d+)?[kM]?)")


class Unpredictable(Exception):
    """The row cannot be simulated; the text says why."""


@dataclass(frozen=True, slots=False)
class Row:
    """One row of a table. `impl` is not among the fields: no prediction may depend on it."""

    id: str
    tier: str
    device_class: str
    soc: str
    cores: str
    operator: str
    shape: str
    dtype: str
    attrs_text: str
    tile_config: str
    n_kernels: int
    time_us: float | None
    cache_state: str
    note: str
    source: str
    family: str = field(default="other")

    @cached_property
    def attrs(self) -> dict[str, Any]:
        try:
            found = json.loads(self.attrs_text or "{}")
        except json.JSONDecodeError:
            return {}
        return found if isinstance(found, dict) else {}

    @cached_property
    def shapes(self) -> list[list[int] | None]:
        """Operand shapes where the text lists them: `[[8, 64], [64]]`, or one shape `[8, 64]` with words after it."""
        text = self.shape.strip()
        if not text.startswith("["):
            return []
        try:
            found, _ = json.JSONDecoder().raw_decode(text)
        except json.JSONDecodeError:
            return []
        return found if found and all(x is None or isinstance(x, list) for x in found) else [found]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Named sizes of a text shape: `M=8 K=64`, `S0=S1=1024`, `KV 64k`, `G=48 M/expert=128`."""
        out: dict[str, int] = {}
        for names, value in _PAIR.findall(self.shape):
            if value.startswith("["):
                continue
            number = sum(_int(v) for v in value.split("+"))
            for name in re.findall(r"[A-Za-z][\w/]*", names):
                out.setdefault(name, number)
        return out

    @cached_property
    def lists(self) -> dict[str, list[int]]:
        """Named shapes of a text: `X=[4, 16] K=[8]`."""
        return {names.strip(" ="): json.loads(value) for names, value in _PAIR.findall(self.shape)
                if value.startswith("[")}

    @cached_property
    def dtypes(self) -> list[str]:
        """Element types of the operands in order; of `fp16->fp32` and `fp16 in, fp32 acc` the first."""
        text = re.split(r"->|\bin\b|\(", self.dtype)[0]
        return [DTYPES[w] for w in re.findall(r"[A-Za-z]+\d*\w*", text.lower()) if w in DTYPES]

    def dtype_of(self, i: int) -> str:
        """Element type of operand i; the last one listed stands for those after it."""
        if not self.dtypes:
            raise Unpredictable(f"element type {self.dtype!r} is not known")
        return self.dtypes[min(i, len(self.dtypes) - 1)]

    @cached_property
    def out_dtype(self) -> str | None:
        """Type after the arrow of `fp16->fp32`, or attrs.output_dtype."""
        word = str(self.attrs.get("output_dtype", "")) or self.dtype.partition("->")[2].strip()
        return DTYPES.get(word.lower())

    @cached_property
    def query_length(self) -> int | None:
        if self.shapes and self.shapes[0] is not None and len(self.shapes[0]) == 4:
            return self.shapes[0][2 if self.attrs.get("inputLayout") == "BNSD" else 1]
        return next((self.sizes[n] for n in ("S0", "S") if n in self.sizes), None)

    @property
    def warm(self) -> bool:
        """The operands are in L2 when the kernel starts."""
        return self.cache_state.startswith(("warm", "L2-resident"))

    @property
    def launches(self) -> int:
        """Kernels of the row. The counts of 950 rows were recorded on a 910B2 and say so in `note`."""
        return self.n_kernels

    @property
    def counts_hold(self) -> bool:
        return "may be fused differently" not in self.note

    @cached_property
    def device(self) -> str:
        """Device name: by `calibration_soc` of the device tables, else by a name in the text, else by class."""
        soc = self.soc.split("; ")[0].strip()
        known = devices.names(variants=True)
        for name in known:
            if soc in devices.Device.load(name).calibration_soc:
                return name
        if re.search(r"\b(two|2) dies\b", soc):
            raise Unpredictable(f"no device table for {soc!r}: two dies")
        word = soc.lower().replace("ascend", "").strip()
        for name in sorted(known, key=len, reverse=True):
            if word.startswith(name):
                return name
        if self.device_class in CLASS_DEVICE:
            return CLASS_DEVICE[self.device_class]
        raise Unpredictable(f"no device for soc {self.soc!r}, class {self.device_class!r}")


def _int(text: str) -> int:
    match = _NUMBER.match(text.strip())
    if not match:
        raise Unpredictable(f"no number in {text!r}")
    return int(float(match.group(1)) * {"": 1, "k": 1024, "M": 1 << 20}[match.group(2)])


def family_of(row: Row, families: dict[str, str]) -> str:
    """Family by operator; attention by query length."""
    family = families.get(row.operator, "other")
    if family != "attention":
        return family
    length = row.query_length
    return "other" if length is None else "decode_attention" if length <= DECODE_QUERIES else "prefill_attention"


def read(path: Path) -> list[Row]:
    """Rows of a table; a families.csv beside it goes before the families known here."""
    families = dict(FAMILY)
    beside = path.with_name("families.csv")
    if beside.is_file():
        with open(beside, encoding="utf-8", newline="") as f:
            families |= {r["operator"]: r["family"] for r in csv.DictReader(f)}
    with open(path, encoding="utf-8", newline="") as f:
        reader = csv.DictReader(f)
        missing = {"id", "operator", "shape", "dtype"} - set(reader.fieldnames or ())
        if missing:
            raise ValueError(f"{path}: not a calibration table, no column {', '.join(sorted(missing))}")
        records = list(reader)
    rows = []
    for r in records:
        def text(name: str, r: dict[str, str] = r) -> str:
            return (r.get(name) or "").strip()

        def number(name: str, r: dict[str, str] = r) -> float | None:
            cell = (r.get(name) or "").strip()
            try:
                return float(cell) if cell else None
            except ValueError:
                raise ValueError(f"{path}: row {r.get('id')}: {name} must be a number or empty, got {cell!r}") from None
        row = Row(id=text("id"), tier=text("tier"), device_class=text("device"), soc=text("soc"), cores=text("cores"),
                  operator=text("operator"), shape=text("shape"), dtype=text("dtype"), attrs_text=text("attrs"),
                  tile_config=text("tile_config"), n_kernels=int(number("n_kernels") or 1),
                  time_us=number("time_us"), cache_state=text("cache_state"),
                  note=text("note"), source=text("source"))
        object.__setattr__(row, "family", family_of(row, families))
        rows.append(row)
    return rows


def elements(shape: list[int]) -> int:
    return math.prod(shape)
