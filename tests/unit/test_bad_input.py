"""Wrong calls as data: a clear error or warning at the kernel's line, never a crash, never a silent wrong number, and
the caller's inputs as they were."""
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.rules import PROFILES

BF16 = ml_dtypes.bfloat16
F32, F16, B16, I32, I8 = pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16, pypto.DT_INT32, pypto.DT_INT8
E, W, OK = "error", "warn", "ok"


def f32(*shape):
    return np.arange(math.prod(shape), dtype=np.float32).reshape(shape) % 7 + 1


def ids(*values):
    return np.array(values, np.int32)


@dataclass
class Wrong:
    """One wrong call.

    body(*tensors): the kernel's body, the last tensor is the output. ins: inputs. out: the output array.
    severity: for lenient, 0.2, master, guide. text: what the message must contain. expect(out): checks of the result
    where the call runs.
    """

    name: str
    body: Callable[..., Any]
    ins: Callable[[], list[Any]]
    severity: tuple[str, str, str, str]
    text: str
    out: Callable[[], Any] = lambda: np.full((8, 64), 7, np.float32)
    expect: Callable[[np.ndarray], bool] = lambda out: True
    tile: tuple[int, ...] | None = (8, 64)
    error: type[Exception] = pypto.PyptoError
    launch: bool = False                     # found before the kernel runs: the line is the caller's
    rules: tuple[str, ...] = field(default=())


def assign(call):
    """Body that stores `call(*inputs)` in the output."""
    def body(*t):
        t[-1][:] = call(*t[:-1])
    return body


def one():
    return [f32(8, 64)]


def two():
    return [f32(8, 64), f32(8, 64)]


def mm(*t, out=F32, **more):
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    return pypto.matmul(*t, out, **more)


def half(*shape):
    return f32(*shape).astype(np.float16)


def unwritten(a, y):
    t = pypto.tensor([8, 64], F32, "t")
    y[:] = a + t


def never_written(a, y):
    a + 1.0


def rebound(a, y):
    y = a + 1.0  # noqa: F841


def read_write(a, y):
    v = pypto.view(y, [8, 64], [0, 0])
    pypto.assemble(v + a, [0, 0], y)


def overlap(a, y):
    pypto.assemble(a, [0, 0], y)
    pypto.assemble(a * 2.0, [0, 0], y)


def past_end_in_a_loop(a, y):
    for i in pypto.loop(3):
        pypto.assemble(pypto.view(a, [4, 64], [i * 4, 0]), [i * 4, 0], y)


def write_past_end_in_a_loop(a, y):
    for i in pypto.loop(3):
        pypto.assemble(pypto.view(a, [4, 64], [0, 0]), [i * 4, 0], y)


def beyond_valid(a, y):
    v = pypto.view(a, [8, 64], [0, 0], valid_shape=[8, 40])
    y[:] = pypto.reshape(v, [8, 64]) + 1.0


def element_past_end(a, i, y):
    n = i[9]
    y[:] = a * 1.0 + pypto.full([8, 64], n, F32) * 0.0


def data_bound(a, i, y):
    for _ in pypto.loop(i[0]):
        y[:] = a * 2.0


def valid_below_zero(a, i, y):
    pypto.assemble(pypto.view(a, [8, 64], [0, 0], valid_shape=[i[0], 64]), [0, 0], y)


def at_the_last_offset(a, y):
    for i in pypto.loop(2):
        t = pypto.full([8, 64], 0.0, F32)
        pypto.assemble(a * 2.0, [2**63 - 1 - i, 0], t)
        pypto.assemble(t, [0, 0], y)


def overflowing(a, i, y):
    n = i[0] * i[0] * i[0]
    pypto.assemble(a * 1.0, [pypto.min(n, 0), 0], y)


def previous_element(a, i, y):
    for k in pypto.loop(2):
        y[:] = a * i[k - 1]


def previous_row(a, y):
    for k in pypto.loop(2):
        y[:] = a[k - 1:k + 7] * 1.0


ALL, STRICT = (E, E, E, E), (W, E, E, E)
CASES = [
    # rank
    Wrong("rank of a view", assign(lambda a: pypto.view(a, [8], [0])), one, ALL, "`shape` [8] has 1 entries"),
    Wrong("rank of an assemble", lambda a, y: pypto.assemble(pypto.view(a, [8, 64], [0, 0]), [0], y), one, ALL,
          "`offsets` has 1 entries"),
    Wrong("rank of the output", assign(lambda a: pypto.reshape(a, [512])), one, ALL, "`input` has rank 1"),
    Wrong("rank 7", assign(lambda a: pypto.exp(a)), lambda: [f32(1, 1, 1, 1, 1, 8, 64)], ALL, "rank 7"),
    Wrong("rank of matmul", assign(lambda a, b: mm(a, b)), lambda: [half(64), half(64)], ALL, "rank 1"),
    Wrong("k of matmul", assign(lambda a, b: mm(a, b)), lambda: [half(8, 32), half(64, 32)], ALL,
          "Did you mean b_trans=True?"),
    Wrong("not broadcastable", assign(lambda a, b: a + b), lambda: [f32(8, 64), f32(8, 63)], ALL, "broadcast"),
    Wrong("axis out of range", assign(lambda a: pypto.sum(a, 2, True)), one, ALL, "`dim` is 2"),
    # dtype
    Wrong("dtype of exp", assign(lambda a: pypto.exp(a)), lambda: [f32(8, 64).astype(np.int32)], ALL, "DT_INT32"),
    Wrong("mixed dtypes", assign(lambda a, b: a + b), lambda: [f32(8, 64), half(8, 64)], ALL, "DT_FP16"),
    Wrong("mixed matmul", assign(lambda a, b: mm(a, b)), lambda: [half(8, 64), f32(64, 64)], ALL, "they must be equal"),
    Wrong("float index", assign(lambda a, i: pypto.index_select(a, 0, i)), lambda: [f32(8, 64), f32(8)], ALL,
          "`index` has dtype DT_FP32"),
    Wrong("another dtype assembled", assign(lambda a: a * 1.0), one, STRICT, "Cast first",
          out=lambda: np.full((8, 64), 7, BF16), expect=lambda out: np.array_equal(out, f32(8, 64).astype(BF16))),
    Wrong("float scalar beside int", assign(lambda a: a + 0.5), lambda: [f32(8, 64).astype(np.int32)], (E, W, E, E),
          "float 0.5", out=lambda: np.zeros((8, 64), np.int32)),
    Wrong("inf into int", assign(lambda a: pypto.fillpad(a, value=math.inf)), lambda: [f32(8, 64).astype(np.int32)],
          ALL, "inf", out=lambda: np.zeros((8, 64), np.int32), error=ValueError),
    # layout and memory of the arguments
    Wrong("not contiguous", assign(lambda a: a + 1.0), lambda: [f32(64, 8).T], ALL, "contiguous", launch=True,
          error=RuntimeError),
    Wrong("strided", assign(lambda a: a + 1.0), lambda: [f32(8, 128)[:, ::2]], ALL, "contiguous", launch=True),
    Wrong("no array", assign(lambda a: a + 1.0), lambda: [[1.0, 2.0]], ALL, "list", launch=True),
    Wrong("object array", assign(lambda a: a + 1.0), lambda: [np.array([[None] * 8])], ALL, "object", launch=True),
    Wrong("complex array", assign(lambda a: a + 1.0), lambda: [np.zeros((8, 64), np.complex64)], ALL, "complex64",
          launch=True),
    # empty
    Wrong("empty operand", assign(lambda a: pypto.eq(a, 1.0)), lambda: [np.zeros((0,), np.float32)], ALL, "no elements",
          out=lambda: np.zeros((8, 64), np.bool_)),
    Wrong("empty view", assign(lambda a: pypto.view(a, [0, 64], [0, 0])), one, ALL, "no elements"),
    Wrong("empty list", assign(lambda a: pypto.concat([], 0)), one, ALL, "`tensors`"),
    # index out of range
    Wrong("index_select past the end", assign(lambda a, i: pypto.index_select(a, 0, i)),
          lambda: [f32(4, 64), ids(*range(8))], ALL, "index", error=IndexError),
    Wrong("index_select negative", assign(lambda a, i: pypto.index_select(a, 0, i)),
          lambda: [f32(8, 64), ids(0, 1, 2, 3, 4, 5, 6, -1)], ALL, "-1", error=IndexError),
    Wrong("gather past the end", assign(lambda a, i: pypto.gather(a, 0, i)),
          lambda: [f32(8, 64), np.full((8, 64), 8, np.int32)], ALL, "8", error=IndexError),
    Wrong("scatter past the end", assign(lambda a, i: pypto.scatter(a, 0, i, 1.0)),
          lambda: [f32(8, 64), np.full((8, 64), 99, np.int32)], ALL, "99", error=IndexError),
    Wrong("view past the end", assign(lambda a: pypto.view(a, [8, 64], [8, 0])), one, ALL, "starts at 8",
          error=IndexError),
    Wrong("view past the end in a loop", past_end_in_a_loop, one, ALL, "8", error=IndexError),
    Wrong("a valid extent below zero", valid_below_zero, lambda: [f32(8, 64), ids(-1)], ALL, "must not be negative",
          error=ValueError),
    Wrong("a valid extent above the size", valid_below_zero, lambda: [f32(8, 64), ids(9)], (W, OK, E, W),
          "whose size is 8", expect=lambda out: np.array_equal(out, f32(8, 64))),
    Wrong("a write at the last offset there is", at_the_last_offset, one, ALL, "9223372036854775807",
          error=IndexError),
    Wrong("a scalar beyond 64 bits", overflowing, lambda: [f32(8, 64), ids(2**30)], ALL, "64 bits", error=ValueError),
    Wrong("the element before the first", previous_element, lambda: [f32(8, 64), ids(1, 2)], STRICT, "-1"),
    Wrong("the row before the first", previous_row, one, ALL, "-1", error=IndexError),
    Wrong("an int too large for a float", assign(lambda a: a + 10**400), one, ALL, "bits", error=ValueError),
    Wrong("a slice smaller than the tensor", lambda a, y: y.__setitem__((slice(0, 4), slice(0, 32)), a), one, (W,) * 4,
          "all 8 are written", expect=lambda out: np.array_equal(out, f32(8, 64))),
    Wrong("write past the end", lambda a, y: pypto.assemble(a, [4, 0], y), one, ALL, "4 to 12", error=IndexError),
    Wrong("write past the end in a loop", write_past_end_in_a_loop, one, ALL, "8", error=IndexError),
    Wrong("element past the end", element_past_end, lambda: [f32(8, 64), ids(1, 2, 3)], STRICT, "9",
          expect=lambda out: np.array_equal(out, f32(8, 64))),
    # size
    Wrong("more than INT32_MAX elements", assign(lambda a: pypto.full([65536, 65536], 0.0, F32)), one, ALL,
          "4294967296"),
    Wrong("a product too large", assign(lambda a, b: mm(a, b)), lambda: [half(50000, 16), half(16, 50000)], ALL,
          "2500000000"),
    # tiles
    Wrong("no vector tile", assign(lambda a: pypto.exp(a) * 0.0), one, STRICT, "set_vec_tile_shapes", tile=None,
          expect=lambda out: (out == 0).all()),
    Wrong("no cube tile", assign(lambda a, b: pypto.matmul(a, b, F32)), lambda: [half(8, 32), half(32, 64)], STRICT,
          "set_cube_tile_shapes", expect=lambda out: np.array_equal(out, f32(8, 32) @ f32(32, 64))),
    Wrong("vector tile too short", assign(lambda a: a * 0.0), one, STRICT, "1 entries", tile=(64,),
          expect=lambda out: (out == 0).all()),
    Wrong("vector tile of 0", assign(lambda a: a * 0.0), one, ALL, "positive", tile=(0, 64)),
    Wrong("vector tile too large", assign(lambda a, b: a + b), lambda: [f32(400, 512), f32(400, 512)], ALL, "196608",
          tile=(400, 512), out=lambda: np.zeros((400, 512), np.float32), error=RuntimeError),
    Wrong("k tile not aligned", lambda a, b, y: (pypto.set_cube_tile_shapes([16, 16], [24, 24], [16, 16]),
                                                 y.move(pypto.matmul(a, b, F32))),
          lambda: [half(8, 48), half(48, 64)], ALL, "multiple of 16"),
    # unknown names and options
    Wrong("unknown function", assign(lambda a: pypto.no_such_operation(a)), one, ALL, "no_such_operation",
          error=AttributeError),
    Wrong("unknown method", assign(lambda a: a.no_such_method()), one, ALL, "no_such_method", error=AttributeError),
    Wrong("unknown keyword", assign(lambda a: pypto.exp(a, dims=1)), one, ALL, "dims", error=TypeError),
    Wrong("unknown key of extend_params", assign(lambda a, b: mm(a, b, extend_params={"bais_tensor": None})),
          lambda: [half(8, 16), half(16, 64)], ALL, "bias_tensor", error=KeyError),
    Wrong("unknown pass option", lambda a, y: pypto.set_pass_options(no_such_option=1), one, ALL, "no_such_option",
          error=TypeError),
    Wrong("unknown reduce mode", assign(lambda a, i: pypto.scatter(a, 0, i, 1.0, reduce="max")),
          lambda: [f32(8, 64), np.zeros((8, 64), np.int32)], ALL, "'multiply'", error=ValueError),
    # outputs and locals
    Wrong("output never written", never_written, one, (W, W, W, W), "`y[:]", expect=lambda out: (out == 7).all()),
    Wrong("output rebound", rebound, one, (W, W, W, W), "[:]", expect=lambda out: (out == 7).all()),
    Wrong("read before write", unwritten, one, ALL, "`t`", error=RuntimeError),
    Wrong("a number assigned", lambda a, y: y.__setitem__(slice(None), 1.0), one, ALL, "pypto.full", error=TypeError),
    Wrong("an argument read and written", read_write, one, (W, E, E, W), "read and written",
          expect=lambda out: np.array_equal(out, f32(8, 64) + 7)),
    Wrong("written twice", overlap, one, STRICT, "twice", expect=lambda out: np.array_equal(out, f32(8, 64) * 2)),
    Wrong("returns a value", lambda a, y: (y.move(a * 1.0), a)[1], one, (OK, OK, OK, OK), ""),
    # poison
    Wrong("a result stored from outside the valid region", beyond_valid, one, (W, E, E, E), "valid",
          expect=lambda out: np.array_equal(out[:, :40], f32(8, 64)[:, :40] + 1) and np.isnan(out[:, 40:]).all()),
    # legal: special values and short tails
    Wrong("NaN in, NaN out", assign(lambda a: pypto.exp(a)), lambda: [np.full((8, 64), np.nan, np.float32)],
          (OK,) * 4, "", expect=lambda out: np.isnan(out).all()),
    Wrong("a tail shorter than 32 bytes", assign(lambda a: a + 1.0), lambda: [f32(3, 5)], (OK, OK, OK, E), "32 bytes",
          out=lambda: np.zeros((3, 5), np.float32), tile=(2, 5), expect=lambda out: np.array_equal(out, f32(3, 5) + 1)),
    Wrong("a loop over data", data_bound, lambda: [f32(8, 64), ids(1, 0)], (OK,) * 4, "",
          expect=lambda out: np.array_equal(out, f32(8, 64) * 2)),
    Wrong("a loop over no data", data_bound, lambda: [f32(8, 64), ids(0, 0)], (OK,) * 4, "",
          expect=lambda out: (out == 7).all()),
]


def kernel_of(wrong):
    """A kernel whose parameters are called a, b, .. and y."""
    def start():
        if wrong.tile is not None:
            pypto.set_vec_tile_shapes(*wrong.tile)

    count = len(wrong.ins())
    if count == 1:
        def kernel(a: pypto.Tensor(), y: pypto.Tensor()):
            start()
            wrong.body(a, y)
    else:
        def kernel(a: pypto.Tensor(), b: pypto.Tensor(), y: pypto.Tensor()):
            start()
            wrong.body(a, b, y)
    return pypto.frontend.jit(kernel)


def bits(array):
    return array.tobytes() if isinstance(array, np.ndarray) and array.dtype != object else repr(array)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("wrong", CASES, ids=[c.name.replace(" ", "_") for c in CASES])
def test_wrong_call(wrong, profile):
    severity = wrong.severity[PROFILES.index(profile)]
    ins, out = wrong.ins(), wrong.out()
    before, kernel = [bits(x) for x in ins], kernel_of(wrong)
    error = None
    with pypto.config(profile=profile), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kernel(*ins, out)
        except Exception as e:  # noqa: BLE001 - which exception it is, is the test
            error = e
    assert [bits(x) for x in ins] == before, "an input was changed"
    said = [w.message for w in caught if isinstance(w.message, pypto.PyptoWarning)]
    if severity == E:
        assert error is not None, "nothing was refused"
        assert isinstance(error, wrong.error), repr(error)
        assert wrong.text in str(error)
        if isinstance(error, pypto.PyptoError) and not wrong.launch:
            assert error.line.startswith("test_bad_input.py:") and "in kernel `kernel`" in str(error)
        return
    assert error is None, repr(error)
    assert wrong.expect(out)
    about = [w for w in said if wrong.text in str(w)] if wrong.text else said
    if severity == W:
        assert about and all(w.line.startswith("test_bad_input.py:") for w in about)
        assert len({(w.rule, w.line) for w in said}) == len(said), "a warning came twice for one line"
    elif not wrong.text:
        assert not said, [str(w) for w in said]


# --- arguments of the launch ------------------------------------------------------------------------------------------
@pypto.frontend.jit
def doubled(a: pypto.Tensor([8, 64], F32), y: pypto.Tensor([8, 64], F32)):
    pypto.set_vec_tile_shapes(8, 64)
    y[:] = a + a


def test_the_same_array_twice_warns_and_keeps_program_order():
    x = f32(8, 64)
    with pytest.warns(pypto.PyptoWarning, match="same"):
        doubled(x, x)
    assert np.array_equal(x, f32(8, 64) * 2)


def test_partly_overlapping_arguments_are_refused():
    memory = np.zeros(8 * 64 + 64, np.float32)
    a, y = memory[:512].reshape(8, 64), memory[64:].reshape(8, 64)
    with pytest.raises(pypto.PyptoError, match="overlap"):
        doubled(a, y)
    assert (memory == 0).all()


def test_neighbours_do_not_overlap():
    memory = np.ones(1024, np.float32)
    doubled(memory[:512].reshape(8, 64), memory[512:].reshape(8, 64))
    assert (memory[512:] == 2).all()


def test_a_read_only_output_is_refused():
    y = np.zeros((8, 64), np.float32)
    y.flags.writeable = False
    with pytest.raises((pypto.PyptoError, ValueError), match="read-only|writ"):
        doubled(f32(8, 64), y)


def test_a_read_only_input_is_fine():
    x, y = f32(8, 64), np.zeros((8, 64), np.float32)
    x.flags.writeable = False
    doubled(x, y)
    assert np.array_equal(y, x * 2)


@pytest.mark.parametrize(("args", "text"), [
    ((), "argument"), ((f32(8, 64),), "argument"), ((f32(8, 64), f32(8, 64), f32(8, 64)), "argument"),
])
def test_wrong_number_of_arguments(args, text):
    with pytest.raises(pypto.PyptoError, match=text):
        doubled(*args)


def test_wrong_shape_or_dtype_against_the_annotation():
    for a in (f32(8, 32), f32(8, 64, 1), f32(8, 64).astype(np.int32)):
        before = a.copy()
        with pypto.config(profile="master"), pytest.raises(pypto.PyptoError):
            doubled(a, np.zeros((8, 64), np.float32))
        assert np.array_equal(a, before)


def test_operations_outside_a_kernel():
    with pytest.raises(pypto.PyptoError, match="kernel"):
        pypto.exp(f32(8, 64))


def test_a_handle_of_another_launch():
    kept = []

    @pypto.frontend.jit
    def keep(a: pypto.Tensor([8, 64], F32), y: pypto.Tensor([8, 64], F32)):
        pypto.set_vec_tile_shapes(8, 64)
        kept.append(a * 1.0)
        y[:] = kept[0]

    y = np.zeros((8, 64), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        keep(f32(8, 64), y)
        with pytest.raises(pypto.PyptoError) as caught:
            keep(f32(8, 64), y)
    assert caught.value.rule == "handle.escaped"


def test_unknown_configuration():
    with pytest.raises(KeyError, match="profile"):
        pypto.config(profil="lenient")
    with pytest.raises(ValueError, match="lenient"):
        pypto.config(profile="strict")
    with pytest.raises(ValueError, match="910b1"), pypto.config(device="910b9"):
        doubled(f32(8, 64), f32(8, 64))


def test_unknown_jit_option():
    with pytest.raises(pypto.PyptoError, match="no_such_option"):
        @pypto.frontend.jit(no_such_option=1)
        def kernel(a: pypto.Tensor([8, 64], F32)):
            pass
    with pytest.raises(pypto.PyptoError, match="no_such_option"):
        @pypto.frontend.jit(runtime_options={"no_such_option": 1})
        def other(a: pypto.Tensor([8, 64], F32)):
            pass


def test_an_error_in_the_middle_leaves_the_next_launch_unharmed():
    @pypto.frontend.jit
    def fails(a: pypto.Tensor([8, 64], F32), y: pypto.Tensor([8, 64], F32)):
        pypto.set_vec_tile_shapes(8, 64)
        y[:] = a * 1.0
        raise RuntimeError("the user's own")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="the user's own"):
            fails(f32(8, 64), np.zeros((8, 64), np.float32))
    y = np.zeros((8, 64), np.float32)
    doubled(f32(8, 64), y)
    assert np.array_equal(y, f32(8, 64) * 2)
