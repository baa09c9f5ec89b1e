"""Mistakes of the first day: each message says who, what was given, what is allowed, how to fix it, and where."""
import json

import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.cli import main

FP32, BF16 = pypto.DT_FP32, pypto.DT_BF16
HERE = "test_first_mistakes.py:"


def call(body, shape=(8, 64)):
    """Run a kernel with this body on one input and one output."""
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor(list(shape), FP32), out: pypto.Tensor(list(shape), FP32)):
        pypto.set_vec_tile_shapes(8, 64)
        body(x, out)
    kernel(np.ones(shape, np.float32), np.zeros(shape, np.float32))


def fails(kind, body):
    with pytest.raises(kind) as caught:
        call(body)
    assert isinstance(caught.value, pypto.error.PyptoError) and HERE in str(caught.value)
    return str(caught.value)


def test_keyword_of_numpy():
    text = fails(TypeError, lambda x, out: pypto.sum(x, -1, keepdims=True))
    assert "pypto.sum got an unexpected keyword argument 'keepdims'; did you mean `keepdim`" in text
    assert "did you mean `dim`" in fails(TypeError, lambda x, out: pypto.sum(x, axis=-1))
    assert "It takes (input, dim, keepdim=" in text


def test_missing_argument():
    assert "pypto.matmul missing 1 required positional argument: 'out_dtype'" in fails(
        TypeError, lambda x, out: pypto.matmul(x, x))


def test_type_error_inside_an_operation_is_not_taken_for_a_wrong_call():
    class Odd:
        def __index__(self):
            raise TypeError("odd")
    with pytest.raises(TypeError) as caught:
        call(lambda x, out: pypto.view(x, [Odd(), 64], [0, 0]))
    assert "It takes" not in str(caught.value)


def test_dtype_among_the_sizes():
    for make in (pypto.zeros, pypto.ones):
        assert "write dtype=pypto.DT_FP32" in fails(TypeError, lambda x, out, make=make: make([8, 64], FP32))


def test_cube_tile_of_plain_ints():
    text = fails(TypeError, lambda x, out: pypto.set_cube_tile_shapes(16, 64, 32))
    assert "pypto.set_cube_tile_shapes: `m` takes a list of ints such as [mL0, mL1], got 16" in text


def test_reading_a_float_element():
    text = fails(TypeError, lambda x, out: float((x + 1.0)[0, 0]))
    assert "a tensor [8, 64] is DT_FP32" in text and "pypto.where" in text


def test_wrong_element_type_says_how_to_convert():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4], FP32), out: pypto.Tensor([4], BF16)):
        out[:] = pypto.cast(x, BF16)
    with pytest.raises(TypeError, match=r"`x` has element type DT_DOUBLE.*x\.astype\(np\.float32\)"):
        kernel(np.ones(4), np.ones(4))
    with pytest.raises(TypeError, match=r"out\.astype\(ml_dtypes\.bfloat16\) \(torch: out\.to\(torch\.bfloat16\)\)"):
        kernel(np.ones(4, np.float32), np.ones(4))


def test_returning_a_tensor_names_one_line():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4], FP32)):
        return x + 1.0
    with pytest.raises(ValueError) as caught:
        kernel(np.ones(4, np.float32))
    assert str(caught.value).count(HERE) == 1 and caught.value.line.startswith(HERE)


@pytest.mark.parametrize(("words", "text"), [
    (["compre", "attention"], "Did you mean 'compare'?"),
    (["compare", "embedding", "--jsn"], "Did you mean '--json'?"),
    (["ops", "gelu"], "pypto-sim compare gelu"),
    (["ops", "layernorm"], "pypto-sim ops lists all"),
    (["diff", "absent.json", "absent.json"], "diff: absent.json: No such file or directory\n"),
    (["run"], "required: SCRIPT\n"),
    (["explore", "absent.py:k"], "there is no file 'absent.py'"),
], ids=" ".join)
def test_command_line(words, text, capsys):
    assert main(words) == 2
    assert text in capsys.readouterr().err


SCRIPT = """
import numpy as np
import pypto_sim as pypto
@pypto.frontend.jit
def twice(x: pypto.Tensor([64], pypto.DT_FP32), out: pypto.Tensor([64], pypto.DT_FP32)):
    out[:] = x * 2.0
twice(np.ones(64, np.float32), np.ones(64, np.float32))
print("printed by the script")
"""


def test_json_is_not_mixed_with_the_scripts_own_output(tmp_path, capsys):
    script = tmp_path / "twice.py"
    script.write_text(SCRIPT, encoding="utf-8")
    for words in (["explore", f"{script}:twice"], ["profile", str(script), "-o", str(tmp_path / "p")]):
        assert main([*words, "--json"]) == 0
        said = capsys.readouterr()
        assert json.loads(said.out) and "printed by the script" in said.err
    assert main(["explore", str(script)]) == 2
    assert "kernels of" in (said := capsys.readouterr().err) and "twice" in said
    assert main(["diff", str(script), str(script)]) == 2
    assert "not a JSON file" in capsys.readouterr().err


def test_bound_of_many_short_tasks_and_of_one_long_task():
    @pypto.frontend.jit
    def rows(x: pypto.Tensor([pypto.DYNAMIC, 2048], FP32), out: pypto.Tensor([pypto.DYNAMIC, 2048], FP32)):
        pypto.set_vec_tile_shapes(4, 2048)
        for i in pypto.loop(x.shape[0] // 4):
            t = pypto.view(x, [4, 2048], [i * 4, 0])
            pypto.assemble(t * pypto.sigmoid(t), [i * 4, 0], out)
    spec = pypto.Spec((4096, 2048), FP32)
    many = pypto.estimate(rows, spec, spec)
    share = many.pipe_busy_cycles["VEC"] / 48 / many.cycles
    assert share < 0.5 and many.bound_by == "dispatch" and "cores idle" in many.explain()
    assert not any("mte1" in n for n in many.assumed_numbers) and "1.0 times" not in many.explain()
