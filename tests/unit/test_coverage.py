"""Outputs of which a part was never written, under poison="trace"."""
import warnings

import numpy as np
import pytest

import pypto_sim as pypto

F32, I32, ROWS = pypto.DT_FP32, pypto.DT_INT32, 8
RULE = "output.partly_written"


def launch(body, *arrays, poison="trace", **config):
    """Findings of the rule after a launch of `body` as a kernel."""
    kernel = pypto.frontend.jit(body)
    with pypto.config(poison=poison, **config), warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        kernel(*arrays)
    return [f for f in kernel.last_run.warnings if f.rule == RULE]


def floor_of_rows(x: pypto.Tensor(), out: pypto.Tensor()):
    pypto.set_vec_tile_shapes(ROWS, 16)
    for i in pypto.loop(x.shape[0] // ROWS):
        pypto.assemble(pypto.view(x, [ROWS, 16], [i * ROWS, 0]) * 2.0, [i * ROWS, 0], out)


def ones(rows, dtype=np.float32):
    return np.ones((rows, 16), dtype)


def test_a_forgotten_tail_is_named_with_its_place():
    out = np.full((20, 16), 7, np.float32)
    (found,) = launch(floor_of_rows, ones(20), out)
    assert "64 of the 320 elements of `out` are never written" in found.text
    assert "all of [16:20, 0:16], the first at [16, 0]" in found.text and found.severity == "warn"
    assert found.line.startswith("test_coverage.py:") and (out[:16] == 2).all() and (out[16:] == 7).all()


@pytest.mark.parametrize("profile", ["0.2", "master", "guide"])
def test_every_profile_warns_and_none_refuses(profile):
    def kernel(x: pypto.Tensor([16, 16], F32), out: pypto.Tensor([16, 16], F32)):
        pypto.set_vec_tile_shapes(8, 16)
        pypto.assemble(pypto.view(x, [8, 16], [0, 0]) * 2.0, [0, 0], out)
    assert len(launch(kernel, ones(16), ones(16), profile=profile)) == 1


def test_whole_outputs_and_ordinary_runs_are_silent():
    assert launch(floor_of_rows, ones(16), ones(16)) == []
    for poison in ("check", "off"):
        assert launch(floor_of_rows, ones(20), ones(20), poison=poison) == []


def test_an_element_that_gets_its_old_value_is_written():
    assert launch(floor_of_rows, ones(16), np.full((16, 16), 2, np.float32)) == []
    assert launch(floor_of_rows, ones(16), np.zeros((16, 16), np.float32)) == []


def test_outputs_updated_in_place_are_left_alone():
    def update(x: pypto.Tensor(), cache: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(ROWS, 16)
        out[:] = pypto.view(cache, [ROWS, 16], [ROWS, 0]) + x
        pypto.assemble(x * 2.0, [0, 0], cache)
    assert launch(update, ones(8), ones(24), ones(8)) == []

    def same(x: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(ROWS, 16)
        pypto.assemble(pypto.view(x, [ROWS, 16], [0, 0]) * 2.0, [0, 0], out)
    both = ones(16)
    assert launch(same, both, both) == []


def test_holes_of_data_dependent_writes():
    def kernel(x: pypto.Tensor([3, 16], F32), slots: pypto.Tensor([3], I32), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(3):
            pypto.assemble(pypto.view(x, [1, 16], [i, 0]) * 2.0, [slots[i], 0], out)
    (found,) = launch(kernel, ones(3), np.array([5, 0, 3], np.int32), ones(6))
    assert "48 of the 96 elements of `out`" in found.text and ": [1:5, 0:16], the first at [1, 0]" in found.text


def test_each_of_several_outputs_and_narrow_types():
    def kernel(x: pypto.Tensor(), a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
        pypto.set_vec_tile_shapes(ROWS, 16)
        half = pypto.view(x, [ROWS, 16], [0, 0])
        pypto.assemble(half * 2.0, [0, 0], a)
        pypto.assemble(half > 0.0, [8, 0], b)
        c[:] = x * 1.0
    (found,) = launch(kernel, ones(16), ones(16), ones(16, np.bool_), ones(16))
    assert "elements of `a`" in found.text and "elements of `b`" in found.text and "`c`" not in found.text
    assert "[8:16, 0:16]" in found.text and "[0:8, 0:16]" in found.text
