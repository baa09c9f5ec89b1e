"""Faults that users of NPU kernels met, as tiny cases with the right answer (cases S01 to S18)."""
import math
import time
import warnings

import ml_dtypes
import numpy as np
import pytest

import pypto_sim as pypto

BF16 = ml_dtypes.bfloat16
F32, F16, B16, I32 = pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16, pypto.DT_INT32


def run(body, ins, out_shape, out_dtype, tile=(16, 64), out=None):
    """Result of one launch of `out[:] = body(*ins)`."""
    out = np.zeros(out_shape, out_dtype) if out is None else out

    def call(*tensors):
        pypto.set_vec_tile_shapes(*tile)
        tensors[-1][:] = body(*tensors[:-1])

    if len(ins) == 1:
        @pypto.frontend.jit
        def kernel(a: pypto.Tensor(), y: pypto.Tensor()):
            call(a, y)
    elif len(ins) == 2:
        @pypto.frontend.jit
        def kernel(a: pypto.Tensor(), b: pypto.Tensor(), y: pypto.Tensor()):
            call(a, b, y)
    else:
        @pypto.frontend.jit
        def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor(), y: pypto.Tensor()):
            call(a, b, c, y)
    kernel(*ins, out)
    return out


def rules_of(caught):
    return {w.message.rule for w in caught if isinstance(w.message, pypto.PyptoWarning)}


def test_s01_ties_go_to_even():
    x = np.array([[1.01953125, 1.02734375, -1.01953125, 1.5]], np.float32)
    got = run(lambda a: pypto.cast(a, B16), [x], (1, 4), BF16)
    assert got.astype(np.float32).tolist() == [[1.015625, 1.03125, -1.015625, 1.5]]


@pytest.mark.parametrize("dtype, scalar, want", [(np.uint8, 300, 45), (np.int8, 200, -55)])
def test_s02_integer_scalar_wraps(dtype, scalar, want):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        got = run(lambda a: a + scalar, [np.ones((1, 32), dtype)], (1, 32), dtype, tile=(1, 32))
    assert (got == want).all()


def test_s03_matmul_multiplies_values_and_accumulates_in_fp32():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-2, 3, (2, 16, 16)).astype(np.float32)

    def product(x, y):
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        return pypto.matmul(x, y, F32)

    assert np.array_equal(run(product, [a.astype(BF16), b.astype(BF16)], (16, 16), np.float32), a @ b)
    ones = run(product, [np.ones((1, 4096), BF16), np.ones((4096, 1), BF16)], (1, 1), np.float32)
    assert ones.item() == 4096


def test_s04_mean_of_bf16_accumulates_in_fp32():
    x = np.full((1, 4096), 0.1, BF16)
    mean = lambda a: pypto.cast(pypto.sum(pypto.cast(a, F32), -1, True) / 4096.0, B16)
    assert float(run(mean, [x], (1, 1), BF16, tile=(1, 4096)).item()) == 0.10009765625


@pytest.mark.parametrize("width", [512, 513])
def test_s05_rms_norm_counts_every_column(width):
    rng = np.random.default_rng(1)
    x, g = rng.standard_normal((4, width)).astype(np.float32), rng.standard_normal((1, width)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        got = run(lambda a, w: pypto.rms_norm(a, w), [x, g[0]], (4, width), np.float32, tile=(4, 128))
    want = x / np.sqrt((x.astype(np.float64)**2).mean(-1, keepdims=True) + 1e-6) * g
    assert np.abs(got - want).max() < 1e-5


def test_s06_a_row_of_minus_inf_is_nan():
    s = np.zeros((2, 8), np.float32)
    s[0] = -np.inf

    def softmax(a):
        e = pypto.exp(a - pypto.amax(a, -1, True))
        return e / pypto.sum(e, -1, True)

    got = run(softmax, [s], (2, 8), np.float32)
    assert np.isnan(got[0]).all() and (got[1] == 0.125).all()


def test_s07_kv_heads_are_grouped_not_interleaved():
    kv = np.arange(2, dtype=np.float32).reshape(1, 2, 1, 8 // 8) * np.ones((1, 2, 1, 8), np.float32)

    def repeat(a):
        x = pypto.unsqueeze(pypto.reshape(a, [2, 1, 8]), 1)
        return pypto.reshape(pypto.expand_clone(x, [2, 2, 1, 8]), [1, 4, 1, 8])

    got = run(repeat, [kv], (1, 4, 1, 8), np.float32, tile=(1, 1, 1, 8))
    assert got[0, :, 0, 0].tolist() == [0, 0, 1, 1]


def test_s08_the_two_rope_layouts():
    angles = np.array([0.5, 0.25])
    c, s = np.cos(angles), np.sin(angles)
    x = np.array([[1, 2, 3, 4]], np.float32)
    f = lambda v: np.asarray(v, np.float32)[None]

    def halves(a, cos, sin):
        a1, a2 = pypto.view(a, [1, 2], [0, 0]), pypto.view(a, [1, 2], [0, 2])
        return a * cos + pypto.concat([pypto.neg(a2), a1], -1) * sin

    got = run(halves, [x, f(np.tile(c, 2)), f(np.tile(s, 2))], (1, 4), np.float32)
    assert np.allclose(got[0], [c[0] - 3 * s[0], 2 * c[1] - 4 * s[1], 3 * c[0] + s[0], 4 * c[1] + 2 * s[1]])

    def pairs(a, cos, sin):
        even, odd = pypto.gathermask(a, 1), pypto.gathermask(a, 2)
        r0, r1 = even * cos - odd * sin, odd * cos + even * sin
        return pypto.concat([r0, r1], -1)

    got = run(pairs, [x, f(c), f(s)], (1, 4), np.float32)
    assert np.allclose(got[0], [c[0] - 2 * s[0], 3 * c[1] - 4 * s[1], 2 * c[0] + s[0], 4 * c[1] + 3 * s[1]])


def test_s09_topk_ties_go_to_the_lowest_index():
    x = np.array([[1, 2, 2, 2, 0, 2, 1, 0]], np.float32)
    values, ids = np.zeros((1, 3), np.float32), np.zeros((1, 3), np.int32)

    @pypto.frontend.jit
    def kernel(a: pypto.Tensor([1, 8], F32), v: pypto.Tensor([1, 3], F32), i: pypto.Tensor([1, 3], I32)):
        pypto.set_vec_tile_shapes(1, 8)
        top, at = pypto.topk(a, 3, -1, True)
        pypto.assemble(top, [0, 0], v)
        pypto.assemble(at, [0, 0], i)

    kernel(x, values, ids)
    assert values.tolist() == [[2, 2, 2]] and ids.tolist() == [[1, 2, 3]]


TABLE = (np.arange(4)[:, None] * 10 + np.arange(3)).astype(np.float32)
IDS = np.array([[3, 1]], np.int32)


def test_s10_gather_picks_elements_index_select_picks_rows():
    assert run(lambda w, i: pypto.gather(w, 0, i), [TABLE, IDS], (1, 2), np.float32).tolist() == [[30, 11]]
    rows = run(lambda w, i: pypto.index_select(w, 0, i), [TABLE, IDS], (1, 2, 3), np.float32, tile=(1, 2, 8))
    assert rows.tolist() == [[[30, 31, 32], [10, 11, 12]]]


def test_s10_the_guide_call_gives_the_rows_or_names_the_function():
    with pytest.warns(pypto.PyptoWarning, match="index_select"):
        got = run(lambda w, i: pypto.gather(w, 0, i), [TABLE, IDS], (1, 2, 3), np.float32, tile=(1, 2, 8))
    assert got.tolist() == [[[30, 31, 32], [10, 11, 12]]]
    with pypto.config(profile="master"), pytest.raises(RuntimeError, match="index_select"):
        run(lambda w, i: pypto.gather(w, 0, i), [TABLE, IDS], (1, 2, 3), np.float32, tile=(1, 2, 8))


def test_s11_rebinding_an_output_writes_nothing():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([1, 32], F32), y: pypto.Tensor([1, 32], F32)):
        pypto.set_vec_tile_shapes(1, 32)
        y = x + 1.0  # noqa: F841 - the mistake under test

    y = np.full((1, 32), 123, np.float32)
    with pytest.warns(pypto.PyptoWarning, match=r"`y.*\[:\]"):
        kernel(np.zeros((1, 32), np.float32), y)
    assert (y == 123).all()


@pytest.mark.parametrize("profile", ["lenient", "0.2", "master", "guide"])
def test_s12_the_tile_that_does_not_fit(profile):
    a = np.zeros(48000, np.float32)
    with pypto.config(profile=profile), pytest.raises(pypto.CapacityError) as caught:
        run(lambda x, y: x + y, [a, a.copy()], (48000,), np.float32, tile=(48000,))
    error = caught.value
    assert (error.op, error.memory, error.bytes, error.limit) == ("add", "UB", 384000, 196608)
    assert [(shape, size) for _, shape, size in error.live] == [((48000,), 192000)] * 2
    for text in ("384000", "196608", "192000 B", "(24576,)", "test_cases.py:"):
        assert text in str(error)


def test_s13_sixteen_million_elements_in_small_tiles():
    tile, count = 8192, 2048

    @pypto.frontend.jit
    def kernel(a: pypto.Tensor([pypto.DYNAMIC], F32), b: pypto.Tensor([pypto.DYNAMIC], F32),
               out: pypto.Tensor([pypto.DYNAMIC], F32)):
        pypto.set_vec_tile_shapes(tile)
        for i in pypto.loop(count):
            pypto.assemble(pypto.view(a, [tile], [i * tile]) + pypto.view(b, [tile], [i * tile]), [i * tile], out)

    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(tile * count, dtype=np.float32) for _ in range(2))
    out = np.zeros_like(a)
    start = time.perf_counter()
    kernel(a, b, out)
    seconds = time.perf_counter() - start
    assert np.array_equal(out, a + b)
    assert seconds < 20                                # a few seconds where nothing else runs


def _gelu_tanh(a):
    u = (a + a * a * a * 0.044715) * 0.7978845608
    return a * 0.5 * (pypto.tanh(u) + 1.0)


def _gelu_erf(a):
    return a * 0.5 * (pypto.erf(a * 0.7071067811865476) + 1.0)


@pytest.mark.filterwarnings("ignore::pypto_sim.PyptoWarning")
def test_s14_tanh_form_against_erf_form():
    bits = np.arange(65536, dtype=np.uint16).view(BF16)
    x = bits[np.isfinite(bits.astype(np.float32))].astype(np.float32)
    x = x[np.abs(x) < 1e12]                            # beyond, a * a * a overflows fp32
    pad = -len(x) % 64
    x2 = np.concatenate([x, np.zeros(pad, np.float32)]).reshape(-1, 64)
    tanh, erf = (run(f, [x2], x2.shape, np.float32, tile=(64, 64)) for f in (_gelu_tanh, _gelu_erf))
    finite = np.isfinite(tanh) & np.isfinite(erf)
    gap = np.where(finite, np.abs(tanh.astype(np.float64) - erf), 0)
    assert gap.max() == pytest.approx(4.732e-4, abs=5e-7)
    assert abs(abs(x2.ravel()[gap.argmax()]) - 2.7) < 0.02
    differ = ((tanh.astype(BF16) != erf.astype(BF16)) & finite).ravel()
    wide = x2.ravel().astype(np.float64)
    u = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    golden = (0.5 * wide * (1 + np.tanh(u))).astype(BF16) != \
        (0.5 * wide * (1 + np.array([math.erf(v / math.sqrt(2)) for v in wide]))).astype(BF16)
    assert golden.sum() == 322
    # below -5 both forms cancel: there fp32 loses more of the tail than float64 does
    assert np.array_equal(differ[wide > -5], golden[wide > -5]) and golden[wide > -5].sum() == 220
    assert run(_gelu_tanh, [np.full((1, 64), -6, np.float32)], (1, 64), np.float32).tolist() == [[0.0] * 64]


def test_s15_empty_tensors_and_axes_out_of_range():
    for profile in ("lenient", "master"):
        with pypto.config(profile=profile):
            with pytest.raises(pypto.PyptoError, match="no elements"):
                run(lambda a: pypto.eq(a, 1.0), [np.zeros((0,), np.float32)], (1,), np.bool_, tile=(8,))
            for dim in (-3, 2):
                with pytest.raises(pypto.PyptoError, match=f"`dim` is {dim}"):
                    run(lambda a, d=dim: pypto.amax(a, d, True), [np.zeros((2, 3), np.float32)], (2, 1), np.float32)


def test_s15_an_unused_empty_argument_does_no_harm():
    got = run(lambda a, unused: a * 2.0, [np.ones((1, 8), np.float32), np.zeros((0,), np.float32)], (1, 8), np.float32)
    assert (got == 2).all()


def _linear(bias):
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((16, 32)).astype(BF16), rng.standard_normal((64, 32)).astype(BF16)

    def body(a, b, c):
        pypto.set_cube_tile_shapes([16, 16], [32, 32], [64, 64])
        return pypto.matmul(a, b, F32, b_trans=True, extend_params={"bias_tensor": c})

    got = run(body, [x, w, bias], (16, 64), np.float32)
    return got, x.astype(np.float64) @ w.astype(np.float64).T + bias.astype(np.float64)


BIAS = np.random.default_rng(4).standard_normal((1, 64)).astype(np.float32)


@pytest.mark.parametrize("profile", ["lenient", "0.2", "master"])
def test_s16_a_bias_of_1_by_n_in_fp32_is_accepted(profile):
    with pypto.config(profile=profile):
        got, want = _linear(BIAS)
    assert np.abs(got - want).max() < 1e-5


@pytest.mark.parametrize("bias, rule", [(BIAS.astype(BF16), "matmul.bias_dtype"), (BIAS[0], "matmul.bias_rank")])
def test_s16_a_bf16_or_1d_bias_is_refused_or_used_as_fp32(bias, rule):
    for profile in ("0.2", "master"):
        with pypto.config(profile=profile), pytest.raises(pypto.PyptoError, match="bias_tensor") as caught:
            _linear(bias)
        assert caught.value.rule == rule
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got, want = _linear(bias)
    assert rules_of(caught) == {rule}
    assert np.abs(got - want).max() < 1e-5


def test_s16_a_bf16_bias_is_fine_on_the_950():
    with pypto.config(profile="master", device="950pr"):
        got, want = _linear(BIAS.astype(BF16))
    assert np.abs(got - want).max() < 1e-5


@pytest.mark.parametrize("profile", ["lenient", "master"])
def test_s16_a_bias_of_the_wrong_length_is_refused(profile):
    with pypto.config(profile=profile), pytest.raises(RuntimeError, match=r"\[1, 32\].*\[1, 64\]"):
        _linear(BIAS[:, :32])


def test_s17_padding_does_not_become_data():
    def body(a):
        return pypto.sigmoid(pypto.view(a, [8, 16], [0, 0], valid_shape=[5, 16]))

    out = np.full((8, 16), -1, np.float32)
    got = run(body, [np.zeros((8, 16), np.float32)], (8, 16), np.float32, tile=(8, 16), out=out)
    assert (got[:5] == 0.5).all() and (got[5:] == -1).all()


@pytest.mark.parametrize("profile", ["lenient", "master"])
def test_s18_minus_inf_does_not_go_into_an_integer(profile):
    with pypto.config(profile=profile), pytest.raises(ValueError, match="`value` is the float -inf") as caught:
        run(lambda a: pypto.pad(a, [0, 8], value=-math.inf), [np.ones((8, 8), np.int32)], (8, 16), np.int32)
    assert "int" in str(caught.value)


def test_s18_a_float_beside_fp16_in_where():
    def body(c, a):
        return pypto.where(c, a, 0.0)

    cond = np.arange(64).reshape(1, 64) % 2 == 0
    a = np.ones((1, 64), np.float16)
    with pypto.config(profile="master"), pytest.raises(TypeError, match="Element"):
        run(body, [cond, a], (1, 64), np.float16)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = run(body, [cond, a], (1, 64), np.float16)
    assert rules_of(caught) == {"scalar.dtype"}
    assert np.array_equal(got, np.where(cond, 1, 0).astype(np.float16))


def test_s18_fmod_by_infinity():
    x = np.array([[1.5] * 8], np.float32)
    with pypto.config(profile="master"), pytest.raises(ValueError, match="finite"):
        run(lambda a: pypto.fmod(a, math.inf), [x], (1, 8), np.float32)
    with pytest.warns(pypto.PyptoWarning, match="finite"):
        assert np.array_equal(run(lambda a: pypto.fmod(a, math.inf), [x], (1, 8), np.float32), x)
