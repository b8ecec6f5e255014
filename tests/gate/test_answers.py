"""Rules about right answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.errors import UsageError
from metrobench.gate.answers import pooled
from metrobench.gate.findings import Answer, Finding
from metrobench.gate.judge import judge
from metrobench.gate.rules import parse_policy
from metrobench.gate.samples import Answered, Sample
from metrobench.measure.intervals import Share
from tests.gate.simulated import sample


def probed(value: float, half: float = 0.02, arm: str = "window:128+32", doubt: str = "", **changes: object) -> Sample:
    right = Share(value, max(0.0, value - half), min(1.0, value + half))
    return sample(kind="quality", answered=(Answered(arm=arm, right=right, doubt=doubt),), **changes)


def only(bound: dict[str, str], before: list[Sample], now: list[Sample]) -> Finding:
    (found,) = judge(parse_policy({"quality": bound}, "a test"), before, now, ()).findings
    return found


DROP = {"max_drop": "5%"}


def test_answers_as_right_as_before_pass() -> None:
    found = only(DROP, [probed(0.8)], [probed(0.8)])
    assert found.answer is Answer.PASS
    assert (found.baseline, found.current, found.unit) == (0.8, 0.8, "share")


def test_answers_that_are_lost_fail_with_the_points() -> None:
    found = only(DROP, [probed(0.8)], [probed(0.6)])
    assert found.answer is Answer.FAIL
    assert found.effect is not None
    assert found.effect.value == pytest.approx(0.2)


@pytest.mark.parametrize(("now", "half"), [(0.76, 0.02), (0.6, 0.2)])
def test_what_the_interval_does_not_decide_cannot_be_told(now: float, half: float) -> None:
    assert only(DROP, [probed(0.8)], [probed(now, half)]).answer is Answer.CANNOT_TELL


def test_an_inconclusive_probe_decides_nothing_and_says_why() -> None:
    found = only(DROP, [probed(0.8)], [probed(0.2, doubt="enough sessions")])
    assert found.answer is Answer.CANNOT_TELL
    assert "enough sessions" in found.why


def test_each_arm_is_compared_with_its_own() -> None:
    before = [probed(0.8), probed(0.02, arm="window:128")]
    now = [probed(0.8), probed(0.02, arm="window:128")]
    found = judge(parse_policy({"quality": DROP}, "a test"), before, now, ()).findings
    assert [each.answer for each in found] == [Answer.PASS, Answer.PASS]


@pytest.mark.parametrize(("value", "answer"), [(0.9, Answer.PASS), (0.5, Answer.FAIL), (0.81, Answer.CANNOT_TELL)])
def test_a_least_share_needs_no_baseline(value: float, answer: Answer) -> None:
    assert only({"min": "80%"}, [], [probed(value)]).answer is answer


def test_a_rule_without_a_probe_cannot_tell() -> None:
    found = only(DROP, [], [sample(kind="run")])
    assert found.answer is Answer.CANNOT_TELL
    assert "no quality record" in found.why


def test_a_bound_that_is_no_rate_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_policy({"quality": {"max_drop": "5 sessions"}}, "a test")
    with pytest.raises(UsageError):
        parse_policy({"quality": {"max": "5%"}}, "a test")


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 0.5)), min_size=1, max_size=6))
def test_more_records_never_widen_the_widest_interval(ends: list[tuple[float, float]]) -> None:
    answered = [each for value, half in ends for each in probed(value, half).answered]
    found = pooled(answered)
    assert 0.0 <= found.lower <= found.value + 1e-9
    assert found.value <= found.upper + 1e-9 <= 1.0 + 2e-9
    widest = max(each.right.upper - each.right.lower for each in answered)
    assert found.upper - found.lower <= widest + 1e-9
