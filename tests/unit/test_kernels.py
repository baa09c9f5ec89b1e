"""Row kernels and matrix products of the core on every instruction set of this machine (C++ twins: tests/cpp)."""
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from pypto_sim import _core

UNARY = ("exp", "log", "sqrt", "abs", "neg", "tanh", "erf", "reciprocal", "relu", "floor", "ceil", "trunc",
         "round_even")
BINARY = ("add", "sub", "mul", "div", "max", "min")
COMPARE = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
CODE = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(ml_dtypes.bfloat16): 2, np.dtype(np.int8): 4,
        np.dtype(np.int32): 6}
HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
ISAS = _core.available_isas()
SPECIAL = np.array([0, -0.0, 1, -1, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.17e-38, 3.4e38,
                    2**23 + 0.5, 1e9], np.float32)


@pytest.fixture(params=ISAS)
def isa(request):
    before = _core.isa()
    _core.select_isa(request.param)
    yield request.param
    _core.select_isa(before)


def raw(x):
    return x.view(np.uint8).reshape(-1)


def unary(name, x):
    y = np.empty_like(x)
    _core.kernel_unary(UNARY.index(name), raw(x), raw(y))
    return y


def binary(name, a, b):
    y = np.empty_like(a)
    _core.kernel_binary(BINARY.index(name), raw(a), raw(b), raw(y))
    return y


def cast(x, dtype):
    y = np.empty(x.shape, dtype)
    _core.kernel_cast(CODE[x.dtype], CODE[y.dtype], raw(x), raw(y))
    return y


def random_values(count, seed=0):
    """Random bit patterns, then moderate numbers, then special values."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([patterns, (rng.standard_normal(count) * 5).astype(np.float32), SPECIAL])


def assert_same(a, b):
    """Equal bits, any NaN equal to any other."""
    words = np.uint32 if a.dtype.itemsize == 4 else np.uint16
    with np.errstate(invalid="ignore"):           # isnan of a signalling bfloat16 NaN complains
        both_nan = np.isnan(a) & np.isnan(b)
    wrong = (a.view(words) != b.view(words)) & ~both_nan
    assert not wrong.any(), (a[wrong][:5], b[wrong][:5])


def ulps(y, reference):
    exponent = np.floor(np.log2(np.maximum(np.abs(reference), 2.0**-126)))
    return np.abs(y.astype(np.float64) - reference) / 2.0 ** (exponent - 23)


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_every_half_widens_exactly_and_comes_back(isa, half):
    x = np.arange(65536, dtype=np.uint16).view(half)
    assert_same(cast(x, np.float32), x.astype(np.float32))
    assert_same(cast(cast(x, np.float32), half), x)


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_narrowing_at_every_midpoint_and_beside_it(isa, half):
    finite = np.arange(65536, dtype=np.uint16).view(half).astype(np.float32)
    finite = np.sort(finite[np.isfinite(finite)])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    last = finite[-1].astype(np.float64) + (finite[-1] - finite[-2]) / 2
    edges = np.array([last, -last], np.float32)
    middle = np.concatenate([middle, edges])
    beside = [np.nextafter(middle, np.float32(to)) for to in (-np.inf, np.inf)]
    x = np.concatenate([middle, *beside, random_values(100_000)])
    with np.errstate(over="ignore", invalid="ignore"):
        assert_same(cast(x, half), x.astype(half))


@pytest.mark.parametrize("name, reference, limit", [("exp", np.exp, 1.0), ("log", np.log, 0.9), ("tanh", np.tanh, 1.1),
                                                    ("erf", special.erf, 1.33)])
def test_function_against_float64(isa, name, reference, limit):
    x = np.concatenate([random_values(200_000), np.linspace(-106, 90, 300_001, dtype=np.float32),
                        np.linspace(-5, 5, 300_001, dtype=np.float32)])
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64))
        rounded = expected.astype(np.float32)
    y = unary(name, x)
    finite = np.isfinite(rounded)
    assert_same(y[~finite], rounded[~finite])
    assert np.array_equal(np.signbit(y[finite]), np.signbit(rounded[finite]))
    assert ulps(y[finite], expected[finite]).max() <= limit


@pytest.mark.parametrize("name, reference", [("sqrt", np.sqrt), ("abs", np.abs), ("neg", np.negative),
                                             ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc),
                                             ("round_even", np.rint), ("reciprocal", lambda x: np.float32(1) / x)])
def test_correctly_rounded_function(isa, name, reference):
    x = random_values(100_000)
    with np.errstate(all="ignore"):
        assert_same(unary(name, x), reference(x))


@pytest.mark.parametrize("name, reference", [("add", np.add), ("sub", np.subtract), ("mul", np.multiply),
                                             ("div", np.divide)])
def test_arithmetic(isa, name, reference):
    a, b = random_values(100_000), random_values(100_000, seed=1)
    with np.errstate(all="ignore"):
        assert_same(binary(name, a, b), reference(a, b))


def test_extremes_propagate_nan_and_prefer_the_first_operand(isa):
    a, b = (x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL))
    for name, better in (("max", np.greater), ("min", np.less)):
        expected = np.where(np.isnan(a), a, np.where(np.isnan(b), b, np.where(better(b, a), b, a)))
        assert_same(binary(name, a.copy(), b.copy()), expected)


def test_comparisons(isa):
    a, b = (x.ravel().copy() for x in np.meshgrid(SPECIAL, SPECIAL))
    for code, reference in enumerate(COMPARE):
        y = np.empty(a.shape, np.uint8)
        _core.kernel_compare(code, raw(a), raw(b), y)
        assert np.array_equal(y, reference(a, b))


def repeat_tree_sum(x):
    """The order stated in kernels.h: 64 lanes, neighbouring repeats in pairs, then halves of the lanes."""
    rows = np.full(-(-x.size // 64) * 64, -0.0, np.float32)
    rows[:x.size] = x
    rows = list(rows.reshape(-1, 64))
    while len(rows) > 1:
        rows = [rows[i] + rows[i + 1] if i + 1 < len(rows) else rows[i] for i in range(0, len(rows), 2)]
    lanes = rows[0]
    while lanes.size > 1:
        lanes = lanes[:lanes.size // 2] + lanes[lanes.size // 2:]
    return lanes[0]


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 128, 200, 256, 257, 300, 512, 700, 1000, 4096, 5000])
def test_row_reductions(isa, n):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    assert _core.kernel_reduction(0, raw(x)) == repeat_tree_sum(x)
    assert _core.kernel_reduction(1, raw(x)) == x.max()
    assert _core.kernel_reduction(2, raw(x)) == x.min()
    x[n // 3] = np.nan
    assert all(np.isnan(_core.kernel_reduction(k, raw(x))) for k in (0, 1, 2))


def fma(a, b, c):
    """a * b + c of float32 arrays with one rounding: the float64 sum is rounded to odd before the last step."""
    p, z = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    s = p + z
    part = s - p
    lost = (p - (s - part)) + (z - part)
    word = s.view(np.int64)
    step = np.where((lost.view(np.int64) ^ word) < 0, -1, 1)
    odd = word + np.where(((lost < 0) | (lost > 0)) & (word % 2 == 0), step, 0)
    return odd.view(np.float64).astype(np.float32)


def block_rule(a, b, bias, k_block):
    """C = bias or 0; per k block: P = fma chain from 0, C = C + P."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    c = np.zeros((a.shape[0], b.shape[1]), np.float32) + (np.float32(0) if bias is None else bias)
    for first in range(0, a.shape[1], k_block):
        p = np.zeros_like(c)
        for k in range(first, min(first + k_block, a.shape[1])):
            p = fma(np.broadcast_to(a[:, k:k + 1], c.shape), np.broadcast_to(b[k], c.shape), p)
        c = c + p
    return c


def product(a, b, bias, k_block, parts):
    c = np.full((a.shape[0], b.shape[1]), -7, np.float32 if a.dtype != np.int8 else np.int32)
    steps = [[s // x.itemsize for s in x.strides] for x in (a, b)]
    flat = [x.view(np.uint8).reshape(-1) if x.flags.c_contiguous else x.T.view(np.uint8).reshape(-1) for x in (a, b)]
    for part in parts:
        _core.kernel_gemm(flat[0], CODE[a.dtype], steps[0], flat[1], CODE[b.dtype], steps[1],
                          None if bias is None else raw(bias), raw(c), (*c.shape, a.shape[1], k_block), part)
    return c


SHAPES = [(1, 128, 128, 128), (4, 512, 128, 128), (4, 128, 512, 64), (3, 65, 300, 300), (7, 33, 64, 16),
          (33, 129, 100, 7), (28, 70, 530, 512)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["plain", "out_of_range"])
@pytest.mark.parametrize("dtype", [*HALVES, np.dtype(np.float32)], ids=str)
def test_matrix_product_has_the_bits_of_the_block_rule(shape, dtype, kind):
    m, n, k, k_block = shape
    rng = np.random.default_rng(m + n + k)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    if kind == "out_of_range":                   # products that leave the range of fp32, infinities, NaN, signed zeros
        a = a * 2.0 ** rng.integers(-90, 80, a.shape)
        b = np.where(rng.random(b.shape) < 0.02, np.inf, b * 2.0 ** rng.integers(-90, 80, b.shape))
        a = np.where(rng.random(a.shape) < 0.1, -0.0, a)
    a, b = a.astype(dtype), b.astype(dtype)
    bias = rng.standard_normal(n).astype(np.float32) if m % 2 else None
    expected = block_rule(a, b, bias, k_block)
    before = _core.isa()
    try:
        for name in ISAS:
            _core.select_isa(name)
            for right in (b, np.asfortranarray(b)):
                for m1, n1 in ((m, n), (m // 2, n // 3)):
                    parts = [(0, m1, 0, n1), (m1, m, 0, n1), (0, m1, n1, n), (m1, m, n1, n)]
                    assert_same(product(a, right, bias, k_block, parts), expected)
    finally:
        _core.select_isa(before)


@pytest.mark.parametrize("shape", [(1, 5, 3), (9, 70, 129), (33, 64, 2049)], ids=str)
def test_int8_product_wraps(isa, shape):
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    bias = np.full(n, 2**31 - 1, np.int32)
    exact = a.astype(np.int64) @ b.astype(np.int64) + bias
    parts = [(0, m // 2, 0, n), (m // 2, m, 0, n)]
    for left, right in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
        assert np.array_equal(product(left, right, bias, 0, parts), exact.astype(np.int32))


def test_equal_bits_on_every_instruction_set():
    x, z = random_values(50_000), random_values(50_000, seed=2)
    before, outputs = _core.isa(), []
    try:
        for name in ISAS:
            _core.select_isa(name)
            rows = [unary(f, x[:n].copy()) for f in UNARY for n in (x.size, 1, 7, 61)]
            rows += [binary(f, x[3:n].copy(), z[3:n].copy()) for f in BINARY for n in (x.size, 4, 33)]
            rows += [np.float32([_core.kernel_reduction(k, raw(x[-n:].copy())) for k in (0, 1, 2) for n in (2000, 77)])]
            outputs.append(np.concatenate(rows))
    finally:
        _core.select_isa(before)
    for other in outputs[1:]:
        assert_same(outputs[0], other)


def test_choice_of_instruction_set():
    with pytest.raises(ValueError, match="mmx.*baseline"):
        _core.select_isa("mmx")
    code = "from pypto_sim import _core; print(_core.isa())"
    chosen = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYPTO_SIM_ISA": "baseline"},
                            capture_output=True, text=True)
    assert chosen.stdout.strip() == "baseline"
    refused = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYPTO_SIM_ISA": "mmx"},
                             capture_output=True, text=True)
    assert refused.returncode != 0 and "mmx" in refused.stderr
