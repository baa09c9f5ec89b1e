"""Recommendation rules on made-up costs; what a recommendation says beside them."""
import sys

from pypto_sim.cli import main
from pypto_sim.run.error_band import measured
from pypto_sim.strategies import catalogue, compare
from pypto_sim.strategies.recommend import Candidate, ModelError, recommend

SIZES = [{"kv": 1}, {"kv": 2}, {"kv": 4}]


def candidate(name, times, bytes_=100, ops=10):
    return Candidate(name, tuple(None if t is None else (t, bytes_) for t in times), ops)


def test_time_decides():
    found, because = recommend([candidate("a", (10, 20, 30)), candidate("b", (5, 21, 29))], SIZES, {})
    assert found == "b" and any("decided by time" in t for t in because)


def test_bytes_decide_within_two_percent_and_then_operations():
    slow, fast = candidate("a", (10.1, 20, 30), 90), candidate("b", (10, 20, 30), 100)
    assert recommend([slow, fast], SIZES, {})[0] == "a"
    few, many = candidate("a", (10, 20, 30), 100, 5), candidate("b", (10, 20, 30), 101, 4)
    assert recommend([few, many], SIZES, {})[0] == "b"


def test_a_capacity_failure_excludes_from_that_size_on():
    row, online = candidate("row", (1, 2, None)), candidate("online", (10, 20, 30))
    found, because = recommend([row, online], SIZES, {"row": (2, "UB overflow")})
    text = "\n".join(because)
    assert found == "online"
    assert "row is excluded from kv 4 on: UB overflow" in text and "up to kv 2 row would be faster (x10.00)" in text


def test_nothing_left():
    assert recommend([], SIZES, {})[0] is None
    assert recommend([candidate("a", (1, None, None))], SIZES, {"a": (1, "too big")})[0] is None


def test_gelu_says_how_far_each_form_is_from_the_exact_function():
    because = compare("gelu", "decode", quick=True, claims=False).recommendation["because"]
    (line,) = [text for text in because if "exact function" in text]
    assert "erf 0.0e+00" in line and "tanh 4.7e-04" in line and "sigmoid 2.0e-02" in line


ERROR = ModelError(0.13, "median over published matrix products")


def test_a_difference_within_the_models_error_is_a_tie():
    slow = Candidate("slow", ((10.4, 90), (21, 90)), 10, workspace=100)
    fast = Candidate("fast", ((10, 100), (20, 100)), 10)
    found, because = recommend([slow, fast], SIZES[:2], {}, ERROR)
    (text,) = [t for t in because if t.startswith("decided by")]
    assert found == "slow" and text.startswith("decided by GM bytes: no difference in time beyond the model's error of "
                                               "13 % (median over published matrix products) between slow, fast")
    assert recommend([slow, Candidate("fast", ((8, 100), (16, 100)), 10)], SIZES[:2], {}, ERROR)[0] == "fast"


def test_ties_go_by_form_then_memory_then_operations_and_stay_open_when_all_is_equal():
    def one(name, **values):
        return Candidate(name, ((10, 100),), **{"ops": 5, **values})
    assert recommend([one("a", form_error=1e-2, workspace=0), one("b", form_error=1e-4, workspace=9)], SIZES[:1], {},
                     ERROR)[0] == "b"
    assert recommend([one("a", workspace=9), one("b", ops=7)], SIZES[:1], {}, ERROR)[0] == "b"
    assert recommend([one("a", ops=7), one("b", refusals=lambda: 3)], SIZES[:1], {}, ERROR)[0] == "b"
    assert recommend([one("a", refusals=lambda: 3), one("b")], SIZES[:1], {}, ERROR)[0] == "b"
    found, because = recommend([one("a"), one("b")], SIZES[:1], {}, ERROR)
    assert found == "a" and any(t.startswith("left open: no difference in time") for t in because)


def test_sizes_that_disagree_are_no_tie_and_are_named():
    short, long = candidate("short", (10, 20, 60)), candidate("long", (14, 22, 40))
    found, because = recommend([short, long], SIZES, {}, ERROR)
    assert found == "short" and any(t.startswith("decided by time") for t in because)
    assert "long is faster at 1 of 3 sizes, most at kv 4 (x1.50)" in because


def test_the_error_is_that_of_the_operator_and_device():
    run = compare("linear", "decode", quick=True, claims=False)
    median = measured()["gemm"]["A2A3"]["median"]
    assert run.rows[0].estimate["error_medians"] == {"gemm": median}
    assert any(f"the model's error of {100 * median:.0f} %" in t for t in run.recommendation["because"])
    official = compare("linear", "decode", set={"hidden": 64, "ffn": 96}, quick=True, claims=False, model="official")
    assert official.rows[0].estimate["error_medians"] == {}


def test_attention_takes_the_error_of_its_phase():
    both = [{"error_medians": {"decode_attention": 0.03, "prefill_attention": 0.24}}]
    assert ModelError.of(both, "decode").share == 0.03 and ModelError.of(both, "prefill").share == 0.24
    assert "not held against" in str(ModelError.of([{"error_medians": {}}], "decode"))


def test_guide_names_device_model_claims_and_coarser_forms(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(catalogue, "OPERATORS", ("gelu",))
    monkeypatch.setattr(sys.modules["pypto_sim.strategies.guide"], "CLAIMS", ())
    report = tmp_path / "r.md"
    assert main(["guide", "--quick", "--device", "950pr", "-o", str(report)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("Decision table: 950pr, model calibrated")
    table = out.partition("What the guide says")[0]
    assert "is a coarser form" in " ".join(table.split())
    assert "gelu.tanh_error: the tanh form differs by about 1e-3" in " ".join(out.split())
    head = report.read_text(encoding="utf-8").splitlines()[2]
    assert head.startswith("Conditions: 950pr, model calibrated; median error against published times: streaming")
