"""Values of the public 0.2.0 package: stored inputs and outputs of small kernels, profile 0.2, numerics 0.2.0.

Moves, casts, add/sub/mul chains, matrix products, maxima, sums and top-k are equal bit for bit. Where exp, log, sqrt,
rsqrt or division is involved the bound is 2 ULP of fp32, 1 ULP of a 16-bit output. Cases whose record has a note follow
the numerics table instead: NOTES says how.
"""
import importlib.util
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pypto_sim as pypto

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "official_sim"
RECORDS = json.loads((FOLDER / "numerics.json").read_text()) if FOLDER.is_dir() else {}
CASES = RECORDS.get("cases", RECORDS)
DTYPES = {"bfloat16": ml_dtypes.bfloat16}
INT32_LIMIT = 2.0**31

EXACT = {
    "num_add_bf16", "num_amax_nan", "num_cast_bf16_ties", "num_cast_int32_ceil", "num_cast_int32_none",
    "num_cast_int32_round", "num_cast_int32_trunc", "num_gather_last", "num_index_select", "num_linear_add_fp16",
    "num_mm_bf16_bf16_k128", "num_mm_bias_fp16", "num_mm_fp16_fp16_k64", "num_mm_fp16_fp32_k64", "num_mm_int8",
    "num_mm_tails", "num_poly_fp16", "num_scalars_bf16", "num_scalars_fp32", "num_topk_distinct", "num_valid_amax",
    "num_sum_1000_tile128", "num_sum_512_whole", "num_sum_axis0_100_tile16", "num_valid_sum",
}
ROUNDED = {     # exp, sqrt, rsqrt or division
    "num_div_bf16", "num_div_fp32", "num_exp_fp32", "num_exp_sqrt_fp16", "num_long_chain_bf16", "num_loop_accumulate",
    "num_rmsnorm_bf16", "num_rsqrt_fp16", "num_softmax_bf16", "num_softmax_split",
}


def _in_range(x: np.ndarray, rounded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rounded values and where they are INT32 numbers; what the others become is not defined."""
    with np.errstate(invalid="ignore"):
        return np.abs(rounded) < INT32_LIMIT, rounded.astype(np.int32)


def _half_away(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(x.astype(np.float64)) + 0.5), x)


# case: (inputs, stored output) -> (mask of defined elements, expected values)
NOTES = {
    "num_amax_nan": lambda x, stored: (np.ones(stored.shape, bool), stored),          # NaN propagates, as there
    "num_cast_int32_ceil": lambda x, stored: _in_range(x, np.ceil(x)),
    "num_cast_int32_none": lambda x, stored: _in_range(x, np.trunc(x)),               # documented: truncates
    "num_cast_int32_round": lambda x, stored: _in_range(x, _half_away(x)),            # documented: halves away from 0
    "num_cast_int32_trunc": lambda x, stored: _in_range(x, np.trunc(x)),
    "num_valid_amax": lambda x, stored: (np.arange(stored.shape[1]) < 40, stored),
}


@pytest.fixture(scope="module")
def kernels():
    spec = importlib.util.spec_from_file_location("reference_kernels", FOLDER / "kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.NUMERICS


@pytest.fixture(scope="module")
def stored():
    with np.load(FOLDER / "numerics.npz") as z:
        return {k: z[k] for k in z.files}


def ordered(x: np.ndarray) -> np.ndarray:
    """Floats as integers in the order of their values, so that neighbours differ by 1."""
    bits = x.view({2: np.int16, 4: np.int32}[x.dtype.itemsize]).astype(np.int64)
    lowest = -(1 << (8 * x.dtype.itemsize - 1))
    return np.where(bits < 0, lowest - bits, bits)


def ulps(got: np.ndarray, want: np.ndarray) -> int:
    """Largest distance in units of the last place; two NaNs are equal."""
    both_nan = np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    return int(np.abs(ordered(got) - ordered(want))[~both_nan].max(initial=0))


def typed(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.view(DTYPES[dtype]) if dtype in DTYPES else array


@pytest.mark.skipif(not CASES, reason="reference data folder is absent")
def test_every_case_has_a_bound():
    assert EXACT | ROUNDED == set(CASES)
    assert set(NOTES) == {name for name, record in CASES.items() if "note" in record}


@pytest.mark.parametrize("name", sorted(CASES))
def test_values_of_0_2_0(name, kernels, stored):
    kernel, args = kernels[name].build(pypto)
    ins = [typed(stored[f"{name}/in{i}"], a.dtype).copy() for i, a in enumerate(x for x in args if x.role == "in")]
    outs = [np.zeros(a.shape, DTYPES.get(a.dtype, a.dtype)) for a in args if a.role == "out"]
    before, left, right = [x.copy() for x in ins], iter(ins), iter(outs)
    with pypto.config(profile="0.2", numerics="0.2.0"):
        kernel(*[next(left if a.role == "in" else right) for a in args])
    for x, old in zip(ins, before, strict=True):
        assert x.tobytes() == old.tobytes(), "an input was changed"
    for i, got in enumerate(outs):
        want = typed(stored[f"{name}/out{i}"], [a.dtype for a in args if a.role == "out"][i])
        mask = np.ones(got.shape, bool)
        if name in NOTES:
            mask, want = NOTES[name](ins[0], want)
            mask = np.broadcast_to(mask, got.shape)
        assert got.shape == want.shape and got.dtype == want.dtype
        if name in ROUNDED:
            assert ulps(got[mask], want[mask]) <= (2 if got.dtype == np.float32 else 1)
        elif got.dtype.kind in "iu":
            assert np.array_equal(got[mask], want[mask])
        else:
            assert ulps(got[mask], want[mask]) == 0
            assert np.array_equal(np.signbit(got[mask]), np.signbit(want[mask])) or np.isnan(want[mask]).any()
