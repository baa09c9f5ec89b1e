"""The four attention strategies and their presets."""
import numpy as np

from ..base import Arg, Config, Launch, Part, Phase, Preset, Strategy, Tolerance, points, powers
from ..check import dtype_of
from . import flash, online, sparse_flash, whole_row
from .sizes import causal_band

VEC_ELEMENTS = 8192    # 32 KB of fp32: scores, exp and their statistics fit UB together


def _cube(c: Config):
    return list(c["m_tile"]), list(c["k_tile"]), list(c["n_tile"])


def _hashable(cube):
    return tuple(tuple(axis) for axis in cube)


def _scale(c: Config) -> float:
    return c["dim"] ** -0.5


def group(c: Config) -> int:
    """Query heads of one KV head."""
    return c["heads"] // c["kv_heads"]


def row_tile(c: Config) -> int:
    """Query rows of one step."""
    return min(c["rows"], c["seq"])


def key_block(c: Config, name: str = "block") -> int:
    """Keys of one step: the config's, not more than there are, and a multiple of the row tile in prefill."""
    if c["phase"] == "decode":
        return min(c[name], -(-c["kv"] // 16) * 16)
    return max(row_tile(c), c["block"] // row_tile(c) * row_tile(c))


def vec(c: Config, block: int):
    """Vector tile of [heads, rows, keys]: at most 32 KB of fp32."""
    last = max(block, c["dim"])
    return 1, max(1, min(c["vec_rows"], VEC_ELEMENTS // last)), last


def _band(c: Config, transposed: bool = False):
    rows, block = row_tile(c), key_block(c)
    found = causal_band(rows, 2 * block + rows, block)
    return found.T if transposed else found


def band_tensors(c: Config):
    """The causal mask's band, in prefill."""
    if c["phase"] == "decode":
        return {}
    rows, block = row_tile(c), key_block(c)
    return {"band": Arg(shape=(rows, 2 * block + rows), dtype=c["dtype"], make=lambda rng: _band(c))}


def transposed_band(c: Config):
    """The band of the transposed tiles."""
    rows, block = row_tile(c), key_block(c)
    return Arg(shape=(2 * block + rows, rows), dtype=c["dtype"], make=lambda rng: _band(c, True))


def _row_launches(c):
    if c["phase"] == "decode":
        kernel = whole_row.decode_kernel(c["kv_heads"], group(c), c["dim"], c["kv"], _hashable(_cube(c)), _scale(c),
                                         dtype_of(c))
        return (Launch(kernel, ("q", "k", "v", "out")),)
    kernel = whole_row.prefill_kernel(c["heads"], c["kv_heads"], c["dim"], c["seq"], row_tile(c), _hashable(_cube(c)),
                                      _scale(c), dtype_of(c))
    return (Launch(kernel, ("q", "k", "v", "band_row", "out")),)


def _row_tensors(c):
    if c["phase"] == "decode":
        return {}
    rows, seq = row_tile(c), c["seq"]
    return {"band_row": Arg(shape=(rows, 2 * seq), dtype=c["dtype"], make=lambda rng: causal_band(rows, 2 * seq, seq))}


def online_kernel(c: Config, unroll=None, split=None):
    """Kernel of the online strategy at a config."""
    block = key_block(c)
    rest = (_hashable(_cube(c)), vec(c, block), _scale(c), tuple(unroll or c["unroll"]),
            c["split_p"] if split is None else split, dtype_of(c))
    if c["phase"] == "decode":
        return online.decode_kernel(c["kv_heads"], group(c), c["dim"], block, *rest)
    return online.prefill_kernel(c["heads"], c["kv_heads"], c["dim"], row_tile(c), block, *rest)


def online_names(c: Config):
    """Argument names of the online kernel."""
    return ("q", "k", "v", "out") if c["phase"] == "decode" else ("q", "k", "v", "band", "out")


def _flash_launches(c):
    block = key_block(c, "flash_block")
    rest = (_hashable(_cube(c)), vec(c, block), _scale(c), tuple(c["unroll"]), dtype_of(c))
    if c["phase"] == "decode":
        kernel = flash.decode_kernel(c["kv_heads"], group(c), c["dim"], block, *rest)
        return (Launch(kernel, ("q", "k", "v", "cu", "out")),)
    kernel = flash.prefill_kernel(c["kv_heads"], group(c), c["dim"], row_tile(c), block, *rest)
    return (Launch(kernel, ("q4", "k4", "v4", "band", "cu", "out4")),)


def _flash_tensors(c):
    length = c["kv"] if c["phase"] == "decode" else c["seq"]
    found = {**band_tensors(c), "cu": Arg(shape=(2,), dtype="int32", make=lambda rng: np.array([0, length]))}
    if c["phase"] == "prefill":
        q = (c["kv_heads"], group(c), c["seq"], c["dim"])
        kv = (c["kv_heads"], 1, c["seq"], c["dim"])
        found |= {name: Arg(shape=shape, dtype=c["dtype"], alias=name[:-1], role="out" if name == "out4" else "in")
                  for name, shape in (("q4", q), ("k4", kv), ("v4", kv), ("out4", q))}
    return found


def _sparse_launches(c):
    block = min(c["block"], c["topk"])
    kernel = sparse_flash.sparse_kernel(c["heads"], c["dim"], c["v_dim"], c["topk"], block, c["page"],
                                        c["kv"] // c["page"], _hashable(_cube(c)), (c["vec_rows"], block),
                                        c["gather_rows"], _scale(c), tuple(c["unroll"]), dtype_of(c))
    return (Launch(kernel, ("q", "cache", "table", "picked", "out")),)


def _parts(tolerance):
    part = (Part(output="out", golden="out", tolerance=tolerance),)
    return lambda c: part


_PLAIN = Tolerance(rtol=5e-3, atol=5e-3)
_FLASH = Tolerance(rtol=2.0 ** -7, row_max=2.0 ** -9, outliers=1e-3)


def _dense(c):
    return "dense attention; the preset attends to selected rows" if c["topk"] else ""


STRATEGIES = (
    Strategy(id="whole_row", label="matmul, scale, softmax of the whole row, matmul", launches=_row_launches,
             tensors=_row_tensors, parts=_parts(_PLAIN), misfit=_dense, maturity="reference"),
    Strategy(id="online", label="online softmax over blocks of keys", tensors=band_tensors, misfit=_dense,
             launches=lambda c: (Launch(online_kernel(c), online_names(c)),), parts=_parts(_PLAIN),
             maturity="production"),
    Strategy(id="flash", label="fused flash kernel, all heads, varlen", launches=_flash_launches,
             tensors=_flash_tensors, parts=_parts(_FLASH), misfit=_dense, maturity="unverified"),
    Strategy(id="sparse_flash", label="top-k rows gathered by index, online softmax", launches=_sparse_launches,
             parts=_parts(_FLASH), misfit=lambda c: "" if c["topk"] else "the preset selects no rows",
             maturity="unverified"),
)

PREFILL_TILES = {"m_tile": (128, 128), "vec_rows": 16}


def _gqa(name, heads, kv_heads, dim, decode, prefill, **values):
    return Preset(name, {"heads": heads, "kv_heads": kv_heads, "dim": dim, "v_dim": dim, **values}, {
        "decode": Phase(points("kv", decode[0]), points("kv", *powers(*decode[1]))),
        "prefill": Phase(points("seq", prefill[0]), points("seq", *powers(*prefill[1])), PREFILL_TILES)})


PRESETS = (
    _gqa("gemma4-31b", 32, 4, 256, (1000, (512, 131072)), (512, (1024, 8192)), block=64),
    _gqa("qwen3-1.7b", 16, 8, 128, (4096, (4096, 131072)), (1024, (2048, 32768))),
    _gqa("llama3-8b", 32, 8, 128, (4096, (4096, 131072)), (1024, (2048, 32768))),
    Preset("deepseek-v3.2", {"heads": 128, "kv_heads": 1, "dim": 576, "v_dim": 512, "topk": 2048, "vec_rows": 16,
                             "m_tile": (128, 128), "k_tile": (64, 192), "n_tile": (256, 256)}, {
        "decode": Phase(({"kv": 4096, "tokens": 1},), ({"kv": 131072, "tokens": 1},)),
        "prefill": Phase(({"kv": 4096, "tokens": 4},), ({"kv": 32768, "tokens": 4096},)),
    }),
)
