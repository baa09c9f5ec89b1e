"""Small kernels that try out how Python and the front end meet: `KERNELS[name] = (function, how it must run)`.

Every kernel takes a [8, 16], cu [4] int32 = 0 2 2 6, table [4, 2] int32 and writes out [8, 16]. "replay": its loops are
traced; "concrete": some loop must be concrete; "step": the launch is stepped.
"""
# ruff: noqa: F841, B007, B023, E731, E722, F811
import contextlib
import dataclasses
import functools
import random

import numpy as np

import pypto_sim as pypto
from support import helpers

KERNELS = {}
F32, B16 = pypto.DT_FP32, pypto.DT_BF16
COUNTS = [0]
GLOBAL = 0
GENERATOR = random.Random(1)
RNG = np.random.default_rng(2)
CONFIG = {"scale": 3.0, "rows": 4}


def kernel(how="replay"):
    def add(f):
        KERNELS[f.__name__] = (f, how)
        return f
    return add


def row(t, i, j=0):
    return pypto.view(t, [1, 16], [i, j])


def put(x, i, out):
    pypto.assemble(x, [i, 0], out)


# --- plain
@kernel()
def straight(a, cu, table, out):
    out[:] = a * 2.0 + 1.0


@kernel()
def one_loop(a, cu, table, out):
    for i in pypto.loop(8):
        put(row(a, i) * 2.0, i, out)


@kernel()
def decision_on_index(a, cu, table, out):
    for i in pypto.loop(8):
        if i == 3:
            put(row(a, i), i, out)
        elif i > 5:
            put(row(a, i) * 3.0, i, out)
        else:
            put(row(a, i) + 1.0, i, out)


@kernel()
def begin_end_slot(a, cu, table, out):
    acc = pypto.tensor([1, 16], F32, "acc")
    for i in pypto.loop(6):
        if pypto.is_loop_begin(i):
            acc[:] = row(a, i)
        else:
            acc[:] = acc + row(a, i)
        if pypto.is_loop_end(i):
            put(acc, 0, out)


@kernel()
def data_bounds(a, cu, table, out):
    acc = pypto.tensor([1, 16], F32, "acc")
    for b in pypto.loop(3):
        for i in pypto.loop(cu[b], cu[b + 1]):
            if pypto.is_loop_begin(i):
                acc[:] = row(a, i)
            else:
                acc[:] = acc + row(a, i)
            if pypto.is_loop_end(i):
                put(acc, b, out)


@kernel()
def block_table(a, cu, table, out):
    for b in pypto.loop(4):
        for j in pypto.loop(2):
            block = table[b, j]
            if block >= 0:
                put(row(a, block), b * 2 + j, out)


@kernel()
def dependent_bounds(a, cu, table, out):
    for i in pypto.loop(8):
        for j in pypto.loop(i, 8):
            if j == i:
                put(row(a, i), j, out)
            else:
                put(row(out, j) + 1.0, j, out)


@kernel()
def four_deep(a, cu, table, out):
    acc = pypto.full([1, 16], 0.0, F32)
    for i in pypto.loop(2):
        for j in pypto.loop(2):
            for k in pypto.loop(2):
                for m in pypto.loop(2):
                    if m == 1 and k == 0:
                        acc[:] = acc + row(a, i * 4 + j * 2 + k)
                    else:
                        acc[:] = acc * 0.5
    put(acc, 0, out)


@kernel()
def steps_and_starts(a, cu, table, out):
    for i in pypto.loop(1, 8, 3):
        put(row(a, i), i, out)
    for i in pypto.loop(2, 2):
        put(row(a, i), 0, out)
    for i in pypto.loop(5, 2):
        put(row(a, i), 0, out)


@kernel("concrete")
def negative_step(a, cu, table, out):
    acc = pypto.full([1, 16], 0.0, F32)
    for i in pypto.loop(7, -1, -2):
        acc[:] = acc * 2.0 + row(a, i)
    put(acc, 0, out)


@kernel()
def unrolled_factors(a, cu, table, out):
    for i, k in pypto.loop_unroll(0, 7, 1, unroll_list=[4, 2]):
        for j in range(k):
            put(row(a, i + j) * float(k), i + j, out)


@kernel()
def unroll_list(a, cu, table, out):
    acc = pypto.tensor([1, 16], F32)
    for i in pypto.loop(7, unroll_list={2, 1}, name="L", idx_name="i"):
        if pypto.is_loop_begin(i):
            acc[:] = row(a, i)
        else:
            acc[:] = acc + row(a, i)
        if pypto.is_loop_end(i):
            put(acc, 0, out)


@kernel()
def condition_words(a, cu, table, out):
    for i in pypto.loop(8):
        if pypto.cond(i < 6) and not i == 2 or i == 7:
            put(row(a, i) * (2.0 if i % 2 == 0 else 4.0), i, out)


@kernel()
def python_min_max(a, cu, table, out):
    for i in pypto.loop(8):
        put(row(a, max(0, min(i, 5))), i, out)
        put(row(a, pypto.min(i, 6)), i, out)


@kernel()
def tail_valid(a, cu, table, out):
    for i in pypto.loop(3):
        x = pypto.view(a, [3, 16], [i * 3, 0], valid_shape=[pypto.min(3, 8 - i * 3), 16])
        pypto.assemble(x * 2.0, [i * 3, 0], out)


@kernel()
def tail_clamped(a, cu, table, out):
    for i in pypto.loop(3):
        pypto.assemble(pypto.view(a, [3, 16], [i * 3, 0]) + 1.0, [i * 3, 0], out)


@kernel()
def continue_in_body(a, cu, table, out):
    for i in pypto.loop(8):
        if i % 3 == 1:
            continue
        put(row(a, i), i, out)


@kernel()
def for_else(a, cu, table, out):
    for i in pypto.loop(3):
        put(row(a, i), i, out)
    else:
        put(row(a, 7), 7, out)


# --- values and versions
@kernel()
def view_keeps_what_it_saw(a, cu, table, out):
    t = pypto.full([1, 16], 1.0, F32)
    before = pypto.view(t, [1, 16], [0, 0])
    t[:] = t + 1.0
    put(before, 0, out)
    put(t, 1, out)


@kernel()
def argument_view_is_a_snapshot(a, cu, table, out):
    put(row(a, 0), 0, out)
    seen = row(out, 0)
    put(row(a, 1), 0, out)
    put(seen, 1, out)


@kernel()
def assemble_into_local(a, cu, table, out):
    t = pypto.full([8, 16], 0.0, F32)
    for i in pypto.loop(8):
        pypto.assemble(row(a, i), [7 - i, 0], t)
    out[:] = t


@kernel()
def slots_across_nested_loops(a, cu, table, out):
    m = pypto.tensor([1, 16], F32)
    s = pypto.full([1, 16], 0.0, F32)
    for i in pypto.loop(4):
        m[:] = row(a, i)
        for j in pypto.loop(i, 6):
            m[:] = pypto.maximum(m, row(a, j))
        s[:] = s + m
        put(s, i, out)


@kernel()
def element_store_and_load(a, cu, table, out):
    n = pypto.tensor([4], pypto.DT_INT32, "n")
    for i in pypto.loop(4):
        n[i] = cu[i] + 1
    for i in pypto.loop(4):
        put(row(a, n[3 - i]), i, out)


@kernel()
def bf16_chain(a, cu, table, out):
    x = pypto.cast(a, B16)
    y = x * 1.1 + 0.3
    for i in pypto.loop(cu[1], cu[2]):
        put(row(a, i), i, out)
    out[:] = pypto.cast(y * 1.7, F32)


@kernel()
def bf16_slot(a, cu, table, out):
    acc = pypto.full([1, 16], 0.0, B16)
    for i in pypto.loop(8):
        acc[:] = (acc * 0.9 + pypto.cast(row(a, i), B16)) * 1.01
    put(pypto.cast(acc, F32), 0, out)


@kernel()
def bf16_chain_over_zero_trips(a, cu, table, out):
    y = pypto.cast(a, B16) * 1.1
    for i in pypto.loop(0):
        put(row(a, i), i, out)
    out[:] = pypto.cast(y * 1.7 + 0.1, F32)


@kernel()
def list_of_handles(a, cu, table, out):
    rows = [row(a, n) for n in range(4)]
    for i in pypto.loop(4):
        x = rows[0] + rows[3]
        put(x + row(a, i), i, out)


@kernel()
def retyped_before_the_loop(a, cu, table, out):
    t = pypto.tensor([8, 16], F32)
    t[:] = row(a, 0)
    for i in pypto.loop(4):
        t[:] = t + row(a, i)
    put(t, 0, out)


@kernel("concrete")
def retyped_in_the_loop(a, cu, table, out):
    t = pypto.tensor([8, 16], F32)
    for i in pypto.loop(2):
        t[:] = row(a, i)
    put(t, 0, out)


@kernel("concrete")
def carried_extent(a, cu, table, out):
    t = pypto.tensor([4, 16], F32)
    t[:] = pypto.view(a, [4, 16], [0, 0])
    for i in pypto.loop(3):
        n = t.valid_shape[0]
        pypto.assemble(pypto.view(a, [4, 16], [0, 0], valid_shape=[n, 16]), [i, 0], out)
        t[:] = pypto.view(a, [4, 16], [0, 0], valid_shape=[3 - i, 16])


@kernel()
def carried_extent_not_asked_for(a, cu, table, out):
    t = pypto.tensor([4, 16], F32)
    t[:] = pypto.view(a, [4, 16], [0, 0])
    for i in pypto.loop(3):
        pypto.assemble(t, [i, 0], out)
        t[:] = pypto.view(a, [4, 16], [0, 0], valid_shape=[3 - i, 16])


# --- Python state
@kernel("concrete")
def rebinding(a, cu, table, out):
    acc = pypto.full([1, 16], 0.0, F32)
    for i in pypto.loop(6):
        acc = acc + row(a, i)
    put(acc, 0, out)


@kernel("concrete")
def threshold_on_a_counter(a, cu, table, out):
    n = 0
    for i in pypto.loop(6):
        n += 1
        put(row(a, i) if n < 4 else pypto.neg(row(a, i)), i, out)


@kernel("concrete")
def attribute_counter(a, cu, table, out):
    c = helpers.Counter()
    for i in pypto.loop(6):
        put(row(a, i) * float(c.up() > 3), i, out)


@kernel("concrete")
def nonlocal_counter(a, cu, table, out):
    n = 0

    def up():
        nonlocal n
        n += 1
        return n
    for i in pypto.loop(6):
        put(row(a, i) * float(up() > 4), i, out)


@kernel("concrete")
def iterator_next(a, cu, table, out):
    it = iter([1.0, 2.0, 3.0, 4.0])
    for i in pypto.loop(4):
        put(row(a, i) * next(it), i, out)


@kernel("concrete")
def list_append(a, cu, table, out):
    found = []
    for i in pypto.loop(4):
        found.append(row(a, i))
        put(found[0], i, out)


@kernel("concrete")
def swapped_handles(a, cu, table, out):
    x, y = row(a, 0), row(a, 1)
    for i in pypto.loop(5):
        put(x, i, out)
        x, y = y, x


@kernel("concrete")
def rotation_of_three(a, cu, table, out):
    x, y, z = row(a, 0), row(a, 1), row(a, 2)
    for i in pypto.loop(5):
        put(x, i, out)
        x, y, z = y, z, x


@kernel("concrete")
def previous_handle(a, cu, table, out):
    last = None
    for i in pypto.loop(5):
        x = row(a, i)
        if last is not None:
            x = x + last
        put(x, i, out)
        last = row(a, i)


@kernel("concrete")
def handle_after_its_loop(a, cu, table, out):
    for i in pypto.loop(1):
        x = row(a, 2) * 2.0
    put(x, 0, out)


@kernel("concrete")
def index_after_its_loop(a, cu, table, out):
    for i in pypto.loop(4):
        put(row(a, i), i, out)
    put(row(a, 5), i + 1, out)


@kernel("concrete")
def number_left_behind(a, cu, table, out):
    c = 0.0
    for i in pypto.loop(6):
        if i == 5:
            c = 1.0
        else:
            c = 2.0
        put(row(a, i), i, out)
    put(row(a, 0) * c, 7, out)


@kernel("step")
def number_left_by_no_iteration(a, cu, table, out):
    c = 1.0
    for i in pypto.loop(cu[1], cu[2]):
        c = 2.0
        put(row(a, i), i, out)
    put(row(a, 0) * c, 7, out)


@kernel("concrete")
def handle_left_behind(a, cu, table, out):
    t = row(a, 0)
    other = row(a, 1)
    for i in pypto.loop(4):
        if i > cu[3]:
            t = other
        put(row(a, i), i, out)
    put(t, 7, out)


@kernel()
def number_left_by_every_path(a, cu, table, out):
    for i in pypto.loop(6):
        c = 2.0
        put(row(a, i) * c, i, out)
    put(row(a, 0) * c, 7, out)


@kernel()
def number_not_read_after(a, cu, table, out):
    for i in pypto.loop(6):
        if i == 5:
            c = 1.0
        else:
            c = 2.0
        put(row(a, i) * c, i, out)
    for i in pypto.loop(2):
        c = 5.0
        put(row(a, i) * c, i, out)


@kernel("concrete")
def number_read_in_the_next_round(a, cu, table, out):
    c = 1.0
    for b in pypto.loop(3):
        put(row(a, b) * c, b, out)
        for i in pypto.loop(2):
            if i == b:
                c = 3.0
            else:
                c = 7.0
            put(row(a, i), i + 4, out)


@kernel("step")
def global_counter(a, cu, table, out):
    global GLOBAL
    GLOBAL += 1
    out[:] = a * float(GLOBAL > 0)


@kernel("step")
def global_list(a, cu, table, out):
    COUNTS[0] += 1
    out[:] = a + 1.0


@kernel("step")
def helper_state(a, cu, table, out):
    out[:] = helpers.counting(a) * 0.0 + a


@kernel("step")
def seeded_random(a, cu, table, out):
    out[:] = a * (0.0 if GENERATOR.random() < 2 else 1.0)


@kernel("step")
def module_random(a, cu, table, out):
    out[:] = a * float(random.random() < 2)


@kernel("step")
def numpy_random(a, cu, table, out):
    out[:] = a * float(np.random.rand() < 2)


@kernel("step")
def numpy_generator(a, cu, table, out):
    out[:] = a * float(RNG.random() < 2)


@kernel("concrete")
def random_in_a_loop(a, cu, table, out):
    draw = random.Random(5)
    for i in pypto.loop(4):
        put(row(a, i) * draw.random(), i, out)


# --- how the loop is written
@kernel("concrete")
def broken_out_of(a, cu, table, out):
    for i in pypto.loop(8):
        put(row(a, i), i, out)
        if i == 3:
            break


@kernel("concrete")
def left_by_return(a, cu, table, out):
    for i in pypto.loop(8):
        put(row(a, i), i, out)
        if i == 4:
            return


@kernel("concrete")
def enumerated(a, cu, table, out):
    for n, i in enumerate(pypto.loop(5)):
        put(row(a, i) * float(n), i, out)


@kernel("concrete")
def comprehension(a, cu, table, out):
    rows = [row(a, i) for i in pypto.loop(3)]
    put(rows[0] + rows[2], 0, out)


@kernel("concrete")
def kept_in_a_variable(a, cu, table, out):
    it = pypto.loop(4)
    for i in it:
        put(row(a, i), i, out)


@kernel("concrete")
def generator_helper(a, cu, table, out):
    def pairs():
        for i in pypto.loop(3):
            yield i, i + 1
    for i, j in pairs():
        put(row(a, i) + row(a, j), i, out)


@kernel("concrete")
def int_of_index(a, cu, table, out):
    scales = [1.0, 2.0, 3.0, 4.0]
    for i in pypto.loop(4):
        put(row(a, i) * scales[i], i, out)


@kernel("concrete")
def index_as_a_key(a, cu, table, out):
    scales = {0: 1.0, 1: 2.0, 2: 3.0}
    for i in pypto.loop(3):
        put(row(a, i) * scales[i], i, out)


@kernel("concrete")
def range_of_index(a, cu, table, out):
    for i in pypto.loop(4):
        x = row(a, 0)
        for j in range(i):
            x = x + row(a, j)
        put(x, i, out)


@kernel("step")
def int_of_an_element(a, cu, table, out):
    for i in pypto.loop(int(cu[3])):
        put(row(a, i), i, out)


@kernel("step")
def printed_index(a, cu, table, out):
    for i in pypto.loop(3):
        name = f"row {i}"
        put(row(a, i) * float(len(name)), i, out)


@kernel("step")
def printed_tensor(a, cu, table, out):
    x = row(a, 0) * 2.0
    text = str(x)
    put(x * float("2" in text), 0, out)


# --- exceptions
@kernel()
def raises_in_the_loop(a, cu, table, out):
    for i in pypto.loop(6):
        put(row(a, i), i, out)
        if i == 3:
            raise ValueError("row three", 3)


@kernel()
def raises_on_data(a, cu, table, out):
    put(row(a, 0), 0, out)
    if cu[1] == 2:
        raise KeyError("data")
    put(row(a, 1), 1, out)


@kernel()
def raises_on_other_data(a, cu, table, out):
    put(row(a, 0), 0, out)
    if cu[1] == 77:
        raise KeyError("data")
    put(row(a, 1), 1, out)


@kernel()
def assertion(a, cu, table, out):
    for i in pypto.loop(4):
        assert i < 3, "too many"
        put(row(a, i), i, out)


@kernel()
def raises_a_rule(a, cu, table, out):
    for i in pypto.loop(4):
        put(row(a, i), i, out)
        if i == 2:
            pypto.view(a, [1, 16, 1], [0, 0])


@kernel("concrete")
def swallowed_inside(a, cu, table, out):
    for i in pypto.loop(4):
        try:
            if i == 2:
                raise ValueError
            put(row(a, i), i, out)
        except ValueError:
            put(row(a, 7), i, out)
        if i == 3:
            x = 1


KERNELS["swallowed_inside"] = (swallowed_inside, "replay")


@kernel("concrete")
def swallowed_outside(a, cu, table, out):
    try:
        for i in pypto.loop(4):
            put(row(a, i), i, out)
            if i == 2:
                raise ValueError
    except ValueError:
        put(row(a, 7), 7, out)


@kernel("concrete")
def bare_except(a, cu, table, out):
    scales = [1.0, 2.0, 3.0]
    try:
        for i in pypto.loop(3):
            put(row(a, i) * scales[i], i, out)
    except:
        put(row(a, 7), 7, out)


@kernel("concrete")
def suppressed(a, cu, table, out):
    with contextlib.suppress(ValueError):
        for i in pypto.loop(4):
            put(row(a, i), i, out)
            if i == 2:
                raise ValueError
    put(row(a, 7), 7, out)


@kernel()
def finally_runs(a, cu, table, out):
    for i in pypto.loop(3):
        try:
            x = row(a, i)
        finally:
            put(x if i == 0 else x * 2.0, i, out)


# --- helpers and objects
@kernel()
def helper_with_a_loop(a, cu, table, out):
    helpers.add_rows(a, out, 5)


@kernel()
def helper_with_a_decision(a, cu, table, out):
    for i in pypto.loop(5):
        put(helpers.scaled(row(a, i)) * helpers.pick(i), i, out)


@kernel()
def module_state_read_only(a, cu, table, out):
    for i in pypto.loop(CONFIG["rows"]):
        put(row(a, i) * CONFIG["scale"], i, out)


@kernel()
def closures_and_lambdas(a, cu, table, out):
    for i in pypto.loop(4):
        f = lambda x: put(x * 2.0, i, out)

        def g(x):
            return x + 1.0
        f(g(row(a, i)))


@kernel()
def partial_helper(a, cu, table, out):
    store = functools.partial(pypto.assemble, out=out)
    for i in pypto.loop(4):
        store(row(a, i), [i, 0])


@dataclasses.dataclass
class Block:
    size: int
    scale: float


@kernel()
def dataclass_state(a, cu, table, out):
    b = Block(2, 1.5)
    for i in pypto.loop(4):
        pypto.assemble(pypto.view(a, [b.size, 16], [i * b.size, 0]) * b.scale, [i * b.size, 0], out)


@kernel()
def dynamic_bounds_by_shape(a, cu, table, out):
    rows, block = a.shape[0], 3
    for i in pypto.loop(pypto.ceildiv(rows, block)):
        n = pypto.min(block, rows - i * block)
        pypto.assemble(pypto.view(a, [block, 16], [i * block, 0], valid_shape=[n, 16]), [i * block, 0], out)


@kernel()
def slices(a, cu, table, out):
    for i in pypto.loop(4):
        out[i * 2:(i + 1) * 2, :] = a[i * 2:(i + 1) * 2, ...] + 1.0


@kernel()
def integer_slices(a, cu, table, out):
    for i in pypto.loop(4):
        out[i] = a[7 - i]


@kernel()
def inner_kernel(a, cu, table, out):
    for i in pypto.loop(3):
        add_one(row(a, i), out, i)


@pypto.frontend.jit
def add_one(x: pypto.Tensor(), y: pypto.Tensor(), i):
    put(x + 1.0, i, y)


@kernel()
def scoped_tiles(a, cu, table, out):
    pypto.set_vec_tile_shapes(4, 16)
    for i in pypto.loop(3):
        pypto.set_vec_tile_shapes(1, 8)
        put(row(a, i) * 2.0, i, out)
    assert pypto.get_vec_tile_shapes() == [4, 16]


@kernel()
def options_in_a_loop(a, cu, table, out):
    for i in pypto.loop(3):
        with pypto.options(pass_options={"sg_set_scope": 1}):
            x = helpers.with_options(row(a, i))
        assert pypto.get_pass_options() == {}
        put(x, i, out)


@kernel()
def match_statement(a, cu, table, out):
    for i in pypto.loop(4):
        match i % 2 == 0:
            case x if x:
                put(row(a, i), i, out)
            case _:
                put(row(a, i) * 2.0, i, out)


@kernel()
def walrus(a, cu, table, out):
    for i in pypto.loop(4):
        put((x := row(a, i)) + x, i, out)


@kernel()
def while_loop(a, cu, table, out):
    n = 0
    while n < 3:
        for i in pypto.loop(2):
            put(row(a, n * 2 + i), n * 2 + i, out)
        n += 1


@kernel()
def two_loops_in_a_python_loop(a, cu, table, out):
    for n in range(3):
        for i in pypto.loop(2):
            put(row(a, i) * float(n), i + n, out)


@kernel()
def decision_outside_loops(a, cu, table, out):
    if cu[3] > 5:
        for i in pypto.loop(cu[3]):
            put(row(a, i), i, out)
    else:
        out[:] = a
    if cu[0] == 0:
        put(row(a, 7), 7, out)


@kernel()
def return_on_data(a, cu, table, out):
    put(row(a, 0), 0, out)
    if cu[1] == 2:
        return
    put(row(a, 1), 1, out)


@kernel()
def begin_of_the_outer_loop(a, cu, table, out):
    for b in pypto.loop(2):
        for i in pypto.loop(3):
            if pypto.is_loop_begin(b) and pypto.is_loop_end(i):
                put(row(a, i), b * 3 + i, out)
            else:
                put(row(a, i) * 2.0, b * 3 + i, out)


@kernel("concrete")
def too_many_paths(a, cu, table, out):
    for i in pypto.loop(500):
        x = row(a, i % 8)
        for n in range(7):
            x = x + 1.0 if i // 2**n % 2 == 0 else x * 0.5
        put(x, i % 8, out)


@kernel()
def arithmetic_of_indices(a, cu, table, out):
    for i in pypto.loop(2):
        for j in pypto.loop(4):
            n = (i * 4 + j) % 8
            put(row(a, 7 - n), n // 1, out)
            put(row(a, (j + 4 * i) // 2), pypto.max(n, 0), out)


@kernel()
def symbolic_logic(a, cu, table, out):
    for i in pypto.loop(8):
        if (i > 2) & (i < 5) | (i == 7):
            put(row(a, i), i, out)


@kernel()
def table_of_tensors(a, cu, table, out):
    m = {"x": pypto.full([1, 16], 0.0, F32), "y": pypto.full([1, 16], 1.0, F32)}
    for i in pypto.loop(4):
        m["x"][:] = m["x"] + row(a, i)
        m["y"][:] = m["y"] * row(a, i)
    put(m["x"], 0, out)
    put(m["y"], 1, out)


@kernel()
def augmented_in_the_body(a, cu, table, out):
    for i in pypto.loop(4):
        x = row(a, i)
        x += 1.0
        x *= 2.0
        put(x, i, out)


@kernel()
def numpy_constants(a, cu, table, out):
    scales = np.array([2.0, 3.0])
    for i in pypto.loop(np.int64(4)):
        put(row(a, i) * float(scales[1]), i, out)
