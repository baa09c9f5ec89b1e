"""The comparison object, its JSON form, and the command line."""
import json
import re
import subprocess
import sys

import pytest

import pypto_sim as pypto
from pypto_sim.cli import main
from pypto_sim.commands import diff
from pypto_sim.commands.shared import write
from pypto_sim.errors import PyptoKeyError
from pypto_sim.strategies import catalogue, compare
from pypto_sim.strategies.guide import CLAIMS, presets_to_run

SMALL = {"gelu": {"width": 512}, "linear": {"hidden": 64, "ffn": 96}, "mean": {"width": 256},
         "embedding": {"vocab": 64, "width": 64}, "moe_routing": {"experts": 32, "width": 64}, "rope": {"heads": 4},
         "attention": {"kv": 256, "heads": 4, "kv_heads": 2, "dim": 32, "v_dim": 32},
         "repeat_kv": {"kv": 256, "heads": 4, "kv_heads": 2, "dim": 32, "v_dim": 32}}
STRATEGY_KEYS = {"id", "label", "verdict", "reason", "recommended", "accuracy", "estimate", "points", "constraints",
                 "alternative", "complexity"}


@pytest.fixture(scope="module")
def results():
    return {name: compare(name, "decode", set=SMALL[name], quick=True, claims=False).to_dict()
            for name in catalogue.OPERATORS}


@pytest.mark.parametrize("name", catalogue.OPERATORS)
def test_json_has_the_documented_keys(results, name):
    run = results[name]
    assert set(run) == {"schema", "operator", "phase", "device", "model", "config", "strategies", "recommendation",
                        "claims"}
    assert run["schema"] == 1 and run["phase"] == "decode" and run["device"] == "910b1"
    assert set(run["config"]) == {"preset", "sizes", "dtype", "tiles"}
    assert run["config"]["preset"] == catalogue.module(name).PRESETS[0].name
    for one in run["strategies"]:
        assert set(one) == STRATEGY_KEYS
        assert set(one["complexity"]) == {"ops", "loops", "state_tensors", "begin_end", "chip_only", "maturity"}
        assert one["complexity"]["ops"] > 0
        if one["verdict"] == "pass":
            assert {"max_abs", "max_rel", "max_ulp", "rtol", "atol"} <= set(one["accuracy"])
            assert one["estimate"]["time_us"] > 0 and one["points"]
            assert all(set(p) == {"size", "estimate", "reason"} for p in one["points"])
            assert all(set(c) == {"rule", "met", "severity", "text", "line"} for c in one["constraints"])
    json.dumps(run)


@pytest.mark.parametrize("name", catalogue.OPERATORS)
def test_all_pass_and_the_recommended_one_is_the_fastest(results, name):
    run = results[name]
    assert [s["verdict"] for s in run["strategies"] if s["verdict"] == "fail"] == []
    chosen = run["recommendation"]["id"]
    assert [s["id"] for s in run["strategies"] if s["recommended"]] == [chosen]
    assert run["recommendation"]["because"]


def test_not_applicable_says_why(results):
    verdicts = {s["id"]: s for s in results["attention"]["strategies"]}
    assert verdicts["sparse_flash"]["verdict"] == "not_applicable" and verdicts["sparse_flash"]["reason"]["text"]
    assert verdicts["sparse_flash"]["accuracy"] is None and verdicts["sparse_flash"]["points"] == []


def test_complexity_is_read_off_the_kernels(results):
    known = {s["id"]: s["complexity"] for s in results["attention"]["strategies"]}
    assert known["whole_row"]["state_tensors"] == 0 and not known["whole_row"]["begin_end"]
    assert known["online"]["state_tensors"] == 3 and known["online"]["begin_end"]
    assert known["whole_row"]["ops"] < known["online"]["ops"]
    assert known["online"]["chip_only"] == []


def test_constraints_name_the_rules_of_other_versions(results):
    gather = next(s for s in results["embedding"]["strategies"] if s["id"] == "gather")
    broken = {c["rule"] for c in gather["constraints"] if not c["met"]}
    assert "gather.embedding" in broken
    index = next(s for s in results["embedding"]["strategies"] if s["id"] == "index_select")
    assert not [c for c in index["constraints"] if not c["met"]] and any(c["met"] for c in index["constraints"])


@pytest.mark.parametrize("call, word", [
    (lambda: compare("atention"), "attention"), (lambda: compare("gelu", "both"), "prefill"),
    (lambda: compare("gelu", preset="gpt"), "gemma4-31b"), (lambda: compare("gelu", set={"rowz": 3}), "rows"),
    (lambda: compare("gelu", model="exact"), "calibrated"), (lambda: compare("gelu", set={"tokens": "x"}), "int")])
def test_unknown_words_list_the_known_ones(call, word):
    with pytest.raises(KeyError, match=word):
        call()


def test_unknown_device():
    with pytest.raises(ValueError, match="910b1"):
        compare("gelu", device="910b9")


def test_claims_are_those_of_the_specification(shared_dir):
    text = (shared_dir / "STRATEGIES.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| ([a-z_]+\.[a-z_0-9]+) \|", text, re.M))
    ours = {c.id for n in catalogue.OPERATORS for c in catalogue.module(n).CLAIMS} | {c.id for c in CLAIMS}
    assert ours == listed


def test_strategies_are_those_of_the_specification(shared_dir):
    text = (shared_dir / "STRATEGIES.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \w* ?\| [A-D] `(\w+)`|^\| \w+ \| [A-D] `(\w+)`", text, re.M)
    names = [a or b for a, b in listed]
    assert names == [s.id for n in catalogue.OPERATORS for s in catalogue.module(n).STRATEGIES]


def test_quick_guide_covers_every_strategy():
    for name in catalogue.OPERATORS:
        module = catalogue.module(name)
        assert presets_to_run(module, "decode", False)
        assert len(presets_to_run(module, "decode", True)) <= len(presets_to_run(module, "decode", False))
    assert presets_to_run(catalogue.module("attention"), "decode", True) == ["gemma4-31b", "deepseek-v3.2"]
    assert presets_to_run(catalogue.module("rope"), "prefill", True) == ["qwen3-1.7b", "interleaved"]


def test_command_line_compare(capsys):
    code = main(["compare", "mean", "--set", "width=256", "tokens=4", "--json"])
    out = capsys.readouterr()
    found = json.loads(out.out)
    assert code == 0 and found["operator"] == "mean" and found["config"]["sizes"] == {"tokens": 4, "width": 256}
    assert len(found["strategies"][0]["points"]) == 1 and found["claims"] and out.err == ""


def test_command_line_table_and_report(capsys, tmp_path):
    assert main(["compare", "gelu", "--set", "width=512", "-o", str(tmp_path / "a" / "r.md"), "--lang", "zh"]) == 0
    assert "recommended" not in capsys.readouterr().out
    text = (tmp_path / "a" / "r.md").read_text(encoding="utf-8")
    assert "推荐" in text and "pypto-sim compare gelu --phase decode" in text and "gelu.tanh_error" in text


@pytest.mark.parametrize("words", [["compare", "nope"], ["compare", "gelu", "--set", "x=1"], ["devices", "zzz"],
                                   ["ops", "matmull"], ["nope"], ["compare", "gelu", "--phase", "x"], ["run", "no.py"],
                                   ["compare"], ["compare", "gelu", "--set", "tokens"], ["diff", "a.json", "b.json"]])
def test_usage_errors(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("pypto-sim")


def test_help_has_three_examples(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert out.count("\n  pypto-sim ") == 3


def test_listings(capsys):
    assert main(["devices", "--json"]) == 0
    assert [d["name"] for d in json.loads(capsys.readouterr().out)][0] == "910b1"
    assert main(["devices", "950pr", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"]["capacity.ub"]["value"] == 253952
    assert main(["ops", "--json"]) == 0
    assert {"matmul", "topk"} <= {o["name"] for o in json.loads(capsys.readouterr().out)}
    assert main(["ops", "matmul"]) == 0
    assert "bias_tensor" in capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    assert {"isa", "threads", "versions", "devices"} <= set(json.loads(capsys.readouterr().out))


SCRIPT = """
import numpy as np
import pypto_sim as pypto
@pypto.frontend.jit
def softmax_kernel(x: pypto.Tensor([pypto.DYNAMIC, 64], pypto.DT_FP32),
                   out: pypto.Tensor([pypto.DYNAMIC, 64], pypto.DT_FP32)):
    for i in pypto.loop((x.shape[0] + 7) // 8):
        pypto.set_vec_tile_shapes(8, 64)
        t = pypto.view(x, [8, 64], [i * 8, 0])
        e = pypto.exp(pypto.sub(t, pypto.amax(t, dim=-1, keepdim=True)))
        pypto.assemble(pypto.div(e, pypto.sum(e, dim=-1, keepdim=True)), [i * 8, 0], out)
if __name__ == "__main__":
    x = np.zeros((20, 64), np.float32); out = np.zeros_like(x)
    softmax_kernel(x, out)
    print("sum", out.sum())
"""


def test_run_profile_explore_and_diff(tmp_path, capsys):
    script = tmp_path / "kern.py"
    script.write_text(SCRIPT, encoding="utf-8")
    assert main(["run", str(script)]) == 0
    assert "sum 20.0" in capsys.readouterr().out
    assert main(["profile", str(script), "-o", str(tmp_path / "p")]) == 0
    assert "merged_swimlane.json" in capsys.readouterr().out
    profile = json.loads((tmp_path / "p" / "estimate.json").read_text())
    assert profile["launches"][0]["kernel"] == "softmax_kernel" and (tmp_path / "p" / "report.md").is_file()
    assert sorted(p.name for p in (tmp_path / "p").iterdir()) == [
        "estimate.json", "merged_swimlane.json", "pipe.swim.json", "report.md", "swim.json"]

    assert main(["explore", f"{script}:softmax_kernel", "--arg", "x=20x64", "out=20x64", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"exp", "amax", "sum", "div"} <= {o["name"] for o in found["operations"]}
    assert set(found["profiles"]) == {"lenient", "0.2", "master", "guide"} and found["estimate"]["time_us"] > 0
    assert found["complexity"]["loops"] == 1
    assert main(["explore", f"{script}:nothing"]) == 2
    assert "softmax_kernel" in capsys.readouterr().err

    base = tmp_path / "p" / "estimate.json"
    assert main(["diff", str(base), str(base)]) == 0
    slower = json.loads(base.read_text())
    slower["launches"][0]["estimate"]["time_us"] *= 1.08
    new = tmp_path / "new.json"
    new.write_text(json.dumps(slower))
    assert main(["diff", str(base), str(new), "--fail-over", "5%"]) == 1
    assert main(["diff", str(base), str(new), "--fail-over", "10"]) == 0
    for wrong in ("-3", "nan", "much"):
        assert main(["diff", str(base), str(new), f"--fail-over={wrong}"]) == 2
        assert "at least 0" in capsys.readouterr().err
    slower["launches"][0]["kernel"] = "renamed_kernel"
    new.write_text(json.dumps(slower))
    assert main(["diff", str(base), str(new)]) == 1                    # a budget that nothing is held against
    assert "nothing was compared" in capsys.readouterr().err
    new.write_text('{"launches": [{"kernel": "k"}]}')
    assert main(["diff", str(base), str(new)]) == 2
    assert "'estimate'" in capsys.readouterr().err


def test_profile_refuses_a_folder_that_cannot_be_made_before_the_script_runs(tmp_path, capsys):
    script, taken = tmp_path / "s.py", tmp_path / "taken"
    script.write_text("raise SystemExit('it ran')")
    taken.write_text("a file")
    assert main(["profile", str(script), "-o", str(taken)]) == 2
    assert str(taken) in capsys.readouterr().err
    with pytest.raises(PyptoKeyError, match="can be written"):
        write(str(taken / "report.md"), "text")


def test_module_entry_point():
    done = subprocess.run([sys.executable, "-m", "pypto_sim", "devices"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "910b1" in done.stdout and done.stderr == ""


def test_import_pulls_in_no_optional_package():
    code = ("import sys, pypto_sim; bad = {'torch', 'rich', 'jinja2', 'matplotlib'} & set(sys.modules); "
            "print(sorted(bad)); raise SystemExit(bool(bad))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert pypto.strategies.OPERATORS == catalogue.OPERATORS


def test_a_launch_that_is_gone_does_not_shift_the_others():
    def launch(kernel, time_us):
        return {"kernel": kernel, "estimate": {"time_us": time_us, "gm_read_bytes": 1, "gm_write_bytes": 1}}

    launches = [launch("a", 1.0), launch("b", 2.0), launch("a", 3.0), launch("c", 4.0)]
    base, new = diff.entries({"launches": launches}), diff.entries({"launches": launches[:1] + launches[2:]})
    assert len(base) == 4 and set(new) < set(base)
    assert all(new[key] == base[key] for key in new)
