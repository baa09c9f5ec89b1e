"""Slots written in pieces: a read waits for the writers whose data is still there, not for those written over."""
import pytest

import pypto_sim as pypto

BF16, F32 = pypto.DT_BF16, pypto.DT_FP32
K, N, ROWS, DEPTH = 1024, 512, 64, 256


def accumulating(columns):
    """Products 128 columns wide, summed over k in vector tiles of `columns`; independent outer iterations."""
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([pypto.DYNAMIC, K], BF16), w: pypto.Tensor([K, N], BF16),
               out: pypto.Tensor([pypto.DYNAMIC, N], BF16)):
        pypto.set_cube_tile_shapes([64, 64], [128, 256], [128, 128])
        pypto.set_vec_tile_shapes(ROWS, columns)
        for i in pypto.loop(x.shape[0] // ROWS):
            acc = pypto.tensor([ROWS, N], F32, "acc")
            for k in pypto.loop(K // DEPTH):
                p = pypto.matmul(pypto.view(x, [ROWS, DEPTH], [i * ROWS, k * DEPTH]),
                                 pypto.view(w, [DEPTH, N], [k * DEPTH, 0]), F32)
                if pypto.is_loop_begin(k):
                    acc[:] = p
                else:
                    acc[:] = acc + p
                if pypto.is_loop_end(k):
                    pypto.assemble(pypto.cast(acc, BF16), [i * ROWS, 0], out)
    return kernel


def instances(rows, columns):
    """(last start, last end) of the tasks of every root function that runs, in program order."""
    e = pypto.estimate(accumulating(columns), pypto.Spec((rows, K), BF16), pypto.Spec((K, N), BF16),
                       pypto.Spec((rows, N), BF16), timeline=True)
    times = {}
    for task in e.timeline.tasks:
        if task.core >= 0:
            times.setdefault(task.task_id >> 20, []).append(task)
    return [(max(t.start for t in times[i]), max(t.end for t in times[i])) for i in sorted(times)]


@pytest.mark.parametrize("columns", [128, 256])
def test_wider_reads_do_not_chain_independent_iterations(columns):
    found = instances(128, columns)                       # two outer iterations of four products
    assert len(found) == 8
    sum_starts, _ = found[5]                              # second outer iteration, second product
    _, first_ends = found[3]
    assert sum_starts < first_ends


def test_longer_launches_grow_with_the_cores_not_with_a_chain():
    def time_us(columns, rows):
        return pypto.estimate(accumulating(columns), pypto.Spec((rows, K), BF16), pypto.Spec((K, N), BF16),
                              pypto.Spec((rows, N), BF16)).time_us
    assert time_us(256, 1024) < 1.2 * time_us(128, 1024)
