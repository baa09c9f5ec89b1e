"""Tensors of the attention operator and its float64 golden."""
import numpy as np

from ..base import Arg, Operator
from ..check import as_float64
from ..inputs import draw_inputs
from .parts import MASKED

INPUT_SCALE = 0.3


def causal_band(rows: int, width: int, offset: int) -> np.ndarray:
    """[rows, width]: 0 for u <= r + offset, MASKED beyond."""
    return np.where(np.arange(width) <= np.arange(rows)[:, None] + offset, 0.0, MASKED)


def permutation(rng, n: int) -> np.ndarray:
    """Physical page of each logical page, [1, n]."""
    return rng.permutation(n)[None]


def distinct(rng, rows: int, n: int, k: int) -> np.ndarray:
    """[rows, k] different numbers below n per row: a random stride and start, since n is a power of two."""
    start = rng.integers(0, n, (rows, 1))
    stride = rng.integers(0, n // 2, (rows, 1)) * 2 + 1
    return (start + stride * np.arange(k)) % n


def tensors(c) -> dict[str, Arg]:
    """q, k, v, out of the phase; the sparse form has its paged cache instead of k and v."""
    d, heads = c["dim"], c["heads"]
    if c["topk"]:
        pages, tokens = c["kv"] // c["page"], c["tokens"]
        if c["kv"] & (c["kv"] - 1) or c["kv"] < c["topk"]:
            raise ValueError(f"kv={c['kv']}: sparse attention needs a power of two of at least topk={c['topk']} keys")
        return {"q": Arg(shape=(tokens * heads, d), dtype=c["dtype"], scale=INPUT_SCALE),
                "cache": Arg(shape=(c["kv"], d), dtype=c["dtype"], scale=INPUT_SCALE),
                "table": Arg(shape=(1, pages), dtype="int32", make=lambda rng: permutation(rng, pages)),
                "picked": Arg(shape=(tokens, c["topk"]), dtype="int32",
                              make=lambda rng: distinct(rng, tokens, c["kv"], c["topk"])),
                "out": Arg(shape=(tokens * heads, c["v_dim"]), dtype=c["dtype"], role="out")}
    if heads % c["kv_heads"]:
        raise ValueError(f"heads={heads} must be a multiple of kv_heads={c['kv_heads']}")
    if c["phase"] == "decode":
        q = (c["kv_heads"], heads // c["kv_heads"], d)
        kv = (c["kv_heads"], c["kv"], d)
    else:
        q, kv = (heads, c["seq"], d), (c["kv_heads"], c["seq"], d)
    return {"q": Arg(shape=q, dtype=c["dtype"], scale=INPUT_SCALE),
            "k": Arg(shape=kv, dtype=c["dtype"], scale=INPUT_SCALE),
            "v": Arg(shape=kv, dtype=c["dtype"], scale=INPUT_SCALE),
            "out": Arg(shape=q, dtype=c["dtype"], role="out")}


OPERATOR = Operator(
    name="attention", title="Attention", size_keys=("kv", "seq", "tokens"), tensors=tensors,
    defaults={"kv": 4096, "seq": 1024, "tokens": 1, "heads": 32, "kv_heads": 8, "dim": 128, "v_dim": 128, "topk": 0,
              "page": 128, "dtype": "bf16", "block": 512, "flash_block": 2048, "rows": 128, "m_tile": (16, 16),
              "k_tile": (128, 128), "n_tile": (128, 128), "vec_elements": 8192, "step_heads": 8, "gather_rows": 32,
              "unroll": (2, 1),
              "split_p": False})


def softmax(scores: np.ndarray) -> np.ndarray:
    """Softmax of the last axis, float64."""
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def causal_rows(q, k, v, heads: int, kv_heads: int, rows, chosen_heads, block: int = 256) -> np.ndarray:
    """float64 causal attention of the given query rows and heads, [len(heads), len(rows), D], blocked over rows."""
    group, scale = heads // kv_heads, q.shape[-1] ** -0.5
    out = np.empty((len(chosen_heads), len(rows), v.shape[-1]))
    for at, h in enumerate(chosen_heads):
        keys, values = as_float64(k[h // group]), as_float64(v[h // group])
        for start in range(0, len(rows), block):
            picked = rows[start:start + block]
            seen = int(picked.max()) + 1
            scores = as_float64(q[h, picked]) @ keys[:seen].T * scale
            scores[np.arange(seen) > picked[:, None]] = -np.inf
            out[at, start:start + block] = softmax(scores) @ values[:seen]
    return out


def sparse_rows(fed, c) -> np.ndarray:
    """float64 attention of every token to its picked rows, [tokens heads, v_dim]."""
    heads, page = c["heads"], c["page"]
    q, cache = as_float64(fed["q"]), fed["cache"]
    out = np.empty((q.shape[0], c["v_dim"]))
    for t, position in enumerate(fed["picked"]):
        slots = fed["table"][0, position // page] * page + position % page
        rows = as_float64(cache[slots])
        at = slice(t * heads, (t + 1) * heads)
        out[at] = softmax(q[at] @ rows.T * c["dim"] ** -0.5) @ rows[:, :c["v_dim"]]
    return out


def golden(config, inputs=None, key="out", sample=None):
    """float64 attention of the rounded inputs: decode [kv_heads, group, D], prefill [heads, S, D] (or the sampled
    heads and rows), sparse [tokens heads, v_dim]."""
    fed = inputs if inputs is not None else draw_inputs(OPERATOR, config)
    if config["topk"]:
        return sparse_rows(fed, config) if sample is None else sample.pick(sparse_rows(fed, config))
    if config["phase"] == "prefill":
        seq, heads = config["seq"], config["heads"]
        rows, chosen = (np.arange(seq), range(heads)) if sample is None else sample.rows_and_heads(seq, heads)
        return causal_rows(fed["q"], fed["k"], fed["v"], heads, config["kv_heads"], rows, chosen)
    q, scale = as_float64(fed["q"]), config["dim"] ** -0.5
    out = np.empty(q.shape)
    for h in range(q.shape[0]):
        out[h] = softmax(q[h] @ as_float64(fed["k"][h]).T * scale) @ as_float64(fed["v"][h])
    return out
