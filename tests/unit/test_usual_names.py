"""Public names that do not exist: the error names the equivalent."""
import ast
import copy
import difflib
import pickle

import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.torch_forms.base import FORMS, plain
from pypto_sim.usual_names import OF_TENSOR, USUAL, WRITTEN_OUT, MissingNameError


@pytest.mark.parametrize(("name", "hint"), [
    ("reduce_sum", "use pypto.sum"), ("multiply", "use pypto.mul"), ("Concatenate", "use pypto.concat"),
    ("clamp_", "use pypto.clip"), ("float32", "use pypto.DT_FP32"), ("zeros_like", "use zeros(t.shape, t.dtype)"),
    ("silu", "pypto-sim ops --torch silu writes it out"), ("mean", "pypto-sim ops --torch mean writes it out"),
    ("matmull", "did you mean matmul"), ("set_vec_tile_shape", "did you mean set_vec_tile_shapes"),
    ("estimat", "did you mean estimate"), ("suggest_tile", "did you mean suggest_tiles")])
def test_wrong_names_of_the_module(name, hint):
    with pytest.raises(AttributeError, match="module 'pypto_sim' has no attribute") as caught:
        getattr(pypto, name)
    assert hint in str(caught.value) and caught.value.name == name
    assert not hasattr(pypto, name) and getattr(pypto, name, 3) == 3


@pytest.mark.parametrize(("name", "hint"), [
    ("cast", "it is a function: pypto.cast(t, ...)"), ("astype", "use pypto.cast"), ("reduce_sum", "use t.sum"),
    ("reduce_max", "use t.amax"), ("T", "t.transpose(-1, -2)"), ("numel", "t.shape"), ("max", "t.amax"),
    ("expandclone", "did you mean expand_clone"), ("silu", "pypto-sim ops --torch silu")])
def test_wrong_names_of_a_tensor(name, hint):
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([8, 64], pypto.DT_FP32), out: pypto.Tensor([8, 64], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(8, 64)
        assert not hasattr(x, name)
        out[:] = getattr(x, name)(pypto.DT_FP32)

    for use in (lambda: getattr(pypto.Tensor([8, 64], pypto.DT_FP32), name),
                lambda: kernel(np.ones((8, 64), np.float32), np.ones((8, 64), np.float32))):
        with pytest.raises(AttributeError, match="a pypto Tensor has no attribute") as caught:
            use()
        assert hint in str(caught.value)


def test_a_wrong_name_on_a_path_that_is_not_taken_does_no_harm():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([8, 64], pypto.DT_FP32), n: pypto.Tensor([1], pypto.DT_INT32),
               out: pypto.Tensor([8, 64], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(8, 64)
        if n[0] > 1:
            out[:] = pypto.reduce_sum(x)
        elif n[0] > 0:
            out[:] = x.astype(pypto.DT_FP32)
        else:
            out[:] = x + 1.0

    x = np.ones((8, 64), np.float32)
    kernel(x, np.zeros(1, np.int32), x.copy())
    for n, text in ((1, "use pypto.cast"), (2, "use pypto.sum")):
        with pytest.raises(AttributeError, match=text):
            kernel(x, np.full(1, n, np.int32), x.copy())


def test_experimental_and_private_names():
    with pytest.raises(AttributeError, match="did you mean online_softmax"):
        _ = pypto.experimental.online_softmx
    with pytest.raises(AttributeError) as caught:
        _ = pypto.Tensor()._nothing
    assert str(caught.value) == "a pypto Tensor has no attribute '_nothing'"


def test_nothing_is_searched_before_the_text_is_read(monkeypatch):
    monkeypatch.setattr(difflib, "get_close_matches", lambda *a, **k: pytest.fail("searched"))
    assert not hasattr(pypto, "matmull") and not hasattr(pypto.Tensor(), "expandclone")


def test_the_error_can_be_copied_and_pickled():
    try:
        _ = pypto.reduce_sum
    except AttributeError as error:
        found = error
    assert isinstance(found, MissingNameError)
    for again in (copy.copy(found), pickle.loads(pickle.dumps(found))):
        assert isinstance(again, AttributeError) and str(again) == str(found)


def names_in(text):
    """Names called or named in a hint that stand for the public interface."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return [word.strip("(),") for word in text.split() if hasattr(pypto, word.strip("(),"))]
    called = [n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    return called or ([text] if text.isidentifier() else [])


@pytest.mark.parametrize("name", sorted(USUAL))
def test_the_table_points_to_what_exists_and_shadows_nothing(name):
    assert not hasattr(pypto, name) or name in vars(pypto.ops) or name == "device"
    for word in names_in(USUAL[name]):
        assert hasattr(pypto, word), word


def test_written_out_names_have_a_form_and_tensor_names_are_free():
    known = {plain(alias) for row in FORMS.values() for alias in row.names}
    assert WRITTEN_OUT <= known
    assert not [n for n in OF_TENSOR if n in vars(pypto.Tensor)]
