"""The four attention strategies and their presets."""
import numpy as np

from ..base import Arg, Config, Launch, Part, Phase, Preset, Strategy, Tolerance, points, powers
from ..check import dtype_of
from . import flash, online, sparse_flash, whole_row
from .sizes import causal_band, tensors

FLAT = ("q_rows", "k_rows", "v_rows", "out_rows")


def _cube(c: Config):
    return tuple(c["m_tile"]), tuple(c["k_tile"]), tuple(c["n_tile"])


def _scale(c: Config) -> float:
    return c["dim"] ** -0.5


def group(c: Config) -> int:
    """Query heads of one KV head."""
    return c["heads"] // c["kv_heads"]


def row_tile(c: Config) -> int:
    """Query rows of one step."""
    return min(c["rows"], c["block"], c["flash_block"], c["seq"])


def key_block(c: Config, name: str = "block") -> int:
    """Keys of one step: the config's, not more than there are, and a multiple of the row tile in prefill."""
    if c["phase"] == "decode":
        return min(c[name], -(-c["kv"] // 16) * 16)
    return max(row_tile(c), c[name] // row_tile(c) * row_tile(c))


def vec(c: Config, block: int):
    """Vector tile of [rows, keys] with `vec_elements`: scores, exp and their statistics have to fit UB together."""
    last = max(block, c["dim"])
    return rows_that_fit(c, last), last


def rows_that_fit(c: Config, width: int) -> int:
    """Rows of a vector tile of that width, a power of two."""
    return 1 << max(1, c["vec_elements"] // width).bit_length() - 1


def together(c: Config) -> int:
    """Query heads of one prefill step of the flash kernel."""
    return min(c["step_heads"], c["heads"])


def flat_tensors(c: Config):
    """q, k, v and out as rows of head size: the shapes the kernels take."""
    rows = {name: (arg.shape[0] * arg.shape[1], arg.shape[2]) for name, arg in tensors(c).items()}
    return {f"{name}_rows": Arg(shape=shape, dtype=c["dtype"], alias=name, role="out" if name == "out" else "in")
            for name, shape in rows.items()}


def band_of(c: Config, heads: int, name: str = "block"):
    """Causal mask of a row tile, once per stacked head; see `online.prefill_kernel`."""
    rows, block = row_tile(c), key_block(c, name)
    return Arg(shape=(heads * rows, 2 * block + rows), dtype=c["dtype"],
               make=lambda rng: np.tile(causal_band(rows, 2 * block + rows, block), (heads, 1)))


def transposed_band(c: Config):
    """The band of the transposed tiles."""
    rows, block = row_tile(c), key_block(c)
    return Arg(shape=(2 * block + rows, rows), dtype=c["dtype"],
               make=lambda rng: causal_band(rows, 2 * block + rows, block).T)


def _row_launches(c):
    rest = (_cube(c), _scale(c), dtype_of(c))
    if c["phase"] == "decode":
        kernel = whole_row.decode_kernel(c["kv_heads"], group(c), c["dim"], c["kv"], rows_that_fit(c, c["kv"]), *rest)
        return (Launch(kernel, FLAT),)
    kernel = whole_row.prefill_kernel(c["heads"], c["kv_heads"], c["dim"], c["seq"], row_tile(c),
                                      rows_that_fit(c, c["seq"]), *rest)
    return (Launch(kernel, (*FLAT[:3], "band_row", "out_rows")),)


def _row_tensors(c):
    if c["phase"] == "decode":
        return flat_tensors(c)
    rows, seq = row_tile(c), c["seq"]
    return {**flat_tensors(c), "band_row": Arg(shape=(rows, 2 * seq), dtype=c["dtype"],
                                               make=lambda rng: causal_band(rows, 2 * seq, seq))}


def online_kernel(c: Config):
    """Kernel of the online strategy at a config."""
    block = key_block(c)
    rest = (_cube(c), vec(c, block), _scale(c), tuple(c["unroll"]), c["split_p"], dtype_of(c))
    if c["phase"] == "decode":
        return online.decode_kernel(c["kv_heads"], group(c), c["dim"], block, *rest)
    return online.prefill_kernel(c["heads"], c["kv_heads"], group(c), c["dim"], row_tile(c), block, *rest)


def online_names(c: Config):
    """Argument names of the online kernel."""
    return FLAT if c["phase"] == "decode" else (*FLAT[:3], "band", "out_rows")


def online_tensors(c: Config):
    """Tensors the online kernel takes beside the operator's."""
    return flat_tensors(c) | ({} if c["phase"] == "decode" else {"band": band_of(c, group(c))})


def _flash_launches(c):
    block = key_block(c, "flash_block")
    rest = (_cube(c), vec(c, block), _scale(c), tuple(c["unroll"]), dtype_of(c))
    if c["phase"] == "decode":
        kernel = flash.decode_kernel(c["kv_heads"], group(c), c["dim"], block, *rest)
        return (Launch(kernel, (*FLAT[:3], "cu", "out_rows")),)
    kernel = flash.prefill_kernel(c["heads"], c["kv_heads"], together(c), c["dim"], row_tile(c), block, *rest)
    return (Launch(kernel, (*FLAT[:3], "flash_band", "cu", "out_rows")),)


def flash_tensors(c: Config):
    """Tensors the flash kernel takes beside the operator's."""
    length = c["kv"] if c["phase"] == "decode" else c["seq"]
    found = {**flat_tensors(c), "cu": Arg(shape=(2,), dtype="int32", make=lambda rng: np.array([0, length]))}
    return found if c["phase"] == "decode" else found | {"flash_band": band_of(c, together(c), "flash_block")}


def _sparse_launches(c):
    block = min(c["block"], c["topk"])
    kernel = sparse_flash.sparse_kernel(c["heads"], c["dim"], c["v_dim"], c["topk"], block, c["page"],
                                        c["kv"] // c["page"], _cube(c), vec(c, block),
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
    Strategy(id="online", label="online softmax over blocks of keys", tensors=online_tensors, misfit=_dense,
             launches=lambda c: (Launch(online_kernel(c), online_names(c)),), parts=_parts(_PLAIN),
             maturity="production"),
    Strategy(id="flash", label="fused flash kernel, all heads, varlen", launches=_flash_launches,
             tensors=flash_tensors, parts=_parts(_FLASH), misfit=_dense, maturity="unverified"),
    Strategy(id="sparse_flash", label="top-k rows gathered by index, online softmax", launches=_sparse_launches,
             parts=_parts(_FLASH), misfit=lambda c: "" if c["topk"] else "the preset selects no rows",
             maturity="unverified"),
)

PREFILL_TILES = {"m_tile": (256, 256), "rows": 256, "block": 512, "flash_block": 1024, "step_heads": 16,
                 "vec_elements": 16384}


def _gqa(name, heads, kv_heads, dim, decode, prefill, block=512):
    return Preset(name, {"heads": heads, "kv_heads": kv_heads, "dim": dim, "v_dim": dim}, {
        "decode": Phase(points("kv", decode[0]), points("kv", *powers(*decode[1])), {"block": block}),
        "prefill": Phase(points("seq", prefill[0]), points("seq", *powers(*prefill[1])), PREFILL_TILES)})


PRESETS = (
    _gqa("gemma4-31b", 32, 4, 256, (1000, (512, 131072)), (512, (1024, 8192)), block=64),
    _gqa("qwen3-1.7b", 16, 8, 128, (4096, (4096, 131072)), (1024, (2048, 32768))),
    _gqa("llama3-8b", 32, 8, 128, (4096, (4096, 131072)), (1024, (2048, 32768))),
    Preset("deepseek-v3.2", {"heads": 128, "kv_heads": 1, "dim": 576, "v_dim": 512, "topk": 2048,
                             "m_tile": (128, 128), "k_tile": (64, 192), "n_tile": (256, 256)}, {
        "decode": Phase(({"kv": 4096, "tokens": 1},), ({"kv": 131072, "tokens": 1},)),
        "prefill": Phase(({"kv": 4096, "tokens": 4},), ({"kv": 32768, "tokens": 4096},)),
    }),
)
