"""Matrix product of the core: accumulation order, bias, transposes, batches, valid boxes, int8."""
import numpy as np
import pytest

from .core_program import BF16, Prog, kernel_rows

F4 = np.dtype("f4")


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


def matmul(p, a, b, dtype, bias=None, a_trans=0, b_trans=0, relu=0, tile=-1):
    sa, sb = p.shape[a], p.shape[b]
    m, n = sa[-1] if a_trans else sa[-2], sb[-2] if b_trans else sb[-1]
    shape = (*np.broadcast_shapes(sa[:-2], sb[:-2]), m, n)
    ins = [a, b] + ([bias] if bias is not None else [])
    return p.op("matmul", ins, dtype, shape, ints=[a_trans, b_trans, int(bias is not None), relu], tile=tile)


def reference(a, b, k_block, bias=None):
    """acc = bias or 0; per K block a chain from 0, added to acc. Products of half operands are exact in fp32."""
    a, b = a.astype(F4), b.astype(F4)
    acc = np.zeros((a.shape[0], b.shape[1]), F4) + (bias if bias is not None else F4.type(0))
    for k0 in range(0, a.shape[1], k_block):
        part = np.zeros_like(acc)
        for k in range(k0, min(k0 + k_block, a.shape[1])):
            part = part + a[:, k:k + 1] * b[k:k + 1]
        acc = acc + part
    return acc


@pytest.mark.parametrize("dtype", ["f2", BF16], ids=str)
@pytest.mark.parametrize("out", ["f4", "f2", BF16], ids=str)
@pytest.mark.parametrize("k0", [16, 64, None])
def test_order_and_single_rounding(dtype, out, k0):
    g = np.random.default_rng(0)
    a, b = g.normal(size=(9, 200)).astype(dtype), g.normal(size=(200, 21)).astype(dtype)
    bias = g.normal(size=(1, 21)).astype(F4)
    p = Prog()
    tile = -1 if k0 is None else p.tile(cube=[16, 16, k0, 64, 64, 16, 16])
    ta, tb, tc = p.arg(a), p.arg(b), p.arg(bias)
    y, z = matmul(p, ta, tb, out, tile=tile), matmul(p, ta, tb, out, tc, tile=tile)
    p.run(keep=True)
    assert np.array_equal(p.read(y), reference(a, b, k0 or 128).astype(out))
    assert np.array_equal(p.read(z), reference(a, b, k0 or 128, bias).astype(out))


def test_transposes_and_relu():
    g = np.random.default_rng(0)
    a, b = g.normal(size=(20, 9)).astype(BF16), g.normal(size=(7, 20)).astype(BF16)
    p = Prog()
    y = matmul(p, p.arg(a), p.arg(b), F4, a_trans=1, b_trans=1, relu=1)
    p.run(keep=True)
    assert np.array_equal(p.read(y), np.maximum(reference(a.T, b.T, 20), 0))


def test_batches_broadcast():
    g = np.random.default_rng(0)
    a, b = g.normal(size=(2, 1, 5, 8)).astype("f2"), g.normal(size=(3, 8, 4)).astype("f2")
    p = Prog()
    y = matmul(p, p.arg(a), p.arg(b), F4)
    p.run(keep=True)
    want = [[reference(a[i, 0], b[j], 8) for j in range(3)] for i in range(2)]
    assert np.array_equal(p.read(y), np.array(want))


def test_k_beyond_the_valid_box_is_zero_and_m_n_carry_over():
    a, b = np.ones((8, 32), "f2"), np.ones((32, 8), "f2")
    a[:, 20:] = np.nan
    b[20:] = np.inf
    p = Prog()
    x, y = p.partial(p.arg(a), [5, 20]), p.partial(p.arg(b), [24, 6])
    z = matmul(p, x, y, F4)
    m = p.run(keep=True)
    assert m.valid(z) == [5, 6] and m.candidates() == []
    assert np.all(p.read(z)[:5, :6] == 20) and np.all(np.isnan(p.read(z)[5:]))


def test_int8_accumulates_in_int32():
    g = np.random.default_rng(0)
    a, b = g.integers(-128, 128, (17, 300)).astype("i1"), g.integers(-128, 128, (300, 9)).astype("i1")
    bias = g.integers(-1000, 1000, (1, 9)).astype("i4")
    p = Prog()
    y = matmul(p, p.arg(a), p.arg(b), "i4", p.arg(bias), relu=1)
    p.run(keep=True)
    assert np.array_equal(p.read(y), np.maximum(a.astype("i4") @ b.astype("i4") + bias, 0))


def test_split_k_adds_partial_products_left_to_right():
    g = np.random.default_rng(0)
    a, b = g.normal(size=(6, 100)).astype(BF16), g.normal(size=(100, 5)).astype(BF16)
    p = Prog()
    y = matmul(p, p.arg(a), p.arg(b), F4, tile=p.tile(cube=[16, 16, 16, 32, 32, 16, 16], split_k=True))
    p.run(keep=True)
    want = reference(a[:, :32], b[:32], 16)
    for k in range(32, 100, 32):
        want = want + reference(a[:, k:k + 32], b[k:k + 32], 16)
    assert np.array_equal(p.read(y), want)


def test_operands_may_be_views():
    a = np.random.default_rng(0).normal(size=(40, 64)).astype("f2")
    p = Prog()
    x = p.arg(a)
    y = matmul(p, p.view(x, (8, 16), [4, 8]), p.view(x, (16, 12), [20, 40]), F4)
    p.run(keep=True)
    assert np.array_equal(p.read(y), reference(a[4:12, 8:24], a[20:36, 40:52], 16))
