"""Every place where torch takes a device takes the NPU; tensors say where they are and copy between CPU and NPU."""
import copy
import io
import pickle
import threading

import numpy as np
import pytest

import pypto_sim as pypto

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("alias")

SPELLINGS = ("npu", "npu:0", 0, lambda: torch.device("npu"), lambda: torch.device("npu:0"),
             lambda: torch.device("npu", 0), lambda: torch.device(type="npu", index=0), lambda: torch.device(0))


def given(spelling):
    return spelling() if callable(spelling) else spelling


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_a_device(spelling):
    device = given(spelling)
    made = torch.arange(6, device=device, dtype=torch.float32)
    assert made.device == torch.device("npu", 0) == torch.device("npu:0") and made.device.type == "npu"
    assert made.tolist() == [0, 1, 2, 3, 4, 5] and made.is_npu and made.get_device() == 0
    for moved in (torch.arange(6.).to(device), torch.arange(6.).npu(device), torch.arange(6).to(device, torch.float32),
                  torch.arange(6).to(device=device, dtype=torch.float32, non_blocking=True)):
        assert moved.device == made.device and moved.dtype == torch.float32 and torch.equal(moved, made)


def test_devices_behave_as_torchs():
    npu = torch.device("npu:1")
    assert isinstance(npu, torch.device) and isinstance(torch.device("cpu"), torch.device)
    assert (npu.type, npu.index, str(npu), f"{npu}", repr(npu)) == ("npu", 1, "npu:1", "npu:1",
                                                                    "device(type='npu', index=1)")
    assert npu != torch.device("npu:0") and npu != torch.device("meta") and npu != "npu:1" and npu != "cpu"
    assert torch.device("npu").index is None and torch.device("npu") != torch.device("npu:0")
    assert {npu: 1}[torch.device("npu", 1)] == 1 and pickle.loads(pickle.dumps(npu)) == npu == copy.deepcopy(npu)
    assert torch.device(npu) is npu and torch.zeros(2, device=npu).device == npu
    with pytest.raises(RuntimeError):
        torch.device("npu:x")
    with pytest.raises(RuntimeError):
        torch.device("npu:0", 1)
    with pytest.raises(RuntimeError):
        torch.zeros(2, device="npux")
    def annotated(x: torch.device | str, y: "torch.device | None" = None) -> torch.device: return x
    assert annotated(npu) is npu


def test_the_memory_is_the_cpus():
    """Tensors land on the CPU and can be asked so; who compares is told that the device says otherwise."""
    x = torch.zeros(2, device="npu:0")
    assert x.is_cpu and x.numpy().ctypes.data == x.data_ptr()
    for ask in (lambda: x.device.type == "cpu", lambda: x.device == torch.device("cpu"), lambda: "cpu" == x.device.type,
                lambda: torch.device("cpu") == x.device, lambda: not x.device.type != "cpu"):
        with pytest.warns(pypto.PyptoWarning, match="compared with the CPU: equal here") as caught:
            assert ask()
        assert caught[0].filename == __file__
    assert x.device.type != "cuda" and x.device != torch.device("meta")
    assert {"cpu": 0, "npu": 1}[x.device.type] == 1 and f"{x.device.type}" == str(x.device.type) == "npu"
    y = torch.zeros(2)
    assert y.device.type == "cpu" and y.device.type != "npu" and y.device == torch.device("cpu")


FACTORIES = {
    "zeros": lambda d: torch.zeros(2, 3, device=d), "ones": lambda d: torch.ones((2, 3), device=d),
    "empty": lambda d: torch.empty(2, device=d), "full": lambda d: torch.full((2,), 3.0, device=d),
    "rand": lambda d: torch.rand(2, device=d), "randn": lambda d: torch.randn(2, device=d, dtype=torch.bfloat16),
    "randint": lambda d: torch.randint(0, 9, (2,), device=d), "randperm": lambda d: torch.randperm(4, device=d),
    "arange": lambda d: torch.arange(4, device=d), "linspace": lambda d: torch.linspace(0, 1, 4, device=d),
    "eye": lambda d: torch.eye(3, device=d), "tensor": lambda d: torch.tensor([1, 2], device=d),
    "as_tensor": lambda d: torch.as_tensor(np.ones(2), device=d),
    "positional": lambda d: torch.as_tensor([1.], None, d),
    "asarray": lambda d: torch.asarray([1, 2], device=d), "scalar_tensor": lambda d: torch.scalar_tensor(2, device=d),
    "zeros_like": lambda d: torch.zeros_like(torch.ones(2), device=d),
    "randn_like": lambda d: torch.randn_like(torch.ones(2), device=d),
    "empty_strided": lambda d: torch.empty_strided((2, 3), (3, 1), device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "hann_window": lambda d: torch.hann_window(4, device=d),
    "fftfreq": lambda d: torch.fft.fftfreq(4, device=d), "new_zeros": lambda d: torch.ones(2).new_zeros(3, device=d),
    "new_tensor": lambda d: torch.ones(2).new_tensor([1, 2], device=d),
    "parameter": lambda d: torch.nn.Parameter(torch.ones(2, device=d)),
    "pinned": lambda d: torch.empty(2, device="cpu", pin_memory=True).to(d),
    "other": lambda d: torch.ones(2).to(torch.zeros(1, device=d)),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name):
    for device in ("npu:0", torch.device("npu:1"), 0):
        made = FACTORIES[name](device)
        assert str(made.device) == str(torch.device(device)) and made.is_npu
    made = FACTORIES[name]("cpu")
    assert str(made.device) == "cpu" and not made.is_npu and type(made).__name__ in ("Tensor", "Parameter")


def test_results_are_on_the_npu_in_every_thread():
    x = torch.randn(4, 8, device="npu:0")
    seen = []

    def work():
        y = torch.nn.functional.softmax(x @ x.T, -1)
        values, indices = torch.topk(y, 2)
        a, b = y.chunk(2)
        seen.extend(t.device.type for t in (y, values, indices, a, b, y.max(0).values, torch.cat([a, b]), y[0], y.T, -y,
                                            1 + y, torch.stack((a, b)).to(torch.bfloat16), torch.empty_like(y)))
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["npu"] * 13
    assert torch.zeros(2, device="npu:2").add(1).device.index == 2
    assert (x + torch.ones(8)).is_npu and x.sum().item() == pytest.approx(x.cpu().sum().item())


def test_copies_between_cpu_and_npu_copy():
    """A kernel that updates a tensor in place must not change the golden's input."""
    host = torch.ones(4)
    for move in (lambda t: t.npu(), lambda t: t.to("npu"), lambda t: torch.as_tensor(t, device="npu")):
        there = move(host)
        there += 1
        assert host.tolist() == [1] * 4
        for back in (there.cpu(), there.to("cpu"), there.to(torch.device("cpu")), torch.as_tensor(there, device="cpu")):
            assert type(back) is torch.Tensor and back.device.type == "cpu"
            there.fill_(5)
            assert back.tolist() != there.tolist() or back.data_ptr() != there.data_ptr()
        again = there.npu()
        assert again is there and there.to("npu:0") is there and there.to("npu:1") is not there
    array = np.ones(4)
    torch.as_tensor(array, device="npu").fill_(7)
    assert array.tolist() == [1] * 4
    same = torch.as_tensor(host)
    assert same.data_ptr() == host.data_ptr()


def test_gradients():
    w = torch.ones(3, device="npu", requires_grad=True)
    assert w.is_leaf and w.is_npu
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]
    host = torch.ones(3, requires_grad=True)
    (host.npu() * 3).cpu().sum().backward()
    assert host.grad.tolist() == [3, 3, 3]


def test_default_device():
    torch.set_default_device("npu:0")
    try:
        assert torch.zeros(2).is_npu and torch.get_default_device() == torch.device("npu:0")
        assert torch.zeros(2, device="cpu").device.type == "cpu"
    finally:
        torch.set_default_device(None)
    assert torch.zeros(2).device.type == "cpu"
    with torch.device("npu"):
        assert torch.ones(2).device == torch.device("npu:0")
        with torch.device("cpu"):
            assert torch.ones(2).device.type == "cpu"
        assert torch.ones(2).is_npu


def test_generator():
    g = torch.Generator(device="npu:0")
    assert isinstance(g, torch.Generator) and g.device == torch.device("npu:0")
    assert isinstance(torch.Generator(), torch.Generator) and torch.Generator().device.type == "cpu"
    a = torch.randn(4, generator=g.manual_seed(3), device="npu")
    b = torch.randn(4, generator=torch.Generator().manual_seed(3))
    assert a.is_npu and torch.equal(a.cpu(), b)
    torch.npu.manual_seed(5)
    c = torch.rand(3, device="npu")
    torch.npu.manual_seed_all(5)
    assert torch.equal(c, torch.rand(3, device="npu"))


def test_modules():
    layer = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimised = layer.to("npu:0")
    assert optimised is layer and all(t.is_npu for t in layer.state_dict().values())
    weight = layer[0].weight
    assert isinstance(weight, torch.nn.Parameter) and weight.requires_grad and weight.is_leaf
    assert layer.npu()[0].weight is weight and next(layer.parameters()).device == torch.device("npu:0")
    out = layer(torch.randn(5, 4, device="npu"))
    assert out.is_npu
    out.sum().backward()
    torch.optim.Adam(layer.parameters(), lr=0.1).step()
    assert layer.to(torch.bfloat16)[0].weight.dtype == torch.bfloat16 and layer[0].weight.is_npu
    assert layer.to("npu", torch.float32)[0].weight.dtype == torch.float32
    copied = copy.deepcopy(layer)
    assert copied[0].weight.is_npu and isinstance(copied[0].weight, torch.nn.Parameter)
    copied.load_state_dict(layer.cpu().state_dict())
    assert not layer[0].weight.is_npu and type(layer[0].weight) is torch.nn.Parameter
    assert torch.nn.Linear(2, 2, device="npu:0", dtype=torch.float16).weight.is_npu


def test_save_load_and_copies():
    model = torch.nn.Linear(2, 2).npu()
    x = torch.arange(4., device="npu:1")
    buffer = io.BytesIO()
    torch.save({"x": x, "model": model.state_dict()}, buffer)
    for where, kind in ((None, "cpu"), ("cpu", "cpu"), ("npu:0", "npu"), (torch.device("npu:0"), "npu")):
        buffer.seek(0)
        loaded = torch.load(buffer, map_location=where)
        assert loaded["x"].device.type == kind and loaded["x"].tolist() == [0, 1, 2, 3]
        assert loaded["model"]["weight"].device.type == kind
    assert copy.deepcopy(x).device == x.device and pickle.loads(pickle.dumps(x)).tolist() == x.tolist()


def test_printing_and_numpy():
    x = torch.tensor([1.5, 2.0], device="npu:0")
    assert repr(x) == "tensor([1.5000, 2.0000], device='npu:0')"
    assert x.cpu().numpy().tolist() == x.numpy().tolist() == np.asarray(x).tolist() == [1.5, 2.0]
    assert f"{x.sum():.1f}" == "3.5"


def test_pinned_memory():
    x = torch.ones(3)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.to("npu", non_blocking=True).is_npu


def test_autocast_and_scaler():
    a = torch.ones(2, 2, device="npu")
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
    with torch.npu.amp.autocast():
        assert (a @ a).dtype == torch.float16
    with torch.amp.autocast(device_type="npu"):
        assert (a @ a).dtype == torch.float16
    assert torch.amp.GradScaler("npu") and torch.npu.amp.GradScaler()


def test_assert_close():
    x = torch.ones(3, device="npu")
    for other in (torch.ones(3, device="npu"), torch.ones(3)):
        torch.testing.assert_close(x, other)
        torch.testing.assert_close(x.cpu(), other.cpu())
    with pytest.raises(AssertionError, match="not close"):
        torch.testing.assert_close(x, torch.zeros(3))


def test_transfer_to_npu():
    from torch_npu.contrib import transfer_to_npu  # noqa: F401
    assert torch.ones(2).cuda().is_npu and torch.ones(2, device="cuda:0").is_npu and torch.cuda.is_available()
    assert torch.nn.Linear(2, 2).cuda().weight.is_npu
    torch.manual_seed(3)
    first = torch.rand(4, device="cuda")
    torch.cuda.manual_seed_all(3)
    assert torch.equal(first, torch.rand(4).cuda())
    torch.seed()
    with torch.random.fork_rng(), torch.cuda.amp.autocast():
        torch.rand(2)
    from torch.cuda import Stream, current_device
    with torch.cuda.stream(Stream()):
        assert torch.cuda.current_device() == current_device() == torch.npu.current_device()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = first * 2
    first.fill_(5)
    graph.replay()
    assert (doubled == 10).all()
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True):
        assert batch.cuda(non_blocking=True).is_cuda


def test_accelerator():
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "npu"
    assert torch.get_device_module("npu") is torch.npu
    torch.accelerator.synchronize()


def test_meta_tensors_and_compile_are_torchs():
    assert torch.ones(2, device="meta").device.type == "meta"
    layer = torch.nn.Linear(2, 2, device="meta").to_empty(device="npu")
    assert layer.weight.is_npu
    x = torch.ones(2, device="npu")
    assert torch.compile(lambda t: t + 1, backend="eager")(x).tolist() == [2, 2]
