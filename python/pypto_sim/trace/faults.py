"""From faults of the core to exceptions of the package."""
from __future__ import annotations

from typing import Any, NoReturn

from ..errors import InternalError, PyptoError, PyptoRuntimeError
from ..rules import RULES, message

ALIASES = {"read_before_write": "read.unwritten", "assemble.negative_offset": "assemble.past_end"}


def raise_core_error(error: Any, kernel: str) -> NoReturn:
    """Raise the rule's exception for a CoreError (code, message, line). Unknown codes are broken invariants."""
    code, text, line = (*error.args, "", "", "")[:3]
    code = ALIASES.get(code, code)
    rule = RULES.get(code)
    kind: type[PyptoError] = rule.error if rule else InternalError if code == "internal" else PyptoRuntimeError
    raise kind(message(f"{text} [{code}]", line, kernel), rule=code, line=line, kernel=kernel) from None
