"""The calibrated model against published matrix products with known tiles (hardware/calibration.csv of the reference
data). test_accuracy.py holds the other families through the accuracy tool.
"""
import csv
import statistics

import pytest

import pypto_sim as pypto

Spec = pypto.Spec
F16, F32 = pypto.DT_FP16, pypto.DT_FP32
NO_MERGE = {"cube_l1_reuse_setting": {-1: 1}}

# row, device, (m, k, n), cube tiles, element type of the result, pass options: hand-written kernels do not merge tasks
GEMM = [
    ("S0158", "910b3", (1024, 6144, 576), ([256, 256], [64, 256], [128, 128]), F16, NO_MERGE),
    ("S0161", "910b3", (20, 16384, 6144), ([32, 32], [32, 128], [320, 320]), F16, NO_MERGE),
    ("S0162", "910b1", (5504, 6144, 1536), ([128, 128], [64, 256], [256, 256]), F16, NO_MERGE),
    ("S0170", "910b1", (6144, 6144, 6144), ([128, 128], [64, 256], [256, 256]), F16, {}),
    ("S0172", "910c", (1536, 1536, 1536), ([128, 128], [64, 256], [256, 256]), F32, NO_MERGE),
    ("S0173", "910c", (6144, 6144, 6144), ([128, 128], [64, 256], [256, 256]), F32, NO_MERGE),
    ("S0176", "950pr", (1024, 1024, 1024), ([256, 256], [64, 128], [256, 256]), F32, NO_MERGE),
    ("S0178", "950pr", (1024, 2048, 2368), ([256, 256], [64, 128], [256, 256]), F32, NO_MERGE),
    ("S0179", "950pr", (2048, 256, 2048), ([256, 256], [64, 128], [256, 256]), F32, NO_MERGE),
    ("S0181", "950pr", (2208, 1024, 2048), ([256, 256], [64, 128], [256, 256]), F32, NO_MERGE),
    ("S0182", "950pr", (5504, 6144, 1536), ([128, 128], [64, 256], [256, 256]), F16, NO_MERGE),
]


@pytest.fixture(scope="module")
def rows(shared_dir):
    with open(shared_dir / "hardware" / "calibration.csv", encoding="utf-8", newline="") as f:
        return {r["id"]: r for r in csv.DictReader(f)}


def gemm_us(device, size, cube, out, options, columns_first=False):
    m, k, n = size
    tm, tk, tn = cube

    @pypto.frontend.jit(pass_options=options)
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
        pypto.set_cube_tile_shapes(tm, tk, tn)
        c[:] = pypto.matmul(a, b, out, b_trans=columns_first)

    b = (n, k) if columns_first else (k, n)
    return pypto.estimate(kernel, Spec((m, k), F16), Spec(b, F16), Spec((m, n), out), device=device).time_us


def test_products_with_known_tiles(rows):
    errors = {}
    for row, device, size, cube, out, options in GEMM:
        errors[row] = gemm_us(device, size, cube, out, options,
                              "ColumnMajor" in rows[row]["attrs"]) / float(rows[row]["time_us"]) - 1
    assert statistics.median(map(abs, errors.values())) < 0.15, errors
    assert all(-0.30 < e < 0.60 for e in errors.values()), errors
