"""The strategy guide's own snippets as user scripts: they run under `lenient` with the documented warnings and match
float64; 0.2 and master refuse what they refuse."""
import importlib.util
import runpy
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pypto_sim as pypto

SCRIPTS = Path(__file__).resolve().parents[1] / "guide_scripts"
# script -> rule ids of the warnings that lenient gives
WARNINGS = {
    "gelu_tanh": {"api.version"},                                                    # tanh
    "rope": set(),
    "moe_gate": {"api.version", "assemble.dtype"},                                   # PrecisionType; fp32 into bf16
    "linear_bias": {"matmul.rank", "matmul.bias_rank", "matmul.bias_dtype"},
    "embedding": {"gather.embedding", "tile.vec_unset"},
    "mean": set(),
    "repeat_kv": {"shape.rank_above"},                                               # rank 5
    "online_attention": set(),
}
# (script, profile) -> rule that refuses it; every other pair runs. The guide's own hard constraints (tile set, equal
# dtypes) refuse some of its own skeletons.
REFUSED = {
    ("gelu_tanh", "0.2"): "api.version",
    ("moe_gate", "0.2"): "api.version",
    ("moe_gate", "master"): "assemble.dtype",
    ("linear_bias", "0.2"): "matmul.rank",
    ("linear_bias", "master"): "matmul.rank",
    ("embedding", "0.2"): "tile.vec_unset",
    ("embedding", "master"): "tile.vec_unset",
    ("repeat_kv", "master"): "shape.rank_above",
    ("moe_gate", "guide"): "assemble.dtype",
    ("linear_bias", "guide"): "matmul.rank",
    ("embedding", "guide"): "tile.vec_unset",
}


def half_ulp(want: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Half a unit of `dtype` at each golden value."""
    return np.abs(want) * float(ml_dtypes.finfo(dtype).eps) / 2


def bound(name: str, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Largest allowed |error| per element: STRATEGIES, "Tolerance"."""
    if name == "gelu":
        return 3e-3 + 3e-3 * np.abs(want) + half_ulp(want, got.dtype)
    if name == "rope":
        return 1e-4 + 2.0**-7 * np.abs(want)
    if name == "gate" or name.startswith("attention"):
        return 5e-3 + 5e-3 * np.abs(want)
    if name == "linear":
        return 2.0**-8 + 2.0**-8 * np.abs(want)
    if name.startswith("mean"):
        return half_ulp(want, got.dtype) + 2 * np.log2(512) * 2.0**-24
    return np.zeros(want.shape)                     # moves


def load(script: str):
    spec = importlib.util.spec_from_file_location(f"guide_{script}", SCRIPTS / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", sorted(WARNINGS))
def test_lenient_runs_with_the_documented_warnings(script):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = load(script).run()
    found = [w.message for w in caught if isinstance(w.message, pypto.PyptoWarning)]
    assert {w.rule for w in found} == WARNINGS[script]
    assert all(w.line.startswith(f"{script}.py:") for w in found)
    assert len({(w.rule, w.line) for w in found}) == len(found), "a warning came twice for one line"
    for name, got, want in results:
        error = np.abs(got.astype(np.float64) - want.astype(np.float64))
        assert (error <= bound(name, got, want)).all(), f"{name}: {error.max()}"


@pytest.mark.parametrize("profile", ["0.2", "master", "guide"])
@pytest.mark.parametrize("script", sorted(WARNINGS))
def test_strict_profiles_refuse_what_the_releases_refuse(script, profile):
    module = load(script)
    rule = REFUSED.get((script, profile))
    with pypto.config(profile=profile), warnings.catch_warnings():
        warnings.simplefilter("ignore" if profile == "guide" else "error", pypto.PyptoWarning)
        if rule is None:
            assert module.run()
            return
        with pytest.raises(pypto.PyptoError) as caught:
            module.run()
    assert caught.value.rule == rule
    assert caught.value.line.startswith(f"{script}.py:") and f"{script}.py:" in str(caught.value)


def test_same_bits_when_stepped():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        results = {script: load(script).run() for script in WARNINGS}
    with pypto.config(mode="step"), warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        for script, found in results.items():
            for (name, got, _), (_, again, _) in zip(found, load(script).run(), strict=True):
                assert got.tobytes() == again.tobytes(), name


def test_scripts_run_as_main(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        for script in WARNINGS:
            runpy.run_path(str(SCRIPTS / f"{script}.py"), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= len(WARNINGS)


def test_embedding_with_a_tile_names_index_select():
    """With the tile set, the strict profiles refuse the gather itself and name the right function."""
    weight, ids = np.zeros((8, 4), np.float32), np.zeros((2, 3), np.int32)

    @pypto.frontend.jit
    def kernel(w: pypto.Tensor([8, 4], pypto.DT_FP32), i: pypto.Tensor([2, 3], pypto.DT_INT32),
               out: pypto.Tensor([2, 3, 4], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(1, 4, 4)
        pypto.assemble(pypto.gather(w, 0, i), [0, 0, 0], out)

    for profile in ("0.2", "master"):
        with pypto.config(profile=profile), pytest.raises(RuntimeError, match="index_select") as caught:
            kernel(weight, ids, np.zeros((2, 3, 4), np.float32))
        assert caught.value.rule == "gather.embedding"


def test_guide_profile_wants_a_cast_before_sum():
    """bf16 sum: accepted by lenient and master, refused by the guide, whose form casts first."""
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4, 64], pypto.DT_BF16), out: pypto.Tensor([4, 1], pypto.DT_BF16)):
        pypto.set_vec_tile_shapes(4, 64)
        out[:] = pypto.sum(x, -1, True)

    x, out = np.ones((4, 64), ml_dtypes.bfloat16), np.zeros((4, 1), ml_dtypes.bfloat16)
    for profile in ("lenient", "master"):
        with pypto.config(profile=profile):
            kernel(x, out)
        assert (out == 64).all()
    with pypto.config(profile="guide"), pytest.raises(pypto.PyptoError, match="DT_FP32|FP32") as caught:
        kernel(x, out)
    assert caught.value.rule == "sum.fp32_only"
