"""Grouped top-k expert selection of a mixture-of-experts layer.

    scores = softmax(logits) or sigmoid(logits);   choice = scores + bias
    the best groups of experts are kept (by their best expert, or by the sum of their two best), the others masked;
    ids = top-k of what is left;   weights = scores[ids], normalised and scaled

Sizes: DeepSeek-V2 (160 experts in 8 groups, 3 groups kept, top 6, softmax, times 16) and DeepSeek-V3 (256 experts in 8
groups, 4 groups kept, top 8, sigmoid with a bias, normalised, times 2.5).
"""
from dataclasses import dataclass

import numpy as np
from gallery_tools import Case, normal, report, wide

import pypto_sim as pypto

LOW = -1.0e30                              # choice of an expert in a group that is not kept


@dataclass(frozen=True)
class RoutingConfig:
    """experts, groups, kept_groups, top: of the model; sigmoid: scores and normalisation; scale: of the weights."""

    experts: int = 160
    groups: int = 8
    kept_groups: int = 3
    top: int = 6
    sigmoid: bool = False
    best_of_group: int = 1                 # a group counts by the sum of this many best experts
    scale: float = 16.0
    tile: int = 32                         # tokens of one step


DEEPSEEK_V2 = RoutingConfig()
DEEPSEEK_V3 = RoutingConfig(experts=256, groups=8, kept_groups=4, top=8, sigmoid=True, best_of_group=2, scale=2.5)


def make_expert_selection(cfg: RoutingConfig):
    """The kernel of one configuration."""
    e, g, n, tile = cfg.experts, cfg.groups, cfg.experts // cfg.groups, cfg.tile
    fp32, n_tile = pypto.DT_FP32, (n + 7) // 8 * 8         # a reduced axis is tiled in multiples of 32 bytes

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def expert_selection(
        logits: pypto.Tensor([pypto.DYNAMIC, e], fp32),
        bias: pypto.Tensor([1, e], fp32),
        weights: pypto.Tensor([pypto.DYNAMIC, cfg.top], fp32),
        ids: pypto.Tensor([pypto.DYNAMIC, cfg.top], pypto.DT_INT32),
    ):
        tokens = logits.shape[0]
        for t in pypto.loop((tokens + tile - 1) // tile, name="TOKENS", idx_name="t", unroll_list=[4, 2, 1]):
            valid = pypto.min(tile, tokens - t * tile)
            pypto.set_vec_tile_shapes(tile, e)
            x = pypto.view(logits, [tile, e], [t * tile, 0], valid_shape=[valid, e])
            scores = pypto.sigmoid(x) if cfg.sigmoid else pypto.softmax(x, -1)
            choice = pypto.add(scores, bias) if cfg.sigmoid else scores

            pypto.set_vec_tile_shapes(tile, g, n_tile)
            grouped = pypto.reshape(choice, [tile, g, n], valid_shape=[valid, g, n])
            if cfg.best_of_group == 1:
                of_group = pypto.amax(grouped, -1)
            else:
                best, _ = pypto.topk(grouped, cfg.best_of_group, -1)
                of_group = pypto.sum(best, -1)
            pypto.set_vec_tile_shapes(tile, g)
            _, kept = pypto.topk(of_group, cfg.kept_groups, -1)
            mask = pypto.scatter(pypto.full([tile, g], 0.0, fp32, valid_shape=[valid, g]), 1, kept, 1.0)
            pypto.set_vec_tile_shapes(tile, g, n_tile)
            mask = pypto.reshape(mask, [tile, g, 1], valid_shape=[valid, g, 1])
            mask = pypto.expand_clone(mask, [tile, g, n], valid_shape=[valid, g, n])
            low = pypto.full([tile, g, n], LOW, fp32, valid_shape=[valid, g, n])
            left = pypto.where(pypto.gt(mask, 0.5), grouped, low)

            pypto.set_vec_tile_shapes(tile, e)
            left = pypto.reshape(left, [tile, e], valid_shape=[valid, e])
            _, chosen = pypto.topk(left, cfg.top, -1)
            w = pypto.gather(scores, 1, chosen)
            pypto.set_vec_tile_shapes(tile, cfg.top)
            if cfg.sigmoid:
                w = pypto.div(w, pypto.sum(w, -1, keepdim=True))
            pypto.assemble(pypto.mul(w, cfg.scale), [t * tile, 0], weights)
            pypto.assemble(chosen, [t * tile, 0], ids)
    return expert_selection


def golden(logits, bias, cfg):
    """(weights, ids) in float64."""
    x, b = wide(logits, bias)
    rows = np.arange(len(x))[:, None]
    if cfg.sigmoid:
        scores = 1 / (1 + np.exp(-x))
        choice = scores + b
    else:
        p = np.exp(x - x.max(-1, keepdims=True))
        choice = scores = p / p.sum(-1, keepdims=True)
    grouped = choice.reshape(len(x), cfg.groups, -1)
    of_group = np.sort(grouped, -1)[..., -cfg.best_of_group:].sum(-1)
    kept = np.argsort(-of_group, -1, kind="stable")[:, :cfg.kept_groups]
    mask = np.zeros(of_group.shape, bool)
    mask[rows, kept] = True
    left = np.where(mask[..., None], grouped, -np.inf).reshape(choice.shape)
    ids = np.argsort(-left, -1, kind="stable")[:, :cfg.top]
    w = scores[rows, ids]
    return (w / w.sum(-1, keepdims=True) if cfg.sigmoid else w) * cfg.scale, ids


def inputs(tokens, cfg, seed=0):
    """Arguments for this many tokens."""
    logits = normal(seed, tokens, cfg.experts, dtype=np.float32)
    bias = normal(seed + 1, 1, cfg.experts, scale=0.1, dtype=np.float32)
    return [logits, bias, np.zeros((tokens, cfg.top), np.float32), np.zeros((tokens, cfg.top), np.int32)]


def cases():
    """Both models, with a tail of tokens."""
    found = []
    for name, cfg in (("DeepSeek-V2", DEEPSEEK_V2), ("DeepSeek-V3", DEEPSEEK_V3)):
        args = inputs(75, cfg)
        weights, ids = golden(*args[:2], cfg)
        found.append(Case(make_expert_selection(cfg), args, {2: ("weights", weights, 1e-5), 3: ("ids", ids, 1e-9)},
                          f"{name}, 75 tokens"))
    return found


def estimate(tokens=4096, cfg=DEEPSEEK_V2, **options):
    """Predicted cost for this many tokens."""
    x, b = pypto.Spec((tokens, cfg.experts), "fp32"), pypto.Spec((1, cfg.experts), "fp32")
    w, ids = pypto.Spec((tokens, cfg.top), "fp32"), pypto.Spec((tokens, cfg.top), "int32")
    return pypto.estimate(make_expert_selection(cfg), x, b, w, ids, **options)


def main() -> float:
    return report("Grouped top-k expert selection", cases(), {
        "DeepSeek-V2, 4096 tokens": estimate, "DeepSeek-V3, 4096 tokens": lambda: estimate(cfg=DEEPSEEK_V3)})


if __name__ == "__main__":
    main()
