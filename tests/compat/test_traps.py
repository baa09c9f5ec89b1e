"""Seeded faults: code that would misbehave on the device is reported with rule, severity per profile and line."""
import inspect
import warnings

import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.rules import RULES

FP32, I32 = pypto.DT_FP32, pypto.DT_INT32
Rows, Index = pypto.Tensor([8, 16], FP32), pypto.Tensor([8], I32)
MARK = "# here"


def arguments():
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    return x, np.array([0, 2, 2, 6, 1, 7, 3, 5], np.int32), np.zeros((8, 16), np.float32)


def marked_line(function, mark=MARK):
    """ "file:line" of the line that ends with the mark."""
    lines, start = inspect.getsourcelines(function)
    number = next(start + n for n, text in enumerate(lines) if text.rstrip().endswith(mark))
    return f"{inspect.getsourcefile(function).rpartition('/')[2]}:{number}"


# --- the faults: kernels of (x, index, out)
def output_rebound(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    out = x * 2.0  # noqa: F841  # here


def output_rebound_after_a_read(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    index[0] = 1
    out = pypto.add(out, x)  # noqa: F841  # here


def returned_value(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    out[:] = x * 2.0
    return out  # here


def early_return(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    if x.shape[0] == 0:
        return  # here
    out[:] = x * 2.0


def name_rebound(x, index, out):
    pypto.set_vec_tile_shapes(1, 16)
    total = pypto.full([1, 16], 0.0, FP32)
    for i in pypto.loop(x.shape[0], name="I", idx_name="i"):  # here
        total = total + x[i:i + 1, :]
        out[i:i + 1, :] = total


def count_rebound(x, index, out):
    pypto.set_vec_tile_shapes(1, 16)
    count = 0
    for i in pypto.loop(x.shape[0], name="I", idx_name="i"):  # here
        out[i:i + 1, :] = x[i:i + 1, :] * float(count)
        count += 1


def name_first_bound_in_the_loop(x, index, out):
    pypto.set_vec_tile_shapes(1, 16)
    for i in pypto.loop(x.shape[0], name="I", idx_name="i"):
        if pypto.is_loop_begin(i):
            total = x[i:i + 1, :] * 1.0
        else:
            total = total + x[i:i + 1, :]  # noqa: F821  # here
        out[i:i + 1, :] = total


def read_and_written(x, index, out):
    pypto.set_vec_tile_shapes(1, 16)
    for i in pypto.loop(x.shape[0] - 1, name="I", idx_name="i"):
        before = out[i:i + 1, :]
        out[i + 1:i + 2, :] = before + x[i:i + 1, :]  # here


def uninitialised(x, index, out):
    pypto.set_vec_tile_shapes(1, 16)
    total = pypto.tensor([1, 16], FP32, "total")
    for i in pypto.loop(x.shape[0], name="I", idx_name="i"):
        total[:] = total + x[i:i + 1, :]  # here
        out[i:i + 1, :] = total + 0.0


def partly_written(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    part = pypto.tensor([8, 16], FP32, "part")
    pypto.assemble(x[0:4, :] * 1.0, [0, 0], part)
    out[:] = part * 2.0  # here


def view_past_the_end(x, index, out):
    pypto.set_vec_tile_shapes(4, 16)
    for i in pypto.loop(3, name="I", idx_name="i"):
        t = pypto.view(x, [4, 16], [i * 4, 0])  # here
        out[0:4, :] = t * 1.0


def overlap_known(x, index, out):
    pypto.set_vec_tile_shapes(4, 16)
    for i in pypto.loop(2, name="I", idx_name="i"):
        pypto.assemble(x[0:4, :] * 1.0, [i, 0], out)
        pypto.assemble(x[4:8, :] * 2.0, [i + 3, 0], out)  # here


def overlap_from_data(x, index, out):
    pypto.set_vec_tile_shapes(1, 16)
    for i in pypto.loop(3, name="I", idx_name="i"):
        pypto.assemble(x[i:i + 1, :] * 1.0, [index[i], 0], out)
        pypto.assemble(x[i:i + 1, :] * 2.0, [index[i + 1], 0], out)  # here


def race_between_writes(x, index, out):
    for i in pypto.loop(4, name="I", idx_name="i", parallel=True):
        pypto.set_vec_tile_shapes(4, 16)
        pypto.assemble(x[i:i + 4, :] * 2.0, [i, 0], out)  # here


def race_by_table(x, index, out):
    for i in pypto.loop(x.shape[0], name="I", idx_name="i", parallel=True):
        pypto.set_vec_tile_shapes(1, 16)
        row = index[i]
        pypto.assemble(x[i:i + 1, :] * 2.0, [row, 0], out)  # here


def race_with_a_read(x, index, out):
    for i in pypto.loop(4, name="I", idx_name="i", parallel=True):
        pypto.set_vec_tile_shapes(1, 16)
        pypto.assemble(out[i:i + 1, :] + x[i:i + 1, :], [i + 1, 0], out)  # here


def race_through_a_local(x, index, out):
    pypto.set_vec_tile_shapes(1, 16)
    total = pypto.full([1, 16], 0.0, FP32)
    for i in pypto.loop(x.shape[0], name="I", idx_name="i", parallel=True):
        pypto.set_vec_tile_shapes(1, 16)
        total[:] = total + x[i:i + 1, :]  # here
        out[i:i + 1, :] = total + 0.0


def race_of_an_outer_loop(x, index, out):
    for i in pypto.loop(2, name="I", idx_name="i", parallel=True):
        for j in pypto.loop(4, name="J", idx_name="j"):
            pypto.set_vec_tile_shapes(1, 16)
            pypto.assemble(x[i * 4 + j:i * 4 + j + 1, :] * 2.0, [i * 3 + j, 0], out)  # here


def descending_end(x, index, out):
    pypto.set_vec_tile_shapes(1, 16)
    acc = pypto.tensor([1, 16], FP32, "acc")
    acc[:] = pypto.full([1, 16], 0.0, FP32)
    for i in pypto.loop(7, -1, -1, name="I", idx_name="i"):
        pypto.set_vec_tile_shapes(1, 16)
        acc[:] = acc + x[i:i + 1, :]
        if pypto.is_loop_end(i):  # here
            out[0:1, :] = acc + 0.0


def no_vector_tile(x, index, out):
    out[:] = x * 2.0  # here


def no_cube_tile(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    out[:, 0:8] = pypto.matmul(x, x, FP32, b_trans=True)  # here


def builtin_min(x, index, out):
    pypto.set_vec_tile_shapes(4, 16)
    for i in pypto.loop((x.shape[0] + 4) // 5, name="I", idx_name="i"):
        valid = min(5, x.shape[0] - i * 5)  # here
        t = pypto.view(x, [5, 16], [i * 5, 0], valid_shape=[valid, 16])
        pypto.assemble(t * 2.0, [i * 5, 0], out)


def builtin_max(x, index, out):
    pypto.set_vec_tile_shapes(1, 16)
    for i in pypto.loop(x.shape[0], name="I", idx_name="i"):
        back = max(i - 1, 0)  # here
        out[i:i + 1, :] = x[back:back + 1, :] * 2.0


def scatter_dropped(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    rows = pypto.expand_clone(pypto.reshape(index, [8, 1]), [8, 16])
    t = x * 1.0
    pypto.scatter(t, 0, rows, 5.0)  # here
    out[:] = t


def update_dropped(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    pypto.scatter_update(out, -2, pypto.reshape(index, [8, 1]), x * 1.0)  # here


def update_by_method_dropped(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    out.scatter_update(-2, pypto.reshape(index, [8, 1]), x * 1.0)  # here


def scatter_by_slice(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    rows = pypto.expand_clone(pypto.reshape(index, [8, 1]), [8, 16])
    out[0:rows] = x * 1.0  # here


# kernel -> rule, severity under lenient, 0.2, master
FAULTS = {
    output_rebound: ("output.unwritten", "warn", "warn", "warn"),
    output_rebound_after_a_read: ("output.unwritten", "warn", "warn", "warn"),
    returned_value: ("kernel.return_value", "error", "error", "error"),
    early_return: ("kernel.return", "warn", "error", "error"),
    name_rebound: ("loop.rebound_name", "warn", "error", "off"),
    count_rebound: ("loop.rebound_name", "warn", "error", "off"),
    name_first_bound_in_the_loop: ("loop.rebound_name", "warn", "error", "off"),
    read_and_written: ("arg.read_write", "warn", "error", "error"),
    uninitialised: ("read.unwritten", "error", "error", "error"),
    partly_written: ("poison.stored", "warn", "error", "error"),
    view_past_the_end: ("view.past_end", "error", "error", "error"),
    overlap_known: ("assemble.overlap", "warn", "error", "error"),
    overlap_from_data: ("assemble.overlap", "warn", "error", "error"),
    race_between_writes: ("loop.parallel_race", "warn", "error", "error"),
    race_by_table: ("loop.parallel_race", "warn", "error", "error"),
    race_with_a_read: ("loop.parallel_race", "warn", "error", "error"),
    race_through_a_local: ("loop.parallel_race", "warn", "error", "error"),
    race_of_an_outer_loop: ("loop.parallel_race", "warn", "error", "error"),
    descending_end: ("loop.descending_end", "warn", "warn", "warn"),
    no_vector_tile: ("tile.vec_unset", "warn", "error", "error"),
    no_cube_tile: ("tile.cube_unset", "warn", "error", "error"),
    builtin_min: ("scalar.builtin_min_max", "warn", "warn", "warn"),
    builtin_max: ("scalar.builtin_min_max", "warn", "warn", "warn"),
    scatter_dropped: ("scatter.dropped", "warn", "warn", "warn"),
    update_dropped: ("scatter.dropped", "warn", "warn", "warn"),
    update_by_method_dropped: ("scatter.dropped", "warn", "warn", "warn"),
    scatter_by_slice: ("scatter.assigned", "error", "error", "error"),
}
OTHER_RULE = {(k, "0.2"): "option.version" for k in FAULTS if k.__name__.startswith("race_")}   # said first there
OTHER_RULE[race_with_a_read, "master"] = "arg.read_write"


def run(function, mode):
    """(rule -> lines that fired, exception or None)."""
    function.__annotations__ = {"x": Rows, "index": Index, "out": Rows}
    kernel = pypto.frontend.jit(function)
    raised = None
    with pypto.config(mode=mode), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            kernel(*arguments())
        except pypto.PyptoError as e:
            raised = e
    fired = {}
    for w in found:
        fired.setdefault(w.message.rule, set()).add(w.message.line)
        assert w.message.line in str(w.message)
    return fired, raised


@pytest.mark.parametrize("mode", ["auto", "step"])
@pytest.mark.parametrize("profile", ["lenient", "0.2", "master"])
@pytest.mark.parametrize("function", FAULTS, ids=lambda f: f.__name__)
def test_trap(function, profile, mode):
    rule, *severities = FAULTS[function]
    severity = severities[("lenient", "0.2", "master").index(profile)]
    assert RULES[rule].severity[profile] == severity
    with pypto.config(profile=profile):
        fired, raised = run(function, mode)
    if function is name_first_bound_in_the_loop and mode == "step":      # stepping runs the loop as Python does
        assert fired == {} and raised is None
    elif (function, profile) in OTHER_RULE:
        assert raised is not None and raised.rule == OTHER_RULE[function, profile]
    elif severity == "error":
        assert raised is not None and raised.rule == rule, (raised, fired)
        assert raised.line == marked_line(function) and raised.line in str(raised)
    elif severity == "warn":
        assert marked_line(function) in fired.get(rule, ()), (raised, fired)
        assert raised is None
    else:
        assert rule not in fired and raised is None


# --- right code beside the faults
def parallel_rows(x, index, out):
    for i in pypto.loop(x.shape[0], name="I", idx_name="i", parallel=True):
        pypto.set_vec_tile_shapes(1, 16)
        total = pypto.tensor([1, 16], FP32, "total")
        total[:] = x[i:i + 1, :] * 1.0
        total[:] = total + x[i:i + 1, :]
        pypto.assemble(total * 1.0, [i, 0], out)


def parallel_columns(x, index, out):
    for i in pypto.loop(2, name="I", idx_name="i", parallel=True):
        for j in pypto.loop(x.shape[0], name="J", idx_name="j"):
            pypto.set_vec_tile_shapes(1, 8)
            pypto.assemble(x[j:j + 1, i * 8:(i + 1) * 8] * 2.0, [j, i * 8], out)


def parallel_reads_of_one_row(x, index, out):
    for i in pypto.loop(x.shape[0], name="I", idx_name="i", parallel=True):
        pypto.set_vec_tile_shapes(1, 16)
        pypto.assemble(x[0:1, :] + x[i:i + 1, :], [i, 0], out)


def serial_overlap(x, index, out):
    for i in pypto.loop(5, name="I", idx_name="i"):
        pypto.set_vec_tile_shapes(4, 16)
        pypto.assemble(x[i:i + 4, :] * 2.0, [i, 0], out)


def begin_of_a_descending_loop(x, index, out):
    acc = pypto.tensor([1, 16], FP32, "acc")
    for i in pypto.loop(7, -1, -1, name="I", idx_name="i"):
        pypto.set_vec_tile_shapes(1, 16)
        if pypto.is_loop_begin(i):
            acc[:] = x[i:i + 1, :] * 1.0
        else:
            acc[:] = acc + x[i:i + 1, :]
        out[i:i + 1, :] = acc + 0.0


def input_rebound(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    x = x * 2.0
    for _ in pypto.loop(1):
        out[:] = x + 1.0


def own_min(x, index, out):
    def min(a, b):
        return a.min(b)
    pypto.set_vec_tile_shapes(1, 16)
    largest = max([2, 3])
    for i in pypto.loop(x.shape[0], name="I", idx_name="i"):
        out[i:i + 1, :] = x[min(i, largest):min(i, largest) + 1, :] * float(max(2, 3))


def update_assigned_twice(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    rows = pypto.reshape(index, [8, 1])
    out[:] = pypto.scatter_update(out, -2, rows, x * 1.0)
    out.move(out.scatter_update(-2, rows, x * 2.0))


def joined_parts(x, index, out):
    pypto.set_vec_tile_shapes(8, 16)
    a, b = index[1], index[3]
    pypto.assemble(x[0:1, :] * 1.0, [a, 0], out)
    pypto.assemble(x[1:2, :] * 1.0, [b, 0], out)
    pypto.assemble(x[2:3, 0:8] * 1.0, [0, 0], out)
    pypto.assemble(x[2:3, 8:16] * 1.0, [0, 8], out)


SOUND = (parallel_rows, parallel_columns, parallel_reads_of_one_row, serial_overlap, begin_of_a_descending_loop,
         input_rebound, own_min, update_assigned_twice, joined_parts)


@pytest.mark.parametrize("mode", ["auto", "step"])
@pytest.mark.parametrize("function", SOUND, ids=lambda f: f.__name__)
def test_sound_code_is_silent(function, mode):
    fired, raised = run(function, mode)
    assert raised is None and fired == {}


def test_the_page_lists_every_trap(request):
    page = (request.config.rootpath / "docs" / "traps.md").read_text(encoding="utf-8")
    assert [rule for rule, *_ in FAULTS.values() if f"`{rule}`" not in page] == []
