"""What a gate answers."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from metrobench.gate.comparability import Difference
from metrobench.gate.moderated import More
from metrobench.gate.rules import Rule


class Answer(StrEnum):
    """Of one rule, and of the gate."""

    PASS = "pass"
    FAIL = "fail"
    CANNOT_TELL = "cannot tell"


class Effect(Struct, frozen=True):
    """How large the change or the level is, with its 95 % interval; in the unit of the finding."""

    value: float
    lower: float | None
    """None: no end."""
    upper: float | None


class Finding(Struct, frozen=True, kw_only=True):
    """One rule applied to one group of records."""

    rule: Rule
    scope: str
    """Which records: model, policy, sessions."""
    answer: Answer
    unit: str
    """Of baseline, current and effect: sessions, share, seconds or seconds per second. A relative bound's effect is a
    share of the baseline's value whatever the unit; of quality it is in points."""
    baseline: float | None = None
    """The baseline's value; None: the rule needs none, or there is none."""
    current: float | None = None
    effect: Effect | None = None
    """Relative bounds: the change as a share of the baseline's value, down positive for max_drop. Else the level."""
    test: str = ""
    """Name of the test; empty: none was made."""
    p: float | None = None
    """One-sided p-value of no change for the worse; None: the test has none."""
    records: tuple[int, int] = (0, 0)
    """Records or runs of baseline and current that were used."""
    why: str = ""
    """In words; empty where the numbers say it."""
    more: More | None = None
    """Further records that would decide; None: decided, or not known to."""


class Verdict(Struct, frozen=True, kw_only=True):
    """The gate's answer."""

    answer: Answer
    findings: tuple[Finding, ...]
    differences: tuple[Difference, ...]
    """Conditions that are not the same; where one is not allowed, no rule against the baseline can tell."""
    notes: tuple[str, ...]
    """What was left out, and other doubts."""


def overall(findings: tuple[Finding, ...]) -> Answer:
    """A single failure fails; nothing at all cannot tell."""
    answers = {finding.answer for finding in findings}
    if Answer.FAIL in answers:
        return Answer.FAIL
    return Answer.CANNOT_TELL if Answer.CANNOT_TELL in answers or not answers else Answer.PASS


def exit_code(answer: Answer, strict: bool) -> int:
    """measurement.md, Exit codes."""
    return {Answer.PASS: 0, Answer.FAIL: 1, Answer.CANNOT_TELL: 1 if strict else 3}[answer]
