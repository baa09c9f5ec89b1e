"""Linear layer with bias: matmul then add, or the bias fused into the matrix product."""
import functools

import numpy as np

import pypto_sim as pypto

from .base import DTYPES, Arg, Claim, Observation, Operator, Part, Phase, Preset, Strategy, Tolerance, points, powers
from .base import Launch as Call
from .check import as_float64, dtype_of
from .cost import gm_bytes
from .inputs import draw_inputs, draw_one


def _tensors(c):
    return {"x": Arg(shape=(c["tokens"], c["hidden"]), dtype=c["dtype"]),
            "w": Arg(shape=(c["ffn"], c["hidden"]), dtype=c["dtype"]),
            "bias": Arg(shape=(1, c["ffn"]), dtype=c["dtype"]),
            "out": Arg(shape=(c["tokens"], c["ffn"]), dtype=c["dtype"], role="out")}


OPERATOR = Operator(
    name="linear", title="Linear with bias", size_keys=("tokens", "hidden", "ffn"), tensors=_tensors,
    defaults={"tokens": 1, "hidden": 4096, "ffn": 14336, "dtype": "bf16", "rows": 512, "m_tile": (64, 64),
              "k_tile": (64, 256), "n_tile": (256, 256), "tile_rows": 16, "tile_cols": 512})


@functools.cache
def matmul_add_kernel(rows: int, hidden: int, ffn: int, cube: tuple, vec: tuple, dtype: pypto.DataType):
    """x [tokens, hidden], w [ffn, hidden], bias [1, ffn] -> out [tokens, ffn]; two roundings."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def linear_add(x: pypto.Tensor([pypto.DYNAMIC, hidden], dtype), w: pypto.Tensor([ffn, hidden], dtype),
                   bias: pypto.Tensor([1, ffn], dtype), out: pypto.Tensor([pypto.DYNAMIC, ffn], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_cube_tile_shapes(list(cube[0]), list(cube[1]), list(cube[2]))
            pypto.set_vec_tile_shapes(vec[0], vec[1])
            t = pypto.view(x, [rows, hidden], [i * rows, 0])
            y = pypto.add(pypto.matmul(t, w, dtype, b_trans=True), bias)
            pypto.assemble(y, [i * rows, 0], out)
    return linear_add


@functools.cache
def fused_bias_kernel(rows: int, hidden: int, ffn: int, cube: tuple, dtype: pypto.DataType,
                      bias_dtype: pypto.DataType):
    """The same with the bias as start value of the accumulation; one rounding."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def linear_fused(x: pypto.Tensor([pypto.DYNAMIC, hidden], dtype), w: pypto.Tensor([ffn, hidden], dtype),
                     bias: pypto.Tensor([1, ffn], bias_dtype), out: pypto.Tensor([pypto.DYNAMIC, ffn], dtype)):
        for i in pypto.loop((x.shape[0] + rows - 1) // rows, name="rows", idx_name="i"):
            pypto.set_cube_tile_shapes(list(cube[0]), list(cube[1]), list(cube[2]))
            t = pypto.view(x, [rows, hidden], [i * rows, 0])
            y = pypto.matmul(t, w, dtype, b_trans=True, extend_params={"bias_tensor": bias})
            pypto.assemble(y, [i * rows, 0], out)
    return linear_fused


def _cube(c):
    return tuple(c["m_tile"]), tuple(c["k_tile"]), tuple(c["n_tile"])


def _add_launches(c):
    return (Call(matmul_add_kernel(min(c["rows"], c["tokens"]), c["hidden"], c["ffn"], _cube(c),
                                   (c["tile_rows"], c["tile_cols"]), dtype_of(c)), ("x", "w", "bias", "out")),)


def bias_dtype(dtype: str) -> str:
    """Type of a fused bias: fp32 beside bf16 inputs on every chip, else the input's."""
    return "fp32" if dtype == "bf16" else dtype


def _fused_launches(c):
    return (Call(fused_bias_kernel(min(c["rows"], c["tokens"]), c["hidden"], c["ffn"], _cube(c), dtype_of(c),
                                   DTYPES[bias_dtype(c["dtype"])]), ("x", "w", "bias_row", "out")),)


def _fused_tensors(c):
    def widened(rng):
        return draw_one(OPERATOR, c, "bias").astype(DTYPES[bias_dtype(c["dtype"])].np_dtype)
    return {"bias_row": Arg(shape=(1, c["ffn"]), dtype=bias_dtype(c["dtype"]), make=widened)}


def golden(config, inputs=None, key="linear", sample=None):
    """float64 x w^T + bias of the rounded inputs, in blocks of output columns."""
    fed = inputs if inputs is not None else draw_inputs(OPERATOR, config)
    x = as_float64(fed["x"] if sample is None else sample.pick(fed["x"]))
    w, bias = fed["w"], as_float64(fed["bias"])
    out = np.empty((x.shape[0], w.shape[0]))
    for start in range(0, w.shape[0], 1024):
        stop = start + 1024
        np.matmul(x, as_float64(w[start:stop]).T, out=out[:, start:stop][:, :w.shape[0] - start])
    return out + bias


def _parts(bf16, fp16):
    def parts(c):
        figure = bf16 if c["dtype"] == "bf16" else fp16 if c["dtype"] == "fp16" else 2.0 ** -20
        return (Part(output="out", golden="linear", tolerance=Tolerance(rtol=figure, atol=figure)),)
    return parts


STRATEGIES = (
    Strategy(id="matmul_add", label="matmul, then add", launches=_add_launches, parts=_parts(2.0 ** -7, 2.0 ** -9),
             maturity="reference"),
    Strategy(id="fused_bias", label='matmul(extend_params={"bias_tensor"})', launches=_fused_launches,
             tensors=_fused_tensors, parts=_parts(2.0 ** -8, 2.0 ** -10), maturity="production"),
)

_PREFILL_TILES = {"m_tile": (256, 256), "k_tile": (128, 256), "n_tile": (128, 256), "tile_rows": 32}
# The check of the ffn 14336 prefill takes 4096 of its columns: 17 GFLOP instead of 60, with the same tiles and paths.
PRESETS = (
    Preset("llama3-8b", {"hidden": 4096, "ffn": 14336}, {
        "decode": Phase(points("tokens", 1, 16), points("tokens", *powers(1, 64))),
        "prefill": Phase(points("tokens", 512, ffn=4096), points("tokens", 4096), _PREFILL_TILES),
    }),
    Preset("minimax-m2", {"hidden": 3072, "ffn": 1536}, {
        "decode": Phase(points("tokens", 16), points("tokens", *powers(1, 64))),
        "prefill": Phase(points("tokens", 512), points("tokens", 4096), _PREFILL_TILES),
    }),
)


def _fused_claim(ctx):
    add, fused = ctx.estimate("matmul_add"), ctx.estimate("fused_bias")
    size = ctx.config(largest=True)
    hidden_bytes = size["tokens"] * size["ffn"] * DTYPES[size["dtype"]].size_bytes
    saved = {k: add[k] - fused[k] for k in ("gm_read_bytes", "gm_write_bytes")}
    tasks = {s: sum(e["tasks"].values()) for s, e in (("add", add), ("fused", fused))}
    text = (f"fused reads {saved['gm_read_bytes']:,} and writes {saved['gm_write_bytes']:,} bytes less (the product "
            f"has {hidden_bytes:,}) and takes {tasks['fused']} tasks instead of {tasks['add']}; {gm_bytes(fused):,} "
            f"bytes against {gm_bytes(add):,}; launches {fused['launches']} and {add['launches']}")
    return Observation(text, min(saved.values()) > 0 and tasks["fused"] < tasks["add"])


def _separate_claim(ctx):
    found, differs = [], True
    for dtype, a, b in (("fp16", 2049.0, 1.0), ("bf16", 257.0, 1.0)):
        shown = rounding_example(ctx, dtype, a, b)
        found.append(f"{dtype}: {a:g} + {b:g} gives {shown['fused']:g} fused and {shown['add']:g} with a separate add")
        differs &= shown["fused"] != shown["add"]
    return Observation("; ".join(found) + ": a separate add rounds the product first and sees it in the output type",
                       differs)


def rounding_example(ctx, dtype, product, bias):
    """One element whose product is not representable: result with the fused bias and with the separate add."""
    config = {**ctx.config(), "tokens": 16, "hidden": 32, "ffn": 32, "dtype": dtype, "rows": 16, "m_tile": (16, 16),
              "k_tile": (32, 32), "n_tile": (32, 32)}
    np_dtype = DTYPES[dtype].np_dtype
    x, w = np.zeros((16, 32), np_dtype), np.zeros((32, 32), np_dtype)
    x[:, 0], x[:, 1] = 1, 1
    w[:, 0], w[:, 1] = product - 1, 1          # product = (product - 1) + 1, exact in fp32 only
    results = {}
    for name, strategy in zip(("add", "fused"), STRATEGIES, strict=True):
        call = strategy.launches(config)[0]
        row = np.full((1, 32), bias, DTYPES[bias_dtype(dtype)].np_dtype if name == "fused" else np_dtype)
        out = np.zeros((16, 32), np_dtype)
        ctx.call(call.kernel, x, w, row, out)
        results[name] = float(out[0, 0])
    return results


CLAIMS = (
    Claim("linear.fused_bias", "one global-memory read and write less, one kernel", _fused_claim),
    Claim("linear.separate_bias", "keep the add when the bias needs its own data flow", _separate_claim),
)
