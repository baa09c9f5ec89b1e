"""Wrong or questionable calls as data: which rule says what in which profile."""
from pathlib import Path

import pytest

from pypto_sim import errors
from pypto_sim.dtypes import DataType, Element
from pypto_sim.enums import CastMode, PrecisionType, TopKAlgo
from pypto_sim.rules import PROFILES, RULES, SEVERITIES, listing

D = {d.short: d for d in DataType}
E, W, N, OFF = "error", "warn", "note", ""

# (rule, severities for lenient / 0.2 / master / guide, call, session settings)
CASES = [
    ("arg.type", (E, E, E, E), lambda F, s: F.add(1.0, s.tensor()), {}),
    ("arg.type", (E, E, E, E), lambda F, s: F.maximum(1.0, 2.0), {}),
    ("arg.type", (E, E, E, E), lambda F, s: F.add(s.tensor(), "x"), {}),
    ("arg.type", (E, E, E, E), lambda F, s: F.sum(s.tensor(), 1.0), {}),
    ("arg.type", (E, E, E, E), lambda F, s: F.cast(s.tensor(), "fp16"), {}),
    ("arg.type", (E, E, E, E), lambda F, s: F.topk(s.tensor(), 2.0), {}),
    ("dtype.mixed", (E, E, E, E), lambda F, s: F.add(s.tensor(), s.tensor(dtype=D["fp16"])), {}),
    ("dtype.mixed", (E, E, E, E), lambda F, s: F.mul(s.tensor(), Element(D["fp16"], 1.0)), {}),
    ("dtype.unsupported", (E, E, E, E), lambda F, s: F.exp(s.tensor(dtype=D["int32"])), {}),
    ("dtype.unsupported", (E, E, E, E), lambda F, s: F.where(s.tensor(dtype=D["int8"]), s.tensor(), s.tensor()), {}),
    ("where.bit_mask", (W, E, E, E), lambda F, s: F.where(s.tensor((8, 8), D["uint8"]), s.tensor(), s.tensor()), {}),
    ("dtype.chip", (W, E, E, E), lambda F, s: F.add(s.tensor(dtype=D["uint8"]), 1), {}),
    ("dtype.chip", (OFF,) * 4, lambda F, s: F.add(s.tensor(dtype=D["uint8"]), 1), {"device": "950pr"}),
    ("dtype.version", (W, OFF, E, W), lambda F, s: F.eq(s.tensor(dtype=D["bf16"]), 1.0), {}),
    ("dtype.version", (W, OFF, E, E), lambda F, s: F.sum(s.tensor(dtype=D["fp16"]), -1), {}),
    ("dtype.unlisted", (W, E, E, E), lambda F, s: F.mul(s.tensor(dtype=D["int64"]), 2), {}),
    ("scalar.float_for_int", (E, W, E, E), lambda F, s: F.add(s.tensor(dtype=D["int32"]), 2.5), {}),
    ("scalar.whole_float_for_int", (W, OFF, E, W), lambda F, s: F.add(s.tensor(dtype=D["int32"]), 2.0), {}),
    ("scalar.range", (E, E, E, E), lambda F, s: F.mul(s.tensor(dtype=D["int32"]), float("inf")), {}),
    ("scalar.wraps", (N, N, N, N), lambda F, s: F.add(s.tensor(dtype=D["int16"]), 70000), {}),
    ("scalar.dtype", (W, OFF, E, W),
     lambda F, s: F.where(s.tensor(dtype=D["bool"]), s.tensor(dtype=D["fp16"]), 0.0), {}),
    ("scalar.dtype", (OFF,) * 4,
     lambda F, s: F.where(s.tensor(dtype=D["bool"]), s.tensor(dtype=D["fp16"]), Element(D["fp16"], 0.0)), {}),
    ("scalar.int_compare", (W, E, E, W), lambda F, s: F.gt(s.tensor(), 1), {}),
    ("shape.rank", (E, E, E, E), lambda F, s: F.exp(s.tensor((1,) * 7)), {}),
    ("shape.rank_above", (W, E, E, W), lambda F, s: F.exp(s.tensor((1, 1, 2, 8, 64))), {"tile": (1, 1, 1, 8, 64)}),
    ("shape.broadcast", (E, E, E, E), lambda F, s: F.add(s.tensor(), s.tensor((8, 63))), {}),
    ("shape.empty", (E, E, E, E), lambda F, s: F.eq(s.tensor((0,)), 1.0), {}),
    ("shape.count", (E, E, E, E), lambda F, s: F.exp(s.tensor((65536, 65536))), {}),
    ("shape.dim", (E, E, E, E), lambda F, s: F.amax(s.tensor((2, 3)), -3), {}),
    ("shape.dim", (E, E, E, E), lambda F, s: F.amax(s.tensor((2, 3)), 2), {}),
    ("shape.dim", (E, E, E, E), lambda F, s: F.topk(s.tensor(), 2, 0), {}),
    ("shape.dynamic", (W, E, E, OFF), lambda F, s: F.exp(s.dynamic()), {}),
    ("shape.dynamic", (OFF, OFF, E, E), lambda F, s: F.sum(s.dynamic(), -1), {}),
    ("shape.dynamic", (W, E, E, E), lambda F, s: F.softmax(s.dynamic(), -1), {}),
    ("shape.rank_differs", (W, E, E, W),
     lambda F, s: F.where(s.tensor((1, 8, 64), D["bool"]), s.tensor(), 0.0), {"tile": (1, 8, 64)}),
    ("arg.value", (E, E, E, E), lambda F, s: F.topk(s.tensor(), 65), {}),
    ("arg.value", (E, E, E, E), lambda F, s: F.topk(s.tensor(), 0), {}),
    ("tile.vec_unset", (W, E, E, E), lambda F, s: F.exp(s.tensor()), {"tile": None}),
    ("tile.vec_zero", (E, E, E, E), lambda F, s: F.exp(s.tensor()), {"tile": (0, 64)}),
    ("tile.vec_rank", (W, E, E, E), lambda F, s: F.exp(s.tensor()), {"tile": (64,)}),
    ("tile.vec_tail", (OFF, OFF, OFF, E), lambda F, s: F.exp(s.tensor((8, 3))), {"tile": (8, 3)}),
    ("tile.vec_tail", (OFF,) * 4, lambda F, s: F.gt(s.tensor(), 1.0), {"tile": (8, 8)}),
    ("tile.reduce_tail", (W, E, E, E), lambda F, s: F.sum(s.tensor(), -1), {"tile": (8, 6)}),
    ("tile.reduce_size", (W, W, E, E), lambda F, s: F.amax(s.tensor((40, 512)), -1), {"tile": (40, 512)}),
    ("topk.k_over_tile", (W, OFF, E, E), lambda F, s: F.topk(s.tensor(), 33), {"tile": (8, 32)}),
    ("topk.tile", (W, W, E, E), lambda F, s: F.topk(s.tensor((1, 8192)), 8), {"tile": (1, 8192)}),
    ("capacity", (E, E, E, E), lambda F, s: F.add(s.tensor((1, 48000)), s.tensor((1, 48000))), {"tile": (1, 48000)}),
    ("api.version", (W, E, OFF, OFF), lambda F, s: F.tanh(s.tensor()), {}),
    ("api.version", (W, E, OFF, OFF), lambda F, s: F.exp(s.tensor(), PrecisionType.INTRINSIC), {}),
    ("api.chip", (W, E, E, E), lambda F, s: F["experimental.online_softmax"](s.tensor(), 1.0), {}),
    ("api.chip", (W, E, E, E), lambda F, s: F.topk(s.tensor(), 2, algo=TopKAlgo.RADIX_SELECT), {}),
    ("quantise.type", (E, E, E, E), lambda F, s: F.quantize(s.tensor(), s.tensor((8,)), D["uint8"], -1), {}),
    ("shape.mismatch", (E, E, E, E), lambda F, s: F.quantize(s.tensor(), s.tensor((64,)), D["int8"], -1), {}),
    ("scalar.nonfinite", (W, OFF, E, W), lambda F, s: F.fmod(s.tensor(), float("inf")), {}),
    ("scalar.zero", (E, E, E, E), lambda F, s: F.remainder(s.tensor(dtype=D["int32"]), 0), {}),
    ("scalar.range", (E, E, E, E), lambda F, s: F.pow(s.tensor(dtype=D["int8"]), 300), {}),
    ("arg.type", (E, E, E, E), lambda F, s: F.bitwise_and(s.tensor(dtype=D["int16"]), 1.0), {}),
    ("arg.value", (E, E, E, E), lambda F, s: F.lrelu(s.tensor(), -0.1), {}),
    ("dtype.chip", (W, E, E, E), lambda F, s: F.bitwise_left_shift(s.tensor(dtype=D["int32"]), 1), {}),
    ("shape.dim", (E, E, E, E), lambda F, s: F.var(s.tensor(), [0, -2]), {}),
    ("shape.broadcast", (E, E, E, E), lambda F, s: F.axpy_(s.tensor((8, 1)), s.tensor()), {}),
    ("shape.mismatch", (E, E, E, E), lambda F, s: F.prelu(s.tensor(), s.tensor((8,))), {}),
    ("api.not_implemented", (E, E, E, E), lambda F, s: F.cast(s.tensor(), DataType.DT_FP4_E2M1), {}),
    ("api.broken_method", (E, E, E, E), lambda F, s: s.tensor().where(s.tensor(), 1.0, 2.0), {}),
    ("alpha.removed", (W, OFF, E, W), lambda F, s: F.add(s.tensor(), s.tensor(), alpha=2), {}),
    ("cast.pair", (W, OFF, E, E), lambda F, s: F.cast(s.tensor(), D["int8"]), {}),
    ("cast.mode", (W, OFF, OFF, W), lambda F, s: F.cast(s.tensor(), D["bf16"], CastMode.CAST_ODD), {}),
    ("sum.fp32_only", (OFF, OFF, OFF, E), lambda F, s: F.sum(s.tensor(dtype=D["bf16"]), -1), {}),
    ("sigmoid.expand", (OFF, OFF, OFF, E), lambda F, s: F.sigmoid(s.tensor()), {}),
    ("guide.unverified", (OFF, E, OFF, N), lambda F, s: F.erf(s.tensor()), {}),
    ("div.int_result", (W, OFF, OFF, W), lambda F, s: F.div(s.tensor(dtype=D["int32"]), 2), {}),
    ("online.tile", (W, E, E, E), lambda F, s: F["experimental.online_softmax"](s.tensor((16, 64)), 1.0),
     {"device": "950pr"}),
]
# In some profile a case meets another rule first; that rule then stops the call.
MEETS_FIRST = {"guide.unverified": "api.version", "dtype.version": "sum.fp32_only", "online.tile": "api.version",
               "api.chip": "api.version", "shape.broadcast": "api.version", "quantise.type": "api.version",
               "shape.mismatch": "api.version"}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda i: f"{i}-{CASES[i][0]}")
def test_rule_fires_in_its_profiles(number, profile, dry, F):
    rule, severities, call, settings = CASES[number]
    severity = severities[PROFILES.index(profile)]
    s = dry(profile=profile, **settings)
    if severity != E:
        call(F, s)
        assert s.fired.get(rule, OFF) == severity
        return
    with pytest.raises(errors.PyptoError) as caught:
        call(F, s)
    assert caught.value.rule in (rule, MEETS_FIRST.get(rule))
    assert isinstance(caught.value, RULES[caught.value.rule].error)
    text = str(caught.value)
    assert "pypto." in text or "Tensor." in text, "says who"
    assert "test_rules_fire.py:" in text and "in kernel `k`" in text, "says where"
    assert caught.value.line.startswith("test_rules_fire.py:")


def test_lenient_warns_once_a_line_and_names_the_rule(dry, F):
    s = dry(tile=None)
    for _ in range(3):
        F.exp(s.tensor())
    (finding,) = s.findings.values()
    assert finding.rule == "tile.vec_unset" and "set_vec_tile_shapes" in finding.text


def test_old_code_can_catch_the_builtin(dry, F):
    s = dry()
    with pytest.raises(RuntimeError):
        F.add(s.tensor(), s.tensor(dtype=D["fp16"]))
    with pytest.raises(TypeError):
        F.add(s.tensor(dtype=D["int32"]), 0.5)
    with pytest.raises(ValueError):
        F.add(s.tensor(), s.tensor((8, 63)))


def test_no_rule_is_idle():
    root = Path(__file__).resolve().parents[2]
    files = [*root.glob("python/pypto_sim/**/*.py"), *root.glob("python/pypto_sim/*.pyx"), *root.glob("src/**/*.cpp"),
             *root.glob("src/**/*.h")]
    text = "".join(f.read_text() for f in files if f.name != "rules.py")
    assert [r for r in RULES if f'"{r}"' not in text] == []


def test_every_rule_of_the_checks_is_in_the_catalogue():
    rows = listing()
    assert len(rows) == len(RULES) and all(r["text"].endswith(".") and r["source"] for r in rows)
    assert all(r[p] in SEVERITIES for r in rows for p in PROFILES)
