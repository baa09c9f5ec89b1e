"""Goldens of the strategies against independent float64 computations."""
import math

import numpy as np
import pytest

from pypto_sim.strategies import catalogue, inputs
from pypto_sim.strategies.check import Tolerance, measure, ulp
from pypto_sim.strategies.comparison import Sample, find_preset, resolve


def config_of(operator, phase="decode", preset=None, **changes):
    module = catalogue.module(operator)
    found = find_preset(module, preset, phase)
    return module, resolve(module, found, phase, found.phases[phase].check[-1], changes)


def test_gelu_forms_differ_by_the_known_amount():
    gelu = catalogue.module("gelu")
    x = np.linspace(-8, 8, 160001)
    gap = np.abs(gelu.formula("tanh", x) - gelu.formula("erf", x)).max()
    assert abs(gap - 4.732355e-4) < 1e-9
    assert gelu.formula("erf", np.array([1.0]))[0] == pytest.approx(0.5 * (1 + math.erf(1 / math.sqrt(2))))


def test_rope_halves_and_pairs_layouts():
    rope = catalogue.module("rope")
    t = np.array([0.5, 0.25])
    cos, sin = np.cos(np.tile(t, 2)), np.sin(np.tile(t, 2))
    x = np.array([1.0, 2, 3, 4])
    half = rope.rotate(x, cos, sin)
    c, s = np.cos(t), np.sin(t)
    np.testing.assert_allclose(half, [c[0] - 3 * s[0], 2 * c[1] - 4 * s[1], 3 * c[0] + s[0], 4 * c[1] + 2 * s[1]])
    pairs = rope.rotate(np.concatenate([x[0::2], x[1::2]]), cos, sin)
    np.testing.assert_allclose(pairs, [c[0] - 2 * s[0], 3 * c[1] - 4 * s[1], 2 * c[0] + s[0], 4 * c[1] + 3 * s[1]])


def test_causal_golden_is_softmax_attention():
    torch = pytest.importorskip("torch")
    module, c = config_of("attention", "prefill", "llama3-8b", seq=70, heads=4, kv_heads=2, dim=16)
    fed = inputs.draw_inputs(module.OPERATOR, c)
    found = module.golden(c, fed)
    q, k, v = (torch.from_numpy(fed[n].astype(np.float64)) for n in "qkv")
    want = torch.nn.functional.scaled_dot_product_attention(q, k.repeat_interleave(2, 0), v.repeat_interleave(2, 0),
                                                            is_causal=True)
    np.testing.assert_allclose(found, want.numpy(), rtol=1e-12, atol=1e-12)
    sample = Sample.of(module, c)
    np.testing.assert_allclose(module.golden(c, fed, "out", sample), sample.pick(found), rtol=1e-12)


def test_decode_golden_serves_each_group_from_its_kv_head():
    module, c = config_of("attention", "decode", "llama3-8b", kv=33, heads=4, kv_heads=2, dim=16)
    fed = inputs.draw_inputs(module.OPERATOR, c)
    fed["v"] = np.stack([np.zeros_like(fed["v"][0]), np.ones_like(fed["v"][1])])
    found = module.golden(c, fed)
    np.testing.assert_allclose(found[0], 0, atol=1e-12)
    np.testing.assert_allclose(found[1], 1, atol=1e-12)


def test_sparse_golden_follows_the_page_table():
    module, c = config_of("attention", "decode", "deepseek-v3.2", kv=256, topk=64, page=32, heads=2, dim=32, v_dim=16)
    fed = inputs.draw_inputs(module.OPERATOR, c)
    assert all(len(set(row)) == 64 for row in fed["picked"].tolist())
    logical = fed["cache"].reshape(-1, 32, 32)[fed["table"][0]].reshape(256, 32).astype(np.float64)
    rows = logical[fed["picked"][0]]
    scores = fed["q"].astype(np.float64) @ rows.T * 32 ** -0.5
    p = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(module.golden(c, fed), p / p.sum(-1, keepdims=True) @ rows[:, :16], rtol=1e-12)


def test_routing_golden_uses_groups_and_bias_for_the_choice_only():
    module, c = config_of("moe_routing", "decode", "glm-4.5", tokens=1, experts=8, top=2, groups=4, top_groups=1,
                          factor=2.0)
    logits = np.array([[0, 0, 3, 0, 5, -9, 4, 4]], np.float32)
    bias = np.array([[0, 0, 1.0, 0, 0, 0, 0, 0]], np.float32)
    found = module.golden(c, {"logits": logits, "bias": bias}, "sigmoid")
    assert found["ids"].tolist() == [[2, 3]]                       # group 1 wins by its biased best
    scores = 1 / (1 + np.exp(-np.array([3.0, 0.0])))
    np.testing.assert_allclose(found["weights"][0], 2 * scores / scores.sum())


def test_routing_ties_go_to_the_lowest_index():
    module, c = config_of("moe_routing", "decode", "glm-4.5", tokens=1, experts=8, top=3, use_bias=False)
    logits = np.array([[1, 2, 2, 2, 0, 2, 1, 0]], np.float32)
    assert module.golden(c, {"logits": logits, "bias": None}, "sigmoid")["ids"].tolist() == [[1, 2, 3]]


def test_inputs_depend_on_preset_and_name_only():
    module, c = config_of("linear", "decode", "minimax-m2")
    again = inputs.draw_inputs(module.OPERATOR, c)
    for name, array in inputs.draw_inputs(module.OPERATOR, c).items():
        assert np.array_equal(array, again[name])
        assert abs(float(array.astype(np.float64).std()) - 1) < 0.05
    assert not np.array_equal(again["x"][0, :64], again["w"][0, :64])


@pytest.mark.parametrize("operator", catalogue.OPERATORS)
def test_presets_fit_the_limits(operator):
    """At most 1 GiB of arguments at every check point, and every strategy fits some preset in some phase."""
    module, fits = catalogue.module(operator), set()
    for preset in module.PRESETS:
        for phase, sizes in preset.phases.items():
            for size in sizes.check:
                c = resolve(module, preset, phase, size, {})
                for strategy in module.STRATEGIES:
                    if strategy.misfit(c):
                        continue
                    fits.add((strategy.id, phase))
                    args = inputs.tensors(module.OPERATOR, strategy, c)
                    total = sum(math.prod(a.shape) * 2 for a in args.values() if not a.alias)
                    assert total <= 1 << 30
    assert {s.id for s in module.STRATEGIES} == {s for s, _ in fits}


def test_measure_counts_outliers_and_nan():
    golden = np.full((10, 200), 1.0)
    got = golden.copy()
    got[0, 0] = 1 + 1.5e-2
    assert not measure(got, golden, "fp32", Tolerance(rtol=1e-2)).passed
    assert measure(got, golden, "fp32", Tolerance(rtol=1e-2, outliers=1e-3)).passed
    got[0, 0] = 1 + 2.5e-2
    assert not measure(got, golden, "fp32", Tolerance(rtol=1e-2, outliers=1e-3)).passed
    got[0, 0] = np.nan
    found = measure(got, golden, "fp32", Tolerance(rtol=1.0, outliers=1.0))
    assert not found.passed and found.max_abs == np.inf


def test_ulp_of_bf16():
    np.testing.assert_array_equal(ulp(np.array([1.0, 1.99, 2.0, 0.75]), "bf16"), [2.0 ** -7, 2.0 ** -7, 2.0 ** -6,
                                                                                 2.0 ** -8])
