"""What every operation of the registry promises: reference values, shapes, methods, refusals, valid regions."""
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.samples import SAMPLES, D, Sample, bound_of, exact

from pypto_sim.dtypes import DataType
from pypto_sim.errors import DTypeError, ShapeError
from pypto_sim.registry import REGISTRY
from pypto_sim.testing import evaluate, ulp_distance
from pypto_sim.testing.ulp import ulp_size
from pypto_sim.trace.tensor import Tensor

pytestmark = pytest.mark.filterwarnings("ignore::pypto_sim.errors.PyptoWarning")
OPERATORS = {"__add__": "add", "__sub__": "sub", "__mul__": "mul", "__truediv__": "div", "__eq__": "eq", "__ne__": "ne",
             "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge"}


def types_of(sample: Sample) -> list[DataType]:
    """Element types the operation computes on, on whatever chip."""
    supported = sample.spec.dtypes
    found = supported.union() | supported.unlisted
    if sample.types:
        found &= {D[t] for t in sample.types}
    return sorted((d for d in found if d.arithmetic), key=lambda d: d.value)


def usual_type(sample: Sample) -> DataType:
    """FP32, or INT32 for integer operations."""
    types = types_of(sample)
    return next((D[t] for t in ("fp32", "int32", "int16") if D[t] in types), types[0])


def device_for(sample: Sample, dtype: DataType) -> str:
    """A device that documents the type."""
    return "950pr" if dtype in sample.spec.dtypes.only_950 or sample.spec.socs == ("950",) else "910b1"


def tile_for(sample: Sample) -> tuple[int, ...]:
    """A vector tile that cuts the operands of the sample."""
    rank = max(map(len, sample.shapes))
    return (1, 1, 1, 1, 8, 64)[-rank:]


def run(sample: Sample, arrays, dtype: DataType, **more):
    """Results of a sample on arrays."""
    function = sample.spec.function
    return evaluate(lambda *t: sample.call(function, *t), *arrays, tile=tile_for(sample),
                    device=device_for(sample, dtype), **more)


def references(sample: Sample, arrays) -> list[np.ndarray]:
    """Expected results in float64 or exact integers."""
    with np.errstate(all="ignore"):
        expected = sample.reference(*exact(*arrays))
    return list(expected) if isinstance(expected, tuple) else [expected]


def wrapped(expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Exact integers modulo 2^n."""
    bits = 8 * dtype.itemsize
    values = np.array([int(v) & (1 << bits) - 1 for v in np.ravel(expected)], dtype=object)
    return values.astype(f"u{dtype.itemsize}").view(dtype).reshape(np.shape(expected))


def check(sample: Sample, results, expected, dtype: DataType, arrays) -> None:
    """Results agree with the reference within the bound."""
    assert len(results) == len(expected)
    for i, (got, want) in enumerate(zip(results, expected, strict=True)):
        short = sample.result[i] if i < len(sample.result) else None
        if sample.int_result and not dtype.is_float:
            short = sample.int_result
        kind = D[short].np_dtype if short else dtype.np_dtype
        assert got.dtype == kind and got.shape == np.shape(want)
        if kind.kind in "iub":
            want = np.asarray(want).astype(bool) if kind.kind == "b" else wrapped(want, kind)
            np.testing.assert_array_equal(got, want)
            continue
        want = np.asarray(want, np.float64)
        distance = ulp_distance(got, want)
        bound = np.asarray(bound_of(sample, dtype, kind))
        if sample.terms:
            count, total = sample.terms(*exact(*arrays))
            bound = 1 + 2 * np.log2(count) * 2.0 ** -24 * np.asarray(total, np.float64) / ulp_size(want, kind)
        worst = np.unravel_index(np.argmax(distance - bound), distance.shape)
        assert np.all(distance <= bound), f"{distance[worst]} ulp at {worst}: {got[worst]} for {want[worst]}"


# the samples' scalars are negative, which has no place beside an unsigned tensor in the reference
CASES = [(s, d) for s in SAMPLES for d in types_of(s) if not (s.tag.startswith("scalar-") and d.is_unsigned)]


@pytest.mark.parametrize(("sample", "dtype"), CASES, ids=[f"{s}-{d.short}" for s, d in CASES])
def test_agrees_with_the_reference(sample, dtype):
    arrays = sample.arrays(dtype)
    check(sample, run(sample, arrays, dtype), references(sample, arrays), dtype, arrays)


REPLAYED = [(s, d) for s, d in CASES if d in (D["fp32"], D["bf16"], D["int32"])]


@pytest.mark.parametrize(("sample", "dtype"), REPLAYED, ids=[f"{s}-{d.short}" for s, d in REPLAYED])
def test_replay_gives_the_bits_of_stepping(sample, dtype):
    arrays = sample.arrays(dtype)
    for a, b in zip(run(sample, arrays, dtype), run(sample, arrays, dtype, mode="auto"), strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


def test_every_operation_with_a_reference_has_a_sample():
    with_reference = {n for n, s in REGISTRY.items() if s.reference is not None}
    elsewhere = {n for n in with_reference if REGISTRY[n].function.__module__.rsplit(".", 1)[1] in
                 ("move", "views", "index", "create", "matmul", "update", "bytes")}
    assert with_reference - elsewhere <= {s.name for s in SAMPLES}


NAMED = [(s, m) for s in SAMPLES for m in s.spec.methods if not m.startswith("__") and s.tag != "reverse"]


@pytest.mark.parametrize(("sample", "method"), NAMED, ids=[f"{s}-{m}" for s, m in NAMED])
def test_method_is_the_function(sample, method):
    dtype = usual_type(sample)
    arrays = sample.arrays(dtype)
    by_method = evaluate(lambda *t: sample.call(lambda x, *a, **k: getattr(x, method)(*a, **k), *t), *arrays,
                         tile=tile_for(sample), device=device_for(sample, dtype))
    for a, b in zip(by_method, run(sample, arrays, dtype), strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("other", ["tensor", "scalar"])
def test_operator_is_the_function(operator, other):
    a, b = np.random.default_rng(1).uniform(1, 2, (2, 8, 64)).astype(np.float32)
    function = REGISTRY[OPERATORS[operator]].function
    value = lambda t: t if other == "tensor" else 1.5
    (by_operator,) = evaluate(lambda x, y: getattr(x, operator)(value(y)), a, b)
    (by_function,) = evaluate(lambda x, y: function(x, value(y)), a, b)
    np.testing.assert_array_equal(by_operator, by_function)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.name != "cast"], ids=str)
def test_refuses_other_types(sample, dry):
    supported = sample.spec.dtypes
    others = [d for d in DataType if d.arithmetic and d not in supported.union() | supported.unlisted]
    for dtype in others:
        s = dry(device="950pr", tile=(8, 64))
        mask = (0,) if sample.name == "where" else ()
        tensors = [Tensor.handle(shape, D["bool"] if i in mask else dtype, None, s, 0)
                   for i, shape in enumerate(sample.shapes)]
        with pytest.raises(DTypeError, match=dtype.name):
            sample.call(sample.spec.function, *tensors)


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_broadcast_shapes_are_those_of_numpy(data, dry):
    sizes = st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4)
    a, b = data.draw(sizes), data.draw(sizes)
    s = dry(tile=(4, 4, 4, 8))
    x, y = s.tensor(tuple(a)), s.tensor(tuple(b))
    try:
        expected = np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        with pytest.raises(ShapeError, match="broadcast"):
            REGISTRY["add"].function(x, y)
        return
    for name in ("add", "maximum", "gt"):
        assert REGISTRY[name].function(x, y).static_shape == expected


VALID_CASES = [s for s in SAMPLES if s.shapes[0] in ((8, 64), (16, 200), (4, 513)) and not s.fixed
               and s.name != "var"]                 # divides by the static size


@pytest.mark.parametrize("sample", VALID_CASES, ids=str)
def test_only_the_valid_region_counts(sample):
    """Same values as on the cropped operand; the rest of the result stays as it was."""
    dtype = usual_type(sample)
    arrays = sample.arrays(dtype)
    rows, columns = 3, sample.shapes[0][1] if sample.name in ("rms_norm",) else 40
    crop = lambda a: a[..., :columns][:rows] if a.ndim == 2 else a[:columns]
    valid = {i: tuple(min(n, w) for n, w in zip(a.shape, (rows, columns)[-a.ndim:], strict=True))
             for i, a in enumerate(arrays)}
    results = run(sample, arrays, dtype, valid=valid, fill=1 if sample.result[0] == "bool" else -77)
    cropped = [np.ascontiguousarray(a[tuple(slice(n) for n in valid[i])]) for i, a in enumerate(arrays)]
    expected = references(sample, cropped)
    inside = [r[tuple(slice(n) for n in np.shape(e))] for r, e in zip(results, expected, strict=True)]
    check(sample, inside, expected, dtype, cropped)
    for result, part in zip(results, inside, strict=True):
        outside = np.ones(result.shape, bool)
        outside[tuple(slice(n) for n in part.shape)] = False
        assert np.all(result[outside] == (1 if result.dtype == bool else -77))
    assert crop(arrays[0]).shape == cropped[0].shape
