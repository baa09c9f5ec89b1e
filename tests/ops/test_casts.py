"""Casts: every mode, ties, limits, saturation, wrap-around, all 16-bit inputs."""
import ml_dtypes
import numpy as np
import pytest

from pypto_sim.dtypes import DataType
from pypto_sim.enums import CastMode, SaturationMode
from pypto_sim.registry import REGISTRY
from pypto_sim.testing import evaluate

pytestmark = pytest.mark.filterwarnings("ignore::pypto_sim.errors.PyptoWarning")
D = {d.short: d for d in DataType}
BF16, FP16, FP32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)
cast = REGISTRY["cast"].function


def half_away(x):
    """Nearest, ties away from zero, in float64."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


ROUNDING = {CastMode.CAST_NONE: np.trunc, CastMode.CAST_RINT: np.round, CastMode.CAST_ROUND: half_away,
            CastMode.CAST_FLOOR: np.floor, CastMode.CAST_CEIL: np.ceil, CastMode.CAST_TRUNC: np.trunc}
TIES = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49, -0.49, 1.51, 100.0, -100.75, 0.0, -0.0, 7.5]], np.float32)


def run(x, target, mode=CastMode.CAST_NONE, satmode=SaturationMode.OFF):
    """One cast."""
    return evaluate(lambda t: cast(t, D[target], mode, satmode), x, tile=(8, 64))[0]


@pytest.mark.parametrize("mode", ROUNDING)
@pytest.mark.parametrize("target", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("source", [FP32, FP16, BF16], ids=str)
def test_float_to_integer(mode, target, source):
    x = TIES.astype(source)
    np.testing.assert_array_equal(run(x, target, mode), ROUNDING[mode](x.astype(np.float64)).astype(np.int64))


@pytest.mark.parametrize("target", ["int8", "int16", "uint8"])
def test_overflow_wraps_or_saturates(target):
    x = np.array([[300.0, -300.0, 70000.0, -70000.0, 127.0, 128.0, -129.0, 255.0, 256.0]], np.float32)
    info = np.iinfo(D[target].np_dtype)
    exact = np.trunc(x.astype(np.float64)).astype(np.int64)
    np.testing.assert_array_equal(run(x, target), exact.astype(D[target].np_dtype))
    np.testing.assert_array_equal(run(x, target, satmode=SaturationMode.ON), exact.clip(info.min, info.max))


def test_the_documented_wrap_of_300_to_int8():
    assert run(np.array([[300.0]], np.float16), "int8")[0, 0] == 44


@pytest.mark.parametrize("target", ["bf16", "fp16"])
def test_ties_of_fp32_go_to_even(target):
    dtype = D[target].np_dtype
    grid = np.arange(0x3C00, 0x4000, dtype=np.uint16).view(dtype).astype(np.float64)
    middle = ((grid[:-1] + grid[1:]) / 2).astype(np.float32)[None]
    np.testing.assert_array_equal(run(middle, target), middle.astype(dtype))
    np.testing.assert_array_equal(run(-middle, target), (-middle).astype(dtype))


def test_the_ties_that_changed_a_choice():
    x = np.array([[1.01953125, 1.02734375, -1.01953125, 1.5]], np.float32)
    assert run(x, "bf16").astype(np.float64).tolist() == [[1.015625, 1.03125, -1.015625, 1.5]]


@pytest.mark.parametrize(("mode", "direction"), [(CastMode.CAST_FLOOR, -1), (CastMode.CAST_CEIL, 1),
                                                 (CastMode.CAST_TRUNC, 0)])
@pytest.mark.parametrize("target", ["bf16", "fp16"])
def test_directed_rounding_of_fp32(mode, direction, target):
    x = np.random.default_rng(5).uniform(-3, 3, (8, 64)).astype(np.float32)
    got = run(x, target, mode).astype(np.float64)
    nearest = x.astype(D[target].np_dtype)
    if direction == 0:
        assert np.all(np.abs(got) <= np.abs(x))
    else:
        assert np.all((got - x) * direction >= 0)
    step = np.abs(np.nextafter(nearest, nearest.dtype.type(9)).astype(np.float64) - nearest.astype(np.float64))
    assert np.all(np.abs(got - x) <= step * 1.0001)


def test_odd_rounding_keeps_the_sticky_bit():
    x = np.array([[1.0, 1.0 + 2**-11, 1.0 + 2**-10, 1.0 + 2**-10 + 2**-20, -1.0 - 2**-20]], np.float32)
    bits = run(x, "fp16", CastMode.CAST_ODD).view(np.uint16)
    assert bits.tolist() == [[0x3C00, 0x3C01, 0x3C01, 0x3C01, 0xBC01]]


@pytest.mark.parametrize("source", [BF16, FP16], ids=str)
def test_every_16_bit_value_widens_exactly(source):
    x = np.arange(65536, dtype=np.uint16).view(source).reshape(256, 256)
    got = run(x, "fp32")
    want = x.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[~np.isnan(want)], want[~np.isnan(want)])


@pytest.mark.parametrize(("source", "target"), [(BF16, "fp16"), (FP16, "bf16")], ids=["bf16-fp16", "fp16-bf16"])
def test_between_the_16_bit_types_rounds_once(source, target):
    x = np.arange(65536, dtype=np.uint16).view(source).reshape(256, 256)
    got = run(x, target)
    with np.errstate(all="ignore"):
        want = x.astype(np.float32).astype(D[target].np_dtype)
    nan = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
    np.testing.assert_array_equal(got.view(np.uint16)[~nan], want.view(np.uint16)[~nan])


def test_fp16_overflow_goes_to_infinity_unless_saturated():
    x = np.array([[65519.0, 65520.0, -1e6, np.inf]], np.float32)
    assert run(x, "fp16").tolist() == [[65504.0, np.inf, -np.inf, np.inf]]
    assert run(x, "fp16", satmode=SaturationMode.ON).tolist()[0][1:3] == [65504.0, -65504.0]


def test_integers_beyond_2_to_24_round_to_nearest_even():
    x = np.array([[2**24 + 1, 2**24 + 3, -(2**24) - 1, 2**31 - 1]], np.int32)
    np.testing.assert_array_equal(run(x, "fp32"), x.astype(np.float32))


def test_integers_beyond_2_to_53_stay_exact():
    x = np.array([[2**53 + 1, -(2**53) - 1, 2**62 + 1]], np.int64)
    np.testing.assert_array_equal(run(x, "int32"), x.astype(np.int32))
    np.testing.assert_array_equal(run(x, "int64", CastMode.CAST_RINT), x)


@pytest.mark.parametrize("mode", [CastMode.CAST_FLOOR, CastMode.CAST_CEIL, CastMode.CAST_ROUND, CastMode.CAST_TRUNC])
@pytest.mark.parametrize("source", [FP32, FP16, BF16], ids=str)
def test_same_type_rounds_to_whole_numbers(mode, source):
    x = TIES.astype(source)
    got = run(x, D[{"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[str(source)]].short, mode)
    np.testing.assert_array_equal(got.astype(np.float64), ROUNDING[mode](x.astype(np.float64)))
