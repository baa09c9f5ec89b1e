"""torch while the alias is installed: patches, and the modules `torch.npu`, `torch_npu` and `torchair`."""
from __future__ import annotations

import sys
import types
from typing import Any

from ..run.jit import Kernel
from .patches import Patches


class StandIn:
    """Everything the stand-in does to torch; `leave` undoes it."""

    def __init__(self, torch: types.ModuleType) -> None:
        self.torch = torch
        self.patches = Patches()
        self.modules: dict[str, types.ModuleType] = {}

    def enter(self) -> None:
        """Patch torch."""
        from . import compiling, device, factories, graphs, launches, npu, operators
        self.modules = _modules()
        self.patches.set(self.torch, "device", device.device_class(self.torch._C.device))
        factories.patch(self.patches)
        operators.patch(self.patches)
        compiling.patch(self.patches)
        self.patches.set(self.torch, "npu", npu)
        self.patches.set(Kernel, "__call__", launches.one_device(graphs.record_launches(Kernel.__call__)))
        sys.modules["torch.npu"] = npu
        for name in ("amp", "utils", "random", "streams", "memory"):
            sys.modules[f"torch.npu.{name}"] = self.modules[f"torch_npu.npu.{name}"]

    def leave(self) -> None:
        """Undo everything. NPU tensors that are left behave as CPU tensors of a subclass."""
        from . import device
        for name in [n for n in sys.modules if n == "torch.npu" or n.startswith("torch.npu.")]:
            del sys.modules[name]
        self.patches.undo()
        device.ALSO.clear()
        device.set_index(None)

    def module(self, name: str) -> types.ModuleType | None:
        """Module of the stand-in, None for a name that is not stood in for."""
        if name == "torch_npu.contrib.transfer_to_npu":
            from . import device
            device.ALSO.add("cuda")
            self._cuda_too()
        return self.modules.get(name)

    def _cuda_too(self) -> None:
        """torch_npu.contrib.transfer_to_npu: code written for cuda goes to the NPU.

        The module `torch.cuda` stays, since torch itself calls its other names; the public ones that `torch.npu` has
        are replaced in it.
        """
        from . import npu
        tensor, module, cuda = self.torch.Tensor, self.torch.nn.Module, self.torch.cuda
        self.patches.set(tensor, "cuda", tensor.npu)
        self.patches.set(tensor, "is_cuda", property(lambda self: self.is_npu))
        self.patches.set(module, "cuda", module.npu)
        own = __name__.rpartition(".")[0]
        for name, value in vars(npu).items():
            if not name.startswith("_") and hasattr(cuda, name) and getattr(value, "__module__", "").startswith(own):
                self.patches.set(cuda, name, value)
        self.patches.set(cuda, "CUDAGraph", npu.NPUGraph)
        for name in ("autocast", "GradScaler"):
            self.patches.set(cuda.amp, name, getattr(npu.amp, name))


def _modules() -> dict[str, types.ModuleType]:
    """The stand-ins by name."""
    import torch

    from . import attention, compiling, functions, npu, npu_testing, profiler
    found: dict[str, types.ModuleType] = {"torch_npu.npu": npu, "torch_npu.profiler": profiler}
    top = _module("torch_npu", {n: getattr(m, n) for m in (functions, attention) for n in m.__all__})
    top["__version__"] = torch.__version__.partition("+")[0]
    top["_autoload"] = lambda: None                      # called by torch where a real torch_npu is installed
    amp: dict[str, Any] = dict(zip(("autocast", "GradScaler"), _amp(torch), strict=True))
    memory = {n: getattr(npu, n) for n in vars(npu) if "memory" in n or n == "empty_cache"}
    streams = {n: getattr(npu, n) for n in ("Stream", "Event", "ExternalEvent")}
    random = {n: getattr(npu, n) for n in vars(npu) if "seed" in n or "rng" in n}
    for name, contents in (("npu.amp", amp), ("npu.utils", {"synchronize": npu.synchronize}), ("npu.memory", memory),
                           ("npu.streams", streams), ("npu.random", random), ("contrib", {}),
                           ("contrib.transfer_to_npu", {}), ("testing", {}), ("utils", {}), ("dynamo", {}),
                           ("testing.testcase", {n: getattr(npu_testing, n) for n in ("TestCase", "run_tests")})):
        found[f"torch_npu.{name}"] = _module(f"torch_npu.{name}", contents)["__self__"]
    for name in ("amp", "utils", "random", "streams", "memory"):
        setattr(npu, name, found[f"torch_npu.npu.{name}"])
    found["torch_npu"] = top["__self__"]
    for name in ("torchair", "torch_npu.dynamo.torchair"):
        air = found[name] = compiling.torchair_module(name)
        configs = _module(f"{name}.configs", {})["__self__"]
        found[f"{name}.configs"] = configs
        found[f"{name}.configs.compiler_config"] = _module(f"{name}.configs.compiler_config", {
            "CompilerConfig": compiling.CompilerConfig})["__self__"]
        inference = _module(f"{name}.inference", {"cache_compile": compiling.cache_compile})["__self__"]
        found[f"{name}.inference"] = inference
        air.inference, air.configs = inference, configs                         # type: ignore[attr-defined]
    for name, module in found.items():
        parent, _, last = name.rpartition(".")
        if parent and name != "torch_npu.contrib.transfer_to_npu":
            setattr(found[parent], last, module)
    return found


def _module(name: str, contents: dict[str, Any]) -> dict[str, Any]:
    """Namespace of a new module; its `__self__` is the module."""
    made = types.ModuleType(name, "Stood in for by pypto_sim.compat.")
    made.__path__ = []                                    # type: ignore[attr-defined]
    space = vars(made)
    space.update(contents)

    def missing(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise AttributeError(f"{name}.{attribute} is not stood in for on the CPU; what is there: docs/compat.md. "
                             "A golden can compute it with torch")
    space["__getattr__"], space["__self__"] = missing, made
    return space


def _amp(torch: Any) -> tuple[type, type]:
    class autocast(torch.amp.autocast):
        """torch.npu.amp.autocast(enabled, dtype, cache_enabled)."""

        def __init__(self, enabled: bool = True, dtype: Any = torch.float16, cache_enabled: bool = True) -> None:
            super().__init__("npu", dtype, enabled, cache_enabled)

    class GradScaler(torch.amp.GradScaler):
        """torch.npu.amp.GradScaler(...)."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__("npu", *args, **kwargs)
    return autocast, GradScaler
