"""Exceptions and warnings of the package.

Every error a user can cause derives from `PyptoError` and from the builtin that PyPTO's 0.2 and current releases raise
for the same mistake, so that code written for either version catches it. `str(error)` is the plain message, also for
`KeyError`, whose own form would quote it.
"""


class PyptoError(Exception):
    """Base of all errors of this package.

    `rule` is the id of the violated rule or "", `line` the "file:line" of the user's call or "", `kernel` the name of
    the kernel or "".
    """

    def __init__(self, message: str = "", *, rule: str = "", line: str = "", kernel: str = "") -> None:
        super().__init__(message)
        self.rule, self.line, self.kernel = rule, line, kernel

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class PyptoTypeError(PyptoError, TypeError):
    """An argument has a type that the operation does not take."""


class PyptoValueError(PyptoError, ValueError):
    """An argument has a value that the operation does not take."""


class PyptoRuntimeError(PyptoError, RuntimeError):
    """A rule of PyPTO is violated that its releases report as RuntimeError."""


class PyptoZeroDivisionError(PyptoError, ZeroDivisionError, RuntimeError):
    """A scalar is divided by zero."""


class PyptoIndexError(PyptoError, IndexError):
    """An index lies outside its axis or table."""


class PyptoKeyError(PyptoError, KeyError):
    """Unknown option, configuration key or preset; the message lists the known ones."""


class OptionError(PyptoError, ValueError, RuntimeError):
    """An option has a value that it cannot have."""


class UnknownOption(PyptoKeyError, TypeError):
    """No such option; a KeyError, and a TypeError as PyPTO raises."""


class PyptoNotImplementedError(PyptoError, NotImplementedError):
    """The name exists in PyPTO but cannot be simulated here."""


class DTypeError(PyptoError, TypeError, RuntimeError):
    """An element type is not in the operation's list, or the operands' types differ."""


class ShapeError(PyptoError, ValueError, RuntimeError):
    """Rank, size or broadcasting of the operands does not fit the operation."""


class TileError(PyptoError, ValueError, RuntimeError):
    """A tile shape is missing, has too few entries, or breaks an alignment rule."""


class HandleError(PyptoError, RuntimeError):
    """A tensor handle is used where it has no meaning, such as in another launch."""


class CapacityError(PyptoError, RuntimeError):
    """A tile does not fit an on-chip memory.

    op: operation name; tile: its tile shape; bytes: needed; limit: available; memory: "UB", "L0A", ...;
    live: (name, shape, bytes) of the tensors that have to be there at the same time.
    """

    def __init__(self, message: str = "", *, op: str = "", tile: tuple[int, ...] = (), bytes: int = 0, limit: int = 0,
                 memory: str = "", live: tuple[tuple[str, tuple[int, ...], int], ...] = (), rule: str = "",
                 line: str = "", kernel: str = "") -> None:
        super().__init__(message, rule=rule, line=line, kernel=kernel)
        self.op, self.tile, self.bytes, self.limit, self.memory, self.live = op, tile, bytes, limit, memory, live


class NeedsData(PyptoError, RuntimeError):
    """A cost-only run met a scalar whose value depends on data it does not have."""


class InternalError(PyptoError, RuntimeError):
    """A broken invariant of this package: please report it."""


class PyptoWarning(UserWarning):
    """Something real PyPTO refuses or treats differently; `rule` is the id of the rule."""

    def __init__(self, message: str = "", *, rule: str = "", line: str = "", kernel: str = "") -> None:
        super().__init__(message)
        self.rule, self.line, self.kernel = rule, line, kernel
