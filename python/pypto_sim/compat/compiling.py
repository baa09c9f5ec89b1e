"""torch.compile on the NPU's backends, and `torchair`: the callable itself."""
from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .patches import Patches
from .tensor import NpuTensor

NAMES = ("npu", "npugraphs", "npugraph_ex", "torchair", "torch_npu")


def patch(patches: Patches) -> None:
    """torch.compile and Module.compile leave callables alone when their backend is the NPU's."""
    real, real_method = torch.compile, torch.nn.Module.compile

    def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        backend = kwargs.get("backend", "inductor")
        if model is None:
            return lambda function: compile(function, *args, **kwargs)
        if is_stood_in(backend):
            return model
        _kernels_are_opaque()
        compiled = real(model, *args, **kwargs)
        return compiled if backend == "eager" or not isinstance(backend, str) else _eager_on_npu(model, compiled)

    def method(self: Any, *args: Any, **kwargs: Any) -> None:
        if not is_stood_in(kwargs.get("backend")):
            _kernels_are_opaque()
            real_method(self, *args, **kwargs)
    patches.set(torch, "compile", functools.wraps(real)(compile))
    patches.set(torch.nn.Module, "compile", functools.wraps(real_method)(method))


def _kernels_are_opaque() -> None:
    """torch.compile breaks its graph at calls of kernels instead of tracing this package."""
    from torch._dynamo import trace_rules
    trace_rules.add("pypto_sim")


def _eager_on_npu(model: Any, compiled: Any) -> Any:
    """`compiled`, but calls with NPU tensors run `model`: torch's code generators know the CPU only."""
    module = isinstance(model, torch.nn.Module)
    inner = compiled.forward if module else compiled

    @functools.wraps(inner)
    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = tree_leaves((args, kwargs)) + (list(model.parameters()) if module else [])
        run = model if any(isinstance(t, NpuTensor) for t in tensors) else inner
        return run(*args, **kwargs)
    if not module:
        return call
    compiled.forward = call
    return compiled


def is_stood_in(backend: Any) -> bool:
    """Whether a backend of torch.compile is one of the NPU."""
    if isinstance(backend, str):
        return backend in NAMES
    while isinstance(backend, functools.partial):
        backend = backend.func
    return isinstance(backend, NpuBackend)


class NpuBackend:
    """What get_npu_backend returns: torch.compile with it is the identity."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def __call__(self, module: Any, example_inputs: Any = None) -> Callable[..., Any]:
        return getattr(module, "forward", module)


class CompilerConfig:
    """Settings by any name, nested, without effect."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = CompilerConfig()
        object.__setattr__(self, name, made)
        return made


def get_npu_backend(*, compiler_config: Any = None, custom_decompositions: Any = None, **options: Any) -> NpuBackend:
    """A backend for torch.compile that leaves the callable alone."""
    return NpuBackend(compiler_config)


def get_compiler(compiler_config: Any = None) -> NpuBackend:
    """As get_npu_backend."""
    return NpuBackend(compiler_config)


def cache_compile(func: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The function itself."""
    return func


def torchair_module(name: str) -> types.ModuleType:
    """Module `torchair`, under the given name."""
    made = types.ModuleType(name, __doc__)
    made.__path__ = []                               # type: ignore[attr-defined]
    for value in (CompilerConfig, get_npu_backend, get_compiler, cache_compile):
        setattr(made, value.__name__, value)
    made.logger = __import__("logging").getLogger("torchair")     # type: ignore[attr-defined]
    return made
