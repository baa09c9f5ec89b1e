"""Tracing and replay against stepping, on kernels that try out how Python and the front end meet."""
import warnings

import numpy as np
import pytest
from support.kernels import KERNELS

import pypto_sim as pypto


def arguments():
    rng = np.random.default_rng(5)
    return [rng.uniform(-2, 2, (8, 16)).astype(np.float32), np.array([0, 2, 2, 6], np.int32),
            np.array([[3, -1], [0, 7], [5, 2], [-1, 1]], np.int32), np.full((8, 16), 9, np.float32)]


def annotated(function):
    """The kernel with tensor parameters, as a user writes it."""
    names = function.__code__.co_varnames[:4]
    function.__annotations__ = dict.fromkeys(names, pypto.Tensor)
    return pypto.frontend.jit(function)


def outcome(kernel, mode):
    args = arguments()
    error = None
    with pypto.config(mode=mode), warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        try:
            kernel(*args)
        except Exception as e:  # noqa: BLE001 - the same exception is expected from both modes
            error = (type(e), e.args)
    return error, [a.tobytes() for a in args], args


@pytest.mark.parametrize("name", KERNELS)
def test_replay_has_the_bits_of_stepping(name):
    function, how = KERNELS[name]
    kernel = annotated(function)
    error, replayed, _ = outcome(kernel, "auto")
    last = kernel.last_run
    want_error, stepped, args = outcome(kernel, "step")
    assert kernel.last_run.mode == "step"
    assert error == want_error and replayed == stepped
    assert args[3].tobytes() != arguments()[3].tobytes() or error
    reasons = {r["line"]: r["reason"] for r in last.loops}
    assert last.mode == ("step" if how == "step" else "replay"), last.reason
    if how == "replay":
        assert all(r["replayed"] for r in last.loops), reasons
    elif how == "concrete":
        assert any(not r["replayed"] and r["reason"] for r in last.loops)
    else:
        assert last.reason


def test_an_impure_kernel_says_so():
    kernel = annotated(KERNELS["global_list"][0])
    outcome(kernel, "auto")
    assert "kernel.impure" in [f.rule for f in kernel.last_run.warnings] and not kernel.last_run.cache_hit
    outcome(kernel, "auto")
    assert not kernel.last_run.cache_hit


def test_captured_state_changes_once_per_launch():
    calls = []

    @pypto.frontend.jit
    def kernel(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(8, 16)
        calls.append(len(calls))
        out[:] = a
    a, _, _, out = arguments()
    for n in range(1, 4):
        kernel(a, out)
        assert calls == list(range(n))


@pytest.mark.parametrize("mode", ["auto", "step"])
def test_print_and_breakpoint_show_values(mode, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr("sys.breakpointhook", lambda: seen.append("stopped"))

    @pypto.frontend.jit
    def kernel(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(8, 16)
        for i in pypto.loop(2):
            x = a[i:i + 1, 0:2] * 2.0
            print(i, x)
            breakpoint()  # noqa: T100 - its effect is the test
        out[:] = a
    a, _, _, out = arguments()
    a[:2, :2] = [[1, 2], [3, 4]]
    with pypto.config(mode=mode), warnings.catch_warnings():
        warnings.simplefilter("ignore", pypto.PyptoWarning)
        kernel(a, out)
        kernel(a, out)
    assert capsys.readouterr().out == "0 [[2. 4.]]\n1 [[6. 8.]]\n" * 2 and len(seen) == 4
    assert kernel.last_run.mode == "step" and ("breakpoint" in kernel.last_run.reason or mode == "step")


def test_a_kernel_without_source_text_has_concrete_loops():
    names = {"pypto": pypto}
    exec("def k(a: pypto.Tensor, out: pypto.Tensor):\n"
         "    pypto.set_vec_tile_shapes(1, 16)\n"
         "    for i in pypto.loop(8):\n"
         "        out[i:i + 1] = a[i:i + 1] * (2.0 if i == 3 else 1.0)\n", names)
    kernel = pypto.frontend.jit(names["k"])
    a, _, _, out = arguments()
    kernel(a, out)
    want = a.copy()
    want[3] *= 2
    assert out.tobytes() == want.tobytes()
    assert kernel.last_run.mode == "replay" and "no source" in kernel.last_run.loops[0]["reason"]
