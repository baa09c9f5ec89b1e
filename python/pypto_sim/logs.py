"""Log and check helpers of the public interface; messages go to the logger "pypto" of the standard library."""
from __future__ import annotations

import logging
from typing import Any, NoReturn

from .enums import LogLevel
from .errors import InternalError, PyptoRuntimeError, PyptoValueError

logger = logging.getLogger("pypto")
EVENT = 60                                   # above CRITICAL: events are always written
_NUMBERS = {LogLevel.DEBUG: logging.DEBUG, LogLevel.INFO: logging.INFO, LogLevel.WARN: logging.WARNING,
            LogLevel.ERROR: logging.ERROR, LogLevel.FATAL: logging.CRITICAL, LogLevel.EVENT: EVENT}
for _level, _number in _NUMBERS.items():
    logging.addLevelName(_number, logging.getLevelName(_number) if _number < EVENT else _level.name)


def _text(parts: tuple[Any, ...]) -> str:
    return " ".join(map(str, parts))


def log_debug(*message: Any) -> None:
    """Write a message of level DEBUG."""
    logger.debug(_text(message))


def log_info(*message: Any) -> None:
    """Write a message of level INFO."""
    logger.info(_text(message))


def log_warn(*message: Any) -> None:
    """Write a message of level WARN."""
    logger.warning(_text(message))


def log_error(*message: Any) -> None:
    """Write a message of level ERROR."""
    logger.error(_text(message))


def log_fatal(*message: Any) -> None:
    """Write a message of level FATAL; nothing is stopped."""
    logger.critical(_text(message))


def log_event(*message: Any) -> None:
    """Write a message of level EVENT, which no level hides."""
    logger.log(EVENT, _text(message))


def set_log_level(level: LogLevel) -> None:
    """Write messages of `level` and above only. Raises PyptoValueError for anything but a LogLevel."""
    if not isinstance(level, LogLevel):
        raise PyptoValueError(f"pypto.set_log_level takes a pypto.LogLevel, got {level!r}")
    logger.setLevel(_NUMBERS[level])


def get_log_level() -> LogLevel:
    """Lowest level that is written."""
    return next((level for level, number in sorted(_NUMBERS.items(), key=lambda p: p[1])
                 if number >= logger.getEffectiveLevel()), LogLevel.EVENT)


def check(condition: Any, *message: Any) -> None:
    """Raise PyptoRuntimeError with `message` when `condition` is false."""
    if not condition:
        raise PyptoRuntimeError("CHECK FAILED" + (f": {_text(message)}" if message else ""))


def internal_check(condition: Any, *message: Any) -> None:
    """Raise InternalError with `message` when `condition` is false."""
    if not condition:
        raise InternalError("internal check failed" + (f": {_text(message)}" if message else ""))


def raise_error(error: Any, *message: Any) -> NoReturn:
    """Raise `error`: an exception, an exception class (made from `message`), or the text of a PyptoRuntimeError."""
    if isinstance(error, BaseException):
        raise error
    if isinstance(error, type) and issubclass(error, BaseException):
        raise error(_text(message))
    raise PyptoRuntimeError(_text((error, *message)))
