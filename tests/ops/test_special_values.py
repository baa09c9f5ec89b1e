"""NaN, inf, signed zero and subnormals, and all 65,536 inputs of the 16-bit types."""
import ml_dtypes
import numpy as np
import pytest

from pypto_sim.registry import REGISTRY
from pypto_sim.testing import evaluate, ulp_distance

pytestmark = pytest.mark.filterwarnings("ignore::pypto_sim.errors.PyptoWarning")
F = {n: s.function for n, s in REGISTRY.items()}
BF16, FP16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
UNARY = ("abs", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "erf", "relu", "floor", "ceil", "trunc",
         "round", "sigmoid", "sign", "exp2", "expm1", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
         "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "cbrt")
EXP_OVERFLOW = -88.7228
SIGN_OF_ZERO = ("abs", "neg", "sqrt", "reciprocal", "floor", "ceil", "trunc", "round", "expm1", "log1p", "sin",
                "tan", "asin", "atan", "sinh", "asinh", "atanh", "cbrt")
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3.4028235e38, -3.4028235e38, 1e-45, -1e-45, 1e-38,
                    0.5, -0.5, 2.5, 88.0, -104.0], np.float32)


def all_values(dtype: np.dtype) -> np.ndarray:
    """Every bit pattern, [256, 256]."""
    return np.arange(65536, dtype=np.uint16).view(dtype).reshape(256, 256)


@pytest.mark.parametrize("name", UNARY)
def test_special_fp32_values(name):
    (got,) = evaluate(F[name], SPECIAL[None], tile=(1, 32))
    with np.errstate(all="ignore"):
        want = REGISTRY[name].reference(SPECIAL.astype(np.float64))[None]
    assert np.all(ulp_distance(got, want) <= max(REGISTRY[name].ulp, 0.5)), (got, want)
    if name in SIGN_OF_ZERO:
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got)[zero], np.signbit(want)[zero])


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("name", UNARY)
def test_all_inputs_of_16_bits(name, dtype):
    x = all_values(dtype)
    (got,) = evaluate(F[name], x, tile=(16, 256))
    with np.errstate(all="ignore"):
        want = REGISTRY[name].reference(x.astype(np.float64))
        if name == "sigmoid":                    # exp(-x) overflows fp32 inside the composite
            want = np.where(x.astype(np.float64) < EXP_OVERFLOW, 0.0, want)
    distance = ulp_distance(got, want)
    bound = 0.5 + REGISTRY[name].ulp * 2.0 ** (-16 if dtype == BF16 else -13)
    worst = np.unravel_index(np.argmax(distance), distance.shape)
    assert np.all(distance <= bound), f"{distance[worst]} ulp at {x[worst]}: {got[worst]} for {want[worst]}"


@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "sub", "mul", "div"])
def test_special_pairs(name):
    a, b = (g.copy() for g in np.meshgrid(SPECIAL, SPECIAL))
    (got,) = evaluate(F[name], a, b, tile=(8, 32))
    with np.errstate(all="ignore"):
        want = REGISTRY[name].reference(a, b)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[~np.isnan(want)], want[~np.isnan(want)])


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_special_values(name):
    a, b = (g.copy() for g in np.meshgrid(SPECIAL, SPECIAL))
    (got,) = evaluate(F[name], a, b, tile=(8, 32))
    np.testing.assert_array_equal(got, REGISTRY[name].reference(a, b))


def test_a_compare_rounds_its_scalar_to_the_tensors_type():
    for dtype in (FP16, BF16):
        x = np.full((1, 64), 0.1, np.float32).astype(dtype)
        assert evaluate(lambda t: F["eq"](t, 0.1), x)[0].all()
        assert not evaluate(lambda t: F["gt"](t, 0.1), x)[0].any()


@pytest.mark.parametrize("name", ["amax", "amin", "sum"])
def test_nan_in_a_reduction_gives_nan(name):
    x = np.ones((8, 256), np.float32)
    x[3, 100] = np.nan
    (got,) = evaluate(lambda t: F[name](t, -1, True), x)
    np.testing.assert_array_equal(np.isnan(got[:, 0]), np.arange(8) == 3)


def test_masked_row_gives_nan_in_softmax():
    x = np.zeros((2, 64), np.float32)
    x[0] = -np.inf
    (got,) = evaluate(lambda t: F["softmax"](t, -1), x)
    assert np.isnan(got[0]).all() and (got[1] == 1 / 64).all()


def test_masks_of_special_values():
    x = SPECIAL[None]
    for name, want in (("isnan", np.isnan(x)), ("isfinite", np.isfinite(x)), ("signbit", np.signbit(x) & ~np.isnan(x))):
        np.testing.assert_array_equal(evaluate(F[name], x, tile=(1, 32))[0], want)
    for dtype in (BF16, FP16):
        x = all_values(dtype)
        nan = np.isnan(x.astype(np.float32))
        for name, want in (("isnan", nan), ("isfinite", np.isfinite(x.astype(np.float32))),
                           ("signbit", (x.view(np.uint16) >= 0x8000) & ~nan)):
            np.testing.assert_array_equal(evaluate(F[name], x, tile=(16, 256))[0], want)


@pytest.mark.parametrize("name", ["fmod", "remainder", "atan2", "hypot", "copysign", "pow", "floor_div"])
def test_special_pairs_of_functions(name):
    a, b = (g.copy() for g in np.meshgrid(SPECIAL, SPECIAL))
    (got,) = evaluate(F[name], a, b, tile=(8, 32))
    with np.errstate(all="ignore"):
        want = np.floor(a / b.astype(np.float64)) if name == "floor_div" else REGISTRY[name].reference(
            a.astype(np.float64), b.astype(np.float64))
    if name == "copysign":                       # the sign of NaN carries no meaning
        got, want = np.where(np.isnan(b), 0, got), np.where(np.isnan(b), 0, want)
    assert np.all(ulp_distance(got, want) <= 0.5 + 1e-9)


def test_integer_edges_wrap():
    low = np.array([[-2**31, -2**31, 7, -7, 2**31 - 1]], np.int32)
    by = np.array([[-1, 3, -2, 2, -2**31]], np.int32)
    pairs = list(zip(low[0].tolist(), by[0].tolist(), strict=True))
    exact = lambda f: np.array([[f(a, b) for a, b in pairs]], np.int64).astype(np.int32)
    for name, f in (("remainder", lambda a, b: a % b), ("floor_div", lambda a, b: a // b),
                    ("ceil_div", lambda a, b: -(-a // b))):
        np.testing.assert_array_equal(evaluate(F[name], low, by)[0], exact(f))


def test_first_nan_is_the_extreme_and_sorts_last():
    x = np.array([[1, np.nan, 5, np.nan], [3, 7, 7, 1]], np.float32)
    assert evaluate(lambda t: F["argmax"](t, -1), x)[0].tolist() == [1, 1]
    assert evaluate(lambda t: F["argmin"](t, -1), x)[0].tolist() == [1, 3]
    assert evaluate(lambda t: F["argsort"](t), x)[0].tolist() == [[0, 2, 1, 3], [3, 0, 1, 2]]


def test_axpy_writes_into_its_first_operand():
    y, x = np.ones((8, 64), np.float32), np.full((8, 1), 2, np.float32)

    def twice(a, b):
        t = F["clone"](a)
        assert F["axpy_"](t, b, 0.5) is t
        return t

    assert (evaluate(twice, y, x)[0] == 2).all() and (y == 1).all()


def test_where_ignores_nan_of_the_other_side():
    cond = np.array([[True, False] * 32])
    bad = np.full((1, 64), np.nan, np.float32)
    (got,) = evaluate(lambda c, a: F["where"](c, 1.0, a), cond, bad)
    np.testing.assert_array_equal(np.isnan(got), ~cond)


def test_nan_bound_of_clip_gives_nan_and_crossed_bounds_the_upper():
    x = np.array([[-1.0, 0.0, 5.0]], np.float32)
    assert np.isnan(evaluate(lambda t: F["clip"](t, float("nan"), 1.0), x)[0]).all()
    assert (evaluate(lambda t: F["clip"](t, 3.0, 2.0), x)[0] == 2).all()


def test_bf16_tanh_gelu_rounds_before_tanh_after_tanh_and_at_the_end():
    x = all_values(BF16)
    x = np.where(np.isfinite(x.astype(np.float32)), x, BF16.type(0))

    def gelu(t):
        full = lambda v: F["full"](list(x.shape), v, t.dtype)
        inner = F["mul"](full(0.7978845608), F["add"](t, F["mul"](full(0.044715), F["mul"](t, F["mul"](t, t)))))
        return F["mul"](t, F["mul"](full(0.5), F["add"](full(1.0), F["tanh"](inner))))

    (got,) = evaluate(gelu, x, tile=(16, 256))
    rounded = lambda a: a.astype(BF16).astype(np.float32)
    w, c0, c1 = x.astype(np.float32), rounded(np.float32(0.7978845608)), rounded(np.float32(0.044715))
    assert c0 == 0.796875
    with np.errstate(all="ignore"):
        before = (c0 * (w + c1 * (w * (w * w)))).astype(BF16)
        (after,) = evaluate(F["tanh"], before, tile=(16, 256))
        want = (w * (np.float32(0.5) * (np.float32(1) + after.astype(np.float32)))).astype(BF16)
    np.testing.assert_array_equal(got.view(np.uint16)[np.isfinite(want.astype(np.float32))],
                                  want.view(np.uint16)[np.isfinite(want.astype(np.float32))])


@pytest.mark.parametrize(("numerics", "rounds_each"), [("current", False), ("0.2.0", True)])
def test_fp16_chain_rounds_once_or_after_every_operation(numerics, rounds_each):
    x = np.random.default_rng(3).uniform(-2, 2, (32, 64)).astype(FP16)
    (got,) = evaluate(lambda t: (t * t + t) * t, x, numerics=numerics)
    w = x.astype(np.float32)
    once = ((w * w + w) * w).astype(FP16)
    each = ((x * x + x) * x)
    assert (once != each).any()
    np.testing.assert_array_equal(got, each if rounds_each else once)


def test_bf16_chain_rounds_once():
    x = np.random.default_rng(4).uniform(-2, 2, (32, 64)).astype(BF16)
    (got,) = evaluate(lambda t: (t * 0.1 + 0.3) * 1.7, x)
    w = x.astype(np.float32)
    want = ((w * np.float32(0.1) + np.float32(0.3)) * np.float32(1.7)).astype(BF16)
    np.testing.assert_array_equal(got, want)


def test_topk_ties_go_to_the_lowest_index_and_nan_is_the_largest():
    nan, inf = np.nan, np.inf
    x = np.array([[1, 2, 2, 2, 0, 2, 1, 0], [nan, 1, inf, -inf, nan, 0, -0.0, 3]], np.float32)
    values, indices = evaluate(lambda t: F["topk"](t, 5), x, tile=(2, 8))
    np.testing.assert_array_equal(indices, [[1, 2, 3, 5, 0], [0, 4, 2, 7, 1]])
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, -1))
    _, indices = evaluate(lambda t: F["topk"](t, 5, largest=False), x, tile=(2, 8))
    np.testing.assert_array_equal(indices, [[4, 7, 0, 6, 1], [3, 5, 6, 1, 7]])
