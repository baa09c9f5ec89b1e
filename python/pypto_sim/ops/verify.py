"""Debug helpers of kernels: print and save intermediate tensors while `enable_pass_verify` is set."""
from __future__ import annotations

import string
from pathlib import Path
from typing import Any

from ..errors import PyptoKeyError, PyptoTypeError
from ..trace.context import current
from ..trace.tensor import Tensor


def _verify_options() -> Any:
    return current().scope.groups.get("verify", {})


def pass_verify_print(*values: Any, cond: Any = 1) -> None:
    """Print values, tensors with their data, when `cond` holds and verify_options has enable_pass_verify.

    The kernel is then stepped, because values are known only while it runs.
    """
    if _verify_options().get("enable_pass_verify") and cond:
        print(*values)


def pass_verify_save(tensor: Tensor, fname: str, cond: Any = 1, **kwargs: Any) -> None:
    """Save a tensor as `fname`.npy when `cond` holds and verify_options has enable_pass_verify.

    `$NAME` in `fname` stands for the keyword argument NAME; the directory is pass_verify_save_tensor_dir, by default
    the present one. Types that numpy does not have are saved as their bytes. Raises KeyError for a name without an
    argument.
    """
    session = current()
    if not isinstance(tensor, Tensor):
        raise session.error(PyptoTypeError, f"pypto.pass_verify_save takes a tensor, got {type(tensor).__name__}",
                            rule="arg.type")
    template = string.Template(fname)
    if missing := [n for n in template.get_identifiers() if n not in kwargs]:
        raise session.error(PyptoKeyError, f"pypto.pass_verify_save: ${missing[0]} in {fname!r} has no keyword "
                            "argument", rule="arg.unknown")
    verify = _verify_options()
    if not verify.get("enable_pass_verify") or not cond:
        return
    values = session.tensor_values(tensor)
    if values is None:                       # a cost-only run has no data
        return
    import numpy as np
    name = template.substitute({k: str(v) for k, v in kwargs.items()})
    path = Path(verify.get("pass_verify_save_tensor_dir") or ".")
    path.mkdir(parents=True, exist_ok=True)
    native = values.dtype.kind in "biuf"
    np.save(path / f"{name.removesuffix('.npy')}.npy", values if native else values.view(np.uint8))
