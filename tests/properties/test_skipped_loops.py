"""Loops whose blocks are skipped cost the same as loops planned block by block (`planner.full`)."""
import os
import tomllib
import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pypto_sim as pypto
from pypto_sim.device import Device

F32 = pypto.DT_FP32
ROWS, COLS = 8, 64
# The same examples in every run; LAW_EXAMPLES=1000 searches further.
SEARCH = os.environ.get("LAW_EXAMPLES")
SAME = settings(max_examples=int(SEARCH or "60"), derandomize=SEARCH is None, deadline=None,
                suppress_health_check=[HealthCheck.too_slow])


@cache
def device(name: str, full: bool, static: bool) -> Device:
    base = Device.load(name)
    table = tomllib.loads(base.path.read_text(encoding="utf-8"))
    for key, value in {"full": full, "static": static}.items():
        table.setdefault("planner", {})[key] = {"value": int(value), "confidence": "assumed", "source": "this test"}
    return Device(table, base.path)


def estimates(make, *args, name="910b1", static=False, **options):
    """The estimate with blocks skipped and with every block planned, as dictionaries without what names the switch."""
    found = []
    for full in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimate = pypto.estimate(make(), *args, device=device(name, full, static), model="calibrated", **options)
        fields = {**estimate.to_dict(), "breakdown": estimate.breakdown}
        fields.pop("assumed_numbers")
        fields.pop("assumptions")
        found.append(fields)
    return found


OFFSETS = {      # of loop index i and index o of the loop around it
    "own": lambda i, o: i * ROWS,
    "same": lambda i, o: i * 0 + ROWS,
    "double": lambda i, o: i * 2 * ROWS,
    "wrapped": lambda i, o: i % 3 * ROWS,
    "in_fours": lambda i, o: i // 4 * ROWS,
    "held": lambda i, o: pypto.min(i * ROWS, 40 * ROWS),
    "from": lambda i, o: pypto.max(i - 20, 0) * ROWS,
    "back": lambda i, o: pypto.max(i - 2, 0) * ROWS,
    "overlapping": lambda i, o: i * (ROWS // 2),
    "mixed": lambda i, o: (i * 5 + 3) % 7 * ROWS + i // 16 * ROWS,
    "outer": lambda i, o: o * 3 * ROWS,
    "shifted": lambda i, o: i * ROWS + o * 3 * ROWS,
    "descending": lambda i, o: (700 - i) * ROWS,
}
BODIES = ("map", "fetch_local", "carry", "branch", "lag", "in_place", "reread", "first_and_carry", "narrow", "exchange")
LENGTH = 2 * 700 * ROWS


def kernel_of(loops, unroll, stitch, outer):
    """loops: (start, trips, step, body, read, write) one after another, all of it `outer` times."""
    def make():
        @pypto.frontend.jit(runtime_options={"stitch_function_max_num": stitch})
        def kernel(x: pypto.Tensor(), z: pypto.Tensor(), out: pypto.Tensor()):
            pypto.set_vec_tile_shapes(ROWS, COLS)
            kept = pypto.tensor([LENGTH, COLS], F32, "kept")
            total = pypto.tensor([ROWS, COLS], F32, "total")
            total[:] = pypto.exp(pypto.view(x, [ROWS, COLS], [0, 0]))
            for o in pypto.loop(outer):
                for start, trips, step, body, read, write in loops:
                    at, to = (lambda i, name=name, o=o: OFFSETS[name](i, o) for name in (read, write))
                    for i in pypto.loop(start, start + trips * step, step, unroll_list=list(unroll)):
                        y = pypto.exp(pypto.view(x, [ROWS, COLS], [at(i), 0]))
                        if body == "map":
                            pypto.assemble(y, [to(i), 0], out)
                        elif body == "fetch_local":
                            pypto.assemble(y + pypto.view(kept, [ROWS, COLS], [at(i), 0]), [i * ROWS, 0], kept)
                        elif body == "carry":
                            total[:] = total + y
                        elif body == "branch":
                            if i % 5 == 2:
                                pypto.assemble(pypto.sqrt(y), [i * ROWS, 0], out)
                            else:
                                total[:] = total * y
                        elif body == "lag":
                            before = pypto.view(kept, [ROWS, COLS], [pypto.max(i - 3, 0) * ROWS, 0])
                            pypto.assemble(before + y, [i * ROWS, 0], kept)
                        elif body == "first_and_carry":
                            total[:] = total + pypto.exp(pypto.view(out, [ROWS, COLS], [start * ROWS, 0]))
                            pypto.assemble(y, [i * ROWS, 0], out)
                        elif body == "narrow":
                            part = pypto.view(x, [ROWS, COLS], [at(i), 0], valid_shape=[ROWS, COLS - 8])
                            pypto.assemble(pypto.exp(part), [i * ROWS, 0], out)
                        elif body == "exchange":
                            pypto.assemble(pypto.view(out, [ROWS, COLS], [at(i), 0]) + y, [to(i), 0], out)
                        elif body == "in_place":
                            old = pypto.view(out, [ROWS, COLS], [at(i), 0])
                            pypto.assemble(old + y, [at(i), 0], out)
                        else:
                            pypto.assemble(y + pypto.view(z, [ROWS, COLS], [0, 0]), [i * ROWS, 0], out)
            pypto.assemble(total, [0, 0], out)
        return kernel
    return make


LOOP = st.tuples(st.integers(0, 3), st.sampled_from([1, 3, 9, 40, 200, 333]), st.integers(1, 2),
                 st.sampled_from(BODIES), st.sampled_from(sorted(OFFSETS)), st.sampled_from(sorted(OFFSETS)))
SPEC = [pypto.Spec((LENGTH, COLS), F32)] * 3


@SAME
@given(st.lists(LOOP, min_size=1, max_size=3), st.sampled_from([(1,), (4, 1), (2,)]), st.sampled_from([1, 5, 16, 128]),
       st.sampled_from([1, 1, 2, 3]), st.sampled_from(["910b1", "950pr"]), st.booleans())
def test_skipped_loops_cost_the_same(loops, unroll, stitch, outer, name, static):
    skipped, full = estimates(kernel_of(loops, unroll, stitch, outer), *SPEC, name=name, static=static)
    assert skipped == full


JUMPS = ("map", "carry", "in_place", "reread", "lag", "first_and_carry", "narrow")


@pytest.mark.parametrize("stitch", [16, 128])
@pytest.mark.parametrize("body", JUMPS)
@pytest.mark.parametrize("offset", ["own", "same", "overlapping", "in_fours", "back", "held"])
def test_whole_device_tasks_are_skipped(body, offset, stitch):
    """Many equal DeviceTasks, then a second loop over the same windows and one over fresh ones."""
    loops = [(0, 3000, 1, body, offset, "own"), (500, 2000, 1, "map", "own", "own"),
             (3000, 1000, 1, body, "own", "own")]
    x = pypto.Spec((5000 * ROWS, COLS), F32)
    skipped, full = estimates(kernel_of(loops, (1,), stitch, 1), x, x, x)
    assert skipped == full


def tables_kernel(loops, stitch):
    """Offsets and valid rows that integer arguments or the end of a sequence decide."""
    def make():
        @pypto.frontend.jit(runtime_options={"stitch_function_max_num": stitch})
        def kernel(x: pypto.Tensor(), table: pypto.Tensor(), out: pypto.Tensor()):
            pypto.set_vec_tile_shapes(ROWS, COLS)
            total = pypto.tensor([ROWS, COLS], F32, "total")
            total[:] = pypto.exp(pypto.view(x, [ROWS, COLS], [0, 0]))
            for trips, body, length in loops:
                for i in pypto.loop(trips):
                    if body == "paged":
                        y = pypto.exp(pypto.view(x, [ROWS, COLS], [table[i] * ROWS, 0]))
                        pypto.assemble(y, [i * ROWS, 0], out)
                    elif body == "one_page":
                        total[:] = total + pypto.exp(pypto.view(x, [ROWS, COLS], [table[3] * ROWS, 0]))
                    elif body == "scattered":
                        y = pypto.exp(pypto.view(x, [ROWS, COLS], [i * ROWS, 0]))
                        pypto.assemble(y, [table[i] * ROWS, 0], out)
                    elif body == "branch":
                        y = pypto.exp(pypto.view(x, [ROWS, COLS], [i * ROWS, 0]))
                        if table[i % 2] > 3:
                            y = y * 2.0
                        pypto.assemble(y, [i * ROWS, 0], out)
                    else:
                        valid = pypto.min(pypto.max(length - i * ROWS, 0), ROWS)
                        y = pypto.exp(pypto.view(x, [ROWS, COLS], [i * ROWS, 0], valid_shape=[valid, COLS]))
                        if body == "ragged_carry":
                            total[:] = total + y
                        else:
                            pypto.assemble(y, [i * ROWS, 0], out)
            pypto.assemble(total, [0, 0], out)
        return kernel
    return make


TABLED = ("paged", "one_page", "scattered", "branch", "ragged", "ragged_carry")


@SAME
@given(st.lists(st.tuples(st.sampled_from([2, 30, 150, 400]), st.sampled_from(TABLED), st.integers(0, 400 * ROWS)),
                min_size=1, max_size=3), st.sampled_from([1, 7, 128]), st.sampled_from(["data", "none", "repeating"]))
def test_loops_over_tables_cost_the_same(loops, stitch, data):
    values = np.random.default_rng(len(loops)).integers(0, 600, 400)
    table = np.tile(values[:5], 80) if data == "repeating" else values
    integers = pypto.Spec((400,), pypto.DT_INT32) if data == "none" else table.astype(np.int32)
    assume = {"table": 5} if data == "none" and any(body == "branch" for _, body, _ in loops) else None
    skipped, full = estimates(tables_kernel(loops, stitch), SPEC[0], integers, SPEC[0], assume=assume)
    assert skipped == full


@pytest.mark.parametrize("loops", [[(0, 333, 1, "map", "own", "own")],
                                   [(0, 200, 1, "lag", "own", "own"), (0, 300, 2, "carry", "wrapped", "own")]])
def test_timelines_of_skipped_loops_are_the_same(loops, tmp_path):
    files = []
    for full in (False, True):
        folder = tmp_path / str(full)
        pypto.estimate(kernel_of(loops, (1,), 16, 1)(), *SPEC, device=device("910b1", full, False), model="calibrated",
                       timeline=True).write_timeline(folder)
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert len(files[0]) == 3 and files[0] == files[1]
