"""The import hook: `pypto` and its submodules, and modules that stand in for the NPU's."""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

OWN = "pypto_sim"
OTHER_NAMES = {"error": "errors", "enum": "enums", "op": "ops"}     # PyPTO's name of a module -> ours
STOOD_IN = ("torch_npu", "torchair")


class AliasFinder(importlib.abc.MetaPathFinder):
    """First on sys.meta_path while the alias is installed."""

    def __init__(self, package: types.ModuleType) -> None:
        self.package = package
        self.added: list[str] = []              # names put into sys.modules
        self.looking = False
        self.torch: Any = None                  # stand-in of torch once it is imported

    def install(self) -> None:
        """Take over `pypto`; torch now if it is imported, else when it is."""
        for name, module in list(sys.modules.items()):
            if name == OWN or name.startswith(OWN + "."):
                self._add("pypto" + name[len(OWN):], module)
        for theirs, ours in OTHER_NAMES.items():
            self._add(f"pypto.{theirs}", importlib.import_module(f"{OWN}.{ours}"))
        sys.meta_path.insert(0, self)
        if "torch" in sys.modules:
            try:
                self.enter_torch(sys.modules["torch"])
            except BaseException:
                self.uninstall()
                raise

    def uninstall(self) -> None:
        """Take everything back."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self.torch is not None:
            self.torch.leave()
            self.torch = None
        for name in list(sys.modules):
            if name in self.added or name.partition(".")[0] in ("pypto", *STOOD_IN):
                sys.modules.pop(name, None)

    def enter_torch(self, torch: types.ModuleType) -> None:
        """Patch torch, which has just been imported."""
        if self.torch is None:
            from .stand_in import StandIn
            made = StandIn(torch)
            made.enter()
            self.torch = made

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        top = name.partition(".")[0]
        if top == "pypto":
            module = self._own(name)
            return None if module is None else _spec(name, lambda: module, hasattr(module, "__path__"))
        if top in STOOD_IN:
            self.enter_torch(importlib.import_module("torch"))   # also for torch's own loading of a backend
            module = self.torch.module(name)
            return None if module is None else _spec(name, lambda: module, True)
        if name == "torch" and not self.looking:
            return self._torch_spec()
        return None

    def _own(self, name: str) -> types.ModuleType | None:
        """Our module for `pypto.x.y`: the module of that name, or of a public attribute that is one."""
        if name == "pypto":
            return self.package
        first, *rest = name.split(".")[1:]
        ours = ".".join([OWN, OTHER_NAMES.get(first, first), *rest])
        try:
            return importlib.import_module(ours)
        except ModuleNotFoundError as e:
            if e.name != ours:
                raise
            return None

    def _torch_spec(self) -> importlib.machinery.ModuleSpec | None:
        self.looking = True
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            self.looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _AfterTorch(spec.loader, self.enter_torch)
        return spec

    def _add(self, name: str, module: types.ModuleType) -> None:
        if name not in sys.modules:
            sys.modules[name] = module
            self.added.append(name)


def _spec(name: str, find: Callable[[], types.ModuleType], package: bool) -> importlib.machinery.ModuleSpec:
    return importlib.machinery.ModuleSpec(name, _Existing(find()), is_package=package)


class _Existing(importlib.abc.Loader):
    """Loads a module that is there already, and leaves its attributes alone."""

    def __init__(self, module: types.ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self.module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.spec               # importlib has put the alias's there


class _AfterTorch(importlib.abc.Loader):
    """torch's own loader, then the stand-in."""

    def __init__(self, loader: Any, enter: Callable[[types.ModuleType], None]) -> None:
        self.loader, self.enter = loader, enter

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.enter(module)
