"""Values of index updates, bytes, block formats, random numbers, products of small floats and convolution."""
import ml_dtypes
import numpy as np
import pytest
import torch

import pypto_sim as pypto
from pypto_sim.dtypes import DataType
from pypto_sim.errors import DTypeError, PyptoError, PyptoIndexError, PyptoNotImplementedError, ShapeError
from pypto_sim.registry import REGISTRY
from pypto_sim.testing import evaluate
from pypto_sim.trace.tensor import Tensor

pytestmark = pytest.mark.filterwarnings("ignore::pypto_sim.errors.PyptoWarning")
D = {d.short: d for d in DataType}
E4M3, E5M2, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu
INDEX = np.array([3, 0, 3, 5], np.int32)


def numbers(shape, dtype, seed=0):
    """Small whole numbers of any type: sums are exact."""
    rng = np.random.default_rng(seed)
    return rng.integers(0 if dtype.is_unsigned else -9, 10, shape).astype(dtype.np_dtype)


def kinds(name):
    """Element types that the operation computes on."""
    dtypes = REGISTRY[name].dtypes
    return sorted((d for d in dtypes.union() | dtypes.unlisted if d.arithmetic), key=lambda d: d.value)


def both(function, *arrays, **more):
    """Results by stepping, after checking that replay gives the same bits."""
    stepped = evaluate(function, *arrays, **more)
    for a, b in zip(stepped, evaluate(function, *arrays, mode="auto", **more), strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
    return stepped


def exact(got, want):
    """Same type, shape and values."""
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


# --- updates by index ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["index_add", "index_add_", "index_add_ub", "index_add__ub"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_index_add(name, axis):
    function = REGISTRY[name].function
    for dtype in kinds(name):
        x = numbers((6, 8), dtype)
        shape = (4, 8) if axis == 0 else (6, 4)
        source = numbers(shape, dtype, 1)
        (got,) = both(lambda a, s, i: function(pypto.clone(a), axis, i, s, alpha=3), x, source, INDEX)
        want = x.astype(np.int64)
        np.add.at(want, (INDEX,) if axis == 0 else (slice(None), INDEX), 3 * source.astype(np.int64))
        exact(got, want.astype(dtype.np_dtype))


def test_index_add_rounds_once_for_equal_indices():
    x = np.zeros((1, 8), np.float16)
    source = np.full((3, 8), 2.0**-12, np.float16)
    source[0] = 1.0                                              # 1 + 2^-12 + 2^-12 is 1 + 2^-11 before the rounding
    (got,) = both(lambda a, s, i: pypto.index_add(a, 0, i, s), x, source, np.zeros(3, np.int32))
    assert np.all(got == np.float16(1 + 2.0**-11))


def test_index_add_truncates_alpha_for_integers():
    x, source = np.zeros((6, 8), np.int32), np.ones((4, 8), np.int32)
    (got,) = both(lambda a, s, i: pypto.index_add(a, 0, i, s, alpha=1.9), x, source, INDEX)
    assert got.max() == 2 and got.sum() == 32


@pytest.mark.parametrize("indexed", [1, 2, 3])
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(indexed, accumulate):
    at = [np.array(v, np.int64) for v in ([2, 0, 1], [1, 3, 0], [7, 2, 5])][:indexed]
    for dtype in kinds("index_put_"):
        if accumulate and dtype.short not in ("fp32", "fp16", "bf16", "int8", "int16", "int32"):
            continue
        x = numbers((3, 4, 8), dtype)
        values = numbers((3, *x.shape[indexed:]), dtype, 1)

        def put(a, v, *i):
            a = pypto.clone(a)
            pypto.index_put_(a, i, v, accumulate)
            return a
        (got,) = both(put, x, values, *at, tile=(1, 4, 8))
        want = x.copy()
        want[tuple(at)] = (want[tuple(at)].astype(np.int64) + values.astype(np.int64)).astype(want.dtype) \
            if accumulate else values
        exact(got, want)


def test_one_hot():
    for dtype in kinds("one_hot"):
        x = np.array([[0, 4], [2, 2]]).astype(dtype.np_dtype)
        (got,) = both(lambda a: pypto.one_hot(a, 5), x, tile=(1, 1, 8))
        assert got.dtype == np.int64
        exact(got, np.eye(5, dtype=np.int64)[x.astype(int)])


@pytest.mark.parametrize("call", [
    lambda x, i: pypto.one_hot(i, 5), lambda x, i: pypto.index_add(x, 0, i, pypto.full([4, 8], 1, D["fp32"])),
    lambda x, i: pypto.index_put_(pypto.clone(x), (i,), pypto.full([4, 8], 1, D["fp32"])) or x])
def test_an_index_outside_is_an_error(call):
    with pytest.raises(PyptoIndexError, match="outside"):
        evaluate(call, np.zeros((5, 8), np.float32), INDEX)


def test_atomic_add_adds_to_what_is_there():
    def total(a):
        out = pypto.full([2, 8], 1.0, D["fp32"])
        for k in range(2):
            pypto.atomic_add(a, [k, 0], out)
        return out
    (got,) = both(total, np.full((1, 8), 2, np.float32))
    exact(got, np.full((2, 8), 3, np.float32))


# --- bytes -----------------------------------------------------------------------------------------------------------
def test_pack_and_unpack_copy_bytes():
    rng = np.random.default_rng(0)
    for dtype in kinds("pack"):
        x = rng.integers(0, 256, (3, 16 * dtype.size_bytes), dtype=np.uint8).view(dtype.np_dtype)
        (packed,) = both(pypto.pack, x)
        assert packed.dtype == np.uint8 and packed.tobytes() == x.tobytes()
        (back,) = both(lambda a, d=dtype: pypto.unpack(a, d), packed, tile=(64,))
        assert back.dtype == dtype.np_dtype and back.tobytes() == x.tobytes()


def test_view_reads_the_bits_as_another_type():
    x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
    (got,) = both(lambda a: pypto.view(a, [2, 8], [1, 4], dtype=D["int16"]), x)
    np.testing.assert_array_equal(got, x.view(np.int16)[1:3, 4:12])


def test_interleave_and_deinterleave_are_inverse():
    x, y = (np.random.default_rng(s).standard_normal((4, 16)).astype(np.float16) for s in (1, 2))
    first, second = both(pypto.interleave, x, y, device="950pr")
    stream = np.stack((x, y), -1).reshape(4, 32)
    np.testing.assert_array_equal(np.concatenate((first, second), -1), stream)
    even, odd = both(pypto.deinterleave, first, second, device="950pr")
    np.testing.assert_array_equal(even, x)
    np.testing.assert_array_equal(odd, y)


def test_where_takes_a_mask_of_bits():
    mask = np.array([[0b00001111, 0b10000001]], np.uint8)
    x, y = np.ones((1, 16), np.float32), np.zeros((1, 16), np.float32)
    (got,) = both(pypto.where, mask, x, y)
    exact(got, np.unpackbits(mask, -1, bitorder="little").astype(np.float32))


# --- casts of small floats -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("short", "kind"), [("fp8e4m3", E4M3), ("fp8e5m2", E5M2)])
def test_every_code_of_fp8(short, kind):
    codes = np.arange(256, dtype=np.uint8).reshape(1, 256)
    (wide,) = evaluate(lambda a: pypto.cast(a, D["fp32"]), codes.view(kind), device="950pr")
    np.testing.assert_array_equal(wide, codes.view(kind).astype(np.float32))
    (back,) = evaluate(lambda a: pypto.cast(a, D[short]), wide, device="950pr")
    same = (back.view(np.uint8) == codes) | np.isnan(wide)
    assert same.all() and np.isnan(back.astype(np.float32)[np.isnan(wide)]).all()


@pytest.mark.parametrize(("short", "kind"), [("fp8e4m3", E4M3), ("fp8e5m2", E5M2)])
def test_fp8_rounds_as_ml_dtypes(short, kind):
    rng = np.random.default_rng(0)
    x = (rng.choice([-1, 1], 4096) * 2.0 ** rng.uniform(-20, 18, 4096)).astype(np.float32)
    grid = np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)
    grid = np.sort(grid[np.isfinite(grid)])
    ties = (grid[1:] + grid[:-1]) / 2
    x = np.concatenate((x, grid, ties, [np.inf, -np.inf, np.nan, 464, 480, 61440])).astype(np.float32)
    x = x[:len(x) // 8 * 8].reshape(-1, 8)
    (got,) = evaluate(lambda a: pypto.cast(a, D[short]), x, device="950pr")
    np.testing.assert_array_equal(got.astype(np.float32), x.astype(kind).astype(np.float32))


def test_fp8_saturates_on_demand():
    x = np.array([[1e6, -1e6, np.inf, 448, 449, 500, -np.inf, 0]], np.float32)
    (got,) = evaluate(lambda a: pypto.cast(a, D["fp8e4m3"], satmode=pypto.SaturationMode.ON), x, device="950pr")
    assert got.astype(np.float32).tolist() == [[448, -448, 448, 448, 448, 448, -448, 0]]


def hf8_values():
    """Values of the 256 codes of HF8, from the definition of its fields."""
    values = np.zeros(256)
    for code in range(256):
        low, sign = code & 127, -1.0 if code & 128 else 1.0
        text = f"{low:07b}"
        if low == 0:
            values[code] = 0.0 if code == 0 else np.nan
        elif low == 0x6F:
            values[code] = sign * np.inf
        elif text.startswith("0000"):
            values[code] = sign * 2.0 ** (low - 23)
        else:
            prefix, bits = next(p for p in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0))
                                if text.startswith(p[0]))
            field, mantissa = text[len(prefix):len(prefix) + bits], text[len(prefix) + bits:]
            exponent = int("1" + field[1:], 2) * (-1 if field[0] == "1" else 1) if bits else 0
            values[code] = sign * 2.0 ** exponent * (1 + int(mantissa, 2) / 2 ** len(mantissa))
    return values


def test_every_code_of_hf8():
    codes = np.arange(256, dtype=np.uint8).reshape(1, 256)
    values = hf8_values()
    out = np.empty((1, 256), np.float32)
    back = np.empty((1, 256), np.uint8)

    @pypto.frontend.jit
    def convert(a: pypto.Tensor([], D["hf8"]), wide: pypto.Tensor(), again: pypto.Tensor([], D["hf8"])):
        pypto.set_vec_tile_shapes(1, 64)
        x = pypto.cast(a, D["fp32"])
        wide.move(x)
        again.move(pypto.cast(x, D["hf8"]))
    with pypto.config(device="950pr"):
        convert(codes, out, back)
    np.testing.assert_array_equal(out[0], values)
    np.testing.assert_array_equal(back, codes)
    assert len(np.unique(values[np.isfinite(values)])) == 253      # all but NaN and the infinities


def test_hf8_rounds_half_away_from_zero():
    values = hf8_values()
    grid = np.sort(values[np.isfinite(values) & (values > 0)])
    middle = ((grid[1:] + grid[:-1]) / 2).astype(np.float32)
    middle = np.concatenate((middle, -middle))
    middle = middle[:len(middle) // 4 * 4].reshape(-1, 4)
    (got,) = evaluate(lambda a: pypto.cast(pypto.cast(a, D["hf8"]), D["fp32"]), middle, device="950pr")
    upper = grid[np.searchsorted(grid, np.abs(middle.astype(np.float64)))]
    np.testing.assert_array_equal(got, np.copysign(upper, middle))


@pytest.mark.parametrize(("short", "grid"), [("fp4_e2m1x2", [0, .5, 1, 1.5, 2, 3, 4, 6]),
                                             ("fp4_e1m2x2", [0, .25, .5, .75, 1, 1.25, 1.5, 1.75])])
def test_fp4_codes_and_rounding(short, grid):
    bf16 = ml_dtypes.bfloat16
    values = np.array([*grid, *(-float(v) for v in grid)], np.float32)
    pairs = np.array([[low, high] for low in range(16) for high in range(16)])
    x = values[pairs].reshape(1, 512).astype(bf16)
    (codes,) = evaluate(lambda a: pypto.cast(a, D[short]), x, device="950pr")
    np.testing.assert_array_equal(codes[0], pairs[:, 0] | pairs[:, 1] << 4)
    (back,) = evaluate(lambda a: pypto.cast(pypto.cast(a, D[short]), D["bf16"]), x, device="950pr")
    np.testing.assert_array_equal(back.view(np.uint16), x.view(np.uint16))
    ties = (values[1:8] + values[:7]) / 2
    ties = np.concatenate((ties, [100.0])).reshape(1, 8).astype(bf16)
    (got,) = evaluate(lambda a: pypto.cast(pypto.cast(a, D[short]), D["bf16"]), ties, device="950pr")
    even = [values[i + i % 2] for i in range(7)] + [values[7]]
    exact(got, np.array([even], np.float32))


def test_int4_holds_two_numbers_a_byte():
    x = np.array([[-8, 7, -1, 0, 3, -4, 5, 1]], np.float16)
    (codes,) = evaluate(lambda a: pypto.cast(a, D["int4"]), x)
    assert codes.tolist() == [[0x78, 0x0F, 0xC3, 0x15]]
    (back,) = evaluate(lambda a: pypto.cast(pypto.cast(a, D["int4"]), D["fp16"]), x)
    exact(back, x)


# --- products --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E5M2)])
def test_products_of_fp8_are_exact(kind):
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (16, 64)).astype(np.float32).astype(kind[0])
    b = rng.integers(-4, 5, (64, 32)).astype(np.float32).astype(kind[1])
    (got,) = both(lambda x, y: pypto.matmul(x, y, D["fp32"]), a, b, device="950pr")
    exact(got, a.astype(np.float64) @ b.astype(np.float64))


def test_scales_per_column():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-5, 6, s).astype(np.int8) for s in ((16, 32), (32, 48)))
    scale = rng.uniform(-5, 5, (1, 48)).astype(np.float32)
    bias = rng.integers(-9, 9, (1, 48)).astype(np.int32)
    extras = lambda s, i: {"scale_tensor": s, "bias_tensor": i}
    (got,) = both(lambda x, y, s, i: pypto.matmul(x, y, D["fp16"], extend_params=extras(s, i)), a, b, scale, bias)
    short = (scale.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    want = (a.astype(np.int64) @ b.astype(np.int64) + bias) * short.astype(np.float64)
    np.testing.assert_array_equal(got, want.astype(np.float32).astype(np.float16))


def test_tf32_keeps_ten_mantissa_bits():
    a = np.array([[1 + 2.0**-11, 1 + 2.0**-10]], np.float32)
    b = np.eye(2, dtype=np.float32)
    run = lambda mode: both(lambda x, y: pypto.matmul(x, y, D["fp32"], extend_params={"trans_mode": mode}), a, b,
                            device="950pr")[0][0].tolist()
    assert run(pypto.TransMode.CAST_NONE) == a[0].tolist()
    assert run(pypto.TransMode.CAST_RINT) == [1.0, 1 + 2.0**-10]
    assert run(pypto.TransMode.CAST_ROUND) == [1 + 2.0**-10, 1 + 2.0**-10]


@pytest.mark.parametrize("fp4", [False, True])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_scaled_product(fp4, transposed):
    rng = np.random.default_rng(0)
    m, k, n = 8, 128, 16
    ta, tb = transposed
    a, b = rng.integers(-2, 3, (m, k)), rng.integers(-2, 3, (k, n))
    sa, sb = rng.integers(120, 134, (m, k // 32)), rng.integers(120, 134, (k // 32, n))
    spread = lambda s, axis: np.repeat(2.0 ** (s - 127.0), 32, axis)
    want = (a * spread(sa, 1)) @ (b * spread(sb, 0))
    code = {0: 0, 1: 2, 2: 4, -1: 10, -2: 12}

    def stored(v, t):
        v = v.T if t else v
        if not fp4:
            return np.ascontiguousarray(v.astype(np.float32).astype(E4M3))
        nibbles = np.vectorize(code.get)(v)
        return np.ascontiguousarray((nibbles[:, ::2] | nibbles[:, 1::2] << 4).astype(np.uint8))
    scale_a = np.ascontiguousarray(sa.reshape(m, k // 64, 2).astype(np.uint8)).view(E8M0)
    scale_b = np.ascontiguousarray(sb.reshape(k // 64, 2, n).transpose(0, 2, 1).astype(np.uint8)).view(E8M0)
    kind = D["fp4_e2m1x2"] if fp4 else D["fp8e4m3"]
    out = np.empty((m, n), np.float32)

    @pypto.frontend.jit
    def product(x: pypto.Tensor([], kind), y: pypto.Tensor([], kind), p: pypto.Tensor(), q: pypto.Tensor(),
                r: pypto.Tensor()):
        r.move(pypto.scaled_mm(x, y, D["fp32"], p, q, a_trans=ta, b_trans=tb))
    with pypto.config(device="950pr"):
        product(stored(a, ta), stored(b, tb), scale_a, scale_b, out)
    np.testing.assert_allclose(out, want, rtol=2e-6)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_conv_is_that_of_torch(axes, groups):
    rng = np.random.default_rng(axes)
    x = rng.standard_normal((2, 4, *(9, 8, 7)[:axes])).astype(np.float32)
    w = rng.standard_normal((6, 4 // groups, *(3, 2, 3)[:axes])).astype(np.float32)
    b = rng.standard_normal(6).astype(np.float32)
    stride, pad, dilation = [2, 1, 1][:axes], [1, 1, 2][:axes], [1, 2, 1][:axes]
    (got,) = both(lambda a, k, i: pypto.conv(a, k, D["fp32"], stride, pad, dilation, groups=groups,
                                             extend_params={"bias_tensor": i, "relu_type": pypto.ReLuType.RELU}),
                  x, w, b)
    function = getattr(torch.nn.functional, f"conv{axes}d")
    wide = [torch.tensor(v, dtype=torch.float64) for v in (x, w, b)]
    want = torch.relu(function(*wide, stride=stride, padding=pad, dilation=dilation, groups=groups)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_conv_pads_before_and_after():
    x, w = np.ones((1, 1, 4), np.float32), np.ones((1, 1, 3), np.float32)
    (got,) = both(lambda a, k: pypto.conv(a, k, D["fp32"], [1], [2, 0], [1]), x, w)
    exact(got, np.array([[[1, 2, 3, 3]]], np.float32))


# --- block formats and random numbers --------------------------------------------------------------------------------
def test_mx_of_powers_of_two_is_exact():
    x = np.outer([1.0, 2.0**-20], np.tile([1.0, -2.0, 0.5, 4.0], 24)).astype(np.float32)
    codes, scale = both(pypto.quant_mx, x, device="950pr")
    assert codes.shape == (2, 96) and scale.shape == (2, 2, 2)
    power = scale.view(np.uint8).astype(int).reshape(2, 4)
    assert power[:, 3].tolist() == [0, 0]                        # no fourth group
    back = codes.astype(np.float64) * np.repeat(2.0 ** (power[:, :3] - 127.0), 32, 1)
    np.testing.assert_array_equal(back, x)


def test_philox_words():
    """The ten-round example of the generator's authors: counter and key zero."""
    (got,) = both(lambda a: pypto.uniform([4], [0], [0, 0], [1], D["fp32"]) + a, np.zeros(4, np.float32), tile=(8,),
                  device="950pr")
    words = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], np.uint64)
    np.testing.assert_array_equal(got, (words & np.uint64(2**23 - 1)).astype(np.float64) / 2.0**23)


def test_normal_numbers():
    (got,) = both(lambda a: pypto.normal([1 << 14], [7], [0, 1], [1], D["fp32"]) + a, np.zeros(1 << 14, np.float32),
                  tile=(4096,), device="950pr")
    assert abs(got.mean()) < 0.03 and abs(got.std() - 1) < 0.03


def test_uniform_impl_continues_a_stream():
    stream = lambda start, n: both(lambda a: pypto.uniform_impl(5, start, 0, [n]) + a, np.zeros(n, np.float32),
                                   tile=(16,), device="950pr")[0]
    np.testing.assert_array_equal(stream(0, 16)[8:], stream(2, 8))


# --- sorting steps, paged rows, names --------------------------------------------------------------------------------
def test_sort32_and_mrgsort():
    x = np.random.default_rng(0).permutation(128).astype(np.float32).reshape(1, 128)
    (pairs,) = both(lambda a: pypto.mrgsort(pypto.sort32(a), 32), x, tile=(1, 256))
    np.testing.assert_array_equal(pairs[0, ::2], np.arange(127, -1, -1))
    np.testing.assert_array_equal(pairs[0, 1::2].copy().view(np.uint32), np.argsort(-x[0], kind="stable"))


def test_rows_through_a_block_table():
    pages = np.arange(8 * 3, dtype=np.float32).reshape(8, 3)
    table, at = np.array([[2, 0]], np.int32), np.array([[0, 3, 1]], np.int32)
    rows = [4, 1, 5]
    (got,) = both(lambda p, i, t: pypto.experimental.gather_in_ub(p, i, t, 2, -2), pages, at, table)
    exact(got, pages[rows])
    (got,) = both(lambda p, i, t: pypto.experimental.gather_in_l1(p, i, t, 2, 2, True, False), pages, at, table)
    exact(got, pages[rows, :2])


def test_product_with_the_batch_in_the_middle():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((4, 2, 16), (2, 16, 8)))
    (got,) = both(lambda x, y: pypto.experimental.transposed_batchmatmul(x, y, D["fp16"]), a, b, tile=(2, 2, 16))
    exact(got, np.einsum("mbk,bkn->mbn", a.astype(np.float64), b.astype(np.float64)).astype(np.float16))


@pytest.mark.parametrize("name", pypto.distributed.NAMES)
def test_distributed_names_refuse(name):
    with pytest.raises(PyptoNotImplementedError, match="several devices"):
        getattr(pypto.distributed, name)(1, 2)


def test_experimental_transfers_refuse():
    with pytest.raises(NotImplementedError, match="shmem_load"):
        pypto.experimental.shmem_load()


# --- refusals --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda F, t: F.index_add(t(), 0, t((2, 2), D["int32"]), t()), ShapeError, "one axis"),
    (lambda F, t: F.index_add(t(), 0, t((4,), D["int32"]), t((3, 64))), ShapeError, "must be"),
    (lambda F, t: F.index_put_(t(), (t((2,), D["int32"]),), t((2, 63))), ShapeError, "do not fit"),
    (lambda F, t: F.index_put_(t(), (t((2,), D["int32"]),) * 3, t((2,))), ShapeError, "rank"),
    (lambda F, t: F.one_hot(t((8,), D["int32"]), 0), PyptoError, "positive"),
    (lambda F, t: F.one_hot(t((8,), D["int32"]), 2.5), TypeError, "int"),
    (lambda F, t: F.unpack(t((5,), D["uint8"]), D["fp32"]), ShapeError, "whole"),
    (lambda F, t: F.interleave(t((8, 3)), t((8, 3))), ShapeError, "even"),
    (lambda F, t: F.quant_mx(t(), D["int8"]), DTypeError, "FP8E4M3"),
    (lambda F, t: F.quant_mx(t(), D["fp4_e2m1x2"]), DTypeError, "FP16 or BF16"),
    (lambda F, t: F.quant_mx(t((40, 64)), axis=-2), ShapeError, "multiple of 64"),
    (lambda F, t: F.uniform([4], [0, 1], [0, 0], [1], D["fp32"]), PyptoError, "key"),
    (lambda F, t: F.uniform([4], [0], [0, 0], [2], D["fp32"]), PyptoError, "alg"),
    (lambda F, t: F.conv(t((1, 1, 8)), t((1, 1, 3)), D["fp32"], (1,), [0], [1]), TypeError, "list"),
    (lambda F, t: F.conv(t((1, 1, 8)), t((1, 1, 3)), D["fp32"], [1], [3], [1]), PyptoError, "smaller than the kernel"),
    (lambda F, t: F.conv(t((1, 1, 8)), t((1, 1, 3)), D["fp32"], [1], [0], [1], transposed=True), NotImplementedError,
     "transposed"),
    (lambda F, t: F.scaled_mm(t((8, 64), D["fp8e4m3"]), t((64, 8), D["fp8e4m3"]), D["fp32"], t((8, 2, 2), D["fp8e8m0"]),
                              t((1, 8, 2), D["fp8e8m0"])), ShapeError, "scale_a"),
    (lambda F, t: F.sort32(t((8, 40))), ShapeError, "32"),
    (lambda F, t: F.cast(t((8, 3)), D["fp4_e2m1x2"]), ShapeError, "even"),
    (lambda F, t: F.cast(t((8, 8), D["fp8e8m0"]), D["fp32"]), NotImplementedError, "no instruction"),
])
def test_refusals_name_what_is_wrong(call, error, text, dry, F):
    s = dry(device="950pr", tile=(8, 64))
    with pytest.raises(error, match=text):
        call(F, lambda shape=(8, 64), dtype=D["fp32"]: s.tensor(shape, dtype))


@pytest.mark.parametrize("name", ["index_add", "index_put_", "one_hot", "quant_mx", "interleave", "conv", "pack"])
def test_refuses_other_types(name, dry, F):
    s = dry(device="950pr", tile=(8, 64))
    dtypes = REGISTRY[name].dtypes
    calls = {"index_add": lambda x: F.index_add(x, 0, s.tensor((4,), D["int32"]), x),
             "index_put_": lambda x: F.index_put_(x, (s.tensor((8,), D["int32"]),), x),
             "one_hot": lambda x: F.one_hot(x, 4), "quant_mx": F.quant_mx, "interleave": lambda x: F.interleave(x, x),
             "conv": lambda x: F.conv(x, x, x.dtype, [1], [0], [1]), "pack": F.pack}
    for dtype in DataType:
        if dtype.in_core and dtype not in dtypes.union() | dtypes.unlisted:
            x = Tensor.handle((8, 8, 8) if name == "conv" else (8, 64), dtype, None, s, 0)
            with pytest.raises(DTypeError, match=dtype.name):
                calls[name](x)


METHODS = {"index_add": lambda f, x, i: f(x, 0, i, x[:4]), "quant_mx": lambda f, x, i: f(x)}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_method_is_the_function(name):
    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    function, call = REGISTRY[name].function, METHODS[name]
    by_method = lambda a, i: call(lambda t, *more: getattr(t, name)(*more), a, i)
    for a, b in zip(evaluate(by_method, x, INDEX, device="950pr"),
                    evaluate(lambda t, i: call(function, t, i), x, INDEX, device="950pr"), strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


# --- cost ------------------------------------------------------------------------------------------------------------
COSTED = [
    ("index_add", lambda n: ([(n, 64), (4,), (4, 64)], ["fp32", "int32", "fp32"]),
     lambda x, i, s: pypto.index_add(x, 0, i, s)),
    ("one_hot", lambda n: ([(n,)], ["int32"]), lambda x: pypto.one_hot(x, 64)),
    ("pack", lambda n: ([(n, 64)], ["fp32"]), lambda x: pypto.pack(pypto.exp(x))),
    ("quant_mx", lambda n: ([(n, 64)], ["fp32"]), lambda x: pypto.quant_mx(x)[0]),
    ("interleave", lambda n: ([(n, 64), (n, 64)], ["fp32", "fp32"]), lambda x, y: pypto.interleave(x, y)[0]),
    ("conv", lambda n: ([(1, 4, n), (4, 4, 3)], ["fp32", "fp32"]),
     lambda x, w: pypto.conv(x, w, D["fp32"], [1], [1], [1])),
    ("sort32", lambda n: ([(n, 64)], ["fp32"]), lambda x: pypto.sort32(x)),
]


@pytest.mark.parametrize(("name", "shapes", "call"), COSTED, ids=[c[0] for c in COSTED])
def test_estimates_are_positive_and_grow(name, shapes, call):
    def estimate(n):
        sizes, types = shapes(n)
        arrays = [np.zeros(s, D[t].np_dtype) for s, t in zip(sizes, types, strict=True)]
        (made,) = evaluate(call, *arrays, device="950pr", tile=(8, 64))
        scope = {"call": call, "pypto": pypto}
        names = ", ".join(f"x{i}: pypto.Tensor()" for i in range(len(sizes)))
        exec(f"def k({names}, out: pypto.Tensor()):\n    pypto.set_vec_tile_shapes(8, 64, 64)\n"
             f"    out.move(call({', '.join(f'x{i}' for i in range(len(sizes)))}))\n", scope)
        with pypto.config(device="950pr"):
            return pypto.estimate(pypto.frontend.jit(scope["k"]), *(pypto.Spec(s, D[t]) for s, t in
                                                                      zip(sizes, types, strict=True)),
                                  pypto.Spec(made.shape, made.dtype), device="950pr")
    small, large = estimate(16), estimate(512)
    assert 0 < small.time_us <= large.time_us and small.gm_write_bytes > 0
    assert large.unmodelled == ()
