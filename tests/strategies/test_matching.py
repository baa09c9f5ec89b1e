"""The guide's own snippets are recognised as its operators."""
from pathlib import Path

import pytest

from pypto_sim.strategies.base import Launch
from pypto_sim.strategies.complexity import operations_of
from pypto_sim.strategies.explore import arguments_of, load
from pypto_sim.strategies.matching import matching_operator

SCRIPTS = Path(__file__).resolve().parents[1] / "guide_scripts"
CASES = [("gelu_tanh.py:gelu_tanh_kernel", "gelu"), ("embedding.py:embedding_kernel", "embedding"),
         ("linear_bias.py:linear_kernel", "linear"), ("mean.py:mean_kernel", "mean"),
         ("moe_gate.py:moe_routing_kernel", "moe_routing"), ("online_attention.py:decode_kernel", "attention"),
         ("repeat_kv.py:repeat_kv_kernel", "repeat_kv"), ("rope.py:rope_kernel", "rope")]


@pytest.mark.parametrize("target, operator", CASES)
def test_snippet_is_recognised(target, operator):
    _, kernel = load(f"{SCRIPTS / target}")
    specs, _ = arguments_of(kernel, {})
    names = operations_of(Launch(kernel, tuple(specs)), specs, moves=True)
    assert matching_operator(names) == operator, names
