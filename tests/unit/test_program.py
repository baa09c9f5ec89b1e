"""Tracing without executing, for cost-only runs."""
import numpy as np
import pytest

import pypto_sim as pypto

F32 = pypto.DT_FP32
Spec = pypto.Spec


@pypto.frontend.jit
def rows(a: pypto.Tensor, ids: pypto.Tensor, out: pypto.Tensor):
    pypto.set_vec_tile_shapes(1, 16)
    for i in pypto.loop(ids[0]):
        if ids[i + 1] > 4:
            pypto.assemble(pypto.view(a, [1, 16], [ids[i + 1], 0]) * 2.0, [i, 0], out)


def kinds(items):
    return [i["kind"] for i in items]


def test_a_program_needs_no_data():
    p = rows.program(Spec([8, 16], F32), Spec([9], "int32"), Spec((8, 16), np.float32))
    assert p.mode == "replay" and p.program.finished() and p.loops[0]["replayed"]
    items = p.program.items()
    assert kinds(items) == ["load", "loop"] and kinds(items[1]["body"]) == ["load", "if"]
    assert "muls" in str(p) and "test_program.py:" in str(p)
    assert [a.array is None for a in p.arguments] == [True] * 3


def test_specs_and_arrays_make_the_same_program():
    ids = np.array([3, 1, 5, 7, 0, 0, 0, 0, 0], np.int32)
    a, out = np.ones((8, 16), np.float32), np.full((8, 16), 9, np.float32)
    p = rows.program(a, ids, out)
    q = rows.program(Spec([8, 16], F32), Spec([9], "int32", data=ids), Spec((8, 16), np.float32))
    assert str(p.program) == str(q.program) and (out == 9).all()
    assert np.array_equal(q.arguments[1].array, ids)


def test_a_print_does_not_matter_without_execution():
    @pypto.frontend.jit
    def talks(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(4):
            assert str(a) and f"{i}"
            out[i:i + 1] = a[i:i + 1]
    assert talks.program(Spec([4, 16], F32), Spec([4, 16], F32)).mode == "replay"


@pypto.frontend.jit
def counted(a: pypto.Tensor, ids: pypto.Tensor, out: pypto.Tensor):
    pypto.set_vec_tile_shapes(1, 16)
    for i in range(int(ids[0])):
        pypto.assemble(pypto.view(a, [1, 16], [i, 0]), [i, 0], out)


def test_what_can_only_be_stepped_needs_the_integers_only():
    ids = np.array([3], np.int32)
    p = counted.program(Spec([8, 16], F32), ids, Spec([8, 16], F32))
    assert p.mode == "step" and "element" in p.reason and kinds(p.program.items()).count("assemble") == 3
    with pytest.raises(pypto.NeedsData, match="`ids`") as e:
        counted.program(Spec([8, 16], F32), Spec([1], "int32"), Spec([8, 16], F32))
    assert e.value.kernel == "counted" and e.value.line.startswith("test_program.py:")


def test_errors_of_the_kernel_are_raised():
    @pypto.frontend.jit
    def wrong(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(1, 16)
        for _ in pypto.loop(4):
            out[:] = a + pypto.view(a, [4, 8], [0, 0])
    with pytest.raises(ValueError, match="broadcast"):
        wrong.program(Spec([4, 16], F32), Spec([4, 16], F32))
    with pytest.raises(pypto.PyptoError, match="axis 0 must be 8"):
        pypto.frontend.jit(annotated([8, 16])).program(Spec([4, 16], F32))


def annotated(shape):
    def k(a: pypto.Tensor(shape, F32)):
        pass
    return k


@pytest.mark.parametrize("make, error", [
    (lambda: Spec(3, F32), TypeError), (lambda: Spec([2.5], F32), TypeError), (lambda: Spec([-1], F32), ValueError),
    (lambda: Spec([2], "fp31"), TypeError), (lambda: Spec([2], F32, format="XX"), ValueError),
    (lambda: Spec([2], "int32", data=np.zeros(3, np.int32)), ValueError),
    (lambda: Spec([2], "int32", data=np.zeros(2, np.int64)), ValueError),
])
def test_wrong_specs(make, error):
    with pytest.raises(error) as e:
        make()
    assert isinstance(e.value, pypto.PyptoError)


def test_a_spec_is_no_argument_of_a_call():
    with pytest.raises(pypto.NeedsData, match="`a`"):
        rows(Spec([8, 16], F32), np.zeros(9, np.int32), np.zeros((8, 16), np.float32))


def test_options_and_labels_are_listed():
    @pypto.frontend.jit(pass_options={"enable_slice": True})
    def k(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        pypto.set_semantic_label("norm")
        out[:] = pypto.softmax(a, -1)
    items = k.program(Spec([4, 16], F32), Spec([4, 16], F32)).program.items()
    ops = [i for i in items if i["kind"] == "op"]
    assert all("enable_slice" in str(i) and "norm" in str(i) for i in ops) and "softmax" in str(ops[0])
