"""Custom operators for the NPU key, torch.compile on NPU backends, graphs, streams, formats, torch_npu's functions."""
import itertools
import warnings

import pytest

import pypto_sim as pypto

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("alias")
names = (f"pypto_test_{n}" for n in itertools.count())


@pypto.frontend.jit
def add_one(x: pypto.Tensor([pypto.DYNAMIC, 64], pypto.DT_FP32), out: pypto.Tensor([pypto.DYNAMIC, 64], pypto.DT_FP32)):
    pypto.set_vec_tile_shapes(8, 64)
    for i in pypto.loop(pypto.ceildiv(x.shape[0], 8)):
        pypto.assemble(pypto.view(x, [8, 64], [i * 8, 0]) + 1.0, [i * 8, 0], out)


def on_npu_only(x):
    """An operator's implementation as production code has it."""
    assert x.device.type == "npu" and x.is_npu
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    add_one(x, out)
    assert out.device == x.device
    return out


@pytest.mark.parametrize("key", ["PrivateUse1", "NPU", "npu"])
@pytest.mark.parametrize("form", ["decorator", "method", "library key"])
def test_library_keys(key, form):
    ns = next(names)
    lib = torch.library.Library(ns, "DEF")
    lib.define("plus(Tensor x) -> Tensor")
    if form == "decorator":
        torch.library.impl(lib, "plus", key)(on_npu_only)
    elif form == "method":
        lib.impl("plus", on_npu_only, key)
    else:
        torch.library.Library(ns, "IMPL", key if key != "npu" else "PrivateUse1").impl("plus", on_npu_only)
    x = torch.zeros(8, 64, device="npu:0")
    for call in (getattr(torch.ops, ns).plus, getattr(torch.ops, ns).plus.default):
        y = call(x)
        assert y.is_npu and (y == 1).all()


def test_the_npus_implementation_wins_for_npu_tensors_only():
    lib = torch.library.Library(next(names), "DEF")
    lib.define("plus(Tensor x) -> Tensor")
    lib.impl("plus", lambda x: x + 100, "CPU")
    lib.impl("plus", on_npu_only, "PrivateUse1")
    lib.impl("plus", lambda x: torch.empty_like(x), "Meta")
    op = getattr(torch.ops, lib.ns).plus
    assert (op(torch.zeros(8, 64)) == 100).all() and (op(torch.zeros(8, 64).npu()) == 1).all()
    assert op(torch.zeros(8, 64, device="meta")).device.type == "meta"


@pytest.mark.parametrize("device_types", ["npu", ("npu",), None])
def test_custom_op(device_types):
    @torch.library.custom_op(f"{next(names)}::plus", mutates_args=(), device_types=device_types)
    def plus(x: torch.Tensor) -> torch.Tensor:
        return on_npu_only(x) if x.device.type == "npu" else x + 100

    x = torch.zeros(8, 64, device="npu")
    assert (plus(x) == 1).all() and plus(x).is_npu

    @plus.register_kernel("cpu")
    def _(x):
        return x + 7
    assert (plus(torch.zeros(8, 64)) == 7).all() and (plus(x) == 1).all()


def full_on(n: int, device: torch.device) -> torch.Tensor:
    return torch.full((n,), 1.0 if device.type == "npu" else 100.0, device=device)


@pytest.mark.parametrize("device_types", ["npu", ("npu", "cpu"), None])
def test_custom_op_without_tensors_goes_by_its_device(device_types):
    ns = next(names)
    made = torch.library.custom_op(f"{ns}::made", mutates_args=(), device_types=device_types)(full_on)
    op = getattr(torch.ops, ns).made
    for call in (made, op, op.default):
        for device in (torch.device("npu"), torch.device("npu", 0), "npu:0"):
            for y in (call(3, device), call(n=3, device=device)):
                assert y.is_npu and y.device == torch.device("npu:0") and y.tolist() == [1, 1, 1]
    if device_types != "npu":
        y = made(3, torch.device("cpu"))
        assert y.device.type == "cpu" and not isinstance(y, type(torch.ones(1).npu())) and y.tolist() == [100] * 3


def test_custom_op_without_tensors_per_device_and_nested():
    ns = next(names)
    made = torch.library.custom_op(f"{ns}::made", mutates_args=(), device_types="cpu")(full_on)

    @made.register_kernel("npu")
    def _(n, device):
        assert device.type == "npu"
        return made(n, torch.device("cpu")).npu() + 1
    assert made(2, torch.device("npu")).tolist() == [101, 101] and made(2, torch.device("cpu")).tolist() == [100, 100]
    other = torch.library.custom_op(f"{ns}::other", mutates_args=(), device_types="cuda")(full_on)
    with pytest.raises(RuntimeError, match="other does not have a kernel registered for cpu"):
        other(2, torch.device("cpu"))


def test_operators_of_the_npu_take_cpu_tensors_too():
    ns = next(names)
    torch.library.define(f"{ns}::plus", "(Tensor x) -> Tensor")
    torch.library.impl(f"{ns}::plus", "PrivateUse1")(lambda x: x + 1)

    @torch.library.custom_op(f"{ns}::twice", mutates_args=(), device_types="npu")
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2
    for call, value in ((getattr(torch.ops, ns).plus, 4), (twice, 6), (getattr(torch.ops, ns).twice, 6)):
        y = call(torch.full((2,), 3.0))
        assert y.tolist() == [value] * 2 and y.device.type == "cpu"


def test_registering_by_qualified_name():
    ns = next(names)
    torch.library.define(f"{ns}::fill", "(Tensor(a!) x, float v) -> ()")

    @torch.library.impl(f"{ns}::fill", "npu")
    def fill(x, v):
        x.fill_(v)
    x = torch.zeros(3, device="npu")
    getattr(torch.ops, ns).fill(x, 2.0)
    assert x.tolist() == [2, 2, 2]


def test_torchs_own_operators_stay():
    lib = torch.library.Library("aten", "IMPL")
    with pytest.warns(pypto.PyptoWarning, match="aten::neg"):
        lib.impl("neg", lambda x: x, "PrivateUse1")
    assert torch.neg(torch.ones(2, device="npu")).tolist() == [-1, -1]


def test_autograd_function():
    class Plus(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return on_npu_only(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2
    x = torch.zeros(8, 64, device="npu", requires_grad=True)
    y = Plus.apply(x)
    y.sum().backward()
    assert (y == 1).all() and (x.grad == 2).all()


def test_compile_on_the_npus_backends_is_identity():
    import torchair as tng
    from torchair.configs.compiler_config import CompilerConfig
    config = CompilerConfig()
    config.mode = "max-autotune"
    config.experimental_config.frozen_parameter = True
    backend = tng.get_npu_backend(compiler_config=config)
    model = torch.nn.Linear(2, 2)
    for options in ({"backend": backend, "dynamic": False, "fullgraph": True}, {"backend": "npu"},
                    {"backend": "npugraph_ex"}):
        assert torch.compile(model, **options) is model
        assert torch.compile(**options)(add_one) is add_one
        model.compile(**options)
    assert tng.inference.cache_compile(on_npu_only) is on_npu_only
    from torch_npu.dynamo import torchair
    assert torchair.CompilerConfig is tng.CompilerConfig


def test_compile_on_torchs_backends_keeps_kernels_whole():
    def double(x):
        out = torch.zeros_like(x)
        add_one(x, out)
        return out * 2
    x = torch.zeros(8, 64, device="npu")
    for backend in ("eager", "aot_eager"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert (torch.compile(double, backend=backend)(x) == 2).all()
    assert torch.compile(torch.nn.Linear(64, 2).npu(), backend="aot_eager")(x).is_npu


def test_graph_replays_into_the_same_tensors():
    g = torch.npu.NPUGraph()
    x, out = torch.zeros(8, 64, device="npu"), torch.zeros(8, 64, device="npu")
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side), torch.npu.graph(g, stream=side):
        assert torch.npu.is_current_stream_capturing()
        scaled = x * 3
        add_one(scaled, out)
        parts = out.view(16, 32).sum(1)
        parts += 1
        top = torch.topk(parts, 2)
    assert not torch.npu.is_current_stream_capturing() and (out == 1).all() and top.values.tolist() == [33, 33]
    x.fill_(2)
    assert (out == 1).all()
    g.replay()
    assert (out == 7).all() and (scaled == 6).all() and top.values.tolist() == [7 * 32 + 1] * 2
    g.reset()
    x.fill_(5)
    g.replay()
    assert (out == 7).all()


def test_graph_mistakes():
    g = torch.npu.NPUGraph()
    g.capture_begin()
    with pytest.raises(RuntimeError, match="captured already"):
        torch.npu.NPUGraph().capture_begin()
    with pytest.raises(RuntimeError, match="still being captured"):
        g.replay()
    g.capture_end()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        g.capture_end()


def test_graph_of_a_custom_operator_counts_its_kernel_once():
    lib = torch.library.Library(next(names), "DEF")
    lib.define("plus(Tensor x) -> Tensor")
    lib.impl("plus", on_npu_only, "PrivateUse1")
    x, g = torch.zeros(8, 64, device="npu"), torch.npu.NPUGraph()
    with torch.npu.graph(g):
        y = getattr(torch.ops, lib.ns).plus(x)
    x.fill_(4)
    g.replay()
    assert (y == 5).all() and len(g._steps) == 1


def test_streams_events_memory_devices():
    npu = torch.npu
    assert npu.is_available() and npu.device_count() == 1 and npu.current_device() == 0
    npu.set_device("npu:2")
    assert npu.current_device() == 2 and npu.device_count() == 3 and torch.ones(1, device="npu").device.index == 2
    with npu.device(0):
        assert npu.current_device() == 0 and torch.ones(1).npu().device.index == 0
    npu.set_device(torch.device("npu", 0))
    start, end = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
    start.record()
    stream = npu.Stream()
    with npu.stream(stream):
        assert npu.current_stream() is stream
        torch.ones(2).npu().record_stream(stream)
    assert npu.current_stream() is npu.default_stream()
    stream.record_event().wait()
    end.record()
    npu.synchronize()
    assert start.elapsed_time(end) >= 0 and end.query()
    with pytest.raises(RuntimeError, match="enable_timing"):
        start.elapsed_time(npu.Event())
    npu.empty_cache()
    free, total = npu.mem_get_info()
    assert 0 < free < total and npu.memory_allocated() == npu.max_memory_allocated() == 0
    with pypto.config(device="910b4"):
        assert npu.get_device_name() == "Ascend910B4" and npu.get_device_properties(0).cube_core_num == 20
    with pytest.raises(RuntimeError, match="npu device"):
        npu.set_device("cuda:0")
    npu.set_compile_mode(jit_compile=False)
    npu.config.allow_internal_format = False
    with pytest.raises(AttributeError, match=r"torch\.npu\.nothing is not stood in for"):
        npu.nothing  # noqa: B018


def test_formats_are_remembered_per_tensor():
    import torch_npu
    x = torch.randn(32, 64, device="npu")
    nz = torch_npu.npu_format_cast(x, 29)
    assert torch_npu.get_npu_format(nz) == torch_npu.Format.FRACTAL_NZ == 29 and torch_npu.get_npu_format(x) == 2
    assert torch.equal(nz, x) and nz.data_ptr() != x.data_ptr() and torch_npu.npu_format_cast(nz, 29) is nz
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(nz, torch_npu.Format.ND)) == 2
    assert torch_npu.get_npu_format(nz.npu()) == 29 and torch_npu.get_npu_format(nz + 1) == 2
    torch_npu.npu_format_cast_(x, nz)
    assert torch_npu.get_npu_format(x) == 29
    assert torch_npu.get_npu_format(torch_npu.empty_with_format((2, 3), dtype=torch.float16, acl_format=29)) == 29
    with pytest.raises(RuntimeError, match="unknown npu format 77.*29 FRACTAL_NZ"):
        torch_npu.npu_format_cast(x, 77)
    with pytest.warns(pypto.PyptoWarning, match=r"the tensor is on cpu, the device refuses it; move it with \.npu"):
        assert torch_npu.get_npu_format(torch.ones(2)) == 2
    with pytest.warns(pypto.PyptoWarning, match="npu_format_cast"):
        assert torch.npu.get_npu_format(torch.npu.npu_format_cast(torch.ones(2), 29)) == 29


def test_a_kernel_sees_the_format():
    import torch_npu
    seen = []

    @pypto.frontend.jit
    def product(a: pypto.Tensor([16, 32], pypto.DT_BF16), b: pypto.Tensor([32, 64], pypto.DT_BF16),
                out: pypto.Tensor([16, 64], pypto.DT_FP32)):
        seen.append(b.format)
        pypto.set_cube_tile_shapes([16, 16], [32, 32], [64, 64])
        out[:] = pypto.matmul(a, b, pypto.DT_FP32)

    a, b = torch.randn(16, 32, device="npu").bfloat16(), torch.randn(32, 64, device="npu").bfloat16()
    out = torch.zeros(16, 64, device="npu")
    product(a, b, out)
    again = torch.zeros_like(out)
    product(a, torch_npu.npu_format_cast(b, 29), again)
    assert set(seen) == {pypto.TileOpFormat.TILEOP_ND, pypto.TileOpFormat.TILEOP_NZ}
    assert torch.equal(out, again)
    torch.testing.assert_close(out.cpu(), a.cpu().float() @ b.cpu().float(), rtol=1e-4, atol=1e-4)
    assert pypto.from_torch(torch_npu.npu_format_cast(b, 29)).format is pypto.TileOpFormat.TILEOP_NZ


def test_tensors_of_one_launch_lie_on_one_device():
    x, out = torch.zeros(8, 64, device="npu"), torch.zeros(8, 64)
    with pytest.warns(pypto.PyptoWarning, match="kernel `add_one` gets tensors on the NPU and on the CPU") as caught:
        add_one(x, out)
    assert (out == 1).all() and caught[0].filename == __file__
    with pypto.config(profile="master"), pytest.raises(RuntimeError, match="on the NPU and on the CPU"):
        add_one(x, out)
    add_one(torch.zeros(8, 64), out)


def test_functions_for_goldens():
    import torch_npu
    x, g = torch.randn(4, 8, device="npu"), torch.rand(8, device="npu")
    y, rstd = torch_npu.npu_rms_norm(x, g, 1e-5)
    torch.testing.assert_close(y.cpu(), torch.nn.functional.rms_norm(x.cpu(), (8,), g.cpu(), 1e-5))
    assert rstd.shape == (4, 1)
    a, b = x.cpu().chunk(2, -1)
    torch.testing.assert_close(torch_npu.npu_swiglu(x).cpu(), torch.nn.functional.silu(a) * b)
    cos, sin = torch.rand(4, 8), torch.rand(4, 8)
    turned = torch_npu.npu_rotary_mul(x.cpu(), cos, sin)
    torch.testing.assert_close(turned, x.cpu() * cos + torch.cat((-b, a), -1) * sin)
    even, odd = x.cpu()[:, ::2], x.cpu()[:, 1::2]
    turned = torch_npu.npu_rotary_mul(x.cpu(), cos, sin, "interleave")
    torch.testing.assert_close(turned[:, ::2], even * cos[:, ::2] - odd * sin[:, ::2])
    torch.testing.assert_close(turned[:, 1::2], odd * cos[:, 1::2] + even * sin[:, 1::2])
    q, scale = torch_npu.npu_dynamic_quant(x)
    assert q.dtype == torch.int8 and q.abs().amax(-1).tolist() == [127] * 4
    assert ((q * scale[:, None] - x).abs() <= scale[:, None] / 2 * 1.001).all()
    table = torch.zeros(4, 2, device="npu")
    torch_npu.npu_scatter_nd_update_(table, torch.tensor([[1], [3]]), torch.ones(2, 2))
    assert table.tolist() == [[0, 0], [1, 1], [0, 0], [1, 1]]
    with pytest.raises(AttributeError, match=r"torch_npu\.npu_multi_head_attention is not stood in for"):
        torch_npu.npu_multi_head_attention  # noqa: B018
    assert not hasattr(torch_npu, "npu_nothing")


def test_profiler_runs_the_block_and_records_nothing():
    import torch_npu
    p = torch_npu.profiler
    config = p._ExperimentalConfig(profiler_level=p.ProfilerLevel.Level1, aic_metrics=p.AiCMetrics.PipeUtilization)
    with p.profile(activities=[p.ProfilerActivity.CPU, p.ProfilerActivity.NPU], experimental_config=config,
                   schedule=p.schedule(wait=0, warmup=0, active=1, repeat=1),
                   on_trace_ready=p.tensorboard_trace_handler("./result")) as prof:
        for _ in range(2):
            prof.step()
    assert prof.step_num == 2
    with pytest.raises(RuntimeError, match="pypto-sim profile"):
        prof.export_chrome_trace("x.json")


def test_torch_npu_testcase():
    from torch_npu.testing.testcase import TestCase
    case = TestCase()
    case.assertRtolEqual(torch.ones(2).npu(), torch.ones(2) + 1e-6)
    with pytest.raises(AssertionError):
        case.assertRtolEqual(torch.ones(2), torch.ones(2) + 1e-2)
    with pytest.raises(AssertionError):
        case.assertRtolEqual(torch.tensor([float("nan")]), torch.ones(1))


def test_torch_npu_testcase_compares_tensors():
    from torch_npu.testing.testcase import TestCase
    case, x = TestCase(), torch.arange(4.0).npu()
    case.assertEqual(x, torch.arange(4.0))
    case.assertEqual(x.numpy(), x)
    case.assertEqual([x, x], [x, x + 1e-9])
    case.assertEqual(x[2], 2)
    case.assertEqual(x, x + 0.05, prec=0.1)
    case.assertEqual(1.0, 1.05, atol=0.1)
    case.assertEqual({"a": [1]}, {"a": [1]}, "equal")
    for wrong in ((x, x + 0.05), (x, x + 0.05, 0.01), (1, 2, "numbers"), (x, x.half()), (x, x[:2]), (x[2], 3)):
        with pytest.raises(AssertionError):
            case.assertEqual(*wrong)
    with pytest.raises(AssertionError, match="rows"):
        case.assertEqual(x, x + 1, msg="rows")


def test_script_functions_still_compile():
    @torch.jit.script
    def total(x: torch.Tensor, device: torch.device) -> torch.Tensor:
        return torch.zeros(2) + x.to(device).sum()
    assert total(torch.ones(3), torch.device("cpu")).tolist() == [3, 3]
