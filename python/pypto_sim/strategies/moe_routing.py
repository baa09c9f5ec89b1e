"""MoE routing: sigmoid gating and softmax gating, with groups, bias, renormalisation and the combine stage."""
import numpy as np

from .base import Arg, Launch, Operator, Part, Phase, Preset, Strategy, Tolerance, points, powers
from .check import Accuracy, as_float64, dtype_of, measure
from .inputs import draw_inputs
from .moe_kernels import Gate, combine_kernel, hidden_kernel, logits_kernel


def _tensors(c):
    t, e, k = c["tokens"], c["experts"], c["top"]
    found = {"bias": Arg(shape=(1, e), dtype="fp32", scale=0.1),
             "weights": Arg(shape=(t, k), dtype="fp32", role="out"),
             "ids": Arg(shape=(t, k), dtype="int32", role="out")}
    if c["hidden"]:
        found |= {"x": Arg(shape=(t, c["hidden"]), dtype=c["dtype"]),
                  "gate_weight": Arg(shape=(e, c["hidden"]), dtype=c["dtype"], scale=c["hidden"] ** -0.5)}
    else:
        found |= {"logits": Arg(shape=(t, e), dtype="fp32")}
    if c["combine"]:
        found |= combine_tensors(c)
    return found


def combine_tensors(c):
    """Expert outputs, one row per token and chosen expert in a shuffled order, and the place of each."""
    t, k, width = c["tokens"], c["top"], c["width"]
    return {"expert_out": Arg(shape=(t * k, width), dtype=c["dtype"]),
            "slot": Arg(shape=(t, k), dtype="int32", make=lambda rng: rng.permutation(t * k).reshape(t, k)),
            "combined": Arg(shape=(t, width), dtype=c["dtype"], role="out"),
            "combined_rows": Arg(shape=(t, 1, width), dtype=c["dtype"], alias="combined", role="out"),
            "weights_column": Arg(shape=(t, k, 1), dtype="fp32", alias="weights", role="out")}


OPERATOR = Operator(
    name="moe_routing", title="MoE routing", size_keys=("tokens", "experts", "hidden"), tensors=_tensors,
    defaults={"tokens": 1, "experts": 160, "top": 8, "hidden": 0, "groups": 1, "top_groups": 1, "use_bias": True,
              "renormalise": True, "factor": 1.0, "expand_sigmoid": True,
              "gating": "sigmoid", "combine": False, "width": 4096, "combine_rows": 2,
              "combine_cols": 512,
              "dtype": "bf16", "rows": 64, "tile_rows": 4, "m_tile": (16, 16), "k_tile": (256, 512),
              "n_tile": (64, 64)})


def gate_of(c, softmax: bool, **changes) -> Gate:
    """The Gate of a config."""
    values = dict(experts=c["experts"], top=c["top"], hidden=c["hidden"], groups=c["groups"],
                  top_groups=c["top_groups"], bias=c["use_bias"], softmax=softmax, expand=c["expand_sigmoid"],
                  renormalise=c["renormalise"], factor=c["factor"])
    return Gate(**{**values, **changes})


def routing_call(c, gate: Gate) -> Launch:
    """Launch of the routing kernel of a gate."""
    rows = min(c["rows"], c["tokens"])
    tile = min(c["tile_rows"], rows)
    if not gate.hidden:
        return Launch(logits_kernel(gate, rows, tile), ("logits", "bias", "weights", "ids"))
    cube = tuple(c["m_tile"]), tuple(c["k_tile"]), tuple(c["n_tile"])
    return Launch(hidden_kernel(gate, rows, tile, cube, dtype_of(c)),
                  ("x", "gate_weight", "bias", "weights", "ids"))


def combine_call(c) -> Launch:
    """Launch of the combine stage."""
    rows, tile = min(c["rows"], c["tokens"]), (c["combine_rows"], min(c["combine_cols"], c["width"]))
    return Launch(combine_kernel(c["top"], c["width"], rows, tile, dtype_of(c)),
                  ("expert_out", "slot", "weights_column", "combined_rows"))


def _launches(softmax):
    def launches(c):
        route = routing_call(c, gate_of(c, softmax))
        return (route, combine_call(c)) if c["combine"] else (route,)
    return launches


def scores_of(c, fed, softmax: bool):
    """(unbiased, biased and group-masked) float64 gate values [T, experts]."""
    if c["hidden"]:
        logits = as_float64(fed["x"]) @ as_float64(fed["gate_weight"]).T
    else:
        logits = as_float64(fed["logits"])
    if softmax:
        p = np.exp(logits - logits.max(-1, keepdims=True))
        scores = p / p.sum(-1, keepdims=True)
    else:
        scores = 1 / (1 + np.exp(-logits))
    biased = scores + as_float64(fed["bias"]) if c["use_bias"] else scores.copy()
    if c["groups"] > 1:
        t, g = biased.shape[0], c["groups"]
        grouped = biased.reshape(t, g, -1)
        best = np.argsort(-grouped.max(-1), axis=-1, kind="stable")[:, :c["top_groups"]]
        keep = np.zeros((t, g), bool)
        np.put_along_axis(keep, best, True, axis=1)
        biased = np.where(keep[:, :, None], grouped, -np.inf).reshape(t, -1)
    return scores, biased


def golden(config, inputs=None, key="sigmoid", sample=None):
    """float64 routing: {"weights" [T, top], "ids" [T, top], "biased" [T, experts]}; key: the gating."""
    fed = dict(inputs if inputs is not None else draw_inputs(OPERATOR, config))
    if sample is not None:
        fed |= {n: sample.pick(fed[n]) for n in ("x", "logits", "slot") if n in fed}
    scores, biased = scores_of(config, fed, key == "softmax")
    ids = np.argsort(-biased, axis=-1, kind="stable")[:, :config["top"]]
    weights = np.take_along_axis(scores, ids, axis=1)
    if config["renormalise"]:
        weights = weights / weights.sum(-1, keepdims=True)
    return {"weights": weights * config["factor"], "ids": ids, "biased": biased}


_TIE = 1e-6     # biased scores closer than this may swap places in fp32


def judge(config, tensors, found, part, sample):
    """Weights within the tolerance, expert by expert; ids equal as sets, except where the scores tie."""
    pick = sample.pick if sample is not None else (lambda array: array)
    ids, weights = pick(tensors["ids"]), pick(tensors["weights"])
    biased, gold = found["biased"], found["ids"]
    wrong = 0
    for row in np.flatnonzero((np.sort(ids, -1) != np.sort(gold, -1)).any(-1)):
        ours, theirs = set(ids[row].tolist()), set(gold[row].tolist())
        border = biased[row, gold[row, -1]]
        legal = len(ours) == config["top"] and all(0 <= e < config["experts"] for e in ours)
        swapped = [e for e in ours ^ theirs if legal]
        wrong += not legal or any(abs(biased[row, e] - border) > _TIE for e in swapped)
    order, gold_order = np.argsort(ids, -1), np.argsort(gold, -1)
    same = (np.take_along_axis(ids, order, 1) == np.take_along_axis(gold, gold_order, 1)).all(-1)
    accuracy = Accuracy(rtol=part.tolerance.rtol, atol=part.tolerance.atol)
    if same.any():
        accuracy = measure(np.take_along_axis(weights, order, 1)[same],
                           np.take_along_axis(found["weights"], gold_order, 1)[same], "fp32", part.tolerance)
    if wrong:
        accuracy.passed, accuracy.excess, accuracy.what = False, float("inf"), f"{wrong} tokens have other experts"
    if config["combine"]:
        accuracy.passed &= combine_fits(config, tensors, pick)
    return accuracy


def combine_fits(config, tensors, pick) -> bool:
    """Combined rows within 2^-7 of sum |w y|, with the weights the routing gave."""
    y = as_float64(tensors["expert_out"])[pick(tensors["slot"])]
    products = as_float64(pick(tensors["weights"]))[:, :, None] * y
    error = np.abs(as_float64(pick(tensors["combined"])) - products.sum(1))
    return bool((error <= 2.0 ** -7 * np.abs(products).sum(1)).all())


def _parts(key):
    part = Part(output="weights", golden=key, tolerance=Tolerance(rtol=5e-3, atol=5e-3))
    return lambda c: (part,)


def _other(gating):
    return lambda c: "" if c["gating"] == gating else f"the model is trained with {c['gating']} gating"


STRATEGIES = (
    Strategy(id="sigmoid", label="sigmoid (exp, add, div), topk, gather, renormalise", launches=_launches(False),
             parts=_parts("sigmoid"), judge=judge, maturity="production", other_function=_other("sigmoid")),
    Strategy(id="softmax", label="softmax (amax, sub, exp, sum, div), topk, gather", launches=_launches(True),
             parts=_parts("softmax"), judge=judge, maturity="reference", other_function=_other("softmax")),
)


def _preset(name, decode, prefill, tile_rows, **values):
    prefill_tiles = {"tile_rows": tile_rows, "m_tile": (64, 64), "k_tile": (64, 256), "n_tile": (256, 256)}
    return Preset(name, values, {
        "decode": Phase(points("tokens", *decode), points("tokens", *powers(1, 64))),
        "prefill": Phase(points("tokens", prefill), points("tokens", 4096), prefill_tiles)})


PRESETS = (
    _preset("glm-4.5", (1, 32), 1026, 32, experts=160, top=8),
    _preset("llada2-mini", (8,), 1024, 16, hidden=2048, width=2048, experts=256, top=8, groups=8, top_groups=4,
            factor=2.5),
    _preset("minimax-m2", (16,), 512, 16, hidden=3072, width=3072, experts=256, top=8),
)

from .moe_claims import CLAIMS  # noqa: E402  (the claims use the strategies above)

__all__ = ["CLAIMS", "OPERATOR", "PRESETS", "STRATEGIES", "golden"]
