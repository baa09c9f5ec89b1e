"""Which elements of its outputs a launch never wrote: found by running its items again on other content."""
from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from .. import _core
from .arrays import Argument


def unwritten(program: Any, arguments: Sequence[Argument], before: Sequence[np.ndarray], read: Container[int],
              written: Container[int], clamp: bool) -> list[tuple[Argument, np.ndarray]]:
    """(argument, mask of its unwritten elements) per output of which a part, not all, was left as it was.

    An output that the kernel reads as well, or that shares its memory with another argument, is left out: what it holds
    before the launch matters there, as in a cache that is updated in place. before: the arguments' content before the
    launch. Every other output starts as the complement of its result here: an element that still is it was not written.
    """
    outputs = [n for n, a in enumerate(arguments) if n in written and n not in read and not _shared(n, arguments)]
    if not outputs:
        return []
    content = [~a.bytes_view if n in outputs else before[n].reshape(-1).view(np.uint8).copy()
               for n, a in enumerate(arguments)]
    start = {n: content[n].copy() for n in outputs}
    _core.Machine(program, content, 0, clamp).run()
    found = []
    for n in outputs:
        array = arguments[n].array
        assert array is not None
        same = (content[n] == start[n]).reshape(*array.shape, array.dtype.itemsize).all(-1)
        if same.any() and not same.all():
            found.append((arguments[n], same))
    return found


def _shared(number: int, arguments: Sequence[Argument]) -> bool:
    one = arguments[number].array
    return any(n != number and a.array is not None and one is not None and np.shares_memory(one, a.array)
               for n, a in enumerate(arguments))


def describe(argument: Argument, mask: np.ndarray) -> str:
    """How much of an output is unwritten, and the box that holds all of it."""
    places = np.argwhere(mask)
    low, high = places.min(0), places.max(0) + 1
    box = ", ".join(f"{a}:{b}" for a, b in zip(low, high, strict=True))
    whole = " all of" if mask.sum() == np.prod(high - low) else ""
    return (f"{mask.sum():,} of the {mask.size:,} elements of `{argument.name}` are never written and keep what the "
            f"array held:{whole} [{box}], the first at {places[0].tolist()}")
