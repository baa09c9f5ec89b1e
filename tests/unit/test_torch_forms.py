"""PyPTO forms of torch operations: every printed script runs and agrees with torch."""
import json
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.cli import main
from pypto_sim.torch_forms import FORMS, find
from pypto_sim.torch_forms.base import plain

TOOL = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools" / "make_torch_docs.py"))
WANTED = """nn.GELU nn.Linear nn.Embedding softmax sigmoid silu layer_norm rms_norm mean repeat repeat_interleave
masked_fill where topk cat chunk split stack cumsum roll squeeze glu matmul bmm transpose gather index_select
arange tril triu clamp rsqrt relu tanh argmax sort nn.Conv1d nn.Conv2d F.conv3d scaled_dot_product_attention
causal_attention""".split()


def run(form, profile, folder):
    """Names of the script after a run in which every warning is an error."""
    path = folder / "script.py"
    path.write_text(form.script)
    with pypto.config(profile=profile), warnings.catch_warnings():
        warnings.simplefilter("error", pypto.PyptoWarning)
        return runpy.run_path(str(path))


@pytest.mark.parametrize("name, version", [(n, v) for n, f in FORMS.items() for v in f.versions])
def test_script_agrees_with_torch(name, version, tmp_path):
    torch = pytest.importorskip("torch")
    form = FORMS[name]
    found = run(form, version, tmp_path)
    inputs = {n: torch.from_numpy(found[n]) for n in form.inputs}
    want = eval(form.torch, {"torch": torch, "F": torch.nn.functional}, inputs)
    want = [want] if isinstance(want, torch.Tensor) else list(want)
    outs = ["out"] if len(want) == 1 else [f"out{i}" for i in range(len(want))]
    assert len(form.outputs) == len(want)
    for out, golden in zip(outs, want, strict=True):
        assert found[out].shape == tuple(golden.shape)
        np.testing.assert_allclose(found[out], golden.numpy(), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", [n for n, f in FORMS.items() if "0.2" not in f.versions])
def test_a_version_not_listed_refuses(name, tmp_path):
    with pytest.raises(pypto.PyptoError) as caught:
        run(FORMS[name], "0.2", tmp_path)
    assert caught.value.rule == "api.version"


def test_every_wanted_operation_is_listed():
    assert {find(n).kind for n in WANTED} == {"atomic", "composed"}


def test_an_alias_names_one_form():
    aliases = [alias for form in FORMS.values() for alias in {plain(n) for n in form.names}]
    assert len(aliases) == len(set(aliases))


@pytest.mark.parametrize("name, kind, operations", [
    ("torch.nn.functional.softmax", "atomic", ["softmax"]), ("F.silu", "composed", ["sigmoid", "mul"]),
    ("nn.Linear", "atomic", ["matmul"]), ("squeeze", "atomic", ["reshape"]),
])
def test_kind_and_operations(name, kind, operations):
    assert (find(name).kind, find(name).operations) == (kind, operations)


def test_command(capsys):
    assert main(["ops", "--torch", "nn.GELU", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert page["kind"] == "composed" and "erf" in page["operations"] and page["versions"] == ["master"]
    assert main(["ops", "--torch", "nn.GELU"]) == 0
    printed = capsys.readouterr().out
    assert all(line in printed for line in page["script"].splitlines())


def test_command_names_near_ones(capsys):
    assert main(["ops", "--torch", "nn.Gelo"]) == 2
    assert "nn.GELU" in capsys.readouterr().err


def test_docs_are_current():
    assert TOOL["PATH"].read_text() == TOOL["text"](), "run python tools/make_torch_docs.py"
