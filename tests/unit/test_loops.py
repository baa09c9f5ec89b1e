"""How often bodies run, what the loop functions refuse, limits, and what they report."""
import ml_dtypes
import numpy as np
import pytest

import pypto_sim as pypto

F32 = pypto.DT_FP32
BF16 = ml_dtypes.bfloat16


def total(kernel):
    return sum(r["traces"] for r in kernel.last_run.loops)


def test_65536_iterations_run_the_body_at_most_5_times():
    runs = []

    @pypto.frontend.jit
    def kernel(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(65536):
            x = pypto.view(a, [1, 16], [i, 0])
            if i == 65535:
                x = x + 1.0
            pypto.assemble(x * 2.0, [i, 0], out)
    a, out = np.ones((65536, 16), np.float32), np.zeros((65536, 16), np.float32)
    kernel(a, out)
    assert (out[:-1] == 2).all() and (out[-1] == 4).all()
    assert total(kernel) <= 5 and kernel.last_run.mode == "replay" and not runs


def test_online_softmax_runs_its_body_few_times():
    heads, width, block = 4, 32, 16

    @pypto.frontend.jit
    def decode(q: pypto.Tensor([heads, width], pypto.DT_BF16), k: pypto.Tensor([pypto.DYNAMIC, width], pypto.DT_BF16),
               v: pypto.Tensor([pypto.DYNAMIC, width], pypto.DT_BF16), out: pypto.Tensor([heads, width], F32)):
        pypto.set_vec_tile_shapes(heads, block)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        length = k.shape[0]
        o, s, m = (pypto.tensor([heads, n], F32) for n in (width, 1, 1))
        for i in pypto.loop(pypto.ceildiv(length, block)):
            n = pypto.min(block, length - i * block)
            kt = pypto.view(k, [block, width], [i * block, 0], valid_shape=[n, width])
            vt = pypto.view(v, [block, width], [i * block, 0], valid_shape=[n, width])
            p = pypto.matmul(q, kt, F32, b_trans=True)
            top = pypto.amax(p, -1, True)
            e = pypto.exp(p - top)
            part, low = pypto.sum(e, -1, True), pypto.matmul(pypto.cast(e, pypto.DT_BF16), vt, F32)
            if pypto.is_loop_begin(i):
                o[:], s[:], m[:] = low, part, top
            else:
                new = pypto.maximum(m, top)
                old, now = pypto.exp(m - new), pypto.exp(top - new)
                o[:] = o * old + low * now
                s[:] = s * old + part * now
                m[:] = new
            if pypto.is_loop_end(i):
                out[:] = o / s
    rng = np.random.default_rng(1)
    for length in (5, 32, 70):
        q, k, v = (rng.standard_normal(n).astype(BF16) for n in ((heads, width), (length, width), (length, width)))
        out = np.zeros((heads, width), np.float32)
        decode(q, k, v, out)
        assert decode.last_run.mode == "replay" and total(decode) <= 8
        p = np.exp(q.astype(float) @ k.astype(float).T)
        assert np.allclose(out, p / p.sum(-1, keepdims=True) @ v.astype(float), rtol=2e-2, atol=2e-2)
        replayed = out.copy()
        with pypto.config(mode="step"):
            decode(q, k, v, out)
        assert out.tobytes() == replayed.tobytes()


def test_last_run_describes_loops():
    @pypto.frontend.jit
    def kernel(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(1, 16)
        scales = [1.0, 2.0]
        for i in pypto.loop(4, name="ROWS"):
            for j in pypto.loop(2, idx_name="j"):
                pypto.assemble(pypto.view(a, [1, 16], [i, 0]) * scales[j], [i, 0], out)
    a, out = np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32)
    kernel(a, out)
    rows, j = kernel.last_run.loops
    assert set(rows) == {"loop", "line", "replayed", "traces", "reason"}
    assert (rows["loop"], rows["replayed"], rows["reason"]) == ("ROWS", True, "")
    assert (j["loop"], j["replayed"]) == ("j", False) and "value of a scalar" in j["reason"]
    (file, outer), (_, inner) = (r["line"].split(":") for r in (rows, j))
    assert file == "test_loops.py" and int(inner) == int(outer) + 1
    assert not kernel.last_run.cache_hit
    kernel(a, out)
    assert kernel.last_run.cache_hit and kernel.last_run.loops == [rows, j]


def refuse(body, **config):
    @pypto.frontend.jit
    def kernel(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(1, 16)
        out[:] = a
        body(a, out)
    with pypto.config(**config):
        kernel(np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32))


def once(*args, **kwargs):
    def body(a, out):
        for _ in pypto.loop(*args, **kwargs):
            pass
    return body


@pytest.mark.parametrize("mode", ["auto", "step"])
@pytest.mark.parametrize("body, error, text", [
    (once(), TypeError, "1 to 3 positional"), (once(1, 2, 3, 4), TypeError, "1 to 3 positional"),
    (once(2.0), ValueError, "2.0"), (once("3"), ValueError, "'3'"), (once(True), ValueError, "True"),
    (once(0, 4, 0), ValueError, "step must not be 0"), (once(4, unroll_list=[0]), ValueError, "positive"),
    (lambda a, out: pypto.is_loop_begin(3), ValueError, "not loop index"),
    (lambda a, out: pypto.cond(1, file="x"), ValueError, "lineno"),
    (lambda a, out: bool(pypto.SymbolicScalar("n")), ValueError, "Not concrete value"),
    (lambda a, out: pypto.view(a, [1, 16], [pypto.SymbolicScalar("n"), 0]), ValueError, "Not concrete value"),
])
def test_wrong_loops(body, error, text, mode):
    with pytest.raises(error, match=text):
        refuse(body, mode=mode)


def test_loops_outside_kernels():
    with pytest.raises(RuntimeError, match="while a kernel runs"):
        pypto.loop(3)


def nested_names(a, out):
    for _ in pypto.loop(2, idx_name="i"):
        for _ in pypto.loop(2, idx_name="i"):
            pass


def rebinds(a, out):
    acc = a
    for _ in pypto.loop(2):
        acc = acc + a


@pytest.mark.parametrize("body, rule, strict", [(nested_names, "loop.idx_name", ("0.2", "master")),
                                                (rebinds, "loop.rebound_name", ("0.2",))])
@pytest.mark.parametrize("mode", ["auto", "step"])
def test_rules_of_loops(body, rule, strict, mode):
    with pytest.warns(pypto.PyptoWarning) as found:
        refuse(body, mode=mode)
    assert rule in [w.message.rule for w in found]
    for profile in strict:
        with pytest.raises(RuntimeError) as e:
            refuse(body, profile=profile, mode=mode)
        assert e.value.rule == rule and "test_loops.py" in e.value.line


def test_whose_loop_begin_and_end_mean():
    def marks(profile, ask):
        @pypto.frontend.jit(profile=profile)
        def kernel(a: pypto.Tensor, out: pypto.Tensor):
            for i in pypto.loop(2):
                for j in pypto.loop(2):
                    pypto.set_vec_tile_shapes(1, 16)
                    if ask(i, j):
                        pypto.assemble(pypto.view(a, [1, 16], [i * 2 + j, 0]), [i * 2 + j, 0], out)
        out = np.zeros((4, 16), np.float32)
        kernel(np.ones((4, 16), np.float32), out)
        return out[:, 0].tolist()
    assert marks("lenient", lambda i, j: pypto.is_loop_begin(i)) == [1, 1, 0, 0]
    assert marks("0.2", lambda i, j: pypto.is_loop_begin(i)) == [1, 1, 0, 0]
    assert marks("master", lambda i, j: pypto.is_loop_begin(i)) == [1, 1, 0, 0][:2] + [0, 0]
    assert marks("master", lambda i, j: pypto.is_loop_end(i)) == [0, 0, 1, 1]
    assert marks("master", lambda i, j: pypto.is_loop_end(j + 0)) == [0, 1, 0, 1]
    with pytest.raises(ValueError, match="not loop index"):
        marks("0.2", lambda i, j: pypto.is_loop_end(i + 1))


def test_unrolled_ranges():
    seen = []

    @pypto.frontend.jit(mode="step")
    def kernel(a: pypto.Tensor, out: pypto.Tensor):
        for i, k in pypto.loop_unroll(0, 7, 1, unroll_list=[4, 2]):
            seen.append((int(i), k))
        for i, k in pypto.loop_unroll(1, 12, 2, unroll_list=[3]):
            seen.append((int(i), k))
        pypto.set_vec_tile_shapes(1, 16)
        out[:] = a
    kernel(np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32))
    assert seen == [(0, 4), (4, 2), (6, 1), (1, 3), (7, 1), (9, 1), (11, 1)]


def test_limits_end_in_stepping():
    @pypto.frontend.jit
    def long(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(1, 16)
        n = 0
        for i in pypto.loop(60_000):
            n += 1
            pypto.assemble(pypto.view(a, [1, 16], [i % 4, 0]), [(i + n) % 4, 0], out)

    @pypto.frontend.jit
    def paths(a: pypto.Tensor, ids: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(4):
            x = pypto.view(a, [1, 16], [i, 0])
            for n in range(8):
                x = x + 1.0 if ids[i] > n else x
            pypto.assemble(x, [i, 0], out)
    a, out = np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32)
    paths(a, np.array([0, 3, 7, 9], np.int32), out)
    assert out[:, 0].tolist() == [1, 4, 8, 9]
    long(a, out)
    assert long.last_run.mode == "step" and "too long" in long.last_run.reason
    assert not long.last_run.cache_hit
    long(a, out)
    assert long.last_run.cache_hit and long.last_run.mode == "step"
