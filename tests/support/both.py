"""Run a kernel by replay and by stepping and hold the bits of every tensor argument against each other."""
import warnings
from typing import Any

import numpy as np

import pypto_sim as pypto


def copied(value: Any) -> Any:
    """A copy of an array or torch tensor; anything else as it is."""
    return value.copy() if isinstance(value, np.ndarray) else value.clone() if hasattr(value, "clone") else value


def bits(value: Any) -> bytes:
    """Memory of an array or torch tensor."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    import torch
    return value.contiguous().view(torch.uint8).numpy().tobytes()


def both(kernel: Any, *args: Any, runs: str = "replay", quiet: bool = True, traced: bool = False,
         **scalars: Any) -> list[Any]:
    """Arguments after a replayed run (copies), after checking that stepping gives the same bits.

    runs: how the kernel must run when it is free to choose. quiet: no rule of
    severity warn may fire at all. traced: every loop must be replayed, none unrolled.
    """
    found = []
    for how in ("auto", "step"):
        given = [copied(a) for a in args]
        named = {k: copied(v) for k, v in scalars.items()}
        with pypto.config(mode=how), warnings.catch_warnings():
            warnings.simplefilter("ignore", pypto.PyptoWarning)
            kernel(*given, **named)
        last = kernel.last_run
        fired = sorted({f.rule for f in last.warnings if f.severity == "warn"})
        assert not quiet or not fired, [(f.rule, f.line, f.text) for f in last.warnings]
        assert how == "step" or not traced or all(loop["replayed"] for loop in last.loops), last.loops
        assert last.mode == (runs if how == "auto" else "step"), (last.reason, last.loops)
        found.append([*given, *named.values()])
    for a, b in zip(*found, strict=True):
        if isinstance(a, np.ndarray) or hasattr(a, "clone"):
            assert bits(a) == bits(b)
    return found[0]


def close(got: Any, want: Any, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """Compare with a float64 golden."""
    got = got if isinstance(got, np.ndarray) else got.float().numpy()
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=rtol, atol=atol)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)
