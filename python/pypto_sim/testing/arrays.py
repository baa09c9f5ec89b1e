"""Arrays of numpy, ml_dtypes and torch as numpy arrays."""
from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..errors import PyptoTypeError
from ..run.arrays import memory_of


def as_array(value: Any) -> np.ndarray:
    """A numpy array of the same values and element type; shares memory where it can.

    Takes arrays, torch tensors (any device of this process, with gradients, not contiguous), numbers and lists. Raises
    PyptoTypeError for anything else.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            plain = value.detach().cpu().contiguous().resolve_conj().resolve_neg()
            return memory_of("tensor", plain)[0].reshape(tuple(plain.shape))
    found = np.asarray(value)
    if found.dtype == object or found.dtype.kind in "USmM":
        raise PyptoTypeError(f"an array of numbers is needed, got {type(value).__name__}")
    return found


def wide(value: np.ndarray) -> np.ndarray:
    """float64 of any element type; integers beyond 2**53 keep their type."""
    return value.astype(np.float64)
