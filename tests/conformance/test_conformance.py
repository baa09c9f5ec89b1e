"""The conformance tool: a slice of the public cases, and that it finds what is wrong."""
import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "conformance.py"
OUTCOMES = ("passed", "passed_reduced", "error_as_expected", "failed", "skipped")
SAMPLE = 400


def tool(*args):
    """(exit code, JSON result) of a run of the tool."""
    command = [sys.executable, str(TOOL), *map(str, args), "--json", "--processes", "1"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout)


def write(path, **changes):
    """A file with one case."""
    case = {"op": "Add", "case": "one", "inputs": [{"shape": [8, 40], "dtype": "fp32", "range": [-1, 1]}] * 2,
            "outputs": [{"shape": [8, 40], "dtype": "fp32"}], "view_shape": [3, 16], "tile_shape": [2, 16], "attrs": {}}
    path.write_text(json.dumps({**case, **changes}) + "\n")
    return path


def test_a_slice_of_the_cases(shared_dir):
    code, result = tool(shared_dir / "conformance" / "operations.jsonl", "--sample", SAMPLE, "--most", 40000)
    assert result["failures"] == [] and code == 0
    assert sum(result[w] for w in OUTCOMES) == SAMPLE
    for groups in (result["per_op"], result["per_dtype"]):
        assert [sum(c[w] for c in groups.values()) for w in OUTCOMES] == [result[w] for w in OUTCOMES]
    assert len(result["per_op"]) > 100 and len(result["skips"]) == result["skipped"] <= SAMPLE * 0.04


def test_one_case_passes(tmp_path):
    code, result = tool(write(tmp_path / "c.jsonl"))
    assert code == 0 and result["passed"] == 1 and result["per_op"]["Add"]["passed"] == 1


@pytest.mark.parametrize(("changes", "word", "reason"), [
    ({"op": "Gem"}, "skipped", "not in the table"),
    ({"outputs": [{"shape": [8, 41], "dtype": "fp32"}]}, "failed", ""),
    ({"inputs": [{"shape": [0, 40], "dtype": "fp32", "range": [0, 1]}] * 2, "outputs": [{"shape": [0, 40],
      "dtype": "fp32"}]}, "error_as_expected", None)])
def test_other_outcomes(tmp_path, changes, word, reason):
    code, result = tool(write(tmp_path / "c.jsonl", **changes))
    assert result[word] == 1 and code == (1 if word == "failed" else 0)
    listed = result["failures"] + result["skips"]
    assert len(listed) == (reason is not None)
    if listed:
        assert listed[0]["line"] == 1 and reason in listed[0]["reason"]


def test_a_file_of_another_form_is_refused(tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"op": "Add"}\n')
    run = subprocess.run([sys.executable, str(TOOL), str(tmp_path / "bad.jsonl")], capture_output=True, text=True,
                         check=False)
    assert run.returncode == 2 and "bad.jsonl:1" in run.stderr


@pytest.fixture(scope="module")
def modules():
    """The modules behind the tool."""
    runpy.run_path(str(TOOL))
    from conform import cases, compare, draw
    return cases, compare, draw


def test_large_cases_are_cut(modules, tmp_path):
    cases, _, _ = modules
    from conform.row import TABLE
    from conform.run import shortened
    shape = [70000, 1000]
    spec = {"shape": shape, "dtype": "fp32", "range": [0, 1]}
    (case,) = cases.read_cases(write(tmp_path / "c.jsonl", inputs=[spec, {**spec, "shape": [1, 1000]}],
                                     outputs=[{"shape": shape, "dtype": "fp32"}]))
    small = shortened(case, TABLE["Add"])
    assert small.reduced and small.elements <= 2**26 < case.elements
    assert small.ins[1].shape == (1, 1000) and small.outs[0].shape == small.ins[0].shape


@pytest.mark.parametrize(("got", "ulp", "fails"), [
    (np.float32(1), 0, False), (np.nextafter(np.float32(1), np.float32(2)), 0, True),
    (np.nextafter(np.float32(1), np.float32(2)), 1, False), (np.float32(np.nan), 9, True),
    (np.float32(np.inf), 9, True)])
def test_comparison(modules, got, ulp, fails):
    _, compare, _ = modules
    result = compare.check(np.array([0, got], np.float32), compare.Expected(np.array([0.0, 1.0]), ulp))
    assert bool(result) == fails


def test_comparison_knows_special_values(modules):
    _, compare, _ = modules
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 3.4028235e38], np.float32)
    want = np.array([np.nan, np.inf, -np.inf, 0.0, 3.5e38])
    assert compare.check(special, compare.Expected(want, 1)) == ""
    assert "2 of 5" not in compare.check(special[::-1].copy(), compare.Expected(want, 1)) != ""


@pytest.mark.parametrize("value", [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-40, 3.39e38, 1e-40, 0.0, -2.5])
def test_rounding_to_bf16_is_single(modules, value):
    import ml_dtypes
    cases, _, _ = modules
    near = float(cases.rounded(np.array([value]), np.dtype(ml_dtypes.bfloat16))[0])
    step = max(abs(value) * 2.0**-8, 2.0**-134) * 1.0001
    assert abs(near - value) <= step
    if value == 1 + 2.0**-8 + 2.0**-40:
        assert near == 1 + 2.0**-7                               # fp32 in between would fall back to 1
    assert float(np.float32(near).astype(ml_dtypes.bfloat16)) == near


def test_inputs_follow_their_range(modules):
    cases, _, draw = modules
    rng = np.random.default_rng(0)
    spec = lambda dtype, low, high: cases.Spec((1000,), dtype, "ND", low, high)
    assert set(np.unique(draw.draw(rng, spec("uint8", -2, 2)))) == {0, 1, 255}
    assert draw.draw(rng, spec("int32", "nan", "nan")).tolist() == [-2**31] * 1000
    assert np.all(draw.draw(rng, spec("fp32", 5, -5)) < 5)
    assert draw.draw(rng, spec("fp16", 3, 3)).tolist() == [3.0] * 1000
    assert not draw.draw(rng, spec("bool", 0, 0)).any() and 300 < draw.draw(rng, spec("bool", 1, 1)).sum() < 700
