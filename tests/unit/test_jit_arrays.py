"""Arrays and tensors that kernels are launched on, and outputs that are not written."""
import warnings

import ml_dtypes
import numpy as np
import pytest
from support.launches import doubling, f32

import pypto_sim as pypto

F32, B16, I32 = pypto.DT_FP32, pypto.DT_BF16, pypto.DT_INT32
DYN = pypto.DYNAMIC
pytestmark = pytest.mark.usefixtures("quiet")


def test_numpy_and_ml_dtypes_zero_copy():
    @pypto.frontend.jit
    def copy(a: pypto.Tensor, out: pypto.Tensor):
        out[:] = a
    for dtype in ("f4", "f2", ml_dtypes.bfloat16, "i4", "i1", "u1", "i8", "?"):
        a = (np.arange(32).reshape(2, 16) % 2).astype(dtype)
        out = np.zeros_like(a)
        copy(a, out)
        assert out.tobytes() == a.tobytes()


def test_a_0d_array_becomes_rank_1():
    @pypto.frontend.jit
    def k(a: pypto.Tensor([1], F32), out: pypto.Tensor([1], F32)):
        pypto.set_vec_tile_shapes(8)
        out[:] = a + 1.0
    a, out = np.array(2.0, np.float32), np.array(0.0, np.float32)
    k(a, out)
    assert out == 3


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        a = torch.arange(32).reshape(2, 16).to(dtype)
        out = torch.zeros_like(a)
        doubling(pypto.Tensor())(a, out)
        assert torch.equal(out, a * 2)
    grad = torch.ones(2, 16, requires_grad=True)
    out = torch.zeros(2, 16)
    doubling(pypto.Tensor())(grad, out)
    assert torch.equal(out, torch.full((2, 16), 2.0))
    with pytest.raises(RuntimeError, match="not all tensors are contiguous"):
        doubling(pypto.Tensor())(torch.ones(16, 2).t(), out)
    with pytest.raises(RuntimeError, match="meta"):
        doubling(pypto.Tensor())(torch.ones(2, 16, device="meta"), out)
    with pytest.raises(TypeError, match="complex64"):
        doubling(pypto.Tensor())(torch.ones(2, 16, dtype=torch.complex64), out)
    wrapped = pypto.from_torch(torch.ones(2, 16), "w")
    doubling(pypto.Tensor())(wrapped, out)
    assert torch.equal(out, torch.full((2, 16), 2.0))


@pytest.mark.parametrize("array, error, text", [
    (np.ones((16, 4), np.float32).T, RuntimeError, "contiguous"),
    (np.ones((4, 16), ">f4"), TypeError, "byte order"),
    (np.ones((4, 16), np.complex64), TypeError, "complex64"),
    (np.ones((4, 16), ml_dtypes.float8_e4m3fn), TypeError, "FP8E4M3"),
    (np.ones((1,) * 7, np.float32), ValueError, "rank 7"),
    (np.ma.masked_array(np.ones((4, 16), np.float32), mask=True), TypeError, "masked"),
    (np.frombuffer(bytes(257), np.float32, 64, 1).reshape(4, 16), RuntimeError, "address"),
])
def test_arrays_that_cannot_be_used(array, error, text):
    with pytest.raises(error, match=text) as e:
        doubling(pypto.Tensor())(array, np.zeros((4, 16), np.float32))
    assert isinstance(e.value, pypto.PyptoError)


def test_torch_tensors_without_plain_memory():
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode
    fake = FakeTensorMode().from_tensor(torch.ones(4, 16))
    for t in (torch._neg_view(torch.ones(4, 16)), fake):
        with pytest.raises(pypto.PyptoError, match="`a`"):
            doubling(pypto.Tensor())(t, np.zeros((4, 16), np.float32))


def test_subclasses_are_taken_as_plain_arrays():
    class Mine(np.ndarray):
        def reshape(self, *shape):
            raise AssertionError("the kernel must not call methods of the subclass")
    out = np.zeros((4, 16), np.float32)
    doubling(pypto.Tensor())(f32(4, 16).view(Mine), out)
    assert np.array_equal(out, f32(4, 16) * 2)


def test_more_than_int32_max_elements():
    huge = np.empty(2**31, np.int8)            # never touched: no memory is used
    with pytest.raises(ValueError, match="INT32_MAX"):
        doubling(pypto.Tensor())(huge, np.zeros((4, 16), np.float32))


def test_an_unused_empty_argument_is_no_problem():
    @pypto.frontend.jit
    def k(a: pypto.Tensor, nothing: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        out[:] = a * 2.0
    a, out = f32(4, 16), np.zeros((4, 16), np.float32)
    k(a, np.zeros((0,), np.float32), out)
    assert np.array_equal(out, a * 2)


@pytest.mark.parametrize("mode", ["auto", "step"])
def test_read_only_output(mode):
    out = np.zeros((4, 16), np.float32)
    out.flags.writeable = False
    with pypto.config(mode=mode), pytest.raises(ValueError, match="`out` is written, but its memory is read-only") as e:
        doubling(pypto.Tensor())(f32(4, 16), out)
    assert e.value.rule == "arg.read_only" and not out.any()


@pytest.mark.parametrize("mode", ["auto", "step"])
def test_overlapping_arguments(mode):
    whole = f32(8, 16)
    with pypto.config(mode=mode):
        with pytest.raises(RuntimeError, match="overlap partly") as e:
            doubling(pypto.Tensor())(whole[0:4], whole[2:6])
        assert e.value.rule == "arg.overlap"
        kernel = doubling(pypto.Tensor())
        with pytest.warns(pypto.PyptoWarning, match="same memory"):
            kernel(whole, whole)
    assert np.array_equal(whole, f32(8, 16) * 2)


# --- outputs
@pytest.mark.parametrize("mode", ["auto", "step"])
def test_output_never_written(mode):
    @pypto.frontend.jit
    def rebinds(a: pypto.Tensor, y: pypto.Tensor):
        pypto.set_vec_tile_shapes(2, 16)
        y = a + 1.0  # noqa: F841 - the mistake under test

    @pypto.frontend.jit
    def augments(a: pypto.Tensor, y: pypto.Tensor):
        pypto.set_vec_tile_shapes(2, 16)
        y += a

    @pypto.frontend.jit
    def writes_nothing(a: pypto.Tensor, y: pypto.Tensor):
        pypto.set_vec_tile_shapes(2, 16)
        a + 1.0

    @pypto.frontend.jit
    def rebinds_an_input(a: pypto.Tensor, y: pypto.Tensor):
        pypto.set_vec_tile_shapes(2, 16)
        a = a + 1.0
        y[:] = a
    with pypto.config(mode=mode):
        for kernel in (rebinds, augments, writes_nothing):
            y = np.full((2, 16), 123, np.float32)
            with pytest.warns(pypto.PyptoWarning, match=r"`y`.*`y\[:\] = \.\.\.`") as found:
                kernel(f32(2, 16), y)
            assert found[0].message.rule == "output.unwritten" and (y == 123).all()
        rebinds_an_input(f32(2, 16), y)
        assert not [f for f in rebinds_an_input.last_run.warnings if f.rule == "output.unwritten"]


def test_warnings_come_again_on_a_cache_hit_once_per_line():
    @pypto.frontend.jit
    def k(a: pypto.Tensor, out: pypto.Tensor):
        for i in pypto.loop(4):
            out[i:i + 1] = a[i:i + 1] * 2.0 + 1.0
    for hit in (False, True):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            k(f32(4, 16), np.zeros((4, 16), np.float32))
        assert k.last_run.cache_hit is hit
        rules = [w.message.rule for w in found]
        assert rules.count("tile.vec_unset") == 1 and len(rules) == len({(w.message.rule, w.lineno) for w in found})
        assert found[0].filename == __file__
