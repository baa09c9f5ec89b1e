"""Rotary position embedding: standard halves, fused with RMSNorm, and interleaved pairs."""
import math

import numpy as np

from .base import DTYPES, Arg, Operator, Part, Phase, Preset, Strategy, Tolerance, powers
from .base import Launch as Call
from .check import as_float64, dtype_of
from .inputs import draw_inputs, draw_one
from .rope_kernels import fused_kernel, halves_kernel, pairs_explicit_kernel, pairs_kernel, rms_norm_kernel

EPSILON = 1e-6


def _angles(positions, dim):
    inverse = 1e6 ** (-np.arange(0, dim, 2) / dim)
    return np.concatenate([np.outer(positions, inverse)] * 2, axis=-1)


def _tensors(c):
    if c["layout"] == "interleaved":
        b, n, s, d = c["batch"], c["heads"], c["seq"], c["dim"]
        table = {name: Arg(shape=(b, 1, s, d), dtype=c["dtype"],
                           make=lambda rng, f=f: np.broadcast_to(f(_angles(np.arange(s), d)), (b, 1, s, d)))
                 for name, f in (("cos", np.cos), ("sin", np.sin))}
        return {"x": Arg(shape=(b, n, s, d), dtype=c["dtype"]), **table,
                "out": Arg(shape=(b, n, s, d), dtype=c["dtype"], role="out")}
    s, n, d = c["seq"], c["heads"], c["dim"]
    table = {name: Arg(shape=(s, 1, d), dtype=c["dtype"], make=lambda rng, f=f: f(_angles(np.arange(s), d)))
             for name, f in (("cos", np.cos), ("sin", np.sin))}
    def weight(rng):
        return rng.standard_normal(d, dtype=np.float32).astype(DTYPES[c["dtype"]].np_dtype).astype(np.float32)
    return {"x": Arg(shape=(s, n, d), dtype=c["dtype"]), "weight": Arg(shape=(1, 1, d), dtype="fp32", make=weight),
            **table, "out": Arg(shape=(s, n, d), dtype=c["dtype"], role="out")}


OPERATOR = Operator(
    name="rope", title="RoPE", size_keys=("seq", "heads", "dim", "batch"), tensors=_tensors,
    defaults={"seq": 1, "heads": 16, "dim": 128, "batch": 1, "layout": "halves", "dtype": "bf16", "rows": 256,
              "tile_rows": 64, "tile_heads": 16, "step_heads": 128, "take": "gathermask"})


def _rows(c):
    """Tokens of one step, and (tokens, heads) of a tile: `tile_rows` counts tokens times heads."""
    heads = min(c["tile_heads"], c["heads"])
    return min(c["rows"], c["seq"]), (max(1, min(c["tile_rows"] // heads, c["seq"])), heads)


def _halves_call(c, source):
    rows, tile = _rows(c)
    return Call(halves_kernel(rows, c["heads"], c["dim"], tile, dtype_of(c)), (source, "cos", "sin", "out"))


def _standard_launches(c):
    if c["layout"] == "interleaved":
        return (_pairs_call(c, pairs_explicit_kernel),)
    rows, tile = _rows(c)
    norm = rms_norm_kernel(rows * c["heads"], c["dim"], EPSILON, tile[0] * tile[1], dtype_of(c))
    return Call(norm, ("x_rows", "weight_row", "normed_rows")), _halves_call(c, "normed")


def _standard_tensors(c):
    if c["layout"] == "interleaved":
        return {}
    shape, rows, dtype = (c["seq"], c["heads"], c["dim"]), (c["seq"] * c["heads"], c["dim"]), c["dtype"]
    return {"normed": Arg(shape=shape, dtype=dtype, role="temp"), "x_rows": Arg(shape=rows, dtype=dtype, alias="x"),
            "normed_rows": Arg(shape=rows, dtype=dtype, alias="normed", role="temp"),
            "weight_row": Arg(shape=(1, c["dim"]), dtype="fp32", alias="weight")}


def _fused_tensors(c):
    if c["layout"] == "interleaved":
        return {}
    half = c["dim"] // 2
    return {"weight_turned": Arg(shape=(1, 1, c["dim"]), dtype="fp32",
                                 make=lambda rng: np.roll(draw_one(OPERATOR, c, "weight"), half, axis=-1))}


FUSED_NAMES = ("x", "weight", "weight_turned", "cos", "sin", "out")


def _fused_launches(c):
    rows, tile = _rows(c)
    return (Call(fused_kernel(rows, c["heads"], c["dim"], EPSILON, tile, dtype_of(c)),
                 FUSED_NAMES),)


def _pairs_call(c, make, *more):
    heads = math.gcd(c["heads"], c["step_heads"])
    rows = min(c["rows"], c["seq"])
    tile = (min(c["tile_heads"], heads), min(c["tile_rows"], rows))
    return Call(make(heads, rows, c["dim"], tile, dtype_of(c), *more), ("x", "cos", "sin", "out"))


def _interleaved_launches(c):
    return (_pairs_call(c, pairs_kernel, c["take"]),)


def rotate(x, cos, sin):
    """a cos + concat(-a2, a1) sin on float64 arrays, last axis halved."""
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin


def golden(config, inputs=None, key="", sample=None):
    """float64 results. key "rope": rotation only; "norm_rope": RMSNorm, weight, rotation; "pairs": even and odd
    elements rotated against each other, evens first in the result (as the interleaved kernels of the models do)."""
    fed = inputs if inputs is not None else draw_inputs(OPERATOR, config)
    key = key or ("pairs" if config["layout"] == "interleaved" else "norm_rope")
    x, cos, sin = (as_float64(fed[n]) for n in ("x", "cos", "sin"))
    if key == "pairs":
        found = rotate(np.concatenate([x[..., 0::2], x[..., 1::2]], axis=-1), cos, sin)
        return found if sample is None else sample.pick(found)
    if sample is not None:
        x, cos, sin = sample.pick(x), sample.pick(cos), sample.pick(sin)
    if key == "norm_rope":
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * as_float64(fed["weight"])
    return rotate(x, cos, sin)


_ROTATION = Tolerance(rtol=2.0 ** -7, atol=1e-4)


def _standard_parts(c):
    if c["layout"] == "interleaved":
        return (Part(output="out", golden="pairs", tolerance=_ROTATION),)
    return (Part(output="out", golden="rope", tolerance=_ROTATION, launches=(_halves_call(c, "x"),)),
            Part(output="out", golden="norm_rope", tolerance=Tolerance(rtol=2e-2, atol=2e-2)))


STRATEGIES = (
    Strategy(id="standard", label="view, neg, concat, mul, add (after an RMSNorm kernel)", launches=_standard_launches,
             tensors=_standard_tensors, parts=_standard_parts, maturity="reference"),
    Strategy(id="fused_rmsnorm", label="RMSNorm and RoPE in one kernel", launches=_fused_launches,
             tensors=_fused_tensors,
             parts=lambda c: (Part(output="out", golden="norm_rope", tolerance=Tolerance(rtol=1e-2, atol=1e-2)),),
             misfit=lambda c: "no RMSNorm in front of an interleaved RoPE" if c["layout"] == "interleaved" else "",
             maturity="production"),
    Strategy(id="interleaved", label="even and odd elements by gathermask or deinterleave",
             launches=_interleaved_launches,
             parts=lambda c: (Part(output="out", golden="pairs", tolerance=_ROTATION),),
             misfit=lambda c: "" if c["layout"] == "interleaved" else "needs the interleaved layout",
             maturity="production"),
)

_HEADS = (16, 8)
PRESETS = (
    Preset("qwen3-1.7b", {"dim": 128}, {
        "decode": Phase(({"seq": 1, "heads": 16}, {"seq": 7, "heads": 8}),
                        tuple({"seq": s, "heads": n} for n in _HEADS for s in powers(1, 64))),
        "prefill": Phase(({"seq": 1000, "heads": 16}, {"seq": 1000, "heads": 8}),
                         tuple({"seq": s, "heads": n} for n in _HEADS for s in (4096, 32768))),
    }),
    Preset("interleaved", {"dim": 64, "layout": "interleaved"}, {
        "decode": Phase(({"batch": 4, "heads": 1, "seq": 2},), ({"batch": 4, "heads": 128, "seq": 2},),
                        {"tile_rows": 2, "tile_heads": 32}),
        "prefill": Phase(({"batch": 1, "heads": 128, "seq": 256},), ({"batch": 2, "heads": 128, "seq": 4096},),
                         {"tile_rows": 128, "tile_heads": 1, "step_heads": 32}),
    }),
)

from .rope_claims import CLAIMS  # noqa: E402  (the claims use the strategies above)

__all__ = ["CLAIMS", "OPERATOR", "PRESETS", "STRATEGIES", "golden"]
