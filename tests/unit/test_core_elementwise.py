"""Elementwise operations of the core against numpy."""
import numpy as np
import pytest

from pypto_sim import _core

from .core_program import BF16, Prog, kernel_rows


@pytest.fixture(autouse=True)
def rows():
    with kernel_rows():
        yield


def rng():
    return np.random.default_rng(7)


def test_add_broadcast_keeps_fp32_bits():
    a, b = rng().normal(size=(5, 300)).astype("f4"), rng().normal(size=(5, 1)).astype("f4")
    p = Prog()
    out = np.zeros((5, 300), "f4")
    y = p.binary("add", p.arg(a), p.arg(b))
    p.write(y, p.arg(out))
    p.run()
    assert np.array_equal(p.arrays[2], a + b)
