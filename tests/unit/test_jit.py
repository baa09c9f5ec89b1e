"""Decorating, binding and launching kernels."""
import copy
import dataclasses
import gc
import itertools
import os
import pickle
import subprocess
import sys
import threading
import types
import weakref

import numpy as np
import pytest
from support.interrupts import interrupted_after
from support.launches import doubling, f32

import pypto_sim as pypto

F32, B16, I32 = pypto.DT_FP32, pypto.DT_BF16, pypto.DT_INT32
DYN = pypto.DYNAMIC
pytestmark = pytest.mark.usefixtures("quiet")


def runs(kernel, *shape):
    a, out = f32(*shape), np.zeros(shape, np.float32)
    assert kernel(a, out) is None
    return np.array_equal(out, a * 2)


@pytest.mark.parametrize("annotation", [
    pypto.Tensor, pypto.Tensor(), pypto.Tensor([]), pypto.Tensor([4, 16], F32), pypto.Tensor((4, 16)),
    pypto.Tensor([DYN, 16], F32), pypto.Tensor([pypto.DYN, pypto.STATIC], F32), pypto.Tensor([-1, 16], F32),
    pypto.Tensor([...]), pypto.Tensor([4, ...], F32), pypto.Tensor([pypto.frontend.dynamic("B"), 16], F32),
    pypto.Tensor[[4, 16], F32], pypto.Tensor[F32], pypto.Tensor[[DYN, 16], F32, pypto.TileOpFormat.TILEOP_ND],
    pypto.Tensor[[4, 16], {"name": "x", "dtype": F32}], pypto.tensor([4, 16], F32), pypto.tensor([4, 16], F32, "a"),
])
def test_annotation_forms(annotation):
    assert runs(doubling(annotation), 4, 16)


@pytest.mark.parametrize("annotation, text", [
    (pypto.Tensor([4, 8], F32), "axis 1 must be 8"), (pypto.Tensor([4], F32), "1 axes"),
    (pypto.Tensor([4, 16, ...]), None), (pypto.Tensor([4, 16, 1, ...]), "at least 3"),
    (pypto.Tensor([4, 16], B16), "DT_BF16"), (pypto.Tensor[[4, 16], I32], "DT_INT32"),
])
@pytest.mark.parametrize("profile", ["lenient", "0.2", "master", "guide"])
def test_mismatch_names_parameter_expected_and_got(annotation, text, profile):
    kernel = doubling(annotation)
    with pypto.config(profile=profile):
        if text is None:
            assert runs(kernel, 4, 16)
            return
        with pytest.raises(pypto.PyptoError, match=text) as e:
            runs(kernel, 4, 16)
    assert "`a`" in str(e.value) and ("[4, 16]" in str(e.value) or "DT_FP32" in str(e.value))
    assert e.value.kernel == "double" and e.value.line.startswith("test_jit.py:")
    assert isinstance(e.value, (ValueError, TypeError)) and isinstance(e.value, RuntimeError)


def test_bad_annotations():
    for make in (lambda: pypto.Tensor("ab"), lambda: pypto.Tensor([1.5, 2]), lambda: pypto.Tensor([..., 4]),
                 lambda: pypto.Tensor([4], "fp32"), lambda: pypto.Tensor[3], lambda: pypto.Tensor[{"size": 3}]):
        with pytest.raises(TypeError):
            make()


def test_named_axes_must_agree():
    B = pypto.frontend.dynamic("B")

    @pypto.jit
    def add(a: pypto.Tensor([B, 16]), b: pypto.Tensor([B, 16]), twice: pypto.Tensor([B * 2, 16])):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(B):
            twice[i:i + 1] = a[i:i + 1] + b[i:i + 1]
            twice[B + i:B + i + 1] = a[i:i + 1]
    a, out = f32(3, 16), np.zeros((6, 16), np.float32)
    add(a, a.copy(), out)
    assert np.array_equal(out, np.concatenate([a * 2, a]))
    with pytest.raises(ValueError, match="`B`, which is 3 elsewhere"):
        add(a, f32(4, 16), out)
    with pytest.raises(ValueError, match="= 6"):
        add(a, a.copy(), np.zeros((5, 16), np.float32))


def test_string_annotations_see_globals_and_closures():
    names = {"pypto": pypto, "np": np}
    source = (
        "from __future__ import annotations\n"
        "def factory(n, dtype):\n"
        "    width = n * 2\n"
        "    @pypto.frontend.jit()\n"
        "    def k(a: pypto.Tensor([4, width], dtype), out: pypto.Tensor([4, width], dtype), scale: float = 2.0):\n"
        "        pypto.set_vec_tile_shapes(4, 16)\n"
        "        out[:] = a * scale\n"
        "    return k\n")
    exec(compile(source, "<strings>", "exec"), names)
    kernel = names["factory"](8, F32)
    assert runs(kernel, 4, 16)
    with pytest.raises(ValueError, match="axis 1 must be 16"):
        runs(kernel, 4, 32)


def test_parameter_rules():
    with pytest.raises(ValueError, match="Non-tensor parameters must come after all tensor parameters"):
        @pypto.frontend.jit
        def wrong(n: int, a: pypto.Tensor):
            pass
    for kind in ("*a", "**a", "*, a", "a, /"):
        names = {"pypto": pypto}
        exec(f"def k({kind}): pass", names)
        with pytest.raises(ValueError, match="plain parameters"):
            pypto.frontend.jit(names["k"])
    with pytest.raises(TypeError, match="decorates a function"):
        pypto.frontend.jit(3 .__add__)


@dataclasses.dataclass
class Sizes:
    rows: int
    scale: float = 3.0


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU, "stitch_function_max_num": 128})
def scaled(a: pypto.Tensor([DYN, 16], F32), out: pypto.Tensor([DYN, 16], F32), sizes, mode="mul", plus=0.0):
    pypto.set_vec_tile_shapes(sizes.rows, 16)
    out[:] = a * sizes.scale + plus if mode == "mul" else a


def test_scalars_of_any_type_defaults_and_keywords():
    a, out = f32(2, 16), np.zeros((2, 16), np.float32)
    scaled(a, out, Sizes(2))
    assert np.array_equal(out, a * 3)
    scaled(a, out, Sizes(2, 4.0), plus=1.0)
    assert np.array_equal(out, a * 4 + 1)
    sizes = Sizes(2, 5.0)
    scaled(a, out, sizes, "mul")
    sizes.scale = 6.0                          # a changed object is another signature
    scaled(a, out, sizes, "mul")
    assert np.array_equal(out, a * 6) and not scaled.last_run.cache_hit
    scaled(a, out, sizes, mode="copy")
    assert np.array_equal(out, a)
    scaled(a, out, sizes, mode="copy")
    assert scaled.last_run.cache_hit


@pytest.mark.parametrize("args, kwargs, text", [
    ((), {}, "Expected at least 2 tensor"), ((f32(2, 16),), {}, "missing: out"),
    ((f32(2, 16), f32(2, 16)), {}, "misses the argument `sizes`"),
    ((f32(2, 16), f32(2, 16), 1, 2, 3, 4), {}, "takes 5 arguments"),
    ((f32(2, 16), f32(2, 16), 1), {"size": 1}, "no parameter `size`"),
    ((f32(2, 16), f32(2, 16), 1), {"a": f32(2, 16)}, "twice"),
    ((f32(2, 16), f32(2, 16), f32(2, 16)), {}, "not annotated"),
    ((f32(2, 16), 3, Sizes(2)), {}, "must be a numpy array or a torch tensor"),
])
def test_wrong_calls(args, kwargs, text):
    with pytest.raises(RuntimeError, match=text) as e:
        scaled(*args, **kwargs)
    assert isinstance(e.value, pypto.PyptoError) and "test_jit.py" in e.value.line


def test_tensors_by_keyword_only_under_lenient():
    a, out = f32(2, 16), np.zeros((2, 16), np.float32)
    scaled(a, out=out, sizes=Sizes(2))
    assert np.array_equal(out, a * 3)
    with pypto.config(profile="master"), pytest.raises(RuntimeError, match="Expected at least 2 tensor"):
        scaled(a, out=out, sizes=Sizes(2))


def test_returned_values_are_refused_before_anything_runs():
    @pypto.frontend.jit
    def returns(a: pypto.Tensor, out: pypto.Tensor):
        out[:] = a
        return out
    out = np.zeros((2, 16), np.float32)
    with pytest.raises(ValueError, match="returns nothing"):
        returns(f32(2, 16), out)
    assert not out.any()


# --- several kernels, shapes, threads
def test_repeated_calls_with_new_shapes_and_the_cache():
    kernel = doubling(pypto.Tensor([DYN, 16], F32))
    for rows in (1, 2, 3, 2, 1):
        assert runs(kernel, rows, 16)
    assert len(kernel.cache) == 3 and kernel.last_run.cache_hit


def test_changed_globals_and_closures_are_seen():
    scale = 2.0

    @pypto.frontend.jit
    def k(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        out[:] = a * scale
    a, out = f32(4, 16), np.zeros((4, 16), np.float32)
    for scale in (2.0, 3.0, 2.0):
        k(a, out)
        assert np.array_equal(out, a * scale)
    assert k.last_run.cache_hit


class Held:
    """Attributes and a property, several levels down."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def value(self):
        return self.inner[0]


@pytest.mark.parametrize("where", ["attributes", "items", "property", "large array", "long list", "torch", "module",
                                   "environment"])
def test_state_named_by_a_chain_is_seen_however_deep(where, monkeypatch):
    deep, items, held = Held(Held(Held(Held([0.0])))), {"a": {"b": {"c": {"d": [0.0]}}}}, Held([0.0])
    large, long, module = np.zeros(1 << 17), [0.0] * 10000, types.ModuleType("settings")
    torch = pytest.importorskip("torch") if where == "torch" else None
    small = torch.zeros(3) if torch else None

    def attributes(): return deep.inner.inner.inner.inner[0]
    def in_items(): return items["a"]["b"]["c"]["d"][0]
    def of_property(): return held.value
    def in_array(): return large[123]
    def in_list(): return long[5]
    def in_torch(): return float(small[1])
    def in_module(): return module.scale
    def environment(): return float(os.environ["SCALE"])
    read, write = {
        "attributes": (attributes, lambda v: deep.inner.inner.inner.inner.__setitem__(0, v)),
        "items": (in_items, lambda v: items["a"]["b"]["c"]["d"].__setitem__(0, v)),
        "property": (of_property, lambda v: held.inner.__setitem__(0, v)),
        "large array": (in_array, lambda v: large.__setitem__(123, v)),
        "long list": (in_list, lambda v: long.__setitem__(5, v)),
        "torch": (in_torch, lambda v: small.__setitem__(1, v)),
        "module": (in_module, lambda v: setattr(module, "scale", v)),
        "environment": (environment, lambda v: monkeypatch.setenv("SCALE", str(v))),
    }[where]

    @pypto.frontend.jit
    def k(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        out[:] = a * float(read())
    a, out = f32(4, 16), np.zeros((4, 16), np.float32)
    for scale in (2.0, 3.0, 2.0):
        write(scale)
        k(a, out)
        assert np.array_equal(out, a * scale) and k.last_run.mode == "replay"
    k(a, out)
    assert k.last_run.cache_hit


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        self.two = two


def test_an_exception_of_the_kernel_tells_its_line_and_holds_no_arrays():
    def helper():
        raise Odd(1, 2)

    @pypto.frontend.jit
    def k(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        out[:] = a * 2.0
        helper()
    a, out = f32(4, 16), np.zeros((4, 16), np.float32)
    alive = weakref.ref(a)
    for _ in range(2):
        with pytest.raises(Odd) as e:
            k(a, out)
        (note,) = e.value.__notes__
        assert str(e.value) == "1 and 2" and e.value.two == 2
        assert "test_jit.py" in note and "in helper" in note and "raise Odd(1, 2)" in note
        assert np.array_equal(out, a * 2) and k.last_run.mode == "replay"
    del a, e
    gc.collect()
    assert alive() is None


def test_errors_from_below_get_the_kernels_line():
    bodies = [lambda a, i: a * (i * 1.5), lambda a, i: a * (i // 0), lambda a, i: a * (i + 2**63),
              lambda a, i: pypto.view(a, [4, 16], [np.array([0]), 0])]
    @pypto.frontend.jit
    def k(a: pypto.Tensor, out: pypto.Tensor, body=None):
        pypto.set_vec_tile_shapes(4, 16)
        for i in pypto.loop(2):
            out[:] = body(a, i)
    for body, mode in itertools.product(bodies, ("auto", "step")):
        with pytest.raises(pypto.PyptoError, match=r"test_jit.py:\d+, in kernel `k`") as e, pypto.config(mode=mode):
            k(f32(4, 16), np.zeros((4, 16), np.float32), body)
        assert e.value.line.startswith("test_jit.py:") and e.value.kernel == "k"


def module_kernel(a: pypto.Tensor, out: pypto.Tensor):
    pypto.set_vec_tile_shapes(4, 16)
    out[:] = a * 2.0


module_kernel = pypto.frontend.jit(module_kernel)


def test_kernels_are_pickled_by_name_and_copied_as_themselves():
    assert copy.deepcopy({"k": module_kernel})["k"] is module_kernel and copy.copy(module_kernel) is module_kernel
    assert module_kernel.__reduce__() == "module_kernel"


def test_generators_and_coroutines_are_no_kernels():
    def generator(a: pypto.Tensor, out: pypto.Tensor):
        yield
    async def coroutine(a: pypto.Tensor, out: pypto.Tensor):
        pass
    for f in (generator, coroutine):
        with pytest.raises(TypeError, match="plain function"):
            pypto.frontend.jit(f)


@pytest.mark.parametrize("mode", ["auto", "step"])
def test_handles_are_neither_copied_nor_taken_for_arrays(mode):
    @pypto.frontend.jit(mode=mode)
    def k(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        t = a * 2.0
        for use in (copy.copy, copy.deepcopy, pickle.dumps, np.asarray, lambda t: np.ones((4, 16)) + t):
            with pytest.raises(pypto.PyptoError):
                use(t)
        out[:] = np.float32(1) * t
    a, out = f32(4, 16), np.zeros((4, 16), np.float32)
    k(a, out)
    assert np.array_equal(out, a * 2)


def test_an_interrupt_ends_a_long_replay():
    @pypto.frontend.jit
    def k(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        for _ in pypto.loop(2**40):
            out[:] = a * 2.0
    with interrupted_after(0.5):
        k(f32(4, 16), np.zeros((4, 16), np.float32))
    assert runs(doubling(pypto.Tensor()), 4, 16)


def test_factories_make_separate_kernels():
    def make(scale):
        @pypto.frontend.jit
        def k(a: pypto.Tensor, out: pypto.Tensor):
            pypto.set_vec_tile_shapes(4, 16)
            out[:] = a * scale
        return k
    a, out = f32(4, 16), np.zeros((4, 16), np.float32)
    two, five = make(2.0), make(5.0)
    for kernel, scale in ((two, 2), (five, 5), (two, 2)):
        kernel(a, out)
        assert np.array_equal(out, a * scale)


def test_two_threads_at_once():
    kernel = doubling(pypto.Tensor([DYN, 16], F32))
    failed = []

    def work(rows):
        try:
            for n in range(20):
                with pypto.config(mode="step" if n % 5 == 0 else "auto"):
                    assert runs(kernel, rows + n % 3, 16)
                    assert kernel.last_run.mode == ("step" if n % 5 == 0 else "replay")
        except BaseException as e:  # noqa: BLE001 - reported below
            failed.append(e)
    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_a_kernel_inside_a_kernel_is_inlined():
    inner = doubling(pypto.Tensor([4, 16], F32))

    @pypto.frontend.jit
    def outer(a: pypto.Tensor, out: pypto.Tensor):
        pypto.set_vec_tile_shapes(4, 16)
        t = pypto.tensor([4, 16], F32, "t")
        inner(a + 1.0, t)
        out[:] = t
    a, out = f32(4, 16), np.zeros((4, 16), np.float32)
    outer(a, out)
    assert np.array_equal(out, (a + 1) * 2)

    @pypto.frontend.jit
    def wrong(a: pypto.Tensor, out: pypto.Tensor):
        inner(a, np.zeros((4, 16), np.float32))
    with pytest.raises(RuntimeError, match="must be a tensor of that kernel"):
        wrong(a, out)


# --- options
def test_unknown_options_name_the_nearest():
    with pytest.raises(KeyError, match="runtime_options"):
        pypto.frontend.jit(runtime_option={})
    with pytest.raises(KeyError, match="stitch_function_max_num"):
        doubling(pypto.Tensor, runtime_options={"stitch_function_max": 3})
    with pytest.raises(RuntimeError, match="RunMode"):
        doubling(pypto.Tensor, runtime_options={"run_mode": 7})
    with pytest.raises(ValueError, match="1 to 1024"):
        doubling(pypto.Tensor, runtime_options={"stitch_function_max_num": 0})


def test_jit_options_win_over_config():
    kernel = doubling(pypto.Tensor([4, 16], F32), profile="master", mode="step")
    with pypto.config(profile="lenient", mode="auto"):
        assert runs(kernel, 4, 16)
    assert kernel.last_run.mode == "step"
    with pytest.raises(RuntimeError, match="positional"):
        kernel(f32(4, 16), out=f32(4, 16))


def test_options_as_decorator_of_a_kernel():
    seen = []

    @pypto.options(vec_tile_shapes=[4, 16], pass_options={"enable_slice": True})
    @pypto.frontend.jit
    def k(a: pypto.Tensor, out: pypto.Tensor):
        seen.append((pypto.get_vec_tile_shapes(), pypto.get_pass_options()["enable_slice"]))
        out[:] = a * 2.0
    assert runs(k, 4, 16)
    assert seen[-1] == ([4, 16], True)
    assert not [f for f in k.last_run.warnings if f.rule == "tile.vec_unset"]


def test_last_run_before_the_first_call():
    with pytest.raises(RuntimeError, match="not been called"):
        _ = doubling(pypto.Tensor).last_run


# --- outside jit
def test_function_context():
    a = pypto.from_torch(f32(4, 16), "a")
    data = np.zeros((4, 16), np.float32)
    out = pypto.from_torch(data, "out")
    with pypto.function("f", a, out):
        pypto.set_vec_tile_shapes(1, 16)
        for i in pypto.loop(4):
            if pypto.cond(i == 2):
                pypto.assemble(a[i:i + 1] * 2.0, [i, 0], out)
            else:
                pypto.assemble(a[i:i + 1], [i, 0], out)
        with pytest.raises(RuntimeError, match="nested"), pypto.function("g", a):
            pass
    want = f32(4, 16)
    want[2] *= 2
    assert np.array_equal(data, want)
    with pytest.raises(RuntimeError, match="kernel"):
        a + 1.0


def test_a_warning_is_given_once_a_line(tmp_path):
    script = tmp_path / "often.py"
    script.write_text("""
import numpy as np
import pypto_sim as pypto

@pypto.frontend.jit
def doubled(x: pypto.Tensor([], pypto.DT_FP32), y: pypto.Tensor([], pypto.DT_FP32)):
    y[:] = x * 2.0                      # no tile is set

for size in (8, 16):                    # two signatures, two traces
    for _ in range(3):
        doubled(np.ones((size, 8), np.float32), np.zeros((size, 8), np.float32))
""")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    shown = [line for line in done.stderr.splitlines() if "tile.vec_unset" in line]
    assert len(shown) == len(set(shown)) == 2          # their texts name the tiles; each once
