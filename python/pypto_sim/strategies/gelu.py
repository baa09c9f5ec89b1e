"""GELU: tanh form, erf form and sigmoid form."""
import functools
import math

import numpy as np

import pypto_sim as pypto

from .base import DTYPES, Arg, Claim, Observation, Operator, Part, Phase, Preset, Strategy, Tolerance, points, powers
from .base import Launch as Call
from .check import as_float64, dtype_of, ulp
from .inputs import draw_inputs

OPERATOR = Operator(
    name="gelu", title="GELU", size_keys=("tokens", "width"),
    defaults={"tokens": 1, "width": 21504, "dtype": "bf16", "rows": 64, "tile_rows": 4, "tile_cols": 2048},
    tensors=lambda c: {"x": Arg(shape=(c["tokens"], c["width"]), dtype=c["dtype"]),
                       "out": Arg(shape=(c["tokens"], c["width"]), dtype=c["dtype"], role="out")})


@functools.cache
def tanh_kernel(rows: int, width: int, tile: tuple[int, int], dtype: pypto.DataType):
    """x [tokens, width] -> out, tanh form in the input's type, `rows` tokens per step."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def gelu_tanh(x: pypto.Tensor([pypto.DYNAMIC, width], dtype), out: pypto.Tensor([pypto.DYNAMIC, width], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(tile[0], tile[1])
            t = pypto.view(x, [rows, width], [i * rows, 0])
            half = pypto.full([rows, width], 0.5, dtype)
            one = pypto.full([rows, width], 1.0, dtype)
            cubic = pypto.full([rows, width], 0.044715, dtype)
            slope = pypto.full([rows, width], 0.7978845608, dtype)
            inner = pypto.mul(pypto.add(t, pypto.mul(pypto.mul(t, pypto.mul(t, t)), cubic)), slope)
            y = pypto.mul(t, pypto.mul(pypto.add(pypto.tanh(inner), one), half))
            pypto.assemble(y, [i * rows, 0], out)
    return gelu_tanh


@functools.cache
def erf_kernel(rows: int, width: int, tile: tuple[int, int], dtype: pypto.DataType):
    """x [tokens, width] -> out, erf form."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def gelu_erf(x: pypto.Tensor([pypto.DYNAMIC, width], dtype), out: pypto.Tensor([pypto.DYNAMIC, width], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(tile[0], tile[1])
            t = pypto.view(x, [rows, width], [i * rows, 0])
            e = pypto.erf(pypto.mul(t, 0.7071067811865476))
            y = pypto.mul(t, pypto.mul(pypto.add(e, 1.0), 0.5))
            pypto.assemble(y, [i * rows, 0], out)
    return gelu_erf


@functools.cache
def sigmoid_kernel(rows: int, width: int, tile: tuple[int, int], dtype: pypto.DataType):
    """x [tokens, width] -> out, x sigmoid(1.702 x) in fp32."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def gelu_sigmoid(x: pypto.Tensor([pypto.DYNAMIC, width], dtype), out: pypto.Tensor([pypto.DYNAMIC, width], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_vec_tile_shapes(tile[0], tile[1])
            t = pypto.cast(pypto.view(x, [rows, width], [i * rows, 0]), pypto.DT_FP32)
            y = pypto.mul(t, pypto.sigmoid(pypto.mul(t, 1.702)))
            pypto.assemble(pypto.cast(y, dtype), [i * rows, 0], out)
    return gelu_sigmoid


def _calls(make):
    def launches(c):
        tile = (c["tile_rows"], c["tile_cols"])
        return (Call(make(min(c["rows"], c["tokens"]), c["width"], tile, dtype_of(c)), ("x", "out")),)
    return launches


def formula(form: str, x: np.ndarray) -> np.ndarray:
    """GELU of float64 `x` in one of the three forms."""
    if form == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    if form == "sigmoid":
        return x / (1 + np.exp(-1.702 * x))
    return 0.5 * x * (1 + normal_erf(x))


def normal_erf(x: np.ndarray) -> np.ndarray:
    """erf(x / sqrt 2) in float64, by the standard library's function on a table of the distinct values."""
    distinct, where = np.unique(x, return_inverse=True)
    table = np.array([math.erf(v * math.sqrt(0.5)) for v in distinct.tolist()])
    return table[where].reshape(x.shape)


@functools.cache
def form_distance(form: str) -> float:
    """Largest float64 distance of a form from the erf form."""
    x = np.linspace(-8, 8, 32001)
    return float(np.abs(formula(form, x) - formula("erf", x)).max())


def golden(config, inputs=None, key="tanh", sample=None):
    """float64 GELU of the rounded input; key: the form."""
    x = inputs["x"] if inputs is not None else draw_inputs(OPERATOR, config)["x"]
    return formula(key, as_float64(x if sample is None else sample.pick(x)))


def judge(config, tensors, golden_values, part, sample):
    """Elementwise verdict against the strategy's own formula, plus the distance of the formula to the erf form."""
    from .check import measure
    got, x = tensors["out"], tensors["x"]
    if sample is not None:
        got, x = sample.pick(got), sample.pick(x)
    found = measure(got, golden_values, config["dtype"], part.tolerance)
    found.extra["form_error"] = float(np.abs(golden_values - formula("erf", as_float64(x))).max(initial=0.0))
    return found


def _strategy(form, label, make, maturity):
    def parts(c):
        extra = 0.5 if c["dtype"] == "bf16" else 0.0
        return (Part(output="out", golden=form, tolerance=Tolerance(rtol=3e-3, atol=3e-3, output_ulp=extra)),)
    return Strategy(id=form, label=label, launches=_calls(make), parts=parts, maturity=maturity, judge=judge,
                    form_error=lambda: form_distance(form))


STRATEGIES = (
    _strategy("tanh", "0.5x(1+tanh(0.798(x+0.0447x^3)))", tanh_kernel, "production"),
    _strategy("erf", "0.5x(1+erf(x/sqrt 2))", erf_kernel, "unverified"),
    _strategy("sigmoid", "x sigmoid(1.702x)", sigmoid_kernel, "production"),
)

PRESETS = (
    Preset("gemma4-31b", {"width": 21504}, {
        "decode": Phase(points("tokens", 1), points("tokens", *powers(1, 64))),
        "prefill": Phase(points("tokens", 128), points("tokens", 4096)),
    }),
)


def _tanh_error(ctx):
    x = np.linspace(-8, 8, 160001)
    gap = float(np.abs(formula("tanh", x) - formula("erf", x)).max())
    half = {form: float((ulp(formula(form, x), "bf16") / 2).max()) for form in ("tanh", "erf")}
    inside = np.abs(x) <= 4
    local = float((ulp(formula("erf", x[inside]), "bf16") / 2).max())
    measured = {s: ctx.check(s).max_abs for s in ("tanh", "erf")}
    text = (f"the forms differ by at most {gap:.3e}; half a bf16 ulp of the result is up to {local:.1e} for |x| <= 4 "
            f"({half['tanh']:.1e} and {half['erf']:.1e} for |x| <= 8); measured error in bf16: tanh "
            f"{measured['tanh']:.1e}, erf {measured['erf']:.1e}")
    return Observation(text, gap <= 1e-3 and min(local, *half.values()) > gap)


def _erf_unknown(ctx):
    cost = {s: ctx.estimate(s) for s in ("tanh", "erf")}
    busy = {s: e["pipe_busy_cycles"]["VEC"] for s, e in cost.items()}
    text = (f"vector pipe busy on {ctx.device}: tanh form {busy['tanh']:.0f} cycles, erf form {busy['erf']:.0f}; "
            f"neither is one instruction: both are software polynomials in fp32")
    return Observation(text, None, "the guide asks a question: the model has the public polynomial of each function, "
                                   "not a measurement of an accelerated erf")


CLAIMS = (
    Claim("gelu.tanh_error", "the tanh form differs by about 1e-3 and the quantisation error is larger", _tanh_error),
    Claim("gelu.erf_unknown", "whether erf is accelerated by the hardware is uncertain", _erf_unknown),
)
__all__ = ["CLAIMS", "DTYPES", "OPERATOR", "PRESETS", "STRATEGIES", "golden"]
