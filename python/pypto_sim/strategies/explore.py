"""What a user's kernel uses: operations, rules per profile, estimate, and the guide's advice for its operator."""
from __future__ import annotations

import contextlib
import inspect
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pypto_sim as pypto

from ..config import active
from ..errors import PyptoKeyError
from ..registry import REGISTRY, ROWS
from ..rules import PROFILES
from . import catalogue
from .advice import by_cost
from .base import PHASES, Launch
from .check import collected, reason_of
from .complexity import complexity_of, operations_of
from .files import load_file
from .matching import matching_operators

DYNAMIC_SIZE = 128     # size of an axis that neither the annotation nor the user fixes
SCHEMA = 1


def load(target: str) -> tuple[str, Any]:
    """Kernel of "FILE.py:NAME". Raises PyptoKeyError listing the kernels of the file."""
    file, sign, name = target.rpartition(":")
    if not sign:
        file, name = target, ""
    if not Path(file).is_file():
        raise PyptoKeyError(f"explore takes FILE.py:KERNEL; there is no file {file!r}")
    with contextlib.redirect_stdout(sys.stderr):      # standard output is the report's
        module = load_file(Path(file))
    kernels = {n: k for n, k in vars(module).items() if hasattr(k, "signature") and hasattr(k, "program")}
    if not name:
        raise PyptoKeyError(f"explore takes FILE.py:KERNEL; kernels of {file}: {', '.join(kernels) or 'none'}")
    if name not in kernels and callable(getattr(module, name, None)):
        raise PyptoKeyError(f"{name!r} of {file} is a function, not a kernel. If it makes one, write "
                            f"`kernel = {name}(...)` at the top level of the file and explore that")
    if name not in kernels:
        raise PyptoKeyError(f"{file} has no kernel {name!r}; it has: {', '.join(kernels) or 'none'}")
    return file, kernels[name]


def arguments_of(kernel: Any, shapes: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """(Spec per tensor parameter, what was assumed). shapes: name -> "4096x128" or "4096x128:bf16"."""
    specs, assumed = {}, []
    names = [p.name for p in kernel.signature.tensors]
    for name in shapes:
        if name not in names:
            raise PyptoKeyError(f"the kernel has no tensor {name!r}; it has: {', '.join(names)}")
    for p in kernel.signature.tensors:
        note = p.annotation
        text, _, word = shapes.get(p.name, "").partition(":")
        dtype = word or note.dtype
        if dtype is None:
            dtype = pypto.DT_FP32
            assumed.append(f"{p.name} is fp32")
        if text:
            try:
                shape = [int(n) for n in text.split("x")]
            except ValueError:
                raise PyptoKeyError(f"shape of {p.name}: give sizes such as 4096x128, got {text!r}") from None
        elif not note.declared:
            raise PyptoKeyError(f"`{p.name}` has no shape in its annotation: give --arg {p.name}=4096x128")
        else:
            shape = []
            for axis, entry in enumerate(note.declared):
                fixed = isinstance(entry, int) and entry >= 0
                shape.append(entry if fixed else DYNAMIC_SIZE)
                if not fixed:
                    assumed.append(f"axis {axis} of {p.name} is {DYNAMIC_SIZE}")
        specs[p.name] = pypto.Spec(shape, dtype)
    return specs, assumed


def scalars_of(kernel: Any, given: Mapping[str, str]) -> tuple[Any, ...]:
    """Scalar arguments in order: the given ones, else the defaults."""
    values = []
    for p in kernel.signature.parameters:
        if p.annotation is not None:
            continue
        if p.name in given:
            text = given[p.name]
            values.append(float(text) if "." in text or "e" in text.lower() else int(text))
        elif p.default is not inspect.Parameter.empty:
            values.append(p.default)
        else:
            raise PyptoKeyError(f"scalar `{p.name}` has no default: give --arg {p.name}=VALUE")
    return tuple(values)


def explore(target: str, given: Mapping[str, str] | None = None, device: str | None = None,
            model: str | None = None, tiles: bool = False) -> dict[str, Any]:
    """Everything `pypto-sim explore` reports, as a JSON value. tiles: search better tile shapes as well."""
    file, kernel = load(target)
    given = dict(given or {})
    scalar_names = [p.name for p in kernel.signature.parameters if p.annotation is None]
    scalars = scalars_of(kernel, given)
    specs, assumed = arguments_of(kernel, {k: v for k, v in given.items() if k not in scalar_names})
    chosen = device or active().device
    launch = Launch(kernel, tuple(specs), scalars)
    found: dict[str, Any] = {
        "schema": SCHEMA, "file": file, "kernel": kernel.__name__, "device": chosen,
        "arguments": {n: f"{list(s.shape)} {s.dtype.name}" for n, s in specs.items()}, "assumed": assumed,
        "operations": [], "profiles": {}, "estimate": None, "reason": None, "complexity": None, "operator": None,
        "matches": [],
        "recommendations": {}, "tiles": None, "command": f"pypto-sim explore {target}" + "".join(
            f" --arg {k}={v}" for k, v in given.items()) + (f" --device {device}" if device else "")
        + (" --tiles" if tiles else "")}
    with pypto.config(device=chosen):
        for profile in PROFILES:
            found["profiles"][profile] = _under(profile, launch, specs, chosen, model or active().model)
        lenient = found["profiles"]["lenient"]
        found["estimate"], found["reason"] = lenient.pop("estimate"), lenient.pop("reason")
        for outcome in found["profiles"].values():
            outcome.pop("estimate", None)
            outcome.pop("reason", None)
        try:
            with collected():
                traced = kernel.program(*(specs[n] for n in launch.args), *launch.scalars)
            counted = Counter(operations_of(launch, specs, moves=True))
            found["complexity"] = complexity_of([launch], specs, "")
        except Exception as error:    # the kernel cannot be traced: the reason says why
            found["reason"] = found["reason"] or reason_of(error).to_dict()
            return found
        if tiles:
            found["tiles"] = _tiles(launch, specs, chosen, model)
    by_name = {spec.name: spec for spec in ROWS} | dict(REGISTRY)
    found["operations"] = [{"name": n, "count": k, "chips": " ".join(by_name[n].socs) if n in by_name else ""}
                           for n, k in counted.items()]
    matches = matching_operators(traced)
    found["matches"] = [{"operator": m.operator, "evidence": list(m.evidence)} for m in matches]
    if matches:
        found["operator"] = matches[0].operator
        module = catalogue.module(found["operator"])
        for phase in PHASES:
            found["recommendations"][phase] = by_cost(module, phase, chosen, model or active().model)
    return found


def _tiles(launch: Launch, specs: Mapping[str, Any], device: str, model: str | None) -> dict[str, Any]:
    with collected():
        try:
            found = pypto.suggest_tiles(launch.kernel, *(specs[n] for n in launch.args), *launch.scalars, device=device,
                                        model=model)
        except pypto.PyptoError as error:
            return {"reason": reason_of(error).to_dict(), "rows": [("none", str(error))]}
    return {**found.to_dict(), "reason": None, "rows": found.rows()}


def _under(profile: str, launch: Launch, specs: Mapping[str, Any], device: str, model: str) -> dict[str, Any]:
    error: Exception | None = None
    estimate = None
    texts: list[str] = []
    with pypto.config(profile=profile), collected():
        try:
            traced = launch.kernel.program(*(specs[n] for n in launch.args), *launch.scalars)
            texts = [f"{f.text} ({f.line}) [{f.rule}]" for f in traced.findings if f.severity == "warn"]
            estimate = pypto.estimate(launch.kernel, *(specs[n] for n in launch.args), *launch.scalars, device=device,
                                      model=model).to_dict()
        except Exception as e:    # what stops it is the result
            error = e
    outcome = "warns" if texts else "ok"
    reason = None
    if error is not None:
        reason = reason_of(error).to_dict()
        outcome, texts = "error", [*texts, reason["text"]]
    return {"outcome": outcome, "texts": texts, "estimate": estimate, "reason": reason}
