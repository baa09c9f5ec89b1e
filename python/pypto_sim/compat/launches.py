"""Kernel launches under the alias: all tensors on one device, as the real framework wants them."""
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

from ..config import active
from ..errors import PyptoRuntimeError, PyptoWarning
from .tensor import NpuTensor

STRICT = ("0.2", "master")


def one_device(call: Callable[..., Any]) -> Callable[..., Any]:
    """Method Kernel.__call__ that says when CPU and NPU tensors are mixed: an error in the profiles of releases."""
    @functools.wraps(call)
    def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        given = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        if len({isinstance(a, NpuTensor) for a in given}) > 1:
            text = (f"kernel `{kernel.__name__}` gets tensors on the NPU and on the CPU: the device refuses that; move "
                    "them with .npu()")
            if active().profile in STRICT:
                raise PyptoRuntimeError(text, rule="compat.one_device", kernel=kernel.__name__)
            warnings.warn(PyptoWarning(text, rule="compat.one_device", kernel=kernel.__name__), stacklevel=2)
        return call(kernel, *args, **kwargs)
    return launch
