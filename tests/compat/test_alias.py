"""`import pypto` is this package, and everything is as before after uninstall."""
import importlib
import os
import sys
import types

import pytest

import pypto_sim
from pypto_sim import compat


@pytest.fixture
def installed():
    compat.install()
    yield
    compat.uninstall()


def test_the_same_module_objects(installed):
    import pypto
    assert pypto is pypto_sim
    for theirs, ours in (("frontend", "frontend"), ("experimental", "experimental"), ("error", "errors"),
                         ("distributed", "distributed"), ("enum", "enums"), ("op", "ops"), ("errors", "errors")):
        found = importlib.import_module(f"pypto.{theirs}")
        assert found is importlib.import_module(f"pypto_sim.{ours}") is sys.modules[f"pypto.{theirs}"]
    from pypto.frontend import jit
    from pypto.trace.tensor import Tensor
    assert jit is pypto_sim.frontend.jit and Tensor is pypto_sim.Tensor
    assert issubclass(pypto.error.CapacityError, pypto.PyptoError)


def test_importing_submodules_leaves_functions_and_specs_alone(installed):
    config, tensor, spec = pypto_sim.config, pypto_sim.tensor, pypto_sim.__spec__
    importlib.import_module("pypto.config")
    importlib.import_module("pypto.strategies.catalogue")
    assert pypto_sim.config is config and pypto_sim.tensor is tensor
    assert pypto_sim.__spec__ is spec and spec.name == "pypto_sim"
    assert importlib.import_module("pypto.strategies").__spec__.name == "pypto_sim.strategies"


def test_unknown_submodules_are_not_found(installed):
    with pytest.raises(ModuleNotFoundError, match="pypto.nothing"):
        importlib.import_module("pypto.nothing")


def test_as_a_context_manager():
    with compat.install():
        assert compat.installed() and importlib.import_module("pypto") is pypto_sim
    assert not compat.installed() and "pypto" not in sys.modules


def test_an_installed_torch_npu_is_not_loaded(python, tmp_path):
    """torch loads backends that are installed while it is imported itself."""
    meta = tmp_path / "torch_npu-2.7.1.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.7.1\n")
    (meta / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    (tmp_path / "torch_npu.py").write_text("raise SystemExit('the real one')\n")
    code = ("import pypto_sim; pypto_sim.compat.install(); import torch, torch_npu; "
            "print(torch.zeros(1).npu().device, torch_npu.Format.ND.name)")
    assert python("-c", code, env={"PYTHONPATH": str(tmp_path)}).stdout == "npu:0 ND\n"


def test_not_importable_without_it():
    assert not compat.installed() and "pypto" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pypto")


def test_uninstall_restores_everything(monkeypatch):
    torch = pytest.importorskip("torch")
    from torch.utils._device import _device_constructors
    _device_constructors()                                   # fills a cache of torch's
    monkeypatch.delenv("TILE_FWK_DEVICE_ID", raising=False)

    def state():
        classes = (torch, torch.Tensor, torch.nn.Module, torch.fft, torch.library, torch.library.Library, torch.amp,
                   torch.amp.autocast, torch.accelerator, pypto_sim.run.jit.Kernel)
        return ({n for n in sys.modules if n.partition(".")[0] in ("pypto", "torch_npu", "torchair")
                 or n.startswith("torch.npu")}, list(sys.meta_path), dict(os.environ),
                [{k: v for k, v in vars(c).items() if not k.startswith("__")} for c in classes])

    before = state()
    for _ in range(2):
        compat.install()
        compat.install()                                     # twice is once
        import pypto.frontend  # noqa: F401
        import torch_npu.contrib.transfer_to_npu
        import torchair
        assert torch.zeros(2).cuda().is_npu and torchair and torch_npu.npu is torch.npu
        compat.uninstall()
        compat.uninstall()
        assert not compat.installed()
        now = state()
        assert now[:3] == before[:3]
        for a, b in zip(before[3], now[3], strict=True):
            assert a.keys() == b.keys() and all(a[k] is b[k] for k in a)
    with pytest.raises(RuntimeError):
        torch.device("npu:0")
    assert isinstance(torch.device("cpu"), torch.device) and not hasattr(torch, "npu")


@pytest.mark.parametrize("name", ["pypto", "torch_npu"])
def test_refuses_beside_a_real_one(monkeypatch, name):
    real = types.ModuleType(name)
    real.__file__ = f"/opt/site-packages/{name}/__init__.py"
    monkeypatch.setitem(sys.modules, name, real)
    with pytest.raises(pypto_sim.PyptoError, match=f"`{name}`.*{real.__file__}"):
        compat.install()
    assert not compat.installed() and sys.modules[name] is real


def test_device_id_must_be_a_number(monkeypatch):
    monkeypatch.setenv("TILE_FWK_DEVICE_ID", "npu:0")
    with pytest.raises(pypto_sim.PyptoError, match="TILE_FWK_DEVICE_ID"):
        compat.install()
    assert not compat.installed()


def test_ipython_extension():
    pypto_sim.load_ipython_extension(None)
    assert compat.installed() and importlib.import_module("pypto") is pypto_sim
    pypto_sim.unload_ipython_extension(None)
    assert not compat.installed()


def test_torch_is_imported_only_by_the_script(python):
    code = ("import sys, pypto_sim; pypto_sim.compat.install(); import pypto, pypto.frontend; "
            "assert not {'torch', 'torch_npu', 'rich'} & set(sys.modules); import torch; "
            "assert torch.zeros(1, device='npu').is_npu and 'torch_npu' not in sys.modules; import torch_npu")
    python("-c", code)


def test_torch_imported_before(python):
    python("-c", "import torch, pypto_sim; pypto_sim.compat.install(); assert torch.ones(2).npu().is_npu")


def test_processes_of_the_script_have_it_too(python):
    """Also beside another sitecustomize, and without a cost for processes that do not ask."""
    code = ("import subprocess, sys, pypto_sim; pypto_sim.compat.install();"
            "child = 'import sys; assert \"pypto_sim\" not in sys.modules and \"numpy\" not in sys.modules; "
            "import pypto; print(pypto.__name__, getattr(sys, \"site_seen\", 0)); import pypto_sim; "
            "assert pypto is pypto_sim is sys.modules[\"pypto\"]; from pypto.error import PyptoError; "
            "assert PyptoError is pypto_sim.PyptoError';"
            "sys.exit(subprocess.run([sys.executable, '-c', child]).returncode)")
    assert python("-c", code).stdout == "pypto_sim 0\n"


def test_another_sitecustomize_still_runs(python, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.site_seen = 1\n")
    code = ("import subprocess, sys, pypto_sim; pypto_sim.compat.install();"
            "child = 'import sys, pypto; print(pypto.__name__, sys.site_seen)';"
            "sys.exit(subprocess.run([sys.executable, '-c', child]).returncode)")
    assert python("-c", code, env={"PYTHONPATH": str(tmp_path)}).stdout == "pypto_sim 1\n"


def test_install_without_subprocesses(monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    compat.install(subprocesses=False)
    assert "PYTHONPATH" not in os.environ
    compat.uninstall()
