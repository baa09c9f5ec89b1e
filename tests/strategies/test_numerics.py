"""Every strategy at small and awkward sizes against float64, replayed and stepped with the same bits."""
import ml_dtypes
import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.strategies import catalogue, inputs
from pypto_sim.strategies.attention import flash, sizes, table
from pypto_sim.strategies.check import check, collected, run
from pypto_sim.strategies.comparison import find_preset, resolve

BF16 = np.dtype(ml_dtypes.bfloat16)
SMALL_GQA = {"heads": 4, "kv_heads": 2, "dim": 32, "v_dim": 32, "block": 64, "rows": 32, "m_tile": (32, 32),
             "k_tile": (32, 32), "n_tile": (32, 64), "flash_block": 128}
SPARSE = {"heads": 8, "dim": 48, "v_dim": 32, "topk": 128, "block": 64, "page": 32, "kv": 256, "k_tile": (16, 48),
          "n_tile": (32, 64), "m_tile": (16, 16)}
CASES = [
    ("gelu", "decode", None, {"tokens": 3, "width": 520}),
    ("gelu", "prefill", None, {"tokens": 70, "width": 1040}),
    ("gelu", "decode", None, {"tokens": 5, "width": 256, "dtype": "fp16"}),
    ("rope", "decode", "qwen3-1.7b", {"seq": 1, "heads": 8}),
    ("rope", "prefill", "qwen3-1.7b", {"seq": 70, "heads": 8, "dim": 64}),
    ("rope", "prefill", "interleaved", {"seq": 70, "heads": 4, "dim": 64}),
    ("attention", "decode", "llama3-8b", {**SMALL_GQA, "kv": 1}),
    ("attention", "decode", "llama3-8b", {**SMALL_GQA, "kv": 200}),
    ("attention", "decode", "llama3-8b", {**SMALL_GQA, "kv": 129, "split_p": True}),
    ("attention", "prefill", "llama3-8b", {**SMALL_GQA, "seq": 32}),
    ("attention", "prefill", "llama3-8b", {**SMALL_GQA, "seq": 150}),
    ("attention", "decode", "deepseek-v3.2", {**SPARSE, "tokens": 2}),
    ("attention", "prefill", "deepseek-v3.2", {**SPARSE, "tokens": 3}),
    ("moe_routing", "decode", "glm-4.5", {"tokens": 3}),
    ("moe_routing", "prefill", "glm-4.5", {"tokens": 67}),
    ("moe_routing", "decode", "llada2-mini", {"tokens": 5, "hidden": 64}),
    ("moe_routing", "decode", "glm-4.5", {"tokens": 9, "combine": True, "width": 96}),
    ("moe_routing", "decode", "glm-4.5", {"tokens": 4, "renormalise": False, "use_bias": False}),
    ("moe_routing", "decode", "glm-4.5", {"tokens": 4, "expand_sigmoid": False}),
    ("linear", "decode", "minimax-m2", {"tokens": 1, "hidden": 96, "ffn": 160}),
    ("linear", "prefill", "minimax-m2", {"tokens": 33, "hidden": 96, "ffn": 160, "dtype": "fp16"}),
    ("embedding", "decode", None, {"vocab": 50, "width": 64, "batch": 3, "seq": 1}),
    ("embedding", "prefill", None, {"vocab": 50, "width": 64, "batch": 2, "seq": 70}),
    ("embedding", "prefill", None, {"vocab": 50, "width": 64, "batch": 2, "seq": 70, "padding_idx": 7}),
    ("repeat_kv", "decode", "llama3-8b", {**SMALL_GQA, "kv": 100}),
    ("repeat_kv", "decode", "llama3-8b-new-token", SMALL_GQA),
    ("repeat_kv", "prefill", "llama3-8b", {**SMALL_GQA, "seq": 90}),
    ("mean", "decode", None, {"tokens": 3, "width": 520}),
    ("mean", "prefill", None, {"tokens": 70, "width": 256, "dtype": "fp32"}),
]


def runs():
    for operator, phase, preset, changes in CASES:
        module = catalogue.module(operator)
        found = find_preset(module, preset, phase)
        config = resolve(module, found, phase, found.phases[phase].check[-1], changes)
        for strategy in module.STRATEGIES:
            if not strategy.misfit(config):
                sizes_ = ",".join(f"{k}={v}" for k, v in changes.items() if not isinstance(v, tuple))
                yield pytest.param(module, strategy, config, id=f"{operator}-{phase}-{strategy.id}-{sizes_}")


@pytest.mark.parametrize("module, strategy, config", list(runs()))
def test_within_tolerance_and_the_same_bits_however_it_runs(module, strategy, config):
    accuracy, _ = check(module, strategy, config, config["preset"])
    assert accuracy.passed, accuracy
    replayed = run(module.OPERATOR, strategy, config, config["preset"]).tensors
    assert all(one.kernel.last_run.mode == "replay" for one in strategy.launches(config))
    for settings in ({"mode": "step"}, {"threads": 1}, {"threads": 2}):
        with pypto.config(**settings):
            again = run(module.OPERATOR, strategy, config, config["preset"]).tensors
        for name, array in replayed.items():
            assert array.tobytes() == again[name].tobytes(), (name, settings)


def test_every_strategy_is_covered():
    covered = {(p.values[0].OPERATOR.name, p.values[1].id) for p in runs()}
    assert covered == {(n, s.id) for n in catalogue.OPERATORS for s in catalogue.module(n).STRATEGIES}
    assert len(covered) == 19


def flash_config(**changes):
    module = catalogue.module("attention")
    preset = find_preset(module, "llama3-8b", changes.pop("phase"))
    phase = "decode" if "kv" in changes else "prefill"
    return resolve(module, preset, phase, {}, {**SMALL_GQA, **changes})


def test_flash_prefill_keeps_sequences_apart():
    lengths = (40, 0, 100, 1)
    c = flash_config(phase="prefill", seq=sum(lengths))
    args = {**sizes.tensors(c), **table.flash_tensors(c)}
    drawn = {n: inputs.draw("t", n, a) for n, a in args.items() if a.role == "in" and not a.alias}
    drawn["cu"] = np.cumsum([0, *lengths]).astype(np.int32)
    tensors = inputs.aliased(drawn | inputs.outputs(args), args)
    call = table._flash_launches(c)[0]
    call.kernel(*(tensors[n] for n in call.args))
    for start, stop in zip(drawn["cu"], drawn["cu"][1:], strict=False):
        part = {n: drawn[n][:, start:stop] for n in "qkv"}
        if stop == start:
            continue
        golden = sizes.golden({**c, "seq": int(stop - start)}, part)
        np.testing.assert_allclose(tensors["out"][:, start:stop].astype(np.float64), golden, rtol=2.0 ** -6, atol=4e-3)


def test_flash_decode_of_an_empty_sequence_is_zero():
    c = flash_config(phase="decode", kv=192)
    lengths, group = (64, 0, 128), c["heads"] // c["kv_heads"]
    rng = np.random.default_rng(0)
    q = (0.3 * rng.standard_normal((3 * c["kv_heads"], group, 32))).astype(BF16)
    k, v = ((0.3 * rng.standard_normal((c["kv_heads"], 192, 32))).astype(BF16) for _ in range(2))
    cu = np.cumsum([0, *lengths]).astype(np.int32)
    out = np.full(q.shape, 9, BF16)
    kernel = flash.decode_kernel(c["kv_heads"], group, 32, 64, ((16, 16), (32, 32), (32, 64)), (8, 64), 32 ** -0.5,
                                 (1,), pypto.DT_BF16)
    kernel(*(t.reshape(-1, 32) for t in (q, k, v)), cu, out.reshape(-1, 32))
    for b, (start, stop) in enumerate(zip(cu, cu[1:], strict=False)):
        rows = slice(b * c["kv_heads"], (b + 1) * c["kv_heads"])
        if stop == start:
            assert not out[rows].astype(np.float32).any()
            continue
        golden = sizes.golden({**c, "kv": int(stop - start)}, {"q": q[rows], "k": k[:, start:stop],
                                                               "v": v[:, start:stop]})
        np.testing.assert_allclose(out[rows].astype(np.float64), golden, rtol=2.0 ** -6, atol=4e-3)


def test_the_950_operation_gives_the_values_of_the_hand_written_state():
    c = flash_config(phase="prefill", seq=64)
    args = {**sizes.tensors(c), **table.flat_tensors(c), "band_t": table.transposed_band(c)}
    outs = []
    for operation in (True, False):
        drawn = {n: inputs.draw("t", n, a) for n, a in args.items() if a.role == "in" and not a.alias}
        tensors = inputs.aliased(drawn | inputs.outputs(args), args)
        kernel = flash.online_op_kernel(c["heads"], c["kv_heads"], 32, 32, 64, ((32, 32), (32, 32), (32, 64)),
                                        32 ** -0.5, pypto.DT_BF16, operation)
        with pypto.config(device="950pr"), collected():
            kernel(*(tensors[n] for n in (*table.FLAT[:3], "band_t", "out_rows")))
        outs.append(tensors["out"].astype(np.float64))
    np.testing.assert_allclose(outs[0], sizes.golden(c, tensors), rtol=2.0 ** -6, atol=4e-3)
    np.testing.assert_allclose(outs[0], outs[1], rtol=2.0 ** -7, atol=1e-3)


def test_deinterleave_equals_gathermask():
    module = catalogue.module("rope")
    preset = find_preset(module, "interleaved", "decode")
    results = []
    for take in ("gathermask", "deinterleave"):
        c = resolve(module, preset, "decode", preset.phases["decode"].check[-1], {"take": take})
        with pypto.config(device="950pr"):
            results.append(run(module.OPERATOR, module.STRATEGIES[2], c, "interleaved").tensors["out"])
    assert results[0].tobytes() == results[1].tobytes()


def test_sizes_that_cannot_be_are_refused():
    module = catalogue.module("attention")
    preset = find_preset(module, "llama3-8b", "decode")
    with pytest.raises(ValueError, match="multiple of kv_heads"):
        module.OPERATOR.tensors(resolve(module, preset, "decode", {"kv": 8}, {"heads": 3, "kv_heads": 2}))
