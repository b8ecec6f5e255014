"""Why an engine process ended while it started: vLLM's front end only says that it did, the log says why."""

from __future__ import annotations

import re
from pathlib import Path

_RAISED = re.compile(r"^(?:\([^)]*\) )?(?:ERROR [^\]]*\] )?(?:\w+\.)*(\w+(?:Error|Exception)): (\S.*)$", re.MULTILINE)
"""The last line of a traceback, as Python prints it or behind vLLM's log prefix."""


def size(log: Path) -> int:
    """Bytes in the log; 0 when there is none."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_raised(log: Path, start: int) -> tuple[str, str] | None:
    """Name and message of the last exception printed after byte `start` of the log; None where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(start)
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    found = _RAISED.findall(text)
    return found[-1] if found else None
