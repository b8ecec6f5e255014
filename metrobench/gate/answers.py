"""Rules about right answers, of quality records. A drop is in points: a share less a share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from metrobench.gate.findings import Answer, Effect, Finding
from metrobench.gate.groups import Group
from metrobench.gate.moderated import PASS_RISK
from metrobench.gate.rules import Rule
from metrobench.gate.samples import Answered
from metrobench.measure.intervals import Share

DIFFERENCE = "difference of shares (Newcombe 1998)"
LEVEL = "interval over sessions"


def quality_drop(rule: Rule, before: Group, now: Group, risk: float) -> Finding:
    """Are fewer answers right, by more than the limit? `risk`: of a false failure."""
    about = _about(rule, now, (len(before.answered), len(now.answered)))
    if doubt := _doubt([*before.answered, *now.answered]):
        return Finding(**about, answer=Answer.CANNOT_TELL, why=doubt)
    was, is_ = pooled(before.answered), pooled(now.answered)
    drop = was.value - is_.value
    below = math.hypot(was.value - was.lower, is_.upper - is_.value)
    above = math.hypot(was.upper - was.value, is_.value - is_.lower)
    about |= {
        "baseline": was.value,
        "current": is_.value,
        "effect": Effect(drop, drop - below, drop + above),
        "test": DIFFERENCE,
    }
    if drop > rule.limit and drop - below * _wider(risk) > 0.0:
        return Finding(**about, answer=Answer.FAIL)
    if drop + above * _wider(PASS_RISK) <= rule.limit:
        return Finding(**about, answer=Answer.PASS)
    return Finding(
        **about, answer=Answer.CANNOT_TELL, why="more --sessions, or more records, would narrow the interval"
    )


def quality_min(rule: Rule, now: Group) -> Finding:
    """Are at least so many answers right?"""
    about = _about(rule, now, (0, len(now.answered)))
    if doubt := _doubt(now.answered):
        return Finding(**about, answer=Answer.CANNOT_TELL, why=doubt)
    share = pooled(now.answered)
    about |= {"current": share.value, "effect": Effect(share.value, share.lower, share.upper), "test": LEVEL}
    if share.lower >= rule.limit:
        return Finding(**about, answer=Answer.PASS)
    if share.upper < rule.limit:
        return Finding(**about, answer=Answer.FAIL)
    return Finding(**about, answer=Answer.CANNOT_TELL, why="the interval holds the limit: more --sessions narrow it")


def pooled(answered: Sequence[Answered]) -> Share:
    """Mean of the shares of independent records; distances of the ends add up as squares."""
    count = len(answered)
    value = sum(each.right.value for each in answered) / count
    below = math.hypot(*(each.right.value - each.right.lower for each in answered)) / count
    above = math.hypot(*(each.right.upper - each.right.value for each in answered)) / count
    return Share(value, max(0.0, value - below), min(1.0, value + above))


def _about(rule: Rule, now: Group, records: tuple[int, int]) -> dict[str, Any]:
    return {"rule": rule, "scope": now.scope, "unit": "share", "records": records}


def _doubt(answered: Sequence[Answered]) -> str:
    doubts = [each.doubt for each in answered if each.doubt]
    return f"a probe is inconclusive: {doubts[0]}" if doubts else ""


def _wider(risk: float) -> float:
    """By what a distance of a two-sided 95 % interval grows to be exceeded with one-sided probability `risk`."""
    from scipy.special import ndtri

    return float(ndtri(1.0 - risk) / ndtri(0.975))
