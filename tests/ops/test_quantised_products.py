"""Products whose result is quantised on the way out."""
import ml_dtypes
import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.dtypes import DataType
from pypto_sim.testing import evaluate

pytestmark = pytest.mark.filterwarnings("ignore::pypto_sim.errors.PyptoWarning")
D = {d.short: d for d in DataType}


def ints(*shape, low, high):
    """Small whole numbers."""
    return np.random.default_rng(shape[0]).integers(low, high, shape).astype(np.float32)


SCALES = np.array([[0.5, -0.25, 0.3, 3.0] * 4], np.float32)
SHORTENED = (SCALES.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def quantised(sums):
    """INT8 of fp32 sums times the scales of the columns."""
    return np.clip(np.rint(np.float32(sums) * SHORTENED), -128, 127).astype(np.int8)


@pytest.mark.parametrize("kind", ["uint64", "int64", "fp32"])
@pytest.mark.parametrize("short", ["fp16", "bf16", "fp32", "int8"])
def test_matmul_quantises_any_operands(short, kind):
    a = ints(8, 32, low=-3, high=4).astype(D[short].np_dtype)
    b = ints(32, 16, low=-3, high=4).astype(D[short].np_dtype)
    bits = SCALES if kind == "fp32" else SCALES.view(np.uint32).astype(kind) | np.array(1 << 40, kind)
    extend = lambda s: {"scale_tensor": s, "relu_type": pypto.ReLuType.RELU}
    (y,) = evaluate(lambda a, b, s: pypto.matmul(a, b, pypto.DT_INT8, extend_params=extend(s)), a, b, bits)
    sums = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_array_equal(y, quantised(sums))


def test_scaled_mm_quantises():
    a, b = (x.astype(ml_dtypes.float8_e4m3fn) for x in (ints(8, 64, low=-2, high=3), ints(64, 16, low=-2, high=3)))
    scale_a = np.full((8, 1, 2), 127, np.uint8).view(ml_dtypes.float8_e8m0fnu)
    scale_b = np.full((1, 16, 2), 128, np.uint8).view(ml_dtypes.float8_e8m0fnu)
    bits = SCALES.view(np.uint32).astype(np.uint64)
    (y,) = evaluate(lambda a, b, p, q, s: pypto.scaled_mm(a, b, pypto.DT_INT8, p, q, extend_params={"scale_tensor": s}),
                    a, b, scale_a, scale_b, bits, device="950pr")
    np.testing.assert_array_equal(y, quantised(2 * (a.astype(np.float32) @ b.astype(np.float32))))
    with pytest.raises(pypto.error.DTypeError, match="allowed without a scale"):
        evaluate(lambda a, b, p, q: pypto.scaled_mm(a, b, pypto.DT_INT8, p, q), a, b, scale_a, scale_b, device="950pr")
