"""Undefined elements: who stored them, and no false alarm."""
import warnings

import numpy as np
import pytest

import pypto_sim as pypto

F32 = pypto.DT_FP32


def partial(a):
    """[8, 16], rows 0 to 4 defined."""
    return pypto.view(a, [8, 16], [0, 0], valid_shape=[5, 16])


def reshaped(a, out):
    y = pypto.reshape(partial(a) + 1.0, [16, 8])          # the result counts as defined everywhere
    pypto.assemble(pypto.reshape(y, [8, 16]), [0, 0], out)


def read_but_cut_off(a, out):
    y = pypto.reshape(partial(a) + 1.0, [16, 8])
    pypto.assemble(pypto.reshape(pypto.view(y, [10, 8], [0, 0]), [5, 16]), [0, 0], out)


def valid_rows_only(a, out):
    pypto.assemble(pypto.sigmoid(partial(a)), [0, 0], out)


def half_written(a, out):
    t = pypto.tensor([8, 16], F32, "t")
    pypto.assemble(a[0:4], [0, 0], t)
    out[:] = t * 2.0


def not_a_number_of_the_user(a, out):
    out[:] = a * float("nan")


CASES = {"reshaped": (reshaped, True), "read_but_cut_off": (read_but_cut_off, False),
         "valid_rows_only": (valid_rows_only, False), "half_written": (half_written, True),
         "not_a_number_of_the_user": (not_a_number_of_the_user, False)}


def call(body, **config):
    """(rules that fired, output)."""
    @pypto.frontend.jit
    def kernel(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(8, 16)
        for _ in pypto.loop(1):
            body(a, out)
    a, out = np.ones((8, 16), np.float32), np.full((8, 16), 7, np.float32)
    with pypto.config(**config), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        kernel(a, out)
    return [w.message for w in found if w.message.rule.startswith("poison")], out


@pytest.mark.parametrize("mode", ["auto", "step"])
@pytest.mark.parametrize("poison", ["check", "trace"])
@pytest.mark.parametrize("name", CASES)
def test_who_is_reported(name, mode, poison):
    body, undefined = CASES[name]
    said, out = call(body, mode=mode, poison=poison)
    assert bool(said) == undefined
    for w in said:
        assert w.rule == "poison.stored" and w.line.startswith("test_poison.py:") and "kernel" in str(w)
    assert call(body, mode=mode, poison="off")[0] == []
    assert call(body, mode=mode, poison="off")[1].tobytes() == out.tobytes()


def test_the_rows_of_the_valid_region_only():
    _, out = call(valid_rows_only)
    assert (out[5:] == 7).all() and (out[:5] != 7).all()


def test_strict_profiles_raise_after_the_run():
    with pytest.raises(RuntimeError) as e:
        call(reshaped, profile="master")
    assert e.value.rule == "poison.stored" and e.value.line.startswith("test_poison.py:")


def test_arguments_that_are_read_and_written_are_checked_on_what_they_were():
    @pypto.frontend.jit
    def kernel(a: pypto.Tensor, cache: pypto.Tensor):
        pypto.set_vec_tile_shapes(8, 16)
        old = pypto.view(cache, [8, 16], [0, 0])
        for _ in pypto.loop(1):
            y = pypto.reshape(partial(a), [8, 16])
            pypto.assemble(pypto.where(pypto.gt(old, 1.0), a, y), [0, 0], cache)
    a, cache = np.zeros((8, 16), np.float32), np.full((8, 16), 7, np.float32)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        kernel(a, cache)             # every element comes from `a`; on the new cache none would
    assert not [w for w in found if w.message.rule.startswith("poison")] and not cache.any()


def test_an_element_past_the_end_of_a_table():
    @pypto.frontend.jit
    def kernel(a: pypto.Tensor, ids: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(3):
            out[i:i + 1] = pypto.view(a, [1, 16], [ids[i], 0])
    a, out = np.arange(8, dtype=np.float32)[:, None].repeat(16, 1), np.zeros((3, 16), np.float32)
    for mode in ("auto", "step"):
        with pypto.config(mode=mode):
            with pytest.warns(pypto.PyptoWarning) as found:
                kernel(a, np.array([3, 5], np.int32), out)
            assert [w.message.rule for w in found] == ["element.past_end"] and out[:, 0].tolist() == [3, 5, 5]
            with pypto.config(profile="master"), pytest.raises(IndexError) as e:
                kernel(a, np.array([3, 5], np.int32), out)
            assert e.value.rule == "element.past_end" and e.value.line.startswith("test_poison.py:")
