"""Names of the configuration, debugging and framework part of the interface."""
import logging

import numpy as np
import pytest

import pypto_sim as pypto
from pypto_sim.ops.option_table import OPTIONS, listing
from pypto_sim.trace.context import holder

FP32 = pypto.DT_FP32
ANY = pypto.Tensor([...], FP32)
L1 = dict(tileHin=8, tileHout=8, tileWin=8, tileWout=8, tileCinFmap=16, tileCinWeight=16, tileN=16)


@pytest.fixture(autouse=True)
def own_scope():
    h = holder()
    saved = h.scope
    yield
    h.scope = saved


def ones(*shape):
    return np.ones(shape, np.float32)


def test_convolution_tile():
    assert pypto.get_conv_tile_shapes() == (pypto.TileL1Info(), pypto.TileL0Info(), False)
    l1, l0 = pypto.TileL1Info(**L1), pypto.TileL0Info(8, 8, 16, 16)
    pypto.set_conv_tile_shapes(l1, l0)
    l1.tileN = 1                                     # the caller's object; the tile in force stays
    assert pypto.get_conv_tile_shapes() == (pypto.TileL1Info(**L1), l0, True)
    with pypto.options(conv_tile_shapes=pypto.TileL1Info(**{**L1, "tileN": 32})):
        assert pypto.get_conv_tile_shapes()[0].tileN == 32 and not pypto.get_conv_tile_shapes()[2]
    assert pypto.get_conv_tile_shapes()[0].tileN == 16


@pytest.mark.parametrize(("change", "text"), [({"tileN": 8}, "tileN must be a multiple of 16"),
                                              ({"tileBatch": 2}, "tileBatch must be 1"), ({"tileHin": 0}, "tileHin")])
def test_convolution_tile_that_the_chip_cannot_take(change, text):
    with pytest.raises(pypto.error.TileError, match=text) as e:
        pypto.set_conv_tile_shapes(pypto.TileL1Info(**{**L1, **change}))
    assert e.value.rule == "tile.conv" and e.value.line.startswith("test_configuration.py:")
    with pytest.raises(TypeError, match="takes a TileL1Info"):
        pypto.set_conv_tile_shapes([1, 2])


@pytest.mark.parametrize("profile", ["lenient", "0.2", "master", "guide"])
def test_convolution_wants_its_tile(profile):
    @pypto.frontend.jit(profile=profile)
    def kernel(x: ANY, w: ANY, out: ANY):
        pypto.set_vec_tile_shapes(1, 16, 16)
        out[:] = pypto.conv(x, w, FP32, [1], [0], [1])
    arguments = (ones(1, 16, 8), ones(16, 16, 1), np.zeros((1, 16, 8), np.float32))
    if profile == "lenient":
        with pytest.warns(pypto.PyptoWarning, match="tile.conv_unset"):
            kernel(*arguments)
        assert (arguments[-1] == 16).all()
    else:
        with pytest.raises(pypto.error.TileError):
            kernel(*arguments)
    pypto.set_conv_tile_shapes(pypto.TileL1Info(**L1))
    kernel(*arguments)
    assert "tile.conv_unset" not in [f.rule for f in kernel.last_run.warnings]


def test_cube_tile_takes_lists():
    tile = pypto.CubeTile([16, 32], [64, 128], [16, 16], enable_split_k=True)
    with pypto.options(cube_tile_shapes=tile):
        assert pypto.get_cube_tile_shapes() == ([16, 32], [64, 128, 128], [16, 16], True)


def test_every_option_is_accepted_and_has_its_row_in_the_docs():
    values = {"run_mode": 1, "ready_on_host_tensors": ["a"], "ooo_sched_mode": "HLF", "soc_version": "Ascend910B1",
              "vf_options": "x", "compile_stage": pypto.CompStage.TILE_GRAPH, "pass_verify_save_tensor_dir": "d",
              "pass_verify_error_tol": [0.1, 0.2], "dump_pass_graph": [], "pass_verify_pass_filter": []}
    for group, known in OPTIONS.items():
        setter = getattr(pypto, f"set_{group}_options", None) or pypto.experimental.set_operation_options
        getter = getattr(pypto, f"get_{group}_options", None) or pypto.experimental.get_operation_options
        for name, option in known.items():
            value = values.get(name, {"DEFAULT": 2} if name.endswith("_setting") else 1)
            assert option.check(value), name
            setter(**{name: value})
            assert getter()[name] == value
    assert len(listing()) == sum(map(len, OPTIONS.values())) and all(r["here"] for r in listing())


def test_documented_defaults_are_seen():
    assert pypto.get_runtime_options() == {"stitch_function_max_num": 128, "max_workspace_kb": 0,
                                           "device_sched_parallelism": 1, "launch_sched_aicpu_num": 7}
    assert pypto.get_host_options() == {"compile_timeout": 600, "compile_monitor_print_interval": 60}
    assert pypto.get_verify_options() == {"pass_verify_error_tol": [1e-3, 1e-3]}
    pypto.get_verify_options()["pass_verify_error_tol"].append(1)
    assert pypto.get_verify_options() == {"pass_verify_error_tol": [1e-3, 1e-3]}


@pytest.mark.parametrize(("profile", "option"), [("0.2", {"enable_slice": True}), ("master", {"pg_upper_bound": 3})])
def test_option_of_the_other_release(profile, option):
    with pypto.config(profile=profile), pytest.raises(TypeError, match="only .* has it") as e:
        pypto.set_pass_options(**option)
    assert e.value.rule == "option.version"
    pypto.set_pass_options(**option)                 # lenient takes both

    @pypto.frontend.jit(pass_options=option, profile=profile)
    def kernel(out: ANY):
        pypto.set_vec_tile_shapes(8)
        out[:] = pypto.zeros(4)
    with pytest.raises(KeyError):
        kernel(ones(4))


def test_global_configuration():
    assert pypto.get_global_config("runtime.stitch_function_max_num") == 128
    pypto.set_global_config("stitch_function_max_num", 64)
    assert pypto.get_global_config("runtime.stitch_function_max_num") == 64
    assert pypto.get_runtime_options()["stitch_function_max_num"] == 64
    assert pypto.get_global_config("vf_options") is None
    with pytest.raises(KeyError, match="did you mean 'runtime.stitch_function_max_num'"):
        pypto.set_global_config("runtime.stitch_function_max", 1)
    with pytest.raises(ValueError):
        pypto.set_global_config("stitch_function_max_num", 0)


def test_pass_configuration():
    key = pypto.PassConfigKey.KEY_DUMP_GRAPH
    assert pypto.get_pass_default_config(key, True) and not pypto.get_pass_config("s", "p", key, False)
    pypto.set_pass_config("s", "p", key, True)
    assert pypto.get_pass_config("s", "p", key, False) and not pypto.get_pass_config("s", "q", key, False)
    assert pypto.get_pass_configs("s", "p") == pypto.PassConfigs("s", "p", True)
    with pytest.raises(TypeError):
        pypto.set_pass_default_config("KEY_DUMP_GRAPH", True)


def test_platform():
    assert pypto.platform.npuarch == "DAV_2201"
    with pypto.config(device="950dt"):
        assert pypto.platform.npuarch == "DAV_3510"
        pypto.platform.npuarch = "DAV_3510"          # already: the device stays
        seen = []

        @pypto.frontend.jit(device="910b2")
        def kernel(out: ANY):
            seen.append(pypto.platform.npuarch)
            pypto.set_vec_tile_shapes(8)
            out[:] = pypto.zeros(4)
        kernel(ones(4))
        assert seen[-1] == "DAV_2201" and pypto.platform.npuarch == "DAV_3510"
        pypto.platform.npuarch = "DAV_2201"
        assert pypto.platform.npuarch == "DAV_2201"
    with pytest.raises(ValueError, match="did you mean 'DAV_3510'"):
        pypto.platform.npuarch = "DAV_3511"


def test_log_and_check_helpers(caplog):
    before = pypto.get_log_level()
    try:
        pypto.set_log_level(pypto.LogLevel.ERROR)
        assert pypto.get_log_level() is pypto.LogLevel.ERROR
        for name in ("debug", "info", "warn", "error", "fatal", "event"):
            getattr(pypto, f"log_{name}")("message", name)
        assert [r.getMessage() for r in caplog.records] == ["message error", "message fatal", "message event"]
        assert {r.name for r in caplog.records} == {"pypto"} and caplog.records[-1].levelno > logging.CRITICAL
    finally:
        pypto.set_log_level(before)
        logging.getLogger("pypto").setLevel(logging.NOTSET)
    pypto.check(True, "fine"), pypto.internal_check(1)
    with pytest.raises(RuntimeError, match="CHECK FAILED: rows 3"):
        pypto.check(False, "rows", 3)
    with pytest.raises(pypto.InternalError):
        pypto.internal_check(0)
    with pytest.raises(ValueError, match="bad 1"):
        pypto.raise_error(ValueError, "bad", 1)
    with pytest.raises(RuntimeError, match="text 2"):
        pypto.raise_error("text", 2)


def test_scalar_helpers():
    n = pypto.symbolic_scalar("n")
    Status, four = pypto.SatStatus, pypto.SymbolicScalar(4)
    assert n.check([n > 3]) is Status.UNKNOWN and pypto.SymbolicScalar.check([n > 3, 0]) is Status.UNSAT
    assert four.check(four > 3) is Status.SAT
    assert n.as_expr() is n and n.as_var() is n and n.simplify() is n and n.as_variable() is None
    assert checks_in("step") == [Status.SAT] * 2 + [Status.UNSAT] and checks_in("auto")[-3:] == checks_in("step")


def checks_in(mode):
    """What SymbolicScalar.check says of the indices of a loop."""
    noted = []

    @pypto.frontend.jit(mode=mode)
    def kernel(out: ANY):
        for i in pypto.loop(3):
            noted.append(i.check([i >= 0, i < 2]))
        pypto.set_vec_tile_shapes(8)
        out[:] = pypto.zeros(4)
    kernel(ones(4))
    return noted


def test_tensor_helpers():
    seen = {}

    @pypto.frontend.jit
    def kernel(a: ANY, out: ANY, low: ANY, up: ANY):
        pypto.set_vec_tile_shapes(4, 16)
        t = a.copy("t")
        t.fill_(3.0)
        seen["same"] = (t.shape == [4, 16] and t.dtype is FP32 and t.name == "t" and not t.is_empty()
                        and pypto.Tensor.from_base(t.base()) is t and t.to_tensor("u") is t and t.name == "u"
                        and pypto.Tensor.from_logical_tensor(t.logical_tensor()) is t)
        out[:] = t + a
        b = pypto.clone(a)
        b.tril_()
        low.move(b)
        c = pypto.tensor([4, 16], FP32, "c")
        c.set_logical_tensor(a)
        c.triu_(1)
        up.move(c)
    a = np.arange(64, dtype=np.float32).reshape(4, 16)
    out, low, up = ones(4, 16), ones(4, 16), ones(4, 16)
    kernel(a, out, low, up)
    assert seen["same"] and (out == a + 3).all() and (low == np.tril(a)).all() and (up == np.triu(a, 1)).all()
    note = pypto.Tensor([pypto.DYNAMIC, 4], FP32, "x")
    assert note.is_empty() and note.copy("y").name == "y" and note.copy().shape == note.shape
    with pytest.raises(TypeError):
        pypto.Tensor.from_base(3)


def test_in_place_triangle_of_an_argument():
    @pypto.frontend.jit
    def kernel(a: ANY):
        pypto.set_vec_tile_shapes(4, 16)
        a.triu_()
    a = ones(4, 16)
    kernel(a)
    assert (a == np.triu(ones(4, 16))).all() and not kernel.last_run.warnings


@pytest.mark.parametrize("profile", ["lenient", "0.2", "master"])
def test_method_that_is_documented_only(profile):
    @pypto.frontend.jit(profile=profile)
    def kernel(a: ANY, out: ANY):
        pypto.set_vec_tile_shapes(4, 16)
        out[:] = pypto.Tensor.concat([a, a], 0)
    out = np.zeros((8, 16), np.float32)
    if profile == "lenient":
        with pytest.warns(pypto.PyptoWarning, match="Tensor.concat is documented but in no release"):
            kernel(ones(4, 16), out)
        assert (out == 1).all()
    else:
        with pytest.raises(NotImplementedError):
            kernel(ones(4, 16), out)


def test_distributed_names_have_their_parameters_and_refuse():
    with pytest.raises(NotImplementedError, match="pypto.distributed.shmem_put: several devices"):
        pypto.distributed.shmem_put(1, [0], 2, 0)


@pypto.frontend.jit(verify_options={"enable_pass_verify": True})
def doubled(a: ANY, out: ANY):
    pypto.set_vec_tile_shapes(4, 16)
    for i in pypto.loop(2):
        part = pypto.view(a, [2, 16], [2 * i, 0])
        pypto.pass_verify_print("part", i, part, cond=i == 1)
        pypto.pass_verify_save(part, "part_$n", n=i)
        pypto.assemble(part * 2.0, [2 * i, 0], out)


def test_printing_and_saving_intermediates(tmp_path, capsys):
    a = np.arange(64, dtype=np.float32).reshape(4, 16)
    with pypto.options(verify_options={"pass_verify_save_tensor_dir": str(tmp_path / "d")}):
        doubled(a, ones(4, 16))
    assert capsys.readouterr().out.count("part 1") == 1
    assert sorted(f.name for f in (tmp_path / "d").iterdir()) == ["part_0.npy", "part_1.npy"]
    assert (np.load(tmp_path / "d" / "part_1.npy") == a[2:]).all()
    quiet = pypto.frontend.jit(doubled.function)
    quiet(a, ones(4, 16))
    assert capsys.readouterr().out == "" and quiet.last_run.mode == "replay"
    assert pypto.estimate(quiet, a, ones(4, 16)).cycles > 0

    @pypto.frontend.jit
    def missing(a: ANY, out: ANY):
        pypto.pass_verify_save(a, "x_$row")
        out[:] = a
    with pytest.raises(KeyError):
        missing(a, ones(4, 16))


def test_golden_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    a, out = ones(4, 16), np.zeros((4, 16), np.float32)
    try:
        pypto.set_verify_golden_data([out], [2 * a])
        doubled(a, out)
        pypto.set_verify_golden_data([a, out], [None, 2 * a + 0.01])
        with pytest.raises(RuntimeError, match=r"64 of 64 elements differ .* worst at \[0, 0\]: 2.0, expected 2.0099"):
            doubled(a, out)
        with pypto.options(verify_options={"pass_verify_error_tol": [0.0, 0.1]}):
            doubled(a, out)
        pypto.frontend.jit(doubled.function)(a, out)          # not enabled: not compared
        pypto.set_verify_golden_data(goldens=[None, 2 * a])   # the arguments in order
        doubled(a, out)
        pypto.set_verify_golden_data(goldens=[None, a])
        with pytest.raises(RuntimeError, match="`doubled`, golden 1: 64 of 64"):
            doubled(a, out)
        pypto.set_verify_golden_data(goldens=[a])
        with pytest.raises(RuntimeError, match="2 tensor arguments, .* got 1 goldens"):
            doubled(a, out)
    finally:
        pypto.set_verify_golden_data()
    pypto.verify(doubled, [a], [out], [2 * a])
    with pytest.raises(RuntimeError, match="`doubled`, golden 0"):
        pypto.verify(doubled, [a], [out], [a])

    def plain(a, out, factor):
        pypto.set_vec_tile_shapes(4, 16)
        out[:] = a * factor
    pypto.verify(plain, [a], [out], [3 * a], 3.0, verify_options={"pass_verify_error_tol": [0, 0]})
    assert (out == 3).all()


def test_handles_of_kernels():
    assert pypto.get_current_function() is None
    seen = []

    @pypto.frontend.jit
    def kernel(out: ANY):
        seen.append(pypto.get_current_function().name)
        pypto.set_vec_tile_shapes(8)
        out[:] = pypto.zeros(4)
    kernel(ones(4))
    assert seen == ["kernel"] and isinstance(pypto.get_last_function(), pypto.Function)
    assert pypto.get_last_function().name == "kernel" and "full" in pypto.get_last_function().dump()


def test_a_label_must_not_look_like_a_function():
    with pytest.raises(ValueError, match="form of a function's name"):
        pypto.set_semantic_label("func8_0")
