"""Recommendation rules on made-up costs; what a recommendation says beside them."""
from pypto_sim.strategies import compare
from pypto_sim.strategies.recommend import Candidate, recommend

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
