"""How production kernels are defined: factories, closures, configurations, annotations, options, calls."""
import dataclasses
import functools
import subprocess
import sys
import threading
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from support.both import both, close, rng

import pypto_sim as pypto

BF16 = ml_dtypes.bfloat16


def f32(*shape, seed=0):
    return rng(seed).standard_normal(shape).astype(np.float32)


# --- factories and closures
def make_scale(rows, cols, factor, dtype=pypto.DT_FP32, activation=None):
    """A kernel per shape: sizes, factor and a Python function from the closure."""
    tile = min(cols, 64)

    @pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
    def scale_kernel(x: pypto.Tensor([rows, cols], dtype), out: pypto.Tensor([rows, cols], dtype)):
        pypto.set_vec_tile_shapes(1, tile)
        for i in pypto.loop(rows, name="ROWS", idx_name="i"):
            t = pypto.view(x, [1, cols], [i, 0])
            t = pypto.mul(t, factor)
            if activation is not None:
                t = activation(t)
            pypto.assemble(t, [i, 0], out)
    return scale_kernel


@pytest.mark.parametrize(("rows", "cols", "factor"), [(4, 32, 2.0), (3, 128, -0.5), (1, 8, 1.0)])
def test_factory_per_shape(rows, cols, factor):
    kernel = make_scale(rows, cols, factor)
    x = f32(rows, cols)
    close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) * factor)


def test_factory_with_activation_from_the_closure():
    kernel = make_scale(4, 32, 1.5, activation=lambda t: t * pypto.sigmoid(t))
    x = f32(4, 32)
    y = 1.5 * x.astype(np.float64)
    close(both(kernel, x, np.zeros_like(x))[1], y / (1 + np.exp(-y)))


@functools.cache
def cached_kernel(cols):
    return make_scale(2, cols, 3.0)


def test_cached_factory_with_several_shapes():
    for cols in (16, 32, 16):
        x = f32(2, cols)
        close(both(cached_kernel(cols), x, np.zeros_like(x))[1], x.astype(np.float64) * 3)
    assert cached_kernel(16) is cached_kernel(16)


# --- dataclass configurations
@dataclasses.dataclass(frozen=True)
class TileConfig:
    m: list = dataclasses.field(default_factory=lambda: [16, 16])
    k: list = dataclasses.field(default_factory=lambda: [32, 32])
    n: list = dataclasses.field(default_factory=lambda: [32, 32])
    vec: tuple = (16, 32)

    @property
    def cube(self):
        return self.m, self.k, self.n


@dataclasses.dataclass
class MlpConfig:
    hidden: int
    inner: int
    tile: TileConfig = dataclasses.field(default_factory=TileConfig)
    eps: float = 1e-5
    gate: bool = True


class Shapes(NamedTuple):
    rows: int
    cols: int


@pypto.frontend.jit
def mlp_kernel(x: pypto.Tensor([pypto.DYNAMIC, 32], pypto.DT_BF16), w1: pypto.Tensor([32, 64], pypto.DT_BF16),
               w2: pypto.Tensor([64, 32], pypto.DT_BF16), out: pypto.Tensor([pypto.DYNAMIC, 32], pypto.DT_FP32),
               cfg: MlpConfig = None, shapes: Shapes = None):
    pypto.set_cube_tile_shapes(*cfg.tile.cube)
    pypto.set_vec_tile_shapes(*cfg.tile.vec)
    for b in pypto.loop((x.shape[0] + shapes.rows - 1) // shapes.rows, name="BATCH", idx_name="b"):
        rows = pypto.min(shapes.rows, x.shape[0] - b * shapes.rows)
        xt = pypto.view(x, [shapes.rows, cfg.hidden], [b * shapes.rows, 0], valid_shape=[rows, cfg.hidden])
        h = pypto.matmul(xt, w1, pypto.DT_FP32)
        if cfg.gate:
            h = pypto.mul(h, pypto.sigmoid(h))
        y = pypto.matmul(pypto.cast(h, pypto.DT_BF16), w2, pypto.DT_FP32)
        pypto.assemble(y, [b * shapes.rows, 0], out)


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("rows", [16, 37])
def test_dataclass_and_named_tuple_configuration(rows, gate):
    x, w1, w2 = (f32(*s, seed=n).astype(BF16) for n, s in enumerate(((rows, 32), (32, 64), (64, 32))))
    out = np.zeros((rows, 32), np.float32)
    cfg, shapes = MlpConfig(32, 64, gate=gate), Shapes(16, 32)
    got = both(mlp_kernel, x, w1, w2, out, cfg, shapes)[3]
    named = both(mlp_kernel, x, w1, w2, out, shapes=shapes, cfg=cfg)[3]
    assert got.tobytes() == named.tobytes()
    h = x.astype(np.float64) @ w1.astype(np.float64)
    h = h / (1 + np.exp(-h)) if gate else h
    close(got, h @ w2.astype(np.float64), rtol=0, atol=2**-7 * np.abs(h).max() * 3)


# --- scalar parameters
@pypto.frontend.jit(debug_options={"runtime_debug_mode": 0})
def affine(x: pypto.Tensor([], pypto.DT_FP32), out: pypto.Tensor([], pypto.DT_FP32), scale=2.0, shift: float = 0.5,
           steps: int = 1, mode: str = "mul", table: list = [1.0, 2.0], names=None):  # noqa: B006
    pypto.set_vec_tile_shapes(4, 16)
    y = x
    for _ in range(steps):
        y = y * scale if mode == "mul" else y + scale
    for t in table:
        y = pypto.add(y, t)
    if names is not None and "neg" in names:
        y = pypto.neg(y)
    out[:] = pypto.add(y, shift)


@pytest.mark.parametrize(("args", "kwargs", "want"), [
    ((), {}, lambda x: x * 2 + 3.5),
    ((3.0,), {}, lambda x: x * 3 + 3.5),
    ((3.0, 1.0, 2), {}, lambda x: x * 9 + 4),
    ((), {"mode": "add", "table": []}, lambda x: x + 2.5),
    ((), {"names": {"neg": 1}}, lambda x: -(x * 2 + 3) + 0.5),
    ((4.0,), {"shift": 0.0, "table": (1.5,)}, lambda x: x * 4 + 1.5),
])
def test_scalar_parameters(args, kwargs, want):
    x = f32(4, 16)
    close(both(affine, x, np.zeros_like(x), *args, **kwargs)[1], want(x.astype(np.float64)))


def test_tensors_by_keyword():
    x = f32(4, 16)
    out = np.zeros_like(x)
    affine(x=x, out=out)
    close(out, x.astype(np.float64) * 2 + 3.5)
    out[:] = 0
    affine(x, scale=1.0, out=out)
    close(out, x.astype(np.float64) + 3.5)


# --- annotations
def copy_rows(x, out):
    pypto.set_vec_tile_shapes(1, 16)
    for i in pypto.loop(x.shape[0]):
        pypto.assemble(pypto.view(x, [1, 16], [i, 0]) + 1.0, [i, 0], out)


N = pypto.frontend.dynamic("N")


@pytest.mark.parametrize("note", [
    pypto.Tensor([pypto.DYNAMIC, 16], pypto.DT_FP32), pypto.Tensor([pypto.DYN, 16], pypto.DT_FP32),
    pypto.Tensor([pypto.STATIC, pypto.STATIC], pypto.DT_FP32), pypto.Tensor([N, 16], pypto.DT_FP32),
    pypto.Tensor([...], pypto.DT_FP32), pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),
    pypto.Tensor([8, ...]), pypto.Tensor([], pypto.DT_FP32), pypto.Tensor((), pypto.DT_FP32), pypto.Tensor(),
    pypto.Tensor, pypto.tensor([pypto.DYNAMIC, 16], pypto.DT_FP32), pypto.tensor([8, 16], pypto.DT_FP32, "x"),
    pypto.tensor(), pypto.Tensor[[pypto.DYNAMIC, 16], pypto.DT_FP32], pypto.Tensor[[...], pypto.DT_FP32],
    pypto.Tensor[[8, 16], pypto.DT_FP32, "x"], pypto.Tensor[pypto.DT_FP32], pypto.tensor[[8, 16], pypto.DT_FP32],
    pypto.Tensor((8, 16), pypto.DT_FP32, name="x"), pypto.Tensor([-1, 16], dtype=pypto.DT_FP32),
    "pypto.Tensor([pypto.DYNAMIC, 16], pypto.DT_FP32)", "pypto.Tensor",
    pypto.Tensor([pypto.DYNAMIC, 16], pypto.DT_FP32, format=pypto.TileOpFormat.TILEOP_ND),
], ids=str)
def test_annotation(note):
    def kernel(x, out):
        copy_rows(x, out)
    kernel.__annotations__ = {"x": note, "out": note}
    kernel = pypto.frontend.jit(kernel)
    x = f32(8, 16)
    close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) + 1)


def test_dynamic_sizes_are_scalars_with_methods():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([pypto.DYNAMIC, pypto.DYNAMIC], pypto.DT_FP32),
               out: pypto.Tensor([pypto.DYNAMIC, pypto.DYNAMIC], pypto.DT_FP32)):
        rows, cols = x.shape[0], x.shape[1]
        rows.as_variable()
        blocks = (rows + 7) // 8
        blocks.as_variable()
        last = blocks - 1
        pypto.set_vec_tile_shapes(8, 16)
        for i in pypto.loop(blocks, name="B", idx_name="i"):
            for j in pypto.loop(0, (cols + 15) / 16, 1, name="C", idx_name="j"):
                r = (rows - i * 8).min(8)
                c = pypto.min(cols - j * 16, 16)
                t = pypto.view(x, [8, 16], [i * 8, j * 16], valid_shape=[r.max(1), pypto.max(c, 1)])
                y = t * 2.0 if i == last else t * 3.0
                pypto.assemble(y, [i * 8, j * 16], out)
    for rows, cols in ((8, 16), (13, 40), (1, 1), (16, 17)):
        x = f32(rows, cols)
        want = x.astype(np.float64) * 3
        start = (rows - 1) // 8 * 8
        want[start:] = x[start:].astype(np.float64) * 2
        close(both(kernel, x, np.zeros_like(x))[1], want)


def test_rank_below_the_ellipsis_and_named_axes():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32), out: pypto.Tensor([...], pypto.DT_FP32)):
        inner = x.shape[1:]
        size = 1
        for n in inner:
            size *= n
        pypto.set_vec_tile_shapes(*([1] + list(inner)))
        for b in pypto.loop(x.shape[0]):
            at = [b] + [0] * len(inner)
            pypto.assemble(pypto.view(x, [1, *inner], at) * float(size), at, out)
    for shape in ((2, 16), (3, 2, 16), (2, 2, 3, 8)):
        x = f32(*shape)
        close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) * np.prod(shape[1:]))


# --- options
OPTIONS = {
    "runtime_options": {"run_mode": pypto.RunMode.NPU, "stitch_function_max_num": 128, "device_sched_mode": 1,
                        "max_workspace_kb": 4096, "valid_shape_optimize": 1, "ready_on_host_tensors": ["x"],
                        "device_sched_parallelism": 2, "launch_sched_aicpu_num": 3, "launch_early_mode": 0},
    "pass_options": {"vec_nbuffer_setting": {"DEFAULT": 2, "func8_0": 4}, "cube_l1_reuse_setting": {"DEFAULT": 4},
                     "cube_nbuffer_setting": {"DEFAULT": 2}, "sg_set_scope": -1, "enable_slice": True},
    "host_options": {"compile_stage": pypto.CompStage.ALL_COMPLETE, "compile_monitor_enable": False,
                     "compile_timeout": 100},
    "codegen_options": {"support_dynamic_aligned": True},
    "debug_options": {"runtime_debug_mode": 0, "compile_debug_mode": 0},
    "verify_options": {"enable_pass_verify": False},
}


@pytest.mark.parametrize("groups", [[g] for g in OPTIONS] + [list(OPTIONS)], ids=lambda g: "+".join(g))
def test_jit_options(groups):
    @pypto.frontend.jit(**{g: OPTIONS[g] for g in groups})
    def kernel(x: pypto.Tensor([8, 16], pypto.DT_FP32), out: pypto.Tensor([8, 16], pypto.DT_FP32)):
        copy_rows(x, out)
    x = f32(8, 16)
    close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) + 1)


def test_options_set_in_the_body_and_on_helpers():
    @pypto.options(pass_options={"enable_slice": True})
    def helper(t):
        return pypto.exp(t)

    @pypto.jit(runtime_options={"run_mode": 0})
    def kernel(x: pypto.Tensor([8, 16], pypto.DT_FP32), out: pypto.Tensor([8, 16], pypto.DT_FP32)):
        pypto.set_pass_options(cube_l1_reuse_setting={"DEFAULT": 4}, sg_set_scope=(1, True, False))
        pypto.set_runtime_options(stitch_function_max_num=64)
        pypto.experimental.set_operation_options(combine_axis=True)
        pypto.set_vec_tile_shapes(8, 16)
        pypto.set_semantic_label("body")
        for i in pypto.loop(2, unroll_list={1, 2}):
            pypto.set_vec_tile_shapes(4, 16)
            pypto.set_pass_options(sg_set_scope=-1)
            t = pypto.view(x, [4, 16], [i * 4, 0])
            out[i * 4:, 0:] = helper(t)
    x = f32(8, 16)
    close(both(kernel, x, np.zeros_like(x))[1], np.exp(x.astype(np.float64)))


# --- calls
def test_repeated_calls_with_new_shapes_and_sizes():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC], pypto.DT_FP32),
               out: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC], pypto.DT_FP32)):
        cols = x.shape[1]
        pypto.set_vec_tile_shapes(1, cols)
        for i in pypto.loop(x.shape[0]):
            pypto.assemble(pypto.view(x, [1, cols], [i, 0]) * 2.0, [i, 0], out)
    for rows, cols in ((3, 16), (5, 16), (5, 32), (1, 8), (3, 16)):
        x = f32(rows, cols, seed=rows)
        close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) * 2)


def test_two_threads_at_once():
    kernel = make_scale(16, 64, 2.0)
    other = make_scale(8, 32, 4.0)
    failures = []

    def work(seed):
        try:
            for n in range(8):
                k, rows, cols, factor = (kernel, 16, 64, 2.0) if (seed + n) % 2 else (other, 8, 32, 4.0)
                x = f32(rows, cols, seed=seed * 100 + n)
                out = np.zeros_like(x)
                k(x, out)
                close(out, x.astype(np.float64) * factor)
        except BaseException as e:  # noqa: BLE001
            failures.append(e)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_kernels_of_one_module_call_each_other_and_share_helpers():
    @pypto.frontend.jit
    def norm(x: pypto.Tensor([4, 32], pypto.DT_FP32), out: pypto.Tensor([4, 32], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(4, 32)
        out[:] = pypto.rms_norm(x)

    @pypto.frontend.jit
    def both_steps(x: pypto.Tensor([4, 32], pypto.DT_FP32), tmp: pypto.Tensor([4, 32], pypto.DT_FP32),
                   out: pypto.Tensor([4, 32], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(4, 32)
        for _ in pypto.loop(1, name="NORM"):
            norm(x, tmp)
        for _ in pypto.loop(1, name="EXP", submit_before_loop=True):
            out[:] = pypto.exp(tmp)
    x = f32(4, 32)
    y = x.astype(np.float64)
    y = y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6)
    close(both(norm, x, np.zeros_like(x))[1], y)
    close(both(both_steps, x, np.zeros_like(x), np.zeros_like(x))[2], np.exp(y))


@pypto.frontend.function
def inlined(a, b, out):
    out[:] = pypto.add(a, b)


def test_frontend_function():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([4, 32], pypto.DT_FP32), out: pypto.Tensor([4, 32], pypto.DT_FP32)):
        pypto.set_vec_tile_shapes(4, 32)
        inlined(x, x, out)
    x = f32(4, 32)
    close(both(kernel, x, np.zeros_like(x))[1], x.astype(np.float64) * 2)


SCRIPT = '''
import os, subprocess, sys
import numpy as np
import pypto_sim as pypto

@pypto.frontend.jit
def twice(x: pypto.Tensor([pypto.DYNAMIC, 16], pypto.DT_FP32), out: pypto.Tensor([pypto.DYNAMIC, 16], pypto.DT_FP32)):
    pypto.set_vec_tile_shapes(1, 16)
    for i in pypto.loop(x.shape[0]):
        out[i:i + 1, :] = pypto.view(x, [1, 16], [i, 0]) * 2.0

if __name__ == "__main__":
    if len(sys.argv) > 1:
        x = np.arange(int(sys.argv[1]) * 16, dtype=np.float32).reshape(-1, 16)
        out = np.zeros_like(x)
        twice(x, out)
        assert (out == 2 * x).all()
        print("worker ok")
    else:
        for rows in ("1", "5"):
            subprocess.run([sys.executable, __file__, rows], check=True, env=dict(os.environ))
'''


def test_script_that_runs_itself_again(tmp_path):
    path = tmp_path / "again.py"
    path.write_text(SCRIPT)
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and run.stdout.count("worker ok") == 2, run.stderr


# --- arrays of torch
def test_torch_tensors_share_memory():
    torch = pytest.importorskip("torch")

    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([pypto.DYNAMIC, 64], pypto.DT_BF16), w: pypto.Tensor([64], pypto.DT_BF16),
               out: pypto.Tensor([pypto.DYNAMIC, 64], pypto.DT_BF16)):
        pypto.set_vec_tile_shapes(4, 64)
        for i in pypto.loop((x.shape[0] + 3) // 4):
            t = pypto.view(x, [4, 64], [i * 4, 0], valid_shape=[pypto.min(4, x.shape[0] - i * 4), 64])
            out[i * 4:, :] = pypto.rms_norm(t, w)
    torch.manual_seed(0)
    x, w = torch.randn(10, 64).bfloat16(), torch.ones(64).bfloat16()
    got = both(kernel, x, w, torch.empty_like(x))[2]
    y = x.double()
    close(got, (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)).numpy(), rtol=2**-7, atol=2**-8)
    with pytest.raises(RuntimeError, match="not all tensors are contiguous"):
        kernel(torch.randn(64, 10).bfloat16().t(), w, torch.empty_like(x))
    big = torch.randn(20, 64).bfloat16()
    kernel(big[5:15], w, x)                     # a contiguous slice of a larger tensor
    y = big[5:15].double()
    close(x, (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)).numpy(), rtol=2**-7, atol=2**-8)
    leaf = torch.randn(4, 64).bfloat16().requires_grad_()
    kernel(leaf.detach(), w, x[:4])
