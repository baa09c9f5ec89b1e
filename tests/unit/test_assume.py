"""`assume=`: what it may name and hold, and what is refused; estimates as keys."""
import numpy as np
import pytest

import pypto_sim as pypto

Spec, F32, I32 = pypto.Spec, pypto.DT_FP32, pypto.DT_INT32
A, N = Spec((64, 64), "fp32"), Spec([4], I32)


@pypto.frontend.jit
def by_length(a: pypto.Tensor(), lengths: pypto.Tensor([4], I32), out: pypto.Tensor()):
    pypto.set_vec_tile_shapes(8, 64)
    for i in pypto.loop(lengths[1]):
        pypto.assemble(pypto.exp(pypto.view(a, [8, 64], [i * 8, 0])), [i * 8, 0], out)


@pypto.frontend.jit
def by_row(a: pypto.Tensor(), lengths: pypto.Tensor([4], I32), out: pypto.Tensor()):
    pypto.set_vec_tile_shapes(8, 64)
    for b in pypto.loop(4):
        for i in pypto.loop(lengths[b]):
            pypto.assemble(pypto.exp(pypto.view(a, [8, 64], [i * 8, 0])), [i * 8, 0], out)


@pypto.frontend.jit
def fixed(a: pypto.Tensor(), lengths: pypto.Tensor([4], I32), out: pypto.Tensor()):
    pypto.set_vec_tile_shapes(8, 64)
    out[:] = pypto.exp(a)


LINE = by_length.function.__code__.co_firstlineno + 3


def tasks(kernel, **given):
    return pypto.estimate(kernel, A, N, A, **given).tasks["AIV"]


@pytest.mark.parametrize("key", ["lengths", "lengths[1]", f"test_assume.py:{LINE}", LINE])
def test_a_read_is_named_by_tensor_element_or_line(key):
    assert tasks(by_length, assume={key: 6}) == 6
    assert tasks(by_length, assume={key: np.int64(3)}) == 3


def test_one_element_of_a_table():
    assert tasks(by_row, assume={"lengths": 2}) == 8
    assert tasks(by_row, assume={"lengths[3]": 5, "lengths": 1}) in (4, 8)


@pytest.mark.parametrize(("kernel", "key", "text"), [
    (by_length, "lenghts", r"it reads lengths\[1\], lengths .*Did you mean 'lengths'"),
    (by_length, "n", r"names nothing the kernel reads; it reads lengths\[1\]"),
    (by_length, "lengths[2]", r"it reads lengths\[1\]"), (by_length, 1, "names nothing"),
    (by_row, "a", "it reads lengths"), (fixed, "lengths", "reads no element of a tensor")])
def test_unknown_names_are_refused(kernel, key, text):
    with pytest.raises(pypto.PyptoError, match=text) as caught:
        pypto.estimate(kernel, A, N, A, assume={key: 3})
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("value", [True, False, np.True_, (True, 4), (0, np.bool_(True)), None, "6", 1.0, (3, 1),
                                   (1, 2, 3)])
def test_values_are_integers_or_ranges(value):
    with pytest.raises(TypeError, match=r"assume\['lengths'\] must be an int or \(low, high\)"):
        pypto.estimate(by_length, A, N, A, assume={"lengths": value})


def test_suggested_tiles_check_it_too():
    with pytest.raises(pypto.PyptoError, match="names nothing"):
        pypto.suggest_tiles(by_length, A, N, A, assume={"n": 3})


def test_results_are_hashable_and_equal_ones_hash_alike():
    first, again = (pypto.estimate(by_length, A, N, A, assume={"lengths": n}, timeline=True) for n in (6, 6))
    other = pypto.estimate(by_length, A, N, A, assume={"lengths": 2})
    assert first == again and hash(first) == hash(again) and len({first, again, other}) == 2
    assert {first: "kept"}[again] == "kept" and hash(first.breakdown) == hash(again.breakdown)
    assert hash(first.timeline) == hash(again.timeline)
    found = pypto.suggest_tiles(fixed, A, N, A)
    assert hash(found) == hash(pypto.suggest_tiles(fixed, A, N, A))
