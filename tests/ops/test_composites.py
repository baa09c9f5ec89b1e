"""Composites expand into the documented rows, under one label, and the valid region flows through them."""
import pytest

from pypto_sim.dtypes import DataType
from pypto_sim.errors import PyptoTypeError, ShapeError
from pypto_sim.trace.scalar import SymbolicScalar

FP32, BF16, FP16, INT32, BOOL = (DataType[f"DT_{n}"] for n in ("FP32", "BF16", "FP16", "INT32", "BOOL"))

CHAINS = {
    "sigmoid": (lambda F, x: F.sigmoid(x), ["cast", "muls", "exp", "adds", "full", "div", "cast"]),
    "softmax": (lambda F, x: F.softmax(x, -1), ["cast", "amax", "sub", "exp", "sum", "div", "cast"]),
    "rms_norm": (lambda F, x: F.rms_norm(x), ["cast", "mul", "muls", "sum", "adds", "sqrt", "div", "cast"]),
    "rsqrt": (lambda F, x: F.rsqrt(x), ["cast", "sqrt", "full", "div", "cast"]),
    "log": (lambda F, x: F.log(x), ["cast", "log", "cast"]),
    "clip": (lambda F, x: F.clip(x, -1.0, 1.0), ["maxs", "mins"]),
    "pow": (lambda F, x: x ** 3, ["mul", "mul"]),
    "log2": (lambda F, x: F.log2(x), ["cast", "log2", "cast"]),
    "lrelu": (lambda F, x: F.lrelu(x), ["ges", "muls", "where"]),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", [FP32, BF16, FP16])
def test_steps_in_order(name, dtype, dry, F):
    s = dry()
    call, kernels = CHAINS[name]
    result = call(F, s.tensor(dtype=dtype))
    expected = [k for k in kernels if k != "cast"] if dtype is FP32 else kernels
    assert s.kernels == expected
    assert {r.label for r in s.rows} == {name}
    assert result.dtype is dtype and result.static_shape == (8, 64)


@pytest.mark.parametrize("name", CHAINS)
def test_valid_region_flows(name, dry, F):
    s = dry()
    n = SymbolicScalar("n")
    result = CHAINS[name][0](F, s.tensor(valid=(n, 64)))
    assert result.valid_shape[0] is n and result.valid_shape[1] == 64
    for row in s.rows:
        if row.kernel == "full":
            assert row.ints[1] == 1 and len(row.scalars) == 2, "the constant is valid where its partner is"


def test_rms_norm_scales_by_the_reciprocal_of_the_axis(dry, F):
    s = dry(tile=(8, 512))
    F.rms_norm(s.tensor((4, 320)), s.tensor((320,)), epsilon=1e-5)
    assert s.rows[1].floats == (1 / 320,) and s.rows[3].floats == (1e-5,)
    assert s.kernels[-1] == "mul"


def test_rms_norm_gamma_must_fit(dry, F):
    s = dry()
    with pytest.raises(ShapeError, match="gamma"):
        F.rms_norm(s.tensor((8, 64)), s.tensor((4, 8, 64)))


def test_scalar_minus_tensor_and_scalar_over_tensor(dry, F):
    s = dry()
    x = s.tensor()
    1.0 - x
    2.0 / x
    x // 3.0
    assert s.kernels == ["subs", "neg", "reciprocal", "muls", "divs", "floor"]


def test_alpha_is_a_product_first(dry, F):
    s = dry()
    F.add(s.tensor(), s.tensor(), alpha=2)
    F.sub(s.tensor(), 3.0, alpha=2)
    assert s.kernels == ["muls", "add", "subs"]
    assert s.rows[2].floats == (6.0,)
    assert s.fired == {"alpha.removed": "warn"}


def test_integer_division_gives_fp32(dry, F):
    s = dry()
    assert F.div(s.tensor(dtype=INT32), s.tensor(dtype=INT32)).dtype is FP32
    assert s.kernels == ["cast", "cast", "div"]
    old = dry(profile="0.2")
    assert F.div(old.tensor(dtype=INT32), 3).dtype is INT32
    assert old.kernels == ["cast", "divs", "cast"]


def test_clip_without_bounds_returns_the_object(dry, F):
    x = dry().tensor()
    assert F.clip(x) is x


def test_clip_refuses_mixed_bounds(dry, F):
    s = dry()
    with pytest.raises(PyptoTypeError, match="both"):
        F.clip(s.tensor(), s.tensor(), 1.0)


def test_cast_to_the_same_type_returns_the_object(dry, F):
    x = dry().tensor()
    assert F.cast(x, FP32) is x


def test_comparisons_with_foreign_objects_are_identity(dry, F):
    x = dry().tensor()
    assert (x == None) is False and (x != None) is True      # noqa: E711
    assert len({x, x}) == 1


def test_where_valid_and_scalars(dry, F):
    s = dry()
    F.where(s.tensor(dtype=BOOL), s.tensor(), -1.5)
    assert s.rows[0].ints == (0, 1, 0, 0) and s.rows[0].floats == (0.0, -1.5)
    both = F.where(s.tensor(dtype=BOOL), 1.0, 2.0)
    assert both.dtype is FP32 and s.rows[1].ints[:2] == (1, 1)


def test_binary_valid_is_the_first_operand_of_full_size(dry, F):
    s = dry()
    a, b = s.tensor(valid=(5, 64)), s.tensor((8, 1), valid=(7, 1))
    assert F.add(a, b).valid_shape == [5, 64]
    assert F.add(b, a).valid_shape == [7, 64]
    assert F.add(s.tensor((1, 64)), a).valid_shape == [5, 64]


def test_reduction_valid_and_shape(dry, F):
    s = dry()
    x = s.tensor(valid=(5, 40))
    assert F.sum(x, -1).valid_shape == [5]
    kept = F.amax(x, 0, True)
    assert kept.static_shape == (1, 64) and kept.valid_shape == [1, 40]
    assert F.sum(s.tensor((64,)), 0).static_shape == (1,), "a rank-1 tensor keeps its axis"


def test_topk_shape_and_valid(dry, F):
    s = dry()
    values, indices = F.topk(s.tensor(valid=(5, 3)), 4)
    assert values.static_shape == indices.static_shape == (8, 4)
    assert values.valid_shape == [5, 3] and indices.dtype is INT32


def test_online_softmax_returns_bf16_and_statistics(dry, F):
    s = dry(device="950pr", profile="master")
    e, top, total = F["experimental.online_softmax"](s.tensor(), 0.5)
    assert (e.dtype, top.static_shape, total.static_shape) == (BF16, (1, 64), (1, 64))
    assert s.kernels == ["muls", "amax", "sub", "exp", "sum", "cast"] and not s.fired
