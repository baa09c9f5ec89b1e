"""Cost-only runs: time of `estimate`, traced before (warm) and from nothing (cold), and the cost it predicts."""
import time

import pypto_sim as pypto
from pypto_sim.device import Device
from pypto_sim.run.estimate import core_result

F16, F32 = pypto.DT_FP16, pypto.DT_FP32
Spec = pypto.Spec


def matmul(m, k=0, n=0):
    """[m, k] x [k, n] fp16 in tiles of 128 x 256; all of them m where k and n are not given."""
    k, n = k or m, n or m

    @pypto.frontend.jit()
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_cube_tile_shapes([128, 128], [64, 256], [256, 256])
        out[:] = pypto.matmul(a, b, F32)

    return kernel, [Spec((m, k), F16), Spec((k, n), F16), Spec((m, n), F32)]


def decode(length, heads=32, block=512):
    """Online softmax over KV blocks, one query row of 16 per head."""
    @pypto.frontend.jit()
    def kernel(q: pypto.Tensor(), k: pypto.Tensor(), v: pypto.Tensor(), out: pypto.Tensor()):
        for h in pypto.loop(heads):
            o = pypto.tensor([16, 128], F32, "o")
            total = pypto.tensor([16, 1], F32, "l")
            top = pypto.tensor([16, 1], F32, "m")
            for i in pypto.loop(length // block):
                pypto.set_cube_tile_shapes([16, 16], [128, 128], [128, 128])
                pypto.set_vec_tile_shapes(16, block)
                kt = pypto.view(k, [block, 128], [i * block, 0])
                vt = pypto.view(v, [block, 128], [i * block, 0])
                s = pypto.matmul(pypto.view(q, [16, 128], [h * 16, 0]), kt, F32, b_trans=True) * 0.088
                m = pypto.amax(s, -1, True)
                if pypto.is_loop_begin(i):
                    p = pypto.exp(s - m)
                    top[:] = m
                    total[:] = pypto.sum(p, -1, True)
                    o[:] = pypto.matmul(pypto.cast(p, F16), vt, F32)
                else:
                    new = pypto.maximum(top, m)
                    scale = pypto.exp(top - new)
                    p = pypto.exp(s - new)
                    total[:] = total * scale + pypto.sum(p, -1, True)
                    o[:] = o * scale + pypto.matmul(pypto.cast(p, F16), vt, F32)
                    top[:] = new
                if pypto.is_loop_end(i):
                    pypto.assemble(o / total, [h * 16, 0], out)

    return kernel, [Spec((16 * heads, 128), F16), Spec((length, 128), F16), Spec((length, 128), F16),
                    Spec((16 * heads, 128), F32)]


def prefill(length, rows=128, block=512, cut=False):
    """Causal flash attention of one head, [length, 128]. cut: keys beyond the last row are not valid."""
    @pypto.frontend.jit()
    def kernel(q: pypto.Tensor(), k: pypto.Tensor(), v: pypto.Tensor(), mask: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_cube_tile_shapes([rows, rows], [128, 128], [128, 128])
        o, total, top = (pypto.tensor([rows, w], F32, name) for w, name in ((128, "o"), (1, "l"), (1, "m")))
        for i in pypto.loop(length // rows):
            for j in pypto.loop(((i + 1) * rows + block - 1) // block):
                pypto.set_vec_tile_shapes(16, block)
                kt, vt = (pypto.view(t, [block, 128], [j * block, 0], valid_shape=[
                    pypto.min(block, (i + 1) * rows - j * block) if cut else block, 128]) for t in (k, v))
                s = pypto.matmul(pypto.view(q, [rows, 128], [i * rows, 0]), kt, F32, b_trans=True) * 0.088
                if pypto.is_loop_end(j):
                    s = s + mask
                m = pypto.amax(s, -1, True)
                if pypto.is_loop_begin(j):
                    p = pypto.exp(s - m)
                    new, sums, y = m, pypto.sum(p, -1, True), pypto.matmul(pypto.cast(p, F16), vt, F32)
                else:
                    new = pypto.maximum(top, m)
                    scale = pypto.exp(top - new)
                    p = pypto.exp(s - new)
                    sums = total * scale + pypto.sum(p, -1, True)
                    y = o * scale + pypto.matmul(pypto.cast(p, F16), vt, F32)
                pypto.set_vec_tile_shapes(16, 128)
                if pypto.is_loop_end(j):
                    pypto.assemble(y / sums, [i * rows, 0], out)
                else:
                    top[:], total[:], o[:] = new, sums, y

    return kernel, [Spec((length, 128), F16)] * 3 + [Spec((rows, block), F32), Spec((length, 128), F32)]


def rows(count):
    """A loop over `count` tiles of eight rows."""
    @pypto.frontend.jit()
    def kernel(x: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 64)
        for i in pypto.loop(count):
            pypto.assemble(pypto.exp(pypto.view(x, [8, 64], [i * 8, 0])), [i * 8, 0], out)

    return kernel, [Spec((8 * count, 64), F32)] * 2


def small_cube_tiles(size, tile):
    """[size, size] x [size, size] fp16, every step of a product `tile` in each direction."""
    @pypto.frontend.jit()
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_cube_tile_shapes([tile, tile], [tile, tile], [tile, tile])
        out[:] = pypto.matmul(a, b, F32)

    return kernel, [Spec((size, size), F16)] * 2 + [Spec((size, size), F32)]


def small_vector_tiles(rows, columns):
    """Elementwise work on [rows, columns] fp32 in tiles of 8 x 64."""
    @pypto.frontend.jit()
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 64)
        out[:] = pypto.exp(a + b) * 2.0

    return kernel, [Spec((rows, columns), F32)] * 3


def chain(length):
    """`length` operations one after another on [1024, 1024] fp32 in tiles of 16 x 64."""
    @pypto.frontend.jit()
    def kernel(a: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(16, 64)
        x = a
        for i in range(length):
            x = x * 1.01 if i % 2 else pypto.exp(x)
        out[:] = x

    return kernel, [Spec((1024, 1024), F32)] * 2


CASES = {"matmul_4096": lambda: matmul(4096), "matmul_8192": lambda: matmul(8192),
         "matmul_2048x1024x2048": lambda: matmul(2048, 1024, 2048), "prefill_16384": lambda: prefill(16384),
         "prefill_131072": lambda: prefill(131072), "prefill_cut_131072": lambda: prefill(131072, cut=True),
         "loop_4000000": lambda: rows(4_000_000),
         "decode_4096": lambda: decode(4096), "decode_131072": lambda: decode(131072),
         "matmul_2048_tiles_16": lambda: small_cube_tiles(2048, 16),
         "vector_8192_tiles_8x64": lambda: small_vector_tiles(8192, 8192), "chain_200": lambda: chain(200)}

CALIBRATED_ONLY = ("prefill_131072", "prefill_cut_131072", "loop_4000000", "matmul_2048_tiles_16",
                   "vector_8192_tiles_8x64", "chain_200")


class Estimate:
    params = [list(CASES), ["calibrated", "official"]]
    param_names = ["case", "model"]

    def setup(self, case, model):
        if model == "official" and case in CALIBRATED_ONLY:
            raise NotImplementedError("written out tile by tile: minutes")
        self.kernel, self.args = CASES[case]()
        self.predicted = pypto.estimate(self.kernel, *self.args, model=model)

    def time_warm(self, case, model):
        pypto.estimate(self.kernel, *self.args, model=model)

    def time_cold(self, case, model):
        kernel, args = CASES[case]()
        pypto.estimate(kernel, *args, model=model)

    def peakmem_warm(self, case, model):
        pypto.estimate(self.kernel, *self.args, model=model)

    def track_cycles(self, case, model):
        return self.predicted.cycles

    track_cycles.unit = "cycles"

    def track_gm_bytes(self, case, model):
        return self.predicted.gm_read_bytes + self.predicted.gm_write_bytes

    track_gm_bytes.unit = "bytes"


def fresh_program(case, device="910b1"):
    """A traced Program that keeps no results yet."""
    kernel, args = CASES[case]()
    with pypto.config(device=device):
        return kernel.program(*args).program, [None] * len(args)


class Planned:
    """Planning and pricing of a traced kernel, without the results that a Program keeps of equal questions."""
    params = [list(CASES)]
    param_names = ["case"]
    number, repeat, warmup_time = 1, 10, 0

    def setup(self, case):
        self.device = Device.load("910b1")
        self.program, self.nothing = fresh_program(case)

    def time_planned(self, case):
        core_result(self.program, case, self.nothing, self.device, "calibrated", None)


class TileOperations:
    """Tile operations that the calibrated model prices in a second, one thread.

    Equal tiles in a task, equal blocks of a loop and equal DeviceTasks are skipped; in the
    prefill many DeviceTasks differ.
    """
    params = [["matmul_8192", "prefill_131072", "decode_131072", "loop_4000000"]]
    param_names = ["case"]

    def track_per_second(self, case):
        device, best = Device.load("910b1"), float("inf")
        for _ in range(5):
            program, nothing = fresh_program(case)
            begin = time.perf_counter()
            found = core_result(program, case, nothing, device, "calibrated", None)
            best = min(best, time.perf_counter() - begin)
        return sum(found["detail"]["ops"].values()) / best

    track_per_second.unit = "tile operations / s"
