"""Comparators: ULP, relative with outliers, top-k with ties; NaN; what a failure says."""
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto_sim import PyptoError
from pypto_sim.testing import (
    assert_relative,
    assert_topk,
    assert_ulp,
    compare_relative,
    compare_topk,
    compare_ulp,
)

BF16 = ml_dtypes.bfloat16
NAN, INF = float("nan"), float("inf")


@given(st.integers(-20, 20), st.sampled_from([np.float32, np.float16, BF16]))
def test_ulp_counts_steps_of_the_results_type(steps, dtype):
    golden = np.array([1.5, -3.0, 640.0])
    spacing = 2.0 ** (np.floor(np.log2(np.abs(golden))) - ml_dtypes.finfo(dtype).nmant)
    result = (golden + steps * spacing).astype(dtype)
    found = compare_ulp(result, golden, 8)
    assert found.passed == bool(found) == (abs(steps) <= 8)
    assert found.wrong == (3 if abs(steps) > 8 else 0) and found.worst == abs(steps) / 8


def test_ulp_takes_any_array():
    torch = pytest.importorskip("torch")
    golden = np.array([[1.0, 2.0], [3.0, 4.0]])
    for result in (torch.tensor(golden).bfloat16(), torch.tensor(golden).half().T.contiguous().T, golden.tolist(),
                   torch.tensor(golden, requires_grad=True), golden.astype(ml_dtypes.float8_e4m3fn)):
        assert compare_ulp(result, torch.tensor(golden), 0)
    assert compare_ulp(np.int8([1, -2]), [1, -2], 0) and not compare_ulp(np.int8([1, -2]), [1, -1], 0)
    assert compare_ulp(torch.tensor([True, False]), [True, False], 0)
    assert compare_ulp(np.full((2, 2), 3, BF16), 3.0) and compare_ulp(np.float32([]), [])
    with pytest.raises(PyptoError):
        compare_ulp(["a"], [1.0])
    with pytest.raises(AssertionError, match=r"the result is \[2, 2\], the golden \[2\]"):
        compare_ulp(golden, golden[0])


def test_nan_and_inf_must_stand_where_the_golden_has_them():
    special = np.float32([NAN, INF, -INF, 1])
    for compare in (lambda a, b: compare_ulp(a, b, 100), lambda a, b: compare_relative(a, b, 0.5, 10, outliers=1)):
        assert compare(special, special.astype(np.float64))
        for wrong in ([0, INF, -INF, 1], [NAN, 1e30, -INF, 1], [NAN, -INF, -INF, 1], [NAN, INF, -INF, NAN]):
            found = compare(np.float32(wrong), special)
            assert not found and found.wrong == 1 and "inf" in str(found)
    found = compare_ulp(np.float32([NAN, 0, NAN]), [NAN, NAN, 0], 1)
    assert "NaN: 1 where the golden has none, 1 missing" in str(found)


def test_outlier_budget():
    golden = np.ones(100)
    result = golden.copy()
    result[:3] = 1.5
    assert compare_relative(result, golden, 0.01, outliers=0.03) and not compare_relative(result, golden, 0.01)
    assert not compare_relative(result, golden, 0.01, outliers=0.029)
    assert not compare_relative(result, golden, 0.01, outliers=0.03, outlier_factor=40)
    assert compare_relative(result, golden, 0.01, outliers=0.03, outlier_factor=51)
    result[0] = NAN
    assert not compare_relative(result, golden, 0.01, outliers=0.5)
    assert compare_ulp(np.float32(golden + 1e-3 * (np.arange(100) == 7)), golden, 1, outliers=0.01)
    with pytest.raises(ValueError, match="share"):
        compare_relative(result, golden, 0.01, outliers=5)


def test_relative_and_absolute_limits():
    assert compare_relative([1.01, 0.001], [1.0, 0.0], 0.01 + 1e-12, 0.001)
    assert not compare_relative([0.001], [0.0], 0.5) and compare_relative([0.0], [0.0], 0.0)
    assert compare_ulp(np.float32([1e-8]), [0.0], 1, atol=1e-7) and not compare_ulp(np.float32([1e-8]), [0.0], 1)


def test_a_failure_shows_the_worst_elements():
    golden = np.arange(1.0, 25).reshape(4, 6)
    result = golden.astype(np.float32)
    result[2, 3] += 1
    result[0, 1] += 0.25
    with pytest.raises(AssertionError) as caught:
        assert_relative(result, golden, 1e-3)
    lines = str(caught.value).splitlines()
    assert lines[0] == ("compare_relative: 2 of 24 elements are further off than 0.001 relative, 0 may be; worst 125 x "
                        "the limit")
    assert lines[1].split() == ["index", "result", "golden", "|error|", "relative"]
    assert lines[2].split() == ["[0,", "1]", "2.25", "2", "0.25", "0.125"]
    assert lines[3].split()[:4] == ["[2,", "3]", "17", "16"] and len(lines) == 4
    with pytest.raises(AssertionError, match=r"further off than 1 ULP of bfloat16(.|\n)*\.\.\. and 14 more"):
        assert_ulp(np.zeros(24, BF16), golden.reshape(-1))
    assert_ulp(golden.astype(BF16), golden, 0)
    assert_relative(golden, golden, 0)


SCORES = np.float32([[1, 2, 2, 2, 0, 2, 1, 0], [5, 1, 4, 1, 3, 1, 1, 1]])


@pytest.mark.parametrize("indices", [[[1, 2, 3], [0, 2, 4]], [[5, 3, 2], [0, 2, 4]]])
def test_topk_takes_ties_in_any_order(indices):
    values = np.take_along_axis(SCORES, np.array(indices), -1)
    for v, i in ((values, indices), (values, None), (None, indices)):
        assert compare_topk(v, i, SCORES)
        assert_topk(v, i, SCORES)


@pytest.mark.parametrize("values, indices, text", [
    ([[2, 2, 2], [5, 4, 3]], [[1, 2, 2], [0, 2, 4]], "an index twice"),
    ([[2, 2, 2], [5, 4, 3]], [[1, 2, 8], [0, 2, 4]], "index out of 0..7"),
    ([[2, 2, 2], [5, 4, 3]], [[1, 2, 0], [0, 2, 4]], "values are not the scores at the indices"),
    ([[2, 2, 1], [5, 4, 3]], [[1, 2, 0], [0, 2, 4]], "not the best"),
    ([[2, 2, 2], [5, 3, 4]], [[1, 2, 3], [0, 4, 2]], "not in order"),
    ([[2, 2, 2], [5, 4, NAN]], None, "not the best"),
])
def test_topk_mistakes(values, indices, text):
    with pytest.raises(AssertionError, match=f"(?s)1 of 2 rows are no top 3 of 8.*{text}"):
        assert_topk(np.float32(values), indices, SCORES)


def test_topk_options():
    assert compare_topk([[2, 2, 2], [5, 3, 4]], [[1, 2, 3], [0, 4, 2]], SCORES, sorted=False)
    assert compare_topk([[0, 0], [1, 1]], [[4, 7], [1, 3]], SCORES, largest=False)
    assert compare_topk(SCORES.T[[1, 2]][:, :1], None, SCORES.T[:, :1], dim=0)
    assert compare_topk([[NAN, 3]], [[1, 0]], np.float32([[3, NAN, 1]]))
    near = np.float32([[1.0, 1.0005, 0.5]])
    assert not compare_topk(None, [[0]], near) and compare_topk(None, [[0]], near, rtol=1e-3)
    with pytest.raises(AssertionError, match="shapes do not fit"):
        compare_topk([[1, 2]], [[1]], near)
    with pytest.raises(ValueError, match="values, indices or both"):
        compare_topk(None, None, near)
