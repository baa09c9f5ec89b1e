"""Operators of the guide are recognised by their data flow, in every form the package ships, and nothing else is."""
from pathlib import Path

import pytest

import pypto_sim as pypto
from pypto_sim.cli import main
from pypto_sim.strategies import catalogue, comparison
from pypto_sim.strategies import inputs as inputs_
from pypto_sim.strategies.check import collected
from pypto_sim.strategies.explore import arguments_of, load
from pypto_sim.strategies.matching import matching_operators

SCRIPTS = Path(__file__).resolve().parents[1] / "guide_scripts"
GALLERY = Path(__file__).resolve().parents[2] / "examples" / "gallery"
CASES = [("gelu_tanh.py:gelu_tanh_kernel", "gelu"), ("embedding.py:embedding_kernel", "embedding"),
         ("linear_bias.py:linear_kernel", "linear"), ("mean.py:mean_kernel", "mean"),
         ("moe_gate.py:moe_routing_kernel", "moe_routing"), ("online_attention.py:decode_kernel", "attention"),
         ("repeat_kv.py:repeat_kv_kernel", "repeat_kv"), ("rope.py:rope_kernel", "rope")]
# beside themselves: attention whose KV heads are shared in the loop is attention; RMSNorm is no operator of the guide
OTHERWISE = {("repeat_kv", "head_loop"): [["attention"]], ("rope", "standard"): [["rope"], [], ["rope"]],
             ("repeat_kv", "expand_clone"): [["repeat_kv", "attention"]]}


def names(traced):
    return [m.operator for m in matching_operators(traced)]


def traced(kernel, *shapes, dtype=pypto.DT_FP32):
    return kernel.program(*(pypto.Spec(s, dtype) for s in shapes))


@pytest.mark.parametrize("target, operator", CASES)
def test_snippet_is_recognised(target, operator):
    _, kernel = load(f"{SCRIPTS / target}")
    specs, _ = arguments_of(kernel, {})
    with collected():
        found = matching_operators(kernel.program(*specs.values()))
    assert [m.operator for m in found] == [operator]
    assert all(target.split(":")[0] in text for text in found[0].evidence)


@pytest.mark.parametrize("name", catalogue.OPERATORS)
def test_every_strategy_is_its_operator(name):
    module = catalogue.module(name)
    for strategy in module.STRATEGIES:
        for preset in module.PRESETS:
            for phase in preset.phases:
                config = comparison.resolve(module, preset, phase, preset.phases[phase].check[-1], {})
                if strategy.misfit(config):
                    continue
                specs = inputs_.specs(preset.name, inputs_.tensors(module.OPERATOR, strategy, config))
                wanted = OTHERWISE.get((name, strategy.id), [[name]])
                for one in strategy.launches(config):
                    with collected():
                        found = names(one.kernel.program(*(specs[n] for n in one.args), *one.scalars))
                    assert found in wanted, (strategy.id, preset.name, phase)


@pytest.mark.parametrize("script, found", [
    ("expert_ffn", []), ("gated_delta", []), ("swiglu_int8", []), ("lstm_cell", ["linear"]), ("mla_prolog", ["rope"]),
    ("paged_decode", ["attention"]), ("varlen_flash", ["attention"]), ("expert_selection", ["moe_routing"])])
def test_kernels_of_the_gallery(script, found, monkeypatch):
    monkeypatch.syspath_prepend(str(GALLERY))
    case = next(iter(__import__(script).cases()))
    with collected():
        assert names(case.kernel.program(*case.args)) == found


def silu(x, out):
    out[:] = x * pypto.sigmoid(x)


def gated_tanh(x, out):
    out[:] = x * pypto.tanh(x * 0.7978845608)


def softmax(x, out):
    out[:] = pypto.softmax(x, dim=-1)


def rms_norm(x, out):
    out[:] = x * pypto.rsqrt(pypto.sum(x * x, dim=-1, keepdim=True) * (1 / 64) + 1e-6)


def row_sums_halved(x, out):
    out[:] = pypto.expand_clone(pypto.sum(x, dim=-1, keepdim=True) * 0.5, [8, 64])


def product(x, out):
    out[:] = pypto.matmul(x, x, pypto.DT_FP32, b_trans=True)


def product_plus_scaled(x, out):
    out[:] = pypto.matmul(x, x, pypto.DT_FP32, b_trans=True) * 0.5 + pypto.exp(x)


def wide_rows(x, out):
    out[:] = pypto.expand_clone(pypto.amax(x, dim=-1, keepdim=True), [8, 64])


@pytest.mark.parametrize("body", [silu, gated_tanh, softmax, rms_norm, row_sums_halved, wide_rows, product,
                                  product_plus_scaled])
def test_look_alikes_are_not_matched(body):
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 64)
        pypto.set_cube_tile_shapes([64, 64], [64, 64], [64, 64])
        body(x, out)

    rows = 64 if body in (product, product_plus_scaled) else 8
    with collected():
        assert names(traced(kernel, (rows, 64), (rows, 64))) == []


def test_exp_form_of_gelu_and_pairwise_rotation():
    @pypto.frontend.jit
    def gelu(x: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 64)
        inner = (x + x * x * x * 0.044715) * 1.5957691216
        out[:] = x * pypto.sigmoid(inner)

    @pypto.frontend.jit
    def rotate(x: pypto.Tensor(), cos: pypto.Tensor(), sin: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 64)
        a, b = pypto.view(x, [8, 32], [0, 0]), pypto.view(x, [8, 32], [0, 32])
        out[:] = pypto.concat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    assert names(traced(gelu, (8, 64), (8, 64))) == ["gelu"]
    assert names(traced(rotate, (8, 64), (8, 32), (8, 32), (8, 64))) == ["rope"]


def test_explore_says_when_nothing_matches(tmp_path, capsys):
    script = tmp_path / "silu.py"
    script.write_text("import pypto_sim as pypto\n\n@pypto.frontend.jit\n"
                      "def silu(x: pypto.Tensor([8, 64], pypto.DT_FP32), out: pypto.Tensor([8, 64], pypto.DT_FP32)):\n"
                      "    pypto.set_vec_tile_shapes(8, 64)\n    out[:] = x * pypto.sigmoid(x)\n")
    assert main(["explore", f"{script}:silu"]) == 0
    assert "no operator of the guide matches" in capsys.readouterr().out


def test_explore_prices_the_strategies_and_runs_nothing(monkeypatch, capsys):
    from pypto_sim.strategies import check
    monkeypatch.setattr(check, "launch", lambda *a: pytest.fail("explore ran a strategy"))
    assert main(["explore", f"{SCRIPTS / 'gelu_tanh.py'}:gelu_tanh_kernel"]) == 0
    out = capsys.readouterr().out
    assert "gelu: tanh gelu_tanh.py:18" in out and "decided by time" in out
    assert "sigmoid is a coarser form: up to 2.0e-02 from the exact result" in out
