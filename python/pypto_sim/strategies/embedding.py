"""Embedding look-up: the guide's gather spelling, and index_select."""
import functools

import numpy as np

import pypto_sim as pypto

from .base import Arg, Claim, Observation, Operator, Part, Phase, Preset, Strategy, Tolerance
from .base import Launch as Call
from .check import as_float64, dtype_of
from .cost import gm_bytes
from .inputs import draw_inputs


def _tensors(c):
    def ids(rng):
        found = rng.integers(0, c["vocab"], (c["batch"], c["seq"]))
        if c["padding_idx"] >= 0:
            found[:, 0] = c["padding_idx"]
        return found
    return {"weight": Arg(shape=(c["vocab"], c["width"]), dtype=c["dtype"]),
            "ids": Arg(shape=(c["batch"], c["seq"]), dtype="int32", make=ids),
            "out": Arg(shape=(c["batch"], c["seq"], c["width"]), dtype=c["dtype"], role="out")}


OPERATOR = Operator(
    name="embedding", title="Embedding", size_keys=("batch", "seq", "vocab", "width"), tensors=_tensors,
    defaults={"batch": 8, "seq": 1, "vocab": 32000, "width": 4096, "dtype": "bf16", "tokens": 64, "tile_tokens": 8,
              "padding_idx": -1})


@functools.cache
def gather_kernel(vocab: int, width: int, seq: int, tile: int, dtype: pypto.DataType):
    """weight [vocab, width], ids [batch, seq] -> out [batch, seq, width]; one row of ids a step, as in the guide."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def embedding_gather(weight: pypto.Tensor([vocab, width], dtype),
                         ids: pypto.Tensor([pypto.DYNAMIC, seq], pypto.DT_INT32),
                         out: pypto.Tensor([pypto.DYNAMIC, seq, width], dtype)):
        for i in pypto.loop(ids.shape[0], name="row", idx_name="i"):
            pypto.set_vec_tile_shapes(1, tile, width)
            r = pypto.gather(weight, 0, pypto.view(ids, [1, seq], [i, 0]))
            pypto.assemble(r, [i, 0, 0], out)
    return embedding_gather


@functools.cache
def index_select_kernel(vocab: int, width: int, seq: int, tokens: int, tile: int, padding_idx: int,
                        dtype: pypto.DataType):
    """The same by index_select, `tokens` ids a step; rows of `padding_idx` (if not negative) become zero."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def embedding_index_select(weight: pypto.Tensor([vocab, width], dtype),
                               ids: pypto.Tensor([pypto.DYNAMIC, seq], pypto.DT_INT32),
                               out: pypto.Tensor([pypto.DYNAMIC, seq, width], dtype)):
        for i in pypto.loop(ids.shape[0], name="row", idx_name="i"):
            for j in pypto.loop((seq + tokens - 1) // tokens, name="tokens", idx_name="j"):
                pypto.set_vec_tile_shapes(1, tile, width)
                picked = pypto.view(ids, [1, tokens], [i, j * tokens])
                rows = pypto.index_select(weight, 0, picked)
                if padding_idx >= 0:
                    number = pypto.unsqueeze(pypto.cast(picked, pypto.DT_FP32), 2)
                    pypto.set_vec_tile_shapes(1, tile, width)
                    rows = pypto.where(pypto.eq(number, float(padding_idx)), pypto.full([1, tokens, width], 0.0, dtype),
                                       rows)
                pypto.assemble(rows, [i, j * tokens, 0], out)
    return embedding_index_select


@functools.cache
def flat_kernel(vocab: int, width: int, tokens: int, tile: int, dtype: pypto.DataType):
    """1-D ids: weight [vocab, width], ids [n] -> out [n, width]."""
    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def embedding_flat(weight: pypto.Tensor([vocab, width], dtype), ids: pypto.Tensor([pypto.DYNAMIC], pypto.DT_INT32),
                       out: pypto.Tensor([pypto.DYNAMIC, width], dtype)):
        for i in pypto.loop((ids.shape[0] + tokens - 1) // tokens, name="tokens", idx_name="i"):
            pypto.set_vec_tile_shapes(tile, width)
            rows = pypto.index_select(weight, 0, pypto.view(ids, [tokens], [i * tokens]))
            pypto.assemble(rows, [i * tokens, 0], out)
    return embedding_flat


def _gather_launches(c):
    kernel = gather_kernel(c["vocab"], c["width"], c["seq"], c["tile_tokens"], dtype_of(c))
    return (Call(kernel, ("weight", "ids", "out")),)


def _index_launches(c):
    tokens = min(c["tokens"], c["seq"])
    kernel = index_select_kernel(c["vocab"], c["width"], c["seq"], tokens, c["tile_tokens"],
                                 c["padding_idx"], dtype_of(c))
    return (Call(kernel, ("weight", "ids", "out")),)


def golden(config, inputs=None, key="rows", sample=None):
    """Rows of the table, padding rows zero. Exact, so kept in the table's type and widened at the end."""
    fed = inputs if inputs is not None else draw_inputs(OPERATOR, config)
    ids = fed["ids"] if sample is None else sample.pick(fed["ids"])
    found = as_float64(fed["weight"][ids])
    if config["padding_idx"] >= 0:
        found[ids == config["padding_idx"]] = 0
    return found


_EXACT = (Part(output="out", golden="rows", tolerance=Tolerance()),)
STRATEGIES = (
    Strategy(id="gather", label="gather(weight, 0, ids[B,S])", launches=_gather_launches, parts=lambda c: _EXACT,
             misfit=lambda c: "gather has no padding row" if c["padding_idx"] >= 0 else "", maturity="reference"),
    Strategy(id="index_select", label="index_select(weight, 0, ids)", launches=_index_launches,
             parts=lambda c: _EXACT, maturity="reference"),
)

PRESETS = (
    Preset("llama3-8b", {"width": 4096}, {
        "decode": Phase(({"batch": 8, "seq": 1, "vocab": 32000},), ({"batch": 8, "seq": 1, "vocab": 128256},)),
        "prefill": Phase(({"batch": 2, "seq": 512, "vocab": 32000},), ({"batch": 8, "seq": 2048, "vocab": 128256},)),
    }),
)


def _small(ctx):
    """Sizes of the experiments on the rules: a table small enough to run under every profile."""
    return {**ctx.config(), "vocab": 512, "width": 128, "batch": 2, "seq": 16, "tokens": 16, "tile_tokens": 8}


def _multi_dim(ctx):
    c = _small(ctx)
    names = ("weight", "ids", "out")
    outcome = {s.id: ctx.profiles(s.launches(c)[0].kernel, names, OPERATOR.tensors(c)) for s in STRATEGIES}
    cost = {s.id: ctx.estimate(s.id) for s in STRATEGIES}
    said = "; ".join(f"{s}: " + ", ".join(f"{p} {o}" for p, o in by.items()) for s, by in outcome.items())
    text = (f"{said}; GM bytes gather {gm_bytes(cost['gather']):,}, index_select {gm_bytes(cost['index_select']):,}. "
            f"In PyPTO gather picks single elements; index_select takes [B,S] ids without flatten")
    return Observation(text, all(not o.startswith("error") for o in outcome["gather"].values()))


def _one_dim(ctx):
    c = _small(ctx)
    two = ctx.profiles(STRATEGIES[1].launches(c)[0].kernel, ("weight", "ids", "out"), OPERATOR.tensors(c))
    n = c["batch"] * c["seq"]
    shared = OPERATOR.tensors(c)
    flat = {"weight": shared["weight"],
            "ids": Arg(shape=(n,), dtype="int32", make=lambda rng: rng.integers(0, c["vocab"], n)),
            "out": Arg(shape=(n, c["width"]), dtype=c["dtype"], role="out")}
    kernel = flat_kernel(c["vocab"], c["width"], c["tokens"], c["tile_tokens"], dtype_of(c))
    one = ctx.profiles(kernel, ("weight", "ids", "out"), flat)
    result = ctx.run_kernel(kernel, ("weight", "ids", "out"), flat)
    exact = result is not None and np.array_equal(result["out"], result["weight"][result["ids"]])
    text = (f"index_select on 1-D ids: {', '.join(f'{p} {o}' for p, o in one.items())}, rows "
            f"{'exact' if exact else 'wrong'}; on 2-D ids: {', '.join(f'{p} {o}' for p, o in two.items())}")
    return Observation(text, exact and all(not o.startswith("error") for o in one.values()))


CLAIMS = (
    Claim("embedding.multi_dim", "gather takes [B,S] ids without flatten", _multi_dim),
    Claim("embedding.one_dim", "index_select suits 1-D ids", _one_dim),
)
