"""Values of movement, index, creation and matrix product against numpy, for every element type they take."""
import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.dtypes import DataType
from pypto_sim.enums import ReLuType
from pypto_sim.registry import REGISTRY
from pypto_sim.testing import evaluate

pytestmark = pytest.mark.filterwarnings("ignore::pypto_sim.errors.PyptoWarning")
D = {d.short: d for d in DataType}
F32, F16, B16, I32 = D["fp32"], D["fp16"], D["bf16"], D["int32"]


def numbers(shape, dtype, seed=0):
    """Distinct small numbers of any type, in random order."""
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape))
    values = rng.permutation(n) % 120 - (0 if dtype.is_unsigned or dtype is D["bool"] else 60)
    return (values % 2 if dtype is D["bool"] else values).reshape(shape).astype(dtype.np_dtype)


def take(x, index, dim):
    return np.take(x, index, dim)


IDX = np.array([[3, 0, 7, 2], [5, 5, 1, 6]], np.int32)
ROWS = np.array([3, 0, 7, 2], np.int32)

# (operation, call, reference, shapes, tile)
MOVES = [
    ("view", lambda f, x: f(x, [4, 16], [2, 8]), lambda x: x[2:6, 8:24], [(8, 64)], (8, 64)),
    ("view", lambda f, x: f(x, offsets=[0, 0]), lambda x: x, [(8, 64)], (8, 64)),
    ("view", lambda f, x: f(x, [1, 3, 2, 5], [1, 0, 3, 7]), lambda x: x[1:2, :3, 3:5, 7:12], [(2, 3, 5, 16)],
     (1, 1, 8, 16)),
    ("reshape", lambda f, x: f(x, [4, -1, 8]), lambda x: x.reshape(4, 16, 8), [(8, 64)], (8, 64)),
    ("reshape", lambda f, x: f(x, [512], inplace=True), lambda x: x.reshape(512), [(8, 64)], (8, 64)),
    ("unsqueeze", lambda f, x: f(x, 1), lambda x: x[:, None], [(8, 64)], (8, 1, 64)),
    ("unsqueeze", lambda f, x: f(x, -1), lambda x: x[..., None], [(8, 64)], (8, 64, 1)),
    ("squeeze", lambda f, x: f(x, 1), lambda x: x[:, 0], [(8, 1, 64)], (8, 64)),
    ("transpose", lambda f, x: f(x, 0, 1), lambda x: x.T, [(24, 40)], (16, 16)),
    ("transpose", lambda f, x: f(x, 0, 1), lambda x: x.swapaxes(0, 1), [(3, 5, 16)], (2, 2, 16)),
    ("transpose", lambda f, x: f(x, 0, 2), lambda x: x.swapaxes(0, 2), [(3, 5, 16)], (2, 2, 16)),
    ("transpose", lambda f, x: f(x, -1, -2), lambda x: x.swapaxes(2, 3), [(2, 3, 5, 16)], (1, 1, 4, 16)),
    ("transpose", lambda f, x: f(x, 1, 2), lambda x: x.swapaxes(1, 2), [(2, 3, 5, 16)], (1, 1, 4, 16)),
    ("transpose", lambda f, x: f(x, 0, 0), lambda x: x, [(8, 64)], (8, 64)),
    ("permute", lambda f, x: f(x, [2, 0, 1]), lambda x: x.transpose(2, 0, 1), [(3, 5, 16)], (2, 2, 16)),
    ("permute", lambda f, x: f(x, [3, 1, 0, 2]), lambda x: x.transpose(3, 1, 0, 2), [(2, 3, 5, 16)], (1, 1, 4, 16)),
    ("concat", lambda f, x, y: f([x, y], -1), lambda x, y: np.concatenate([x, y], -1), [(8, 40), (8, 3)], (8, 64)),
    ("concat", lambda f, x, y: f([x, y, x], 0), lambda x, y: np.concatenate([x, y, x]), [(8, 5), (1, 5)], (8, 64)),
    ("concat", lambda f, x, y: f([x, y], 1), lambda x, y: np.concatenate([x, y], 1), [(2, 3, 8), (2, 4, 8)], (1, 8, 8)),
    ("expand_clone", lambda f, x: f(x, [8, 5, 16]), lambda x: np.broadcast_to(x, (8, 5, 16)), [(8, 1, 16)], (4, 4, 16)),
    ("expand_clone", lambda f, x: f(x, [8, 16]), lambda x: np.broadcast_to(x, (8, 16)), [(8, 1)], (4, 16)),
    ("expand_clone", lambda f, x: f(x, [8, 3, 16]), lambda x: np.broadcast_to(x, (8, 3, 16)), [(1, 3, 1)], (4, 4, 16)),
    ("expand_clone", lambda f, x: f(x, [-1, 16]), lambda x: x, [(8, 16)], (4, 16)),
    ("clone", lambda f, x: f(x), lambda x: x, [(8, 64)], (4, 64)),
    ("fillpad", lambda f, x: f(x, value=3), lambda x: x, [(8, 64)], (4, 64)),
    ("pad", lambda f, x: f(x, [0, 7, 0, 3], value=1), lambda x: np.pad(x, ((0, 3), (0, 7)), constant_values=1),
     [(8, 9)], (4, 16)),
    ("pad", lambda f, x: f(x, [0, 7]), lambda x: np.pad(x, (0, 7)), [(9,)], (16,)),
    ("deinterleave", lambda f, x: f(x)[0], lambda x: x[..., ::2], [(8, 64)], (8, 32)),
    ("deinterleave", lambda f, x: f(x)[1], lambda x: x[..., 1::2], [(8, 64)], (8, 32)),
    ("deinterleave", lambda f, x, y: f(x, y)[1], lambda x, y: np.concatenate([x, y], -1)[..., 1::2], [(8, 64), (8, 64)],
     (8, 64)),
    *(("gathermask", lambda f, x, m=m: f(x, m), lambda x, a=a, s=s: x[..., a::s], [(8, 64)], (8, 64))
      for m, a, s in ((1, 0, 2), (2, 1, 2), (3, 0, 4), (4, 1, 4), (5, 2, 4), (6, 3, 4), (7, 0, 1))),
    *((name, lambda f, x, k=k: f(x, k), lambda x, k=k, g=g: g(x, k), [(2, 9, 16)], (1, 4, 16))
      for name, g in (("tril", np.tril), ("triu", np.triu)) for k in (0, -2, 3, 40, -40)),
    ("index_select", lambda f, x, i: f(x, 0, i), lambda x, i: take(x, i, 0), [(8, 64), ROWS], (2, 64)),
    ("index_select", lambda f, x, i: f(x, -1, i), lambda x, i: take(x, i, 1), [(5, 8), ROWS], (2, 64)),
    ("index_select", lambda f, x, i: f(x, 0, i), lambda x, i: take(x, i, 0), [(8, 64), IDX], (1, 2, 64)),
    ("index_select", lambda f, x, i: f(x, 1, i), lambda x, i: take(x, i, 1), [(3, 8, 16), IDX], (1, 1, 2, 16)),
    ("gather", lambda f, x, i: f(x, 0, i), lambda x, i: np.take_along_axis(x, i, 0), [(8, 4), IDX], (2, 8)),
    ("gather", lambda f, x, i: f(x, 1, i), lambda x, i: np.take_along_axis(x[:2], i, 1), [(5, 8), IDX], (2, 8)),
    ("gather", lambda f, x, i: f(x, 1, i), lambda x, i: np.take_along_axis(x[:, :, :4], i[:, :2, :4], 1),
     [(1, 8, 6), IDX[None]], (1, 2, 8)),
]


@pytest.mark.parametrize(("name", "call", "reference", "shapes", "tile"), MOVES,
                         ids=[f"{m[0]}-{i}" for i, m in enumerate(MOVES)])
def test_moves_copy_bits(name, call, reference, shapes, tile):
    spec = REGISTRY[name]
    for dtype in sorted((d for d in spec.dtypes.union() if d.arithmetic), key=lambda d: d.value):
        arrays = [s if isinstance(s, np.ndarray) else numbers(s, dtype, i) for i, s in enumerate(shapes)]
        device = "950pr" if spec.socs == ("950",) or dtype in spec.dtypes.only_950 else "910b1"
        (got,) = evaluate(lambda *t: call(spec.function, *t), *arrays, tile=tile, device=device)
        want = np.ascontiguousarray(reference(*arrays))
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8), err_msg=str(dtype))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_index_types(dtype):
    x = numbers((8, 4), F32)
    (rows,) = evaluate(lambda a, i: pypto.index_select(a, 0, i), x, IDX[0].astype(dtype), tile=(4, 8))
    (elements,) = evaluate(lambda a, i: pypto.gather(a, 0, i), x, IDX.astype(dtype), tile=(4, 8))
    assert np.array_equal(rows, x[IDX[0]]) and np.array_equal(elements, np.take_along_axis(x, IDX, 0))


def test_special_floats_are_moved_as_they_are():
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38, 0.0, 1.0], np.float32)
    x[0:1].view(np.uint32)[:] = 0x7FC12345                       # a NaN with a payload
    for call in (lambda a: pypto.clone(a), lambda a: pypto.view(a, [8], [0]), lambda a: pypto.reshape(a, [2, 4]),
                 lambda a: pypto.unsqueeze(a, 0), lambda a: pypto.gathermask(a, 7)):
        (got,) = evaluate(call, x, tile=(1, 8))
        assert got.tobytes() == x.tobytes()


# --- valid regions ---------------------------------------------------------------------------------------------------
def test_a_window_over_the_end_is_smaller():
    x = numbers((8, 64), F32)
    (got,) = evaluate(lambda a: pypto.view(a, [8, 64], [3, 40]), x, fill=-7)
    assert np.array_equal(got[:5, :24], x[3:, 40:]) and (got[5:] == -7).all() and (got[:, 24:] == -7).all()


def test_an_explicit_valid_shape_wins():
    x = numbers((8, 64), F32)
    (got,) = evaluate(lambda a: pypto.view(a, [8, 64], [0, 0], valid_shape=[2, 10]), x, fill=-7)
    assert np.array_equal(got[:2, :10], x[:2, :10]) and (got[2:] == -7).all() and (got[:, 10:] == -7).all()


VALID = [
    (lambda a: pypto.transpose(a, 0, 1), lambda x: x.T),
    (lambda a: pypto.unsqueeze(a, 0), lambda x: x[None]),
    (lambda a: pypto.clone(a), lambda x: x),
    (lambda a: pypto.tril(a), np.tril),
    (lambda a: pypto.pad(a, [0, 4, 0, 2], value=5), lambda x: np.pad(x, ((0, 2), (0, 4)), constant_values=5)),
]


@pytest.mark.parametrize(("call", "reference"), VALID)
def test_moves_keep_the_valid_region(call, reference):
    x = numbers((8, 64), F32)
    (got,) = evaluate(call, x, valid={0: (3, 40)}, fill=-77, tile=(8, 64, 64))
    want = reference(x[:3, :40])
    inside = tuple(slice(n) for n in want.shape)
    assert np.array_equal(got[inside], want)
    outside = np.ones(got.shape, bool)
    outside[inside] = False
    assert (got[outside] == -77).all()


def test_fillpad_makes_everything_valid():
    x = numbers((8, 64), F32)
    for value in (-np.inf, 2.5, 0):
        (got,) = evaluate(lambda a, v=value: pypto.fillpad(a, value=v), x, valid={0: (3, 40)}, fill=-77)
        want = np.full((8, 64), value, np.float32)
        want[:3, :40] = x[:3, :40]
        assert np.array_equal(got, want)


# --- writes ----------------------------------------------------------------------------------------------------------
def test_assemble_into_a_local_list_form_and_method():
    x = numbers((4, 8), F32)

    def tiles(a):
        t = pypto.tensor([8, 16], F32, "t")
        t[:] = pypto.zeros(8, 16)
        pypto.assemble([(a, [0, 0]), (a, [4, 8])], t)
        t.assemble(a + 1.0, [4, 0])
        return t * 1.0

    (got,) = evaluate(tiles, x, tile=(8, 16))
    want = np.zeros((8, 16), np.float32)
    want[:4, :8], want[4:, 8:], want[4:, :8] = x, x, x + 1
    assert np.array_equal(got, want)


def test_earlier_views_keep_what_they_saw():
    x = numbers((4, 8), F32)

    def body(a):
        t = pypto.tensor([4, 8], F32, "t")
        t[:] = a
        before = pypto.view(t, [4, 8], [0, 0])
        pypto.assemble(a * 2.0, [0, 0], t)
        return before + t

    (got,) = evaluate(body, x, tile=(4, 8))
    assert np.array_equal(got, x * 3)


def test_a_corner_of_the_output_is_written():
    out = np.full((8, 16), -1, np.float32)

    @pypto.frontend.jit
    def kernel(a: pypto.Tensor([4, 8], F32), y: pypto.Tensor([8, 16], F32)):
        pypto.set_vec_tile_shapes(4, 8)
        y[4:8, 8:16] = a
        y[:] = a * 2.0

    x = numbers((4, 8), F32)
    kernel(x, out)
    want = np.full((8, 16), -1, np.float32)
    want[4:, 8:], want[:4, :8] = x, x * 2
    assert np.array_equal(out, want)


def test_lenient_casts_half_to_even_on_a_write_of_another_type():
    x = np.array([[1.01953125, 1.02734375, -1.01953125, 2.5, 3.5, 1e30, 0, 0]], np.float32)
    out = np.zeros((1, 8), B16.np_dtype)
    whole = np.zeros((1, 8), np.int32)

    @pypto.frontend.jit
    def kernel(a: pypto.Tensor([1, 8], F32), y: pypto.Tensor([1, 8], B16), z: pypto.Tensor([1, 8], I32)):
        pypto.set_vec_tile_shapes(1, 8)
        pypto.assemble(a, [0, 0], y)
        pypto.assemble(pypto.minimum(a, 9.0), [0, 0], z)

    with pytest.warns(pypto.PyptoWarning, match="Cast first"):
        kernel(x, out, whole)
    assert np.array_equal(out, x.astype(B16.np_dtype))
    assert whole.tolist() == [[1, 1, -1, 2, 4, 9, 0, 0]]


# --- scatter ---------------------------------------------------------------------------------------------------------
def scattered(x, index, src, reduce, dim):
    want = x.astype(np.float64)
    for at in np.ndindex(*index.shape):
        to = list(at)
        to[dim] = index[at]
        value = src[at] if isinstance(src, np.ndarray) else src
        old = want[tuple(to)]
        want[tuple(to)] = value if reduce is None else old + value if reduce == "add" else old * value
    return want


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("reduce", [None, "add", "multiply"])
@pytest.mark.parametrize("src", ["tensor", "scalar"])
@pytest.mark.parametrize("dim", [0, 1])
def test_scatter(in_place, reduce, src, dim):
    f = pypto.scatter_ if in_place else pypto.scatter
    index = np.array([[1, 0, 3], [2, 2, 0]], np.int32) if dim == 0 else np.array([[1, 0, 3], [2, 5, 0]], np.int32)
    for dtype in (F32, F16, B16, I32, D["int8"], D["uint8"], D["int16"]):
        x, s = numbers((4, 6), dtype) % 7, numbers((2, 3), dtype, 1) % 5
        x, s = x.astype(dtype.np_dtype), s.astype(dtype.np_dtype)

        def body(a, i, b):
            t = pypto.clone(a) if in_place else a
            r = f(t, dim, i, b if src == "tensor" else 2, reduce=reduce)
            return t if in_place else r

        (got,) = evaluate(body, x, index, s, tile=(4, 8))
        want = scattered(x, index, s if src == "tensor" else 2, reduce, dim)
        assert np.array_equal(got.astype(np.float64), want), dtype


def test_scatter_in_place_writes_an_argument_without_a_warning(recwarn):
    cache, new = np.zeros((4, 8), np.float32), np.ones((1, 8), np.float32)

    @pypto.frontend.jit
    def kernel(i: pypto.Tensor([1, 8], I32), s: pypto.Tensor([1, 8], F32), y: pypto.Tensor([4, 8], F32)):
        pypto.set_vec_tile_shapes(4, 8)
        pypto.scatter_(y, 0, i, s)

    kernel(np.full((1, 8), 2, np.int32), new, cache)
    assert np.array_equal(cache, np.eye(4, dtype=np.float32)[:, 2:3] * np.ones(8)) and not list(recwarn)


@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_scatter_update_of_a_paged_cache(rank, index_dtype):
    blocks, size, d, b, s = 3, 4, 16, 2, 2
    cache = np.zeros((blocks * size, d), np.float32)
    new = numbers((b * s, d), F32)
    index = np.array([[5, 11], [0, 7]], index_dtype)
    shape_c, shape_n = ((blocks * size, d), (b * s, d)) if rank == 2 else ((blocks, size, 1, d), (b, s, 1, d))
    want = cache.copy()
    want[index.ravel()] = new
    out = cache.reshape(shape_c)

    @pypto.frontend.jit
    def kernel(i: pypto.Tensor(), n: pypto.Tensor(), y: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*((4, 16) if rank == 2 else (1, 4, 1, 16)))
        y[:] = pypto.scatter_update(y, -2, i, n)

    kernel(index, new.reshape(shape_n), out)
    assert np.array_equal(out.reshape(-1, d), want)


@pytest.mark.parametrize(("last", "want"), [(2, [0, 1, 0, 0]), (-1, [0, 1, 0, 0])])
def test_scatter_update_ends_at_a_negative_index(last, want):
    out = np.zeros((4, 8), np.float32)
    _update(np.array([[1, -1, last]], np.int32), out)
    assert out[:, 0].tolist() == want


def test_scatter_update_refuses_an_index_past_the_end():
    out = np.zeros((4, 8), np.float32)
    with pytest.raises(IndexError, match="index 4"):
        _update(np.array([[1, 2, 4]], np.int32), out)


def _update(index, out):
    @pypto.frontend.jit
    def kernel(i: pypto.Tensor(), n: pypto.Tensor(), y: pypto.Tensor()):
        pypto.set_vec_tile_shapes(4, 8)
        pypto.scatter_update(y, -2, i, n)

    kernel(index, np.ones((3, 8), np.float32), out)


# --- creation --------------------------------------------------------------------------------------------------------
FILLED = ["fp32", "fp16", "bf16", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bool"]


@pytest.mark.parametrize("name", FILLED)
def test_full(name):
    dtype = D[name]
    values = (3, 2.5, -1, 0) if dtype.is_float else (3, 1, 0) if dtype.is_unsigned or name == "bool" else (3, -1, 2.0)
    for value in values:
        (got,) = evaluate(lambda a, v=value: pypto.full([8, 5], v, dtype), np.zeros(1, np.float32), tile=(4, 8))
        assert np.array_equal(got, np.full((8, 5), value).astype(dtype.np_dtype))


def test_full_rounds_its_value():
    (got,) = evaluate(lambda a: pypto.full([1, 8], 0.7978845608, B16), np.zeros(1, np.float32), tile=(1, 8))
    assert (got.astype(np.float64) == 0.796875).all()


def test_full_of_a_loop_index():
    out = np.zeros((4, 8), np.int32)

    @pypto.frontend.jit
    def kernel(y: pypto.Tensor([4, 8], I32)):
        pypto.set_vec_tile_shapes(1, 8)
        for i in pypto.loop(4):
            pypto.assemble(pypto.full([1, 8], i * 3 + 1, I32), [i, 0], y)

    kernel(out)
    assert out[:, 0].tolist() == [1, 4, 7, 10] and (out == out[:, :1]).all()


def test_zeros_ones():
    x = np.zeros(1, np.float32)
    for call, want in ((lambda: pypto.zeros(2, 8), np.zeros((2, 8), np.float32)),
                       (lambda: pypto.ones([2, 8], dtype=F16), np.ones((2, 8), np.float16)),
                       (lambda: pypto.zeros((2, 8), dtype=I32), np.zeros((2, 8), np.int32))):
        (got,) = evaluate(lambda a, c=call: c(), x, tile=(2, 8))
        assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.parametrize("args", [(5,), (2, 9), (2, 9, 3), (9, 2, -2), (0, 1.0, 0.25), (1.5, -1.0, -0.5), (0.0, 1000.0),
                                  (-2**31, 2**31 - 1, 2**30)])
def test_arange(args):
    (got,) = evaluate(lambda a: pypto.arange(*args), np.zeros(1, np.float32), tile=(64,))
    is_float = any(isinstance(a, float) for a in args)
    want = np.arange(*args)
    assert got.dtype == (np.float32 if is_float else np.int32) and got.shape == want.shape
    assert np.allclose(got, want, rtol=1e-6) if is_float else np.array_equal(got, want)


# --- matrix product --------------------------------------------------------------------------------------------------
def product(a, b, out, *extra, tile=((32, 32), (32, 64, 64), (32, 32)), dtype=None, **more):
    """a @ b through a kernel; `extra` goes into extend_params["bias_tensor"]."""
    def body(x, y, *bias):
        m, k, n = tile
        pypto.set_cube_tile_shapes(list(m), list(k), list(n), more.pop("split_k", False))
        params = {"bias_tensor": bias[0]} if bias else {}
        params |= more.get("params", {})
        return pypto.matmul(x, y, out, a_trans=more.get("a_trans", False), b_trans=more.get("b_trans", False),
                            **({"extend_params": params} if params else {}))
    split = more.get("split_k", False)

    def again(*t):
        more["split_k"] = split
        return body(*t)
    return evaluate(again, a, b, *extra, tile=(1, 32, 32))[0]


KINDS = [("fp16", "fp32"), ("fp16", "fp16"), ("bf16", "fp32"), ("bf16", "bf16"), ("fp32", "fp32"), ("int8", "int32")]


@pytest.mark.parametrize(("kind", "out"), KINDS)
@pytest.mark.parametrize(("a_trans", "b_trans"), [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_small_integers_are_exact(kind, out, a_trans, b_trans):
    rng = np.random.default_rng(5)
    a, b = rng.integers(-2, 3, (40, 72)), rng.integers(-2, 3, (72, 48))
    as_kind = lambda x, t: np.ascontiguousarray(x.T if t else x).astype(D[kind].np_dtype)
    got = product(as_kind(a, a_trans), as_kind(b, b_trans), D[out], a_trans=a_trans, b_trans=b_trans)
    assert got.dtype == D[out].np_dtype
    assert np.array_equal(got.astype(np.float64), (a @ b).astype(D[out].np_dtype).astype(np.float64))


@pytest.mark.parametrize(("batch_a", "batch_b"), [((3,), (3,)), ((1,), (3,)), ((3,), (1,)), ((2, 3), (2, 3)),
                                                  ((2, 1), (1, 3))])
def test_batches_broadcast(batch_a, batch_b):
    rng = np.random.default_rng(6)
    a = rng.integers(-2, 3, (*batch_a, 17, 40)).astype(np.float16)
    b = rng.integers(-2, 3, (*batch_b, 40, 19)).astype(np.float16)
    assert np.array_equal(product(a, b, F32), a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("shape_a", "shape_b"), [((3, 17, 40), (40, 19)), ((17, 40), (3, 40, 19)),
                                                  ((2, 3, 17, 40), (40, 19))])
def test_lenient_broadcasts_ranks(shape_a, shape_b):
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in (shape_a, shape_b))
    assert np.array_equal(product(a, b, F32), a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("kind", ["fp16", "bf16", "fp32"])
def test_blocks_of_k_are_summed_in_order(kind):
    """fma chain inside a block of kL0, blocks added in order: emulated in float64, where a product is exact."""
    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal(s).astype(D[kind].np_dtype) for s in ((5, 150), (150, 7)))
    bias = rng.standard_normal((1, 7)).astype(np.float32)
    got = product(a, b, F32, bias, tile=((16, 16), (64, 64, 64), (16, 16)))
    wide = [x.astype(np.float64) for x in (a, b)]
    total = np.broadcast_to(bias, (5, 7)).astype(np.float32)
    for at in range(0, 150, 64):
        part = np.zeros((5, 7), np.float32)
        for k in range(at, min(at + 64, 150)):
            part = (part.astype(np.float64) + wide[0][:, k:k + 1] * wide[1][k:k + 1]).astype(np.float32)
        total = total + part
    if kind == "fp32":                       # a sum of float64 rounds twice; at most the last bit may differ
        assert np.allclose(got, total, rtol=3e-7, atol=1e-6)
    else:
        assert np.array_equal(got, total)


@pytest.mark.parametrize("tile", [((16, 16), (16, 16, 16), (16, 16)), ((64, 64), (64, 128, 128), (32, 64)),
                                  ((8, 8), (64, 64, 64), (48, 48))])
def test_tiles_of_m_and_n_never_change_a_bit(tile):
    rng = np.random.default_rng(9)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((37, 64), (64, 53)))
    (m, k, n) = tile
    one = product(a, b, F32, tile=((64, 64), k, (64, 64)))
    assert product(a, b, F32, tile=tile).tobytes() == one.tobytes()


@pytest.mark.parametrize(("kind", "bias", "out"), [("fp16", "fp16", "fp16"), ("fp16", "fp32", "fp32"),
                                                   ("bf16", "fp32", "bf16"), ("fp32", "fp32", "fp32"),
                                                   ("int8", "int32", "int32")])
def test_bias_is_the_start_value(kind, bias, out):
    rng = np.random.default_rng(10)
    a, b = (rng.integers(-2, 3, s) for s in ((20, 40), (40, 24)))
    c = rng.integers(-9, 9, (1, 24))
    got = product(a.astype(D[kind].np_dtype), b.astype(D[kind].np_dtype), D[out], c.astype(D[bias].np_dtype))
    assert np.array_equal(got.astype(np.float64), (a @ b + c).astype(np.float64))


def test_a_fused_bias_rounds_once_a_separate_one_twice():
    """2048 + 1 + 1: fp16 holds 2048 and 2050; the separate addition loses the first 1."""
    a, b = np.array([[2048, 1]], np.float16), np.ones((2, 16), np.float16)
    bias = np.ones((1, 16), np.float16)
    assert (product(a, b, F16, bias) == 2050).all()
    (two,) = evaluate(lambda x, y, c: _with_tile(x, y) + c, a, b, bias, tile=(1, 16))
    assert (two == 2048).all()


def _with_tile(x, y):
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    return pypto.matmul(x, y, F16)


def test_relu_and_scale():
    rng = np.random.default_rng(11)
    a, b = (rng.integers(-8, 8, s).astype(np.int8) for s in ((20, 64), (64, 32)))
    want = a.astype(np.int64) @ b.astype(np.int64)
    got = product(a, b, D["int32"], params={"relu_type": ReLuType.RELU})
    assert np.array_equal(got, np.maximum(want, 0))
    got = product(a, b, F16, params={"relu_type": ReLuType.RELU, "scale": 0.25})
    assert np.array_equal(got, (np.maximum(want, 0) * 0.25).astype(np.float16))
    short = np.float32(0.1).view(np.uint32) & np.uint32(0xFFFFE000)
    got = product(a, b, F16, params={"scale": 0.1})
    assert np.array_equal(got, (want.astype(np.float32) * short.view(np.float32)).astype(np.float16))


@pytest.mark.parametrize("kind", ["fp16", "int8"])
def test_split_k(kind):
    rng = np.random.default_rng(12)
    a, b = (rng.integers(-2, 3, s).astype(D[kind].np_dtype) for s in ((20, 200), (200, 32)))
    out = D["int32"] if kind == "int8" else F32
    got = product(a, b, out, split_k=True)
    assert np.array_equal(got, a.astype(np.int64) @ b.astype(np.int64))


def test_the_contracted_tail_counts_as_zero():
    rng = np.random.default_rng(13)
    a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in ((16, 64), (64, 32)))

    def body(x, y):
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        return pypto.matmul(pypto.view(x, [16, 64], [0, 0], valid_shape=[9, 40]),
                            pypto.view(y, [64, 32], [0, 0], valid_shape=[40, 20]), F32)

    (got,) = evaluate(body, a, b, fill=-7)
    want = a[:9, :40].astype(np.float32) @ b[:40, :20].astype(np.float32)
    assert np.array_equal(got[:9, :20], want) and (got[9:] == -7).all() and (got[:, 20:] == -7).all()


def test_at_operator_takes_the_type_of_the_right_operand():
    a, b = np.ones((16, 32), np.int8), np.ones((32, 16), np.int8)

    def body(x, y):
        pypto.set_cube_tile_shapes([16, 16], [32, 32], [32, 32])
        return x @ y

    (got,) = evaluate(body, a, b)
    assert got.dtype == np.int32 and (got == 32).all()


# --- a gather that may be a look-up ----------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["auto", "step"])
def test_marked_gathers_keep_what_they_saw(mode):
    """The element form is computed late, from what the operands were at the call; in a loop, in each iteration."""
    table, ids = numbers((16, 8), F32), np.array([[3, 1, 0, 15], [2, 2, 9, 4]], np.int32)
    out, rows = np.zeros((6, 4), np.float32), np.zeros((2, 4, 8), np.float32)

    @pypto.frontend.jit
    def kernel(w: pypto.Tensor([16, 8], F32), i: pypto.Tensor([2, 4], I32), y: pypto.Tensor([6, 4], F32),
               z: pypto.Tensor([2, 4, 8], F32)):
        pypto.set_vec_tile_shapes(2, 4, 8)
        t = pypto.tensor([16, 8], F32, "t")
        t[:] = w
        early = pypto.gather(t, 0, i)
        t[:] = w * 2.0
        pypto.assemble(early, [0, 0], y)
        for n in pypto.loop(2):
            pypto.assemble(early + 1.0, [2 + 2 * n, 0], y)
        pypto.assemble(early, [0, 0, 0], z)

    with pypto.config(mode=mode):
        kernel(table, ids, out, rows)
    want = np.take_along_axis(table[:, :4], ids, 0)
    assert np.array_equal(out, np.concatenate([want, want + 1, want + 1]))
    assert np.array_equal(rows, table[ids])


def test_a_marked_gather_made_in_a_loop_and_used_after_it():
    table, ids = numbers((16, 8), F32), np.array([[3, 1, 0, 15], [2, 2, 9, 4]], np.int32)
    out = np.zeros((1, 4), np.float32)

    @pypto.frontend.jit
    def kernel(w: pypto.Tensor([16, 8], F32), i: pypto.Tensor([2, 4], I32), y: pypto.Tensor([1, 4], F32)):
        pypto.set_vec_tile_shapes(1, 4)
        r = None
        for n in pypto.loop(2):
            r = pypto.gather(w, 0, pypto.view(i, [1, 4], [n, 0]))
        y[:] = r * 1.0

    kernel(table, ids, out)
    assert np.array_equal(out, np.take_along_axis(table[:, :4], ids[1:], 0))
