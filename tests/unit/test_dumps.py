"""Intermediate values by name and iteration, and the item that produced the first NaN."""
import sys

import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.testing import assert_ulp, dump, first_nan, recording


def helper(tile):
    inner = pypto.exp(tile)
    return inner


@pypto.frontend.jit
def nested(x: pypto.Tensor([pypto.DYNAMIC, 4, 64], pypto.DT_FP32),
           out: pypto.Tensor([pypto.DYNAMIC, 64], pypto.DT_FP32)):
    pypto.set_vec_tile_shapes(4, 64)
    acc = pypto.tensor([1, 64], pypto.DT_FP32, "state")
    for b in pypto.loop(x.shape[0], idx_name="batch"):
        for r in pypto.loop(4):
            row = pypto.reshape(pypto.view(x, [1, 1, 64], [b, r, 0]), [1, 64])
            if pypto.is_loop_begin(r):
                acc[:] = helper(row)
            else:
                acc[:] = acc + helper(row)
        pypto.assemble(acc, [b, 0], out)


@pytest.fixture
def arrays():
    x = np.random.default_rng(0).standard_normal((3, 4, 64)).astype(np.float32)
    return x, np.zeros((3, 64), np.float32)


def test_names_and_iterations(arrays):
    x, out = arrays
    with dump("row", "inner", "state", "out", "absent") as found:
        nested(x, out)
    assert [s.indices for s in found["row"]] == [{"batch": b, "r": r} for b in range(3) for r in range(4)]
    for s in found["row"]:
        assert np.array_equal(s.values[0], x[s.indices["batch"], s.indices["r"]])
        assert s.line == "test_dumps.py:23"
    assert len(found["inner"]) == len(found["state"]) == 12 and len(found["out"]) == 3
    running = np.cumsum([s.values for s in found["inner"][:4]], 0, dtype=np.float32)
    assert all(np.array_equal(a, s.values) for a, s in zip(running, found["state"][:4], strict=True))
    assert np.array_equal(found["out"][-1].values, out) and found["out"][0].kernel == "nested"
    assert found.missing == ["absent"] and "absent: never seen" in str(found)
    assert "row [batch=0, r=1]: [1, 64] float32 after test_dumps.py:23 in `nested`" in str(found)
    with pytest.raises(KeyError, match="nothing was recorded for 'absent'; recorded: inner, out, row, state"):
        found["absent"]


def test_the_result_is_the_same_and_stepping_is_said(arrays):
    x, out = arrays
    nested(x, out)
    expected, out[:] = out.copy(), 0
    with dump("row"):
        nested(x, out)
    assert np.array_equal(out, expected) and nested.last_run.mode == "step" and "watches" in nested.last_run.reason
    nested(x, out)
    assert nested.last_run.mode == "replay"


@pytest.mark.parametrize("names, iteration, expected", [
    (("row@2",), None, [(0, 2), (1, 2), (2, 2)]), (("row@r=1@batch=2",), None, [(2, 1)]),
    (("row",), 3, [(0, 3), (1, 3), (2, 3)]), (("row",), {"batch": 1}, [(1, 0), (1, 1), (1, 2), (1, 3)]),
    (("row",), lambda at: at["batch"] == at["r"], [(0, 0), (1, 1), (2, 2)]),
    (("inner,row@batch=0@r=0", "row@batch=2@r=3"), 0, [(0, 0), (2, 3)])])
def test_choosing_iterations(arrays, names, iteration, expected):
    with dump(*names, iteration=iteration) as found:
        nested(*arrays)
    assert [tuple(s.indices.values()) for s in found["row"]] == expected


def test_several_launches_limit_and_files(arrays, tmp_path):
    import ml_dtypes
    with dump("row", limit=13, directory=tmp_path / "d") as found:
        nested(*arrays)
        nested(*arrays)
    assert [s.launch for s in found["row"]] == [0] * 12 + [1] and found.dropped == {"row": 11}
    files = sorted((tmp_path / "d").iterdir())
    assert len(files) == 13 and files[-1].name == "0012-nested1-row-batch0-r0.npz"
    one = np.load(files[5])
    assert np.array_equal(one["values"], found["row"][5].values)
    assert one["indices"].tolist() == [["batch", "1"], ["r", "1"]]

    @pypto.frontend.jit
    def halve(x: pypto.Tensor([8, 64], pypto.DT_BF16), out: pypto.Tensor([8, 64], pypto.DT_BF16)):
        pypto.set_vec_tile_shapes(8, 64)
        half = pypto.view(x, [8, 64], [0, 0], valid_shape=[3, 64]) * 0.5
        pypto.assemble(half, [0, 0], out)
    with dump("half", directory=tmp_path / "h") as found:
        halve(np.ones((8, 64), ml_dtypes.bfloat16), np.zeros((8, 64), ml_dtypes.bfloat16))
    assert found["half"][0].values.shape == (3, 64) and found["half"][0].values.dtype == ml_dtypes.bfloat16
    one = np.load(next((tmp_path / "h").iterdir()))
    assert one["values"].dtype == np.float32 and str(one["dtype"]) == "bfloat16" and (one["values"] == 0.5).all()


def test_bad_requests():
    for names, text in (((), "names of variables"), ((3,), "names of variables"), (("a b",), "no variable name"),
                        (("a@x",), "after @ stands"), (("a@x=y",), "after @ stands")):
        with pytest.raises(pypto.PyptoError, match=text):
            dump(*names)
    with pytest.raises(pypto.PyptoError, match="iteration must be"):
        dump("a", iteration="3")
    with dump("a"), pytest.raises(pypto.PyptoError, match="another dump"), dump("b"):
        pass


def test_a_tracing_function_is_put_back(arrays):
    seen = []
    sys.settrace(lambda *a: seen.append(a[0]))
    try:
        before = sys.gettrace()
        with dump("row"):
            nested(*arrays)
        assert sys.gettrace() is before
    finally:
        sys.settrace(None)


def test_first_nan_names_operation_iteration_and_operands(arrays):
    @pypto.frontend.jit
    def logs(x: pypto.Tensor([8, 64], pypto.DT_FP32), out: pypto.Tensor([8, 64], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(2, 64)
        for i in pypto.loop(4, idx_name="tile"):
            part = pypto.view(x, [2, 64], [i * 2, 0])
            logged = pypto.log(part)
            pypto.assemble(logged * 2.0, [i * 2, 0], out)

    x, out = np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32)
    assert first_nan(logs, x, out) is None
    x[5, 7] = -1
    found = first_nan(logs, x, out)
    assert (found.operation, found.indices, found.element, found.inherited) == ("log", {"tile": 2}, (1, 7), False)
    assert found.operands == (("`part`", "-1.0"),) and found.line.startswith("test_dumps.py:")
    assert (out == 0).all(), "the caller's arrays stay untouched"
    x[5, 7] = np.nan
    found = first_nan(logs, x, out)
    assert found.operation == "view" and found.inherited and "argument, or memory that was never written" in str(found)
    with pytest.raises(pypto.PyptoError, match="takes a kernel"):
        first_nan(np.log, x)


def test_comparison_asks_the_kernel_that_wrote_the_result(arrays):
    @pypto.frontend.jit
    def rsqrt(x: pypto.Tensor([8, 64], pypto.DT_FP32), out: pypto.Tensor([8, 64], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(8, 64)
        out[:] = pypto.sqrt(x - 2.0)

    x, out = np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32)
    with recording():
        rsqrt(x, out)
        for result in (out, out[2:], out.copy()):
            with pytest.raises(AssertionError, match=r"first NaN in `rsqrt`: sqrt at test_dumps\.py:.*= -1\.0"):
                assert_ulp(result, np.zeros_like(result))
        with pytest.raises(AssertionError, match="in no result of a recorded launch"):
            assert_ulp(np.float32([np.nan]), [0.0])
    with pytest.raises(AssertionError, match=r"first_nan\(kernel, \*args\), or compare inside"):
        assert_ulp(out, np.zeros_like(out))


def test_a_long_search_is_given_up(arrays, monkeypatch):
    from pypto_sim.testing import launches
    monkeypatch.setattr(launches, "SEARCH_SECONDS", 0.0)
    x, out = arrays
    x[2, 3] = np.nan
    with recording():
        nested(x, out)
        with pytest.raises(AssertionError, match=r"in `nested` for the first NaN: given up at test_dumps.py:.*batch=0"):
            assert_ulp(out, np.zeros_like(out))
    assert first_nan(nested, x, out).indices == {"batch": 2, "r": 3}


def test_a_result_that_is_read_too_says_so():
    @pypto.frontend.jit
    def update(cache: pypto.Tensor([8, 64], pypto.DT_FP32), x: pypto.Tensor([8, 64], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(8, 64)
        for _ in pypto.loop(1):
            old = pypto.view(cache, [8, 64], [0, 0])
            new = pypto.sqrt(x) + old
        for _ in pypto.loop(1):
            cache[:] = new

    cache, x = np.ones((8, 64), np.float32), np.full((8, 64), -1, np.float32)
    with recording():
        update(cache, x)
        with pytest.raises(AssertionError, match="cache: read and written, so its values after the launch"):
            assert_ulp(cache, np.zeros_like(cache))
