"""The calibrated model against published measurements: what `error_band` says must hold.

Each row is simulated by one kernel: matrix products with the row's tiles, elementwise and softmax kernels with tiles of
about 16 KB by one rule. Rows: hardware/calibration.csv of the reference data.
"""
import csv
import json
import math
import statistics

import pytest

import pypto_sim as pypto

Spec = pypto.Spec
F16, F32 = pypto.DT_FP16, pypto.DT_FP32
SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
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


def gemm_us(device, size, cube, out, options):
    m, k, n = size
    tm, tk, tn = cube

    @pypto.frontend.jit(pass_options=options)
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), c: pypto.Tensor()):
        pypto.set_cube_tile_shapes(tm, tk, tn)
        c[:] = pypto.matmul(a, b, out)

    return pypto.estimate(kernel, Spec((m, k), F16), Spec((k, n), F16), Spec((m, n), out), device=device).time_us


def vector_us(device, operator, shape, dtype):
    count = math.prod(shape)
    if operator == "softmax":
        cols = -(-shape[-1] // 16) * 16
        height = -(-count // shape[-1])
        tile = (max(1, min(8, 16384 // cols, -(-height // 48))), cols)
    else:
        cols = 4096 if count >= 48 * 4096 else max(64, count // 48 // 8 * 8)
        height = -(-count // cols)
        tile = (max(1, min(4, height // 48)), cols)
    spec = Spec((height, cols), dtype)
    two = operator == "maximum"

    @pypto.frontend.jit()
    def one(a: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*tile)
        out[:] = pypto.softmax(a, -1) if operator == "softmax" else getattr(pypto, operator)(a)

    @pypto.frontend.jit()
    def both(a: pypto.Tensor(), b: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*tile)
        out[:] = pypto.maximum(a, b)

    args = [spec] * (3 if two else 2)
    return pypto.estimate(both if two else one, *args, device=device).time_us


def test_products_with_known_tiles(rows):
    errors = {}
    for row, device, size, cube, out, options in GEMM:
        errors[row] = gemm_us(device, size, cube, out, options) / float(rows[row]["time_us"]) - 1
    assert statistics.median(map(abs, errors.values())) < 0.15, errors
    assert all(-0.30 < e < 0.60 for e in errors.values()), errors


@pytest.mark.filterwarnings("ignore::pypto_sim.PyptoWarning")
def test_elementwise_and_softmax(rows):
    errors = []
    for r in rows.values():
        if r["operator"] not in ("exp", "sigmoid", "maximum", "softmax") or r["tier"] != "B":
            continue
        shapes, types = json.loads(r["shape"]), r["dtype"].split("/")
        if types[0] not in SHORT or shapes[0] != shapes[-1]:
            continue
        device = "910b2" if r["device"] == "A2" else "950pr"
        errors.append(vector_us(device, r["operator"], shapes[0], SHORT[types[0]]) / float(r["time_us"]) - 1)
    assert len(errors) > 50
    assert statistics.median(map(abs, errors)) < 0.70
    assert sum(-0.5 <= e <= 1.0 for e in errors) > 0.7 * len(errors)      # within a factor of two
