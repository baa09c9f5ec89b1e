"""What a PyPTO form of a torch operation is, and the table of them."""
from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import PyptoKeyError
from ..registry import REGISTRY, describe


@dataclass(frozen=True, slots=True)
class Sample:
    """Shape, element type and, for an input, the numpy expression that makes it."""
    shape: tuple[int, ...]
    dtype: str
    values: str

    @property
    def annotation(self) -> str:
        return f"pypto.Tensor({list(self.shape)}, pypto.DT_{self.dtype})"

    @property
    def zeros(self) -> str:
        kind = {"FP32": "np.float32", "INT32": "np.int32", "BOOL": "np.bool_"}[self.dtype]
        return f"np.zeros({list(self.shape)}, {kind})"


def floats(*shape: int) -> Sample:
    """fp32, standard normal."""
    return Sample(shape, "FP32", f"rng.standard_normal({list(shape)}).astype(np.float32)")


def positive(*shape: int) -> Sample:
    """fp32 in [0.5, 2)."""
    return Sample(shape, "FP32", f"rng.uniform(0.5, 2, {list(shape)}).astype(np.float32)")


def whole(*shape: int) -> Sample:
    """fp32, whole numbers in [-4, 4): sums of many products are exact in any order."""
    return Sample(shape, "FP32", f"rng.integers(-4, 4, {list(shape)}).astype(np.float32)")


def ints(below: int, *shape: int) -> Sample:
    """int32 in [0, below)."""
    return Sample(shape, "INT32", f"rng.integers(0, {below}, {list(shape)}).astype(np.int32)")


def bools(*shape: int) -> Sample:
    """bool, about half of them true."""
    return Sample(shape, "BOOL", f"rng.standard_normal({list(shape)}) > 0")


@dataclass(frozen=True, slots=True)
class Form:
    """One torch operation in PyPTO.

    `torch` is the torch expression over the names of `inputs`; `names[0]` heads the row, the others find it too.
    """
    names: tuple[str, ...]
    torch: str
    inputs: dict[str, Sample]
    outputs: tuple[Sample, ...]
    note: str
    body: Callable[..., Any]

    @property
    def source(self) -> str:
        """The helper as text, without its table row and type hints."""
        text = textwrap.dedent(inspect.getsource(self.body))
        return text[text.index("\ndef ") + 1:].replace(": Any", "").replace(" -> Any", "")

    @property
    def calls(self) -> list[str]:
        """Operations as they run, inner calls first; once for every call in the text."""
        found = [node for node in ast.walk(ast.parse(self.source)) if isinstance(node, ast.Call)
                 and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
                 and node.func.value.id == "pypto" and node.func.attr in REGISTRY]
        found.sort(key=lambda node: (node.end_lineno, node.end_col_offset))
        return [node.func.attr for node in found]

    @property
    def operations(self) -> list[str]:
        return list(dict.fromkeys(self.calls))

    @property
    def kind(self) -> str:
        """"atomic": one PyPTO call does it; "composed": several."""
        return "atomic" if len(self.calls) == 1 else "composed"

    @property
    def versions(self) -> list[str]:
        """PyPTO versions that have every operation."""
        pages = [describe(name)["versions"] for name in self.operations]
        return [v for v in pages[0] if all(v in page for page in pages)]

    @property
    def script(self) -> str:
        """The helper inside a kernel, launched on sample inputs."""
        outs = ["out"] if len(self.outputs) == 1 else [f"out{i}" for i in range(len(self.outputs))]
        values = {**self.inputs, **dict(zip(outs, self.outputs, strict=True))}
        parameters = (",\n" + " " * 11).join(f"{name}: {s.annotation}" for name, s in values.items())
        call = f"{self.body.__name__}({', '.join(self.inputs)})"
        body = [f"    {', '.join(f'{o}[:]' for o in outs)} = {call}"]
        return "\n".join([
            "import numpy as np", "", "import pypto_sim as pypto", "", "", self.source.rstrip(), "", "",
            "@pypto.frontend.jit", f"def kernel({parameters}):", *body, "", "",
            *(["rng = np.random.default_rng(0)"] if self.inputs else []),
            *(f"{name} = {s.values}" for name, s in self.inputs.items()),
            *(f"{name} = {s.zeros}" for name, s in zip(outs, self.outputs, strict=True)),
            f"kernel({', '.join(values)})", ""])

    def page(self) -> dict[str, Any]:
        """Plain values for printing."""
        return {"name": self.names[0], "aliases": list(self.names[1:]), "torch": self.torch, "kind": self.kind,
                "operations": self.operations, "versions": self.versions, "note": self.note, "script": self.script}


FORMS: dict[str, Form] = {}


def form(*names: str, torch: str, outputs: Sample | tuple[Sample, ...], note: str = "",
         **inputs: Sample) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated helper as the PyPTO form of torch operation `names[0]`."""
    def enter(body: Callable[..., Any]) -> Callable[..., Any]:
        outs = outputs if isinstance(outputs, tuple) else (outputs,)
        FORMS[names[0]] = Form(names, torch, inputs, outs, note, body)
        return body
    return enter


def plain(name: str) -> str:
    """Name without module prefix and case: torch.nn.functional.gelu, nn.GELU and F.gelu are gelu."""
    return name.strip().rpartition(".")[2].lower()


def find(name: str) -> Form:
    """Form of a torch operation. Raises PyptoKeyError with the nearest names for an unknown one."""
    known = {plain(alias): row for row in FORMS.values() for alias in row.names}
    if plain(name) not in known:
        near = difflib.get_close_matches(plain(name), known, n=5, cutoff=0.5)
        heads = dict.fromkeys(known[n].names[0] for n in near)
        hint = f"; nearest: {', '.join(heads)}" if near else ""
        raise PyptoKeyError(f"no PyPTO form listed for torch operation {name!r}{hint}")
    return known[plain(name)]
