"""Mean over the last axis: sum divided by the count, in fp32."""
import functools
import math

import numpy as np

import pypto_sim as pypto

from .base import Arg, Claim, Observation, Operator, Part, Phase, Preset, Strategy, Tolerance, points, powers
from .base import Launch as Call
from .check import as_float64, dtype_of, measure
from .inputs import draw_inputs

OPERATOR = Operator(
    name="mean", title="mean", size_keys=("tokens", "width"),
    defaults={"tokens": 8, "width": 4096, "dtype": "bf16", "rows": 64, "tile_elements": 16384},
    tensors=lambda c: {"x": Arg(shape=(c["tokens"], c["width"]), dtype=c["dtype"]),
                       "out": Arg(shape=(c["tokens"], 1), dtype=c["dtype"], role="out")})


@functools.cache
def mean_kernel(rows: int, width: int, tile_rows: int, dtype: pypto.DataType):
    """x [tokens, width] -> out [tokens, 1]: cast to fp32, sum, divide, cast back."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def mean_fp32(x: pypto.Tensor([pypto.DYNAMIC, width], dtype), out: pypto.Tensor([pypto.DYNAMIC, 1], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(tile_rows, width)
            t = pypto.cast(pypto.view(x, [rows, width], [i * rows, 0]), pypto.DT_FP32)
            s = pypto.sum(t, dim=-1, keepdim=True)
            y = pypto.div(s, float(width))
            pypto.assemble(pypto.cast(y, dtype), [i * rows, 0], out)
    return mean_fp32


@functools.cache
def uncast_kernel(rows: int, width: int, tile_rows: int, dtype: pypto.DataType):
    """The same without the cast, to show the rule."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def mean_uncast(x: pypto.Tensor([pypto.DYNAMIC, width], dtype), out: pypto.Tensor([pypto.DYNAMIC, 1], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(tile_rows, width)
            t = pypto.view(x, [rows, width], [i * rows, 0])
            y = pypto.div(pypto.sum(t, dim=-1, keepdim=True), float(width))
            pypto.assemble(y, [i * rows, 0], out)
    return mean_uncast


def _tile_rows(c):
    """Rows of a tile: a reduction takes at most 64 KB."""
    return max(1, c["tile_elements"] // c["width"])


def _launches(c):
    return (Call(mean_kernel(min(c["rows"], c["tokens"]), c["width"], _tile_rows(c), dtype_of(c)), ("x", "out")),)


def golden(config, inputs=None, key="mean", sample=None):
    """float64 mean of the rounded input, [tokens, 1]."""
    x = inputs["x"] if inputs is not None else draw_inputs(OPERATOR, config)["x"]
    return as_float64(x if sample is None else sample.pick(x)).mean(axis=-1, keepdims=True)


def judge(config, tensors, golden_values, part, sample):
    """Half an output ulp plus the bound of a pairwise fp32 sum: 2 log2(n) 2^-24 mean|x|, row by row."""
    got, x = tensors["out"], tensors["x"]
    if sample is not None:
        got, x = sample.pick(got), sample.pick(x)
    size = np.abs(as_float64(x)).mean(axis=-1, keepdims=True)
    bound = 2 * math.log2(config["width"]) * 2.0 ** -24 * size
    found = measure(got, golden_values, config["dtype"], part.tolerance)
    # measure allows half an ulp; the rest of the error must fit the bound of the sum
    wide = as_float64(got)
    lower, upper = (as_float64((golden_values + s * bound).astype(np.asarray(got).dtype)) for s in (-1, 1))
    found.atol = float(bound.max(initial=0.0))
    fits = (wide >= np.minimum(lower, upper)) & (wide <= np.maximum(lower, upper))
    found.passed = bool(fits.all())
    if found.passed:
        found.excess = min(found.excess, 1.0)
    return found


STRATEGIES = (
    Strategy(id="sum_div", label="cast fp32, sum, div N, cast back", launches=_launches, maturity="production",
             parts=lambda c: (Part(output="out", golden="mean", tolerance=Tolerance(output_ulp=0.5)),), judge=judge),
)

PRESETS = (
    Preset("hidden-4096", {"width": 4096}, {
        "decode": Phase(points("tokens", 8), points("tokens", *powers(1, 64))),
        "prefill": Phase(points("tokens", 1000), points("tokens", 4096, width=7168)),
    }),
)


def _fp32(ctx):
    config = ctx.config()
    rows, width = min(config["rows"], config["tokens"]), config["width"]
    outcomes = {}
    for name in ("bf16", "fp16"):
        kernel = uncast_kernel(rows, width, _tile_rows(config), ctx.dtype(name))
        args = {k: Arg(shape=a.shape, dtype=name, role=a.role) for k, a in OPERATOR.tensors(config).items()}
        outcomes[name] = ctx.profiles(kernel, ("x", "out"), args)
    cast = ctx.check("sum_div")
    uncast = ctx.run_kernel(uncast_kernel(rows, width, _tile_rows(config), ctx.dtype("bf16")), ("x", "out"),
                            OPERATOR.tensors({**config, "dtype": "bf16"}))
    error = (float(np.abs(as_float64(uncast["out"]) - as_float64(uncast["x"]).mean(-1, keepdims=True)).max())
             if uncast else math.nan)
    said = "; ".join(f"{name}: " + ", ".join(f"{p} {o}" for p, o in by.items()) for name, by in outcomes.items())
    text = (f"sum without the cast, per profile: {said}; error with the cast {cast.max_abs:.1e}, without {error:.1e} "
            f"(bf16; the framework casts bf16 to fp32 itself)")
    refused = outcomes["bf16"]["master"].startswith("error")
    return Observation(text, refused)


CLAIMS = (Claim("mean.fp32", "bf16 input must be cast to fp32 before sum", _fp32),)
