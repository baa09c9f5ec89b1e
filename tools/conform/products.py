"""Matrix products of the cases."""
from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import pypto_sim as pypto

from .blocks import WHOLE, Layout, block_of, launch, looped, outputs, part, place
from .cases import Case, Spec, rounded
from .compare import Expected
from .draw import draw, generator
from .row import TABLE, Arrays, Row, f64


def _record(text: str | None) -> dict[str, str]:
    """Entries of "{a:1, b:[1, 2]}"."""
    return dict(re.findall(r"(\w+)\s*:\s*(\[[^\]]*\]|[^,}\s]+)", text or ""))


def _list(text: str) -> list[float]:
    return [float(v) for v in text.strip("[]").split(",")]


def _flags(case: Case) -> tuple[bool, bool]:
    a, b = (word.strip().upper() == "TRUE" for word in case.attrs["input_trans"].split(","))
    return a, b


def _extra(case: Case) -> dict[str, Spec]:
    """Further operands: bias, scale, and T of a chained product."""
    found = {}
    if bias := _record(case.attrs.get("bias_info")):
        found["bias"] = _extra_spec(bias, "bias")
    fix = _record(case.attrs.get("fixpipe_info"))
    if fix.get("quant_type") == "2":
        low, high = _list(fix["scale_tensor_range"])
        found["scale"] = Spec(tuple(int(n) for n in _list(fix["scale_shape"])), "fp32", "ND", low, high)
    if chain := _record(case.attrs.get("l0c2l1_info")):
        found["chain"] = _extra_spec(chain, "input")
    return found


def _extra_spec(info: dict[str, str], name: str) -> Spec:
    low, high = _list(info[f"{name}_range"])
    return Spec(tuple(int(n) for n in _list(info[f"{name}_shape"])), info[f"{name}_dtype"], "ND", low, high)


def _inputs(case: Case) -> list[np.ndarray]:
    rng = generator(case)
    return [draw(rng, t) for t in (*case.ins, *_extra(case).values())]


def _layout(case: Case) -> Layout:
    """The grid is the product; the contracted axis is whole. A chained product runs in one block."""
    ta, tb = _flags(case)
    if "l0c2l1_info" in case.attrs:
        whole = lambda t: tuple(WHOLE for _ in t.shape)
        grid = case.outs[0].shape
        return Layout(grid, grid, tuple(whole(t) for t in (*case.ins, *_extra(case).values())), ((WHOLE, WHOLE),))
    grid = case.outs[0].shape
    more = tuple((WHOLE, 1) for _ in _extra(case))
    return Layout(grid, block_of(grid, case.view),
                  ((WHOLE, 0) if ta else (0, WHOLE), (1, WHOLE) if tb else (WHOLE, 1), *more), ((0, 1),))


def _scale_value(case: Case) -> float | None:
    fix = _record(case.attrs.get("fixpipe_info"))
    return float(fix["scale_value"]) if fix.get("quant_type") == "1" else None


def _relu(case: Case) -> bool:
    return _record(case.attrs.get("fixpipe_info")).get("relu_type") == "1"


def _run(case: Case, layout: Layout, arrays: Sequence[np.ndarray], call: Callable[..., Any]) -> list[np.ndarray]:
    results, extra = outputs(case), _extra(case)
    specs, (ta, tb) = [*case.ins, *extra.values()], _flags(case)
    chain = _record(case.attrs.get("l0c2l1_info"))

    def body(*tensors: Any) -> None:
        def step(at: list[Any]) -> None:
            m, k, n = case.tile
            pypto.set_cube_tile_shapes(list(m), list(k), list(n), enable_split_k=bool(case.attrs.get("enableKSplit")))
            blocks = [part(t, one, layout, at, s.shape)
                      for t, one, s in zip(tensors, layout.ins, specs, strict=False)]
            named = dict(zip(extra, blocks[2:], strict=True))
            params: dict[str, Any] = {}
            if "bias" in named:
                params["bias_tensor"] = named["bias"]
            if "scale" in named:
                params["scale_tensor"] = named["scale"]
            if _scale_value(case) is not None:
                params["scale"] = _scale_value(case)
            if _relu(case):
                params["relu_type"] = pypto.ReLuType.RELU
            kind = extra["chain"].type if chain else case.outs[0].type
            made = pypto.matmul(blocks[0], blocks[1], kind, a_trans=ta, b_trans=tb,
                                **({"extend_params": params} if params else {}))
            if chain:
                made = _chained(case, chain, named["chain"], made)
            pypto.assemble(made, place(layout.outs[0], at), tensors[-1])
        looped(layout, step)

    if "scale" in extra:                     # the chip takes the bits of the fp32 scales in 64-bit words
        at = len(case.ins) + list(extra).index("scale")
        specs[at] = replace(specs[at], dtype="uint64")
        arrays = [*arrays[:at], arrays[at].view(np.uint32).astype(np.uint64), *arrays[at + 1:]]
    launch(body, [*specs, *case.outs], [*arrays, *results])
    return results


def _chained(case: Case, chain: dict[str, str], other: Any, product: Any) -> Any:
    transposed = chain["is_trans"].upper() == "TRUE"
    if chain["is_as_left_matrix"].upper() == "TRUE":
        return pypto.matmul(other, product, case.outs[0].type, a_trans=transposed)
    return pypto.matmul(product, other, case.outs[0].type, b_trans=transposed)


def _product(case: Case, arrays: Arrays) -> list[Expected]:
    ta, tb = _flags(case)
    a, b = (f64(x).T if t else f64(x) for x, t in zip(arrays, (ta, tb), strict=False))
    extra = dict(zip(_extra(case), arrays[2:], strict=True))
    c = a @ b
    size = np.abs(a) @ np.abs(b)
    terms = 2 * max(1.0, math.log2(max(2, a.shape[1]))) * 2.0**-24
    if "bias" in extra:
        c, size = c + f64(extra["bias"]), size + np.abs(f64(extra["bias"]))
    if _relu(case):
        c = np.maximum(c, 0)
    scale = extra.get("scale", None if _scale_value(case) is None else np.full((1, 1), _scale_value(case), np.float32))
    if scale is not None:
        shortened = f64((scale.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32))
        c, size = c * shortened, size * np.abs(shortened)
    if chain := _record(case.attrs.get("l0c2l1_info")):
        inner = rounded(c, np.dtype(_extra(case)["chain"].np_dtype))
        t = f64(extra["chain"]).T if chain["is_trans"].upper() == "TRUE" else f64(extra["chain"])
        left = chain["is_as_left_matrix"].upper() == "TRUE"
        value = t @ inner if left else inner @ t
        error = np.abs(t) @ np.abs(inner) if left else np.abs(inner) @ np.abs(t)
        return [Expected(value, extra=1.5 * 2.0**-10 * error)]
    if case.outs[0].dtype == "int32":
        return [Expected(np.rint(c).astype(np.int64).astype(np.int32))]
    return [Expected(c, 1, terms * size)]


TABLE["Matmul"] = Row(lambda case: pypto.matmul, _product,
                      "2 log2(K) 2^-24 |A| |B| + 1 ulp; INT32 exact; chained 1.5 2^-10 |T| |C|", layout=_layout,
                      inputs=_inputs, run=_run)
