"""What a check says, and what all of them say together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct, field


class Status(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


class Check(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    status: Status
    finding: str
    """In words, with the figure."""
    advice: str = ""
    """The next step; empty where there is none."""
    figures: dict[str, Any] = field(default_factory=dict)
    """What was read, in seconds, bytes and cores."""


PACING = "pacing"
"""Name of the check whose figure `trusted` says how many sessions this machine may offer."""


def not_visible(name: str, why: str) -> Check:
    """What cannot be read says nothing against the machine."""
    return Check(name, Status.SKIPPED, f"not visible here ({why})")


def first_of(name: str, rules: Iterable[tuple[bool, Status, str]], finding: str, /, **figures: Any) -> Check:
    """The check with the status and advice of the first rule that holds, ok where none does.

    `rules`: (holds, status, advice), the gravest first.
    """
    for holds, status, advice in rules:
        if holds:
            return Check(name, status, finding, advice, figures)
    return Check(name, Status.OK, finding, figures=figures)


def is_sound(checks: list[Check]) -> bool:
    """No check failed: what is measured here can be trusted, warnings apart."""
    return all(check.status is not Status.FAIL for check in checks)


def trusted_sessions(checks: list[Check]) -> int | None:
    """Most sessions that the pacing test trusts this machine with; None: not tested."""
    found = [check.figures.get("trusted") for check in checks if check.name == PACING]
    return found[0] if found else None


def verdict(checks: list[Check]) -> str:
    """One sentence."""
    failed = [check for check in checks if check.status is Status.FAIL]
    if failed:
        more = f" ({len(failed) - 1} more below)" if len(failed) > 1 else ""
        return f"not fit to measure: {failed[0].name}, {failed[0].finding}{more}"
    sessions = trusted_sessions(checks)
    trust = "no reason not to measure here, but pacing was not tested"
    if sessions is not None:
        trust = f"fit to measure: trust this machine with up to {sessions} sessions"
    doubts = sum(check.status is Status.WARN for check in checks)
    return f"{trust} ({doubts} warning{'s' if doubts > 1 else ''} below)" if doubts else trust
