"""Rules of movement, index, creation and matrix product as data: which one fires, how loud, in which profile."""
import pytest

from pypto_sim import errors
from pypto_sim.dtypes import DataType
from pypto_sim.enums import ReLuType
from pypto_sim.rules import PROFILES, RULES
from pypto_sim.trace.scalar import SymbolicScalar
from pypto_sim.trace.tiles import CubeTile

D = {d.short: d for d in DataType}
E, W, OFF = "error", "warn", ""
F32, F16, B16, I32, I8 = D["fp32"], D["fp16"], D["bf16"], D["int32"], D["int8"]
ALWAYS = (E, E, E, E)
STRICT = (W, E, E, E)


def cube(m=(16, 16), k=(32, 32, 32), n=(16, 16), split_k=False):
    """Setting of a cube tile."""
    return {"cube": CubeTile(m, k, n, split_k)}


def mm(F, s, a=(16, 32), b=(32, 16), dtype=F16, out=F32, other=None, **more):
    """A product of operands of the given shapes."""
    return F.matmul(s.tensor(a, dtype), s.tensor(b, other or dtype), out, **more)


def biased(F, s, bias, dtype=F16, kind=F32, a=(16, 32), b=(32, 16)):
    return mm(F, s, a, b, dtype, I32 if dtype is I8 else F32, extend_params={"bias_tensor": s.tensor(bias, kind)})


OK = cube()
TABLE, IDS = (64, 16), (2, 8)

# (rule, severities for lenient / 0.2 / master / guide, call, session settings)
CASES = [
    ("arg.type", ALWAYS, lambda F, s: F.view(s.tensor(), 8, [0, 0]), {}),
    ("arg.type", ALWAYS, lambda F, s: F.view(s.tensor(), [8, "x"], [0, 0]), {}),
    ("arg.type", ALWAYS, lambda F, s: F.view(s.tensor(), [SymbolicScalar("n"), 8], [0, 0]), {}),
    ("arg.type", ALWAYS, lambda F, s: F.view("x", [8, 8], [0, 0]), {}),
    ("arg.value", ALWAYS, lambda F, s: F.view(s.tensor(), [8, -8], [0, 0]), {}),
    ("arg.value", ALWAYS, lambda F, s: F.view(s.tensor(), [8, 8], [0, -1]), {}),
    ("arg.value", ALWAYS, lambda F, s: F.view(s.tensor(), [8, 8], [0, 0], valid_shape=[8, -1]), {}),
    ("shape.symbolic", (OFF, E, E, E), lambda F, s: F.view(s.tensor(), [SymbolicScalar(8), 8], [0, 0]), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.view(s.tensor(), [8], [0]), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.view(s.tensor(), [8, 8], [0]), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.view(s.tensor(), [8, 8], [0, 0], valid_shape=[8]), {}),
    ("shape.empty", ALWAYS, lambda F, s: F.view(s.tensor(), [0, 8], [0, 0]), {}),
    ("view.past_end", ALWAYS, lambda F, s: F.view(s.tensor(), [8, 8], [0, 64]), {}),
    ("view.valid_above", (W, OFF, E, W), lambda F, s: F.view(s.tensor(), [8, 8], [0, 0], valid_shape=[8, 9]), {}),
    ("matmul.out_dtype", ALWAYS,
     lambda F, s: F.scaled_mm(s.tensor((8, 64), D["fp8e4m3"]), s.tensor((64, 8), D["fp8e4m3"]), D["int8"], s.tensor(),
                              s.tensor()), {"device": "950pr"}),
    ("arg.type", ALWAYS, lambda F, s: F.assemble(1.0, [0, 0], s.tensor()), {}),
    ("arg.type", ALWAYS, lambda F, s: F.assemble(s.tensor(), [0, 0], None), {}),
    ("arg.type", ALWAYS, lambda F, s: F.assemble([s.tensor()], s.tensor()), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.assemble(s.tensor((8,)), [0, 0], s.tensor()), {}),
    ("assemble.past_end", ALWAYS, lambda F, s: F.assemble(s.tensor(), [1, 0], s.tensor()), {}),
    ("assemble.dtype", STRICT, lambda F, s: F.assemble(s.tensor(), [0, 0], s.tensor(dtype=B16)), {}),
    ("api.version", (W, E, OFF, OFF), lambda F, s: F.assemble(s.tensor(), [0, 0], s.tensor(), parallel=True), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.reshape(s.tensor(), [8, 65]), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.reshape(s.tensor(), [-1, -1]), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.reshape(s.tensor(), [-1, 7]), {}),
    ("shape.dim", ALWAYS, lambda F, s: F.unsqueeze(s.tensor(), 3), {}),
    ("api.extension", STRICT, lambda F, s: F.squeeze(s.tensor((1, 64)), 0), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.squeeze(s.tensor(), 0), {}),
    ("shape.dim", ALWAYS, lambda F, s: F.transpose(s.tensor(), 0, 2), {}),
    ("transpose.pair", (W, OFF, E, W), lambda F, s: F.transpose(s.tensor((2, 3, 8, 8)), 0, 1), {"tile": (1, 1, 8, 8)}),
    ("transpose.pair", (W, OFF, E, W), lambda F, s: F.transpose(s.tensor((2, 3, 8, 8)), 0, 3), {"tile": (1, 1, 8, 8)}),
    ("transpose.pair", (OFF,) * 4, lambda F, s: F.transpose(s.tensor((2, 3, 8, 8)), 1, 3), {"tile": (1, 1, 8, 8)}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.permute(s.tensor(), [0, 0]), {}),
    ("api.version", (W, E, OFF, OFF), lambda F, s: F.permute(s.tensor(), [1, 0]), {}),
    ("arg.type", ALWAYS, lambda F, s: F.concat(s.tensor(), 0), {}),
    ("concat.count", STRICT, lambda F, s: F.concat([s.tensor()], 0), {}),
    ("dtype.mixed", ALWAYS, lambda F, s: F.concat([s.tensor(), s.tensor(dtype=F16)], 0), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.concat([s.tensor(), s.tensor((8, 63))], 0), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.expand_clone(s.tensor((2, 8)), [4, 8]), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.expand_clone(s.tensor((1, 8)), [4, 1, 8]), {}),
    ("shape.broadcast_axes", (W, E, OFF, OFF), lambda F, s: F.expand_clone(s.tensor((1, 1)), [4, 8]), {}),
    ("shape.rank_above", (W, OFF, E, W), lambda F, s: F.expand_clone(s.tensor((1, 1, 1, 1, 8)), [1, 1, 2, 1, 8]),
     {"tile": (1, 1, 1, 1, 8)}),
    ("arg.value", ALWAYS, lambda F, s: F.fillpad(s.tensor(), mode="reflect"), {}),
    ("pad.float_for_int", STRICT, lambda F, s: F.fillpad(s.tensor(dtype=I32), value=1.0), {}),
    ("scalar.range", ALWAYS, lambda F, s: F.fillpad(s.tensor(dtype=I32), value=float("-inf")), {}),
    ("pad.side", ALWAYS, lambda F, s: F.pad(s.tensor(), [1, 0]), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.pad(s.tensor(), [0, 1, 0]), {}),
    ("api.chip", STRICT, lambda F, s: F.deinterleave(s.tensor()), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.deinterleave(s.tensor((8, 63))), {"device": "950pr"}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.gathermask(s.tensor((8, 62)), 3), {}),
    ("arg.value", ALWAYS, lambda F, s: F.gathermask(s.tensor(), 8), {}),
    ("shape.rank", ALWAYS, lambda F, s: F.tril(s.tensor((8,))), {}),
    ("arg.type", ALWAYS, lambda F, s: F.triu(s.tensor(), 0.5), {}),
    ("tile.vec_unset", STRICT, lambda F, s: F.transpose(s.tensor(), 0, 1), {"tile": None}),
    ("dtype.unsupported", ALWAYS, lambda F, s: F.index_select(s.tensor(TABLE), 0, s.tensor(IDS)), {}),
    ("shape.rank", ALWAYS, lambda F, s: F.index_select(s.tensor(TABLE), 0, s.tensor((2, 2, 2), I32)), {}),
    ("shape.dim", ALWAYS, lambda F, s: F.index_select(s.tensor(TABLE), 2, s.tensor(IDS, I32)), {}),
    ("gather.embedding", (W, E, E, W), lambda F, s: F.gather(s.tensor(TABLE), 0, s.tensor((8,), I32)), {}),
    ("gather.embedding", (W, E, E, W),
     lambda F, s: F.assemble(F.gather(s.tensor(TABLE), 0, s.tensor(IDS, I32)), [0, 0, 0], s.tensor((2, 8, 16))),
     {"tile": (1, 8, 16)}),
    ("gather.embedding", (OFF,) * 4,
     lambda F, s: F.assemble(F.gather(s.tensor(TABLE), 0, s.tensor(IDS, I32)), [0, 0], s.tensor(IDS)), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.exp(F.gather(s.tensor(TABLE), 0, s.tensor((2, 17), I32))), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.gather(s.tensor(TABLE), 1, s.tensor((65, 2), I32)), {}),
    ("arg.value", ALWAYS, lambda F, s: F.scatter(s.tensor(), 0, s.tensor((8, 8), I32), 1.0, reduce="max"), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.scatter(s.tensor(), 0, s.tensor((8,), I32), 1.0), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.scatter(s.tensor(), 0, s.tensor((8, 65), I32), 1.0), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.scatter(s.tensor(), 0, s.tensor((8, 8), I32), s.tensor((4, 8))), {}),
    ("dtype.mixed", ALWAYS, lambda F, s: F.scatter(s.tensor(), 0, s.tensor((8, 8), I32), s.tensor((8, 8), F16)), {}),
    ("arg.value", ALWAYS, lambda F, s: F.scatter_update(s.tensor(), 1, s.tensor((1, 2), I32), s.tensor((2, 64))), {}),
    ("shape.mismatch", ALWAYS, lambda F, s: F.scatter_update(s.tensor(), -2, s.tensor((1, 2), I32), s.tensor((3, 64))),
     {}),
    ("arg.type", ALWAYS, lambda F, s: F.full([8, 64], 1.0, "fp32"), {}),
    ("arg.type", ALWAYS, lambda F, s: F.zeros(8, 64, F16), {}),
    ("arg.value", ALWAYS, lambda F, s: F.full([8, 64], -1, D["uint8"]), {}),
    ("shape.count", ALWAYS, lambda F, s: F.full([65536, 65536], 0.0, F32), {}),
    ("shape.empty", ALWAYS, lambda F, s: F.zeros(0, 8), {}),
    ("arg.value", ALWAYS, lambda F, s: F.arange(), {}),
    ("arg.value", ALWAYS, lambda F, s: F.arange(0, 4, 0), {}),
    ("arg.value", ALWAYS, lambda F, s: F.arange(4, 0), {}),
    ("arg.value", ALWAYS, lambda F, s: F.arange(0, 2**31 + 8, 2**20), {}),
    ("matmul.mixed", ALWAYS, lambda F, s: mm(F, s, other=B16), OK),
    ("dtype.unsupported", ALWAYS, lambda F, s: mm(F, s, dtype=I32, out=I32), OK),
    ("matmul.out_dtype", ALWAYS, lambda F, s: mm(F, s, out=B16), OK),
    ("matmul.out_dtype", ALWAYS, lambda F, s: mm(F, s, dtype=I8, out=F16), OK),
    ("arg.type", ALWAYS, lambda F, s: mm(F, s, out="fp32"), OK),
    ("arg.value", ALWAYS, lambda F, s: mm(F, s, c_matrix_nz=True), OK),
    ("shape.rank", ALWAYS, lambda F, s: mm(F, s, (32,), (32,)), OK),
    ("matmul.rank", STRICT, lambda F, s: mm(F, s, (2, 16, 32)), OK),
    ("shape.mismatch", ALWAYS, lambda F, s: mm(F, s, (16, 32), (16, 32)), OK),
    ("shape.mismatch", ALWAYS, lambda F, s: mm(F, s, (2, 16, 32), (3, 32, 16)), OK),
    ("matmul.inner_axis", (W, W, E, E), lambda F, s: mm(F, s, (1, 65536), (65536, 16)), OK),
    ("shape.dynamic", (W, E, E, E), lambda F, s: F.matmul(s.dynamic(), s.tensor((64, 16)), F32),
     cube(k=(16, 16, 16))),
    ("matmul.valid_k", STRICT,
     lambda F, s: F.matmul(s.tensor((16, 32), F16, (16, 20)), s.tensor((32, 16), F16), F32), OK),
    ("matmul.bias_rank", STRICT, lambda F, s: biased(F, s, (16,)), OK),
    ("matmul.bias_dtype", STRICT, lambda F, s: biased(F, s, (1, 16), B16, B16), OK),
    ("matmul.bias_dtype", (OFF,) * 4, lambda F, s: biased(F, s, (1, 16), B16, B16), {**OK, "device": "950pr"}),
    ("dtype.unsupported", ALWAYS, lambda F, s: biased(F, s, (1, 16), F16, B16), OK),
    ("dtype.unsupported", ALWAYS, lambda F, s: biased(F, s, (1, 16), I8, F32), OK),
    ("shape.mismatch", ALWAYS, lambda F, s: biased(F, s, (1, 8)), OK),
    ("matmul.batch_extend", (OFF, E, OFF, OFF), lambda F, s: biased(F, s, (1, 16), a=(1, 16, 32), b=(1, 32, 16)), OK),
    ("arg.unknown", ALWAYS, lambda F, s: mm(F, s, extend_params={"bias": s.tensor((1, 16))}), OK),
    ("arg.type", ALWAYS, lambda F, s: mm(F, s, extend_params=[1]), OK),
    ("arg.type", ALWAYS, lambda F, s: mm(F, s, extend_params={"relu_type": True}), OK),
    ("matmul.out_dtype", ALWAYS, lambda F, s: mm(F, s, extend_params={"scale": 2.0}), OK),
    ("tile.cube_unset", STRICT, lambda F, s: mm(F, s), {}),
    ("tile.cube", ALWAYS, lambda F, s: mm(F, s), cube(k=(0, 0, 0))),
    ("tile.cube", ALWAYS, lambda F, s: mm(F, s), cube(k=(24, 24, 24))),
    ("tile.cube", ALWAYS, lambda F, s: mm(F, s), cube(n=(8, 8))),
    ("tile.cube", ALWAYS, lambda F, s: mm(F, s, dtype=I8, out=I32), cube(k=(16, 16, 16))),
    ("tile.cube", ALWAYS, lambda F, s: mm(F, s), cube(k=(48, 64, 64))),
    ("tile.cube", ALWAYS, lambda F, s: mm(F, s), cube(m=(32, 48))),
    ("tile.cube", ALWAYS, lambda F, s: mm(F, s, (32, 8), (32, 16), a_trans=True), cube(m=(8, 8))),
    ("tile.cube", (OFF,) * 4, lambda F, s: mm(F, s, (8, 32)), cube(m=(8, 8))),
    ("tile.l1_total", (W, OFF, E, E), lambda F, s: mm(F, s, (256, 1024), (1024, 256)),
     cube((128, 256), (64, 1024, 1024), (128, 256))),
    ("matmul.split_k", ALWAYS, lambda F, s: mm(F, s, out=F16), cube(split_k=True)),
    ("matmul.split_k", ALWAYS, lambda F, s: mm(F, s, extend_params={"relu_type": ReLuType.RELU}), cube(split_k=True)),
]
MEETS_FIRST = {"shape.mismatch": ("api.version", "api.extension"), "api.chip": ("api.version",)}   # stop it earlier


def start(dry, profile, settings):
    """A session with the vector and cube tile of `settings`."""
    s = dry(profile=profile, **{k: v for k, v in settings.items() if k != "cube"})
    s.set_scope(cube_tile=settings.get("cube"))
    return s


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_rule(number, profile, dry, F):
    rule, severities, call, settings = CASES[number]
    severity = severities[PROFILES.index(profile)]
    s = start(dry, profile, settings)
    if severity != E:
        call(F, s)
        assert s.fired.get(rule, OFF) == severity
        return
    with pytest.raises(errors.PyptoError) as caught:
        call(F, s)
    assert caught.value.rule in (rule, *MEETS_FIRST.get(rule, ()))
    if profile == "lenient" or caught.value.rule == rule:
        assert isinstance(caught.value, RULES[rule].error)
    text = str(caught.value)
    assert "pypto." in text and "test_rules_movement.py:" in text and "in kernel `k`" in text


def test_k_mismatch_asks_about_the_transposed_form(dry, F):
    s = start(dry, "lenient", OK)
    with pytest.raises(RuntimeError, match=r"`mat2` has shape \[64, 32\].*must equal 32.*Did you mean b_trans=True\?"):
        mm(F, s, (16, 32), (64, 32))
    with pytest.raises(RuntimeError, match=r"Did you mean a_trans=True\?"):
        mm(F, s, (32, 16), (32, 64))
    with pytest.raises(RuntimeError, match=r"Did you mean b_trans=False\?"):
        mm(F, s, (16, 32), (32, 64), b_trans=True)
    with pytest.raises(RuntimeError) as caught:
        mm(F, s, (16, 32), (48, 64))
    assert "Did you mean" not in str(caught.value)


def test_old_code_can_catch_the_builtin(dry, F):
    s = start(dry, "master", OK)
    for builtin, call in ((ValueError, lambda: mm(F, s, other=B16)), (RuntimeError, lambda: mm(F, s, (2, 16, 32))),
                          (RuntimeError, lambda: F.view(s.tensor(), [8], [0])),
                          (TypeError, lambda: F.view(s.tensor(), [SymbolicScalar(8), 8], [0, 0])),
                          (RuntimeError, lambda: F.assemble(s.tensor(), [0, 0], s.tensor(dtype=F16))),
                          (RuntimeError, lambda: F.reshape(s.tensor(), [1])),
                          (ValueError, lambda: F.scatter(s.tensor(), 0, s.tensor((8, 8), I32), 1.0, reduce="max")),
                          (ValueError, lambda: F.fillpad(s.tensor(dtype=I32), value=0.5)),
                          (KeyError, lambda: mm(F, s, extend_params={"bais": 1}))):
        with pytest.raises(builtin):
            call()


def test_an_unevaluated_gather_may_only_be_written_as_rows(dry, F):
    """The index is longer than the table is wide: the element form does not exist, the look-up does."""
    s = start(dry, "lenient", {"tile": (1, 32, 16)})
    marked = F.gather(s.tensor((64, 16)), 0, s.tensor((2, 32), I32))
    assert s.kernels == ["view", "view"] and marked.shape == [2, 32] and marked.dtype is F32
    F.assemble(marked, [0, 0, 0], s.tensor((2, 32, 16)))
    assert s.kernels[2:] == ["index_select"]
    assert s.rows[2].outs[0].shape == [2, 32, 16]
    for use in (lambda: F.exp(marked), lambda: F.assemble(marked, [0, 0], s.tensor((2, 32))), lambda: marked + 1.0,
                lambda: F.assemble(marked, [0, 0, 0], s.tensor((2, 32, 17))),
                lambda: s.set(s.tensor((2, 32)), marked)):
        with pytest.raises(errors.ShapeError, match="index_select"):
            use()


def test_the_element_form_is_emitted_once_and_only_when_used(dry, F):
    s = start(dry, "lenient", {"tile": (2, 8)})
    weight, ids = s.tensor(TABLE), s.tensor(IDS, I32)
    marked = F.gather(weight, 0, ids)
    assert s.kernels == ["view", "view"], "locals are viewed at once: they may be written before the use"
    s.set_scope(vec_tile=(1, 4))
    F.exp(marked)
    F.mul(marked, marked)
    assert s.kernels == ["view", "view", "gather", "exp", "mul"]
    assert s.rows[2].tile == (2, 8), "the tile in force at the call"


def test_a_gather_whose_table_does_not_fit_is_unevaluated_too(dry, F):
    s = start(dry, "lenient", {"tile": (1, 8, 512)})
    marked = F.gather(s.tensor((32000, 4096)), 0, s.tensor((1, 8), I32))
    F.assemble(marked, [0, 0, 0], s.tensor((1, 8, 4096)))
    assert s.kernels[2:] == ["index_select"]
    with pytest.raises(errors.CapacityError, match="pypto.gather"):
        F.exp(marked)


def test_a_cast_comes_before_a_write_of_another_type(dry, F):
    s = start(dry, "lenient", {})
    target = s.tensor(dtype=B16)
    F.assemble(s.tensor(), [0, 0], target)
    assert s.kernels == ["cast"] and s.rows[0].ints == (1, 0)     # nearest, ties to even, no saturation


def test_split_k_is_a_chain_of_products_and_additions(dry, F):
    s = start(dry, "lenient", cube((16, 16), (32, 64, 64), (16, 16), split_k=True))
    result = mm(F, s, (16, 160), (160, 16))
    assert s.kernels == ["view", "view", "matmul", "view", "view", "matmul", "add", "view", "view", "matmul", "add"]
    assert [r.outs[0].shape for r in s.rows if r.kernel == "view"][-2:] == [[16, 32], [32, 16]]
    assert result.shape == [16, 16] and s.cube_tile.split_k, "the tile in force is restored"


def test_missing_cube_tile_is_chosen_for_the_operands(dry, F):
    s = start(dry, "lenient", {})
    mm(F, s, (1, 4096), (4096, 40), dtype=B16)
    assert "tile.cube_unset" in s.fired and s.cube_tile is None
    (finding,) = s.findings.values()
    assert "m (16, 16), k (128, 256, 256), n (48, 48)" in finding.text
