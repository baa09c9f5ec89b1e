"""The running session of the current thread, and the tiles and options in force outside kernels."""
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..errors import HandleError
from .tiles import Scope

if TYPE_CHECKING:
    from .session import Session
    from .trial import TileTrial

_local = threading.local()


def running() -> Session | None:
    """The session of this thread, None outside a kernel."""
    return getattr(_local, "session", None)


def current() -> Session:
    """The session of this thread. Raises HandleError outside a kernel."""
    session = running()
    if session is None:
        raise HandleError("operations can only be called while a kernel runs: decorate the function with "
                          "`pypto.frontend.jit` and call it, or use `with pypto.function(...)`")
    return session


class Running:
    """Context manager: `session` is the current one of this thread; the one before comes back afterwards."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __enter__(self) -> Session:
        self.before = running()
        _local.session = self.session
        return self.session

    def __exit__(self, kind: object, exc: BaseException | None, tb: object) -> None:
        _local.session = self.before
        if exc is not None:
            self.session.locate(exc)


class Ambient:
    """Tiles and options set outside kernels: kernels called by this thread start with them."""

    def __init__(self) -> None:
        self.scope = Scope()


def holder() -> Any:
    """What has the `scope` in force: the running session, or this thread's Ambient."""
    session = running()
    if session is not None:
        return session
    if not hasattr(_local, "ambient"):
        _local.ambient = Ambient()
    return _local.ambient


def trial() -> TileTrial | None:
    """The tile trial of this thread, None outside `pypto_sim.suggest_tiles`."""
    return getattr(_local, "trial", None)


def set_trial(value: TileTrial | None) -> None:
    """Start or end a tile trial in this thread."""
    _local.trial = value
