"""Tile shapes, option groups and scopes."""
import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.trace.context import holder

NBUFFER = {"cube_nbuffer_setting": {"DEFAULT": 1}}      # the documented default


@pytest.fixture(autouse=True)
def own_scope():
    h = holder()
    saved = h.scope
    yield
    h.scope = saved


def in_kernel(body):
    """Run `body` inside a kernel; its result."""
    found = []

    @pypto.frontend.jit(mode="step")
    def kernel(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        found.append(body(a, out))
        out[:] = a
    kernel(np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32))
    return found[-1]


def test_tiles():
    assert pypto.get_vec_tile_shapes() == [] and pypto.get_cube_tile_shapes() == ([], [], [], False)
    pypto.set_vec_tile_shapes(8, pypto.SymbolicScalar(16))
    pypto.set_cube_tile_shapes([16, 32], [64, 128], [32, 64])
    assert pypto.get_vec_tile_shapes() == [8, 16]
    assert pypto.get_cube_tile_shapes() == ([16, 32], [64, 128, 128], [32, 64], False)
    pypto.set_cube_tile_shapes([16, 32], [64, 128, 256], [32, 64], enable_split_k=True)
    assert pypto.get_cube_tile_shapes() == ([16, 32], [64, 128, 256], [32, 64], True)


@pytest.mark.parametrize("call, error", [
    (lambda: pypto.set_vec_tile_shapes(), ValueError), (lambda: pypto.set_vec_tile_shapes(0, 4), ValueError),
    (lambda: pypto.set_vec_tile_shapes(1.5), TypeError), (lambda: pypto.set_vec_tile_shapes(True, 4), TypeError),
    (lambda: pypto.set_vec_tile_shapes(*range(1, 9)), ValueError),
    (lambda: pypto.set_cube_tile_shapes([16], [16, 16], [16, 16]), ValueError),
    (lambda: pypto.set_cube_tile_shapes([16, 16], [16] * 4, [16, 16]), ValueError),
    (lambda: pypto.set_cube_tile_shapes(16, [16, 16], [16, 16]), TypeError),
    (lambda: pypto.set_semantic_label(3), TypeError), (lambda: pypto.set_pass_options(enable_slices=True), KeyError),
    (lambda: pypto.set_pass_options(enable_slices=True), TypeError),
    (lambda: pypto.set_pass_options(vec_nbuffer_setting={"DEFAULT": 1, 2: 1}), ValueError),
    (lambda: pypto.set_pass_options(sg_set_scope="a"), ValueError),
    (lambda: pypto.set_debug_options(runtime_debug_mode=9), ValueError),
    (lambda: pypto.options(vec_tiles=[1]), KeyError), (lambda: pypto.options(pass_options={"x": 1}), KeyError),
    (lambda: pypto.set_matrix_size([1, 2]), ValueError),
])
def test_wrong_values(call, error):
    with pytest.raises(error) as e:
        call()
    assert isinstance(e.value, pypto.PyptoError) and e.value.line.startswith("test_options.py:")

    def body(a, out):
        with pytest.raises(error) as e:
            call()
        return e.value
    assert "in kernel `kernel`" in str(in_kernel(body))


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(KeyError, match="did you mean 'enable_slice'"):
        pypto.set_pass_options(enable_slices=True)


def test_groups_are_set_read_and_reset():
    pypto.set_pass_options(enable_slice=True, sg_set_scope=(1, True, False))
    pypto.set_host_options(compile_timeout=5)
    pypto.set_codegen_options(support_dynamic_aligned=True)
    pypto.set_verify_options(enable_pass_verify=False)
    pypto.set_debug_options(runtime_debug_mode=3)
    pypto.set_runtime_options(stitch_function_max_num=64)
    pypto.experimental.set_operation_options(combine_axis=True)
    assert pypto.get_pass_options() == {**NBUFFER, "enable_slice": True, "sg_set_scope": (1, True, False)}
    assert pypto.get_host_options()["compile_timeout"] == 5 and pypto.get_debug_options() == {"runtime_debug_mode": 3}
    assert pypto.experimental.get_operation_options() == {"combine_axis": True}
    assert '"stitch_function_max_num": 64' in pypto.get_options_tree()
    pypto.set_vec_tile_shapes(1, 16)
    pypto.reset_options()
    assert pypto.get_pass_options() == NBUFFER and pypto.get_options_tree() == ""
    assert pypto.get_vec_tile_shapes() == [1, 16]


def test_context_manager_and_decorator_restore():
    pypto.set_vec_tile_shapes(1, 16)

    @pypto.options(vec_tile_shapes=[2, 32], cube_tile_shapes=[[16, 16], [16, 16], [16, 16]])
    def helper():
        return pypto.get_vec_tile_shapes(), pypto.get_cube_tile_shapes()[0]
    assert helper() == ([2, 32], [16, 16]) and pypto.get_vec_tile_shapes() == [1, 16]
    with pypto.options(pass_options={"enable_slice": True}):
        with pypto.options(pass_options={"sg_set_scope": 2}):
            assert pypto.get_pass_options() == {**NBUFFER, "enable_slice": True, "sg_set_scope": 2}
        assert pypto.get_pass_options() == {**NBUFFER, "enable_slice": True}
    with pytest.raises(ZeroDivisionError), pypto.options(vec_tile_shapes=[9]):
        raise ZeroDivisionError
    assert pypto.get_vec_tile_shapes() == [1, 16] and pypto.get_pass_options() == NBUFFER


def test_a_kernel_starts_with_what_is_set_outside_and_leaves_nothing():
    pypto.set_pass_options(enable_slice=True)
    assert in_kernel(lambda a, out: (pypto.get_pass_options(), pypto.set_vec_tile_shapes(1, 8))[0]) == {
        **NBUFFER, "enable_slice": True}
    assert pypto.get_vec_tile_shapes() == []


def test_tiles_reach_the_program():
    @pypto.frontend.jit
    def kernel(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        pypto.set_semantic_label("first")
        out[:] = a * 2.0
    p = kernel.program(np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32))
    assert "muls" in str(p)
    with pypto.options(vec_tile_shapes=[1, 8]):
        kernel(np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32))
        assert not kernel.last_run.cache_hit
        kernel(np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32))
        assert kernel.last_run.cache_hit
    kernel(np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32))
    assert not kernel.last_run.cache_hit
