"""A session without data: operations are checked and recorded, nothing is computed."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pypto_sim import ops  # noqa: F401 - fills the registry
from pypto_sim.config import Config
from pypto_sim.dtypes import DataType
from pypto_sim.registry import REGISTRY
from pypto_sim.trace.scalar import SymbolicScalar
from pypto_sim.trace.session import Running, Session
from pypto_sim.trace.tensor import Tensor
from pypto_sim.trace.tiles import Scope


@dataclass(frozen=True)
class Row:
    """One recorded core row."""

    label: str
    kernel: str
    ins: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]
    ints: tuple[int, ...]
    floats: tuple[float, ...]
    scalars: tuple[Any, ...]
    tile: tuple[int, ...] | None


class DrySession(Session):
    """Records rows; `tensor` makes operands."""

    def __init__(self, profile: str = "lenient", device: str = "910b1", tile: tuple[int, ...] | None = (8, 64),
                 numerics: str = "current") -> None:
        super().__init__(Config(profile=profile, device=device, numerics=numerics), "k", Scope(vec_tile=tile))
        self.rows: list[Row] = []

    def tensor(self, shape: tuple[int, ...] = (8, 64), dtype: DataType = DataType.DT_FP32,
               valid: tuple[Any, ...] | None = None) -> Tensor:
        """An operand."""
        return Tensor.handle(tuple(shape), dtype, valid, self, 0)

    def dynamic(self) -> Tensor:
        """An operand of 8 rows whose first axis may differ from call to call."""
        t = self.tensor()
        t.axes = (SymbolicScalar("B", 8), 64)
        return t

    def check_home(self, t: Tensor) -> None:
        assert t.home is self

    def check_scalars(self, scalars: Any) -> None:
        pass

    def _handle(self, shape: Any, dtype: Any, valid: Any, *args: Any, **kwargs: Any) -> Tensor:
        return Tensor.handle(tuple(shape), dtype, valid, self, len(self.rows) + 1)

    def _assemble(self, dst: Tensor, src: Tensor, offsets: Any, in_place: bool) -> None:
        pass

    def _set(self, dst: Tensor, src: Tensor) -> None:
        pass

    def _declare(self, t: Tensor) -> None:
        pass

    def _op(self, spec: Any, outs: Any, ins: Any, ints: Any, floats: Any, scalars: Any, tile: Any) -> None:
        self.rows.append(Row(self._label_text(), spec.kernel, tuple(ins), tuple(outs), ints, floats, scalars, tile))

    @property
    def kernels(self) -> list[str]:
        """Kernels in the order of the recorded rows."""
        return [r.kernel for r in self.rows]

    @property
    def fired(self) -> dict[str, str]:
        """{rule: severity} of the rules that fired without raising."""
        return {f.rule: f.severity for f in self.findings.values()}


class Functions:
    """The public functions by registry name: `F.add(a, b)`, `F["experimental.online_softmax"]`."""

    def __getattr__(self, name: str) -> Any:
        return REGISTRY[name].function

    __getitem__ = __getattr__


@pytest.fixture
def dry():
    """Factory of running dry sessions: `s = dry(profile="master")`."""
    open_sessions = []

    def make(**settings: Any) -> DrySession:
        running = Running(DrySession(**settings))
        open_sessions.append(running)
        return running.__enter__()

    yield make
    for running in reversed(open_sessions):
        running.__exit__(None, None, None)


@pytest.fixture
def F() -> Functions:
    """Public functions by registry name."""
    return Functions()
