"""Errors that people read: one or two lines (cause, next step) and an exit code."""

from __future__ import annotations

EXIT_CODES = {
    0: "done; a collapse that was found is a result",
    1: "a gate or a limit that was asked for is not met, a corpus is not sound, or check got no answer",
    2: "wrong usage, unreadable input, or a folder that cannot be written",
    3: "the measurement is not valid, or not enough to tell",
    4: "endpoint, engine or network not reachable, or dead at start",
    130: "interrupted (Ctrl-C); a partial record is written",
    143: "terminated (SIGTERM); a partial record is written",
}
"""How every command ends."""


class MetrobenchError(Exception):
    """Base of every expected error. `hint` is the next step, printed on its own line."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MetrobenchError):
    """Wrong usage, unreadable input, or an output folder that cannot be written."""

    exit_code = 2


class NotValidError(MetrobenchError):
    """The measurement is not valid, or not enough to tell."""

    exit_code = 3


class UnreachableError(MetrobenchError):
    """Endpoint or engine not reachable, or dead at start."""

    exit_code = 4
