"""What holds for every controller, whatever it is shown."""

from __future__ import annotations

from hypothesis import given

from metrobench.admission.base import RETRY_HIGH
from metrobench.admission.choice import Choice
from tests.admission.drive import CEILING, KV, Period, choices, drive, periods


@given(choices, periods)
def test_everybody_who_was_offered_was_admitted_or_refused(choice: Choice, steps: list[Period]) -> None:
    door = drive(choice, steps).door
    assert door.offered == door.admitted + door.refused == sum(step.arrivals for step in steps)


@given(choices, periods)
def test_no_admitted_session_is_evicted(choice: Choice, steps: list[Period]) -> None:
    history = drive(choice, steps)
    assert history.sessions + history.left == history.door.admitted


@given(choices, periods)
def test_the_cap_never_rises_on_a_void_measurement(choice: Choice, steps: list[Period]) -> None:
    for before, after, step in drive(choice, steps).caps:
        if step.void:
            assert before == after


@given(choices, periods)
def test_nobody_is_admitted_above_cap_or_ceiling(choice: Choice, steps: list[Period]) -> None:
    for sessions, decision in drive(choice, steps).decisions:
        if decision.admitted:
            assert sessions < CEILING
            assert decision.signals.cap is None or sessions < decision.signals.cap


@given(choices, periods)
def test_the_cap_stays_between_floor_and_ceiling(choice: Choice, steps: list[Period]) -> None:
    for _, cap, _ in drive(choice, steps).caps:
        assert cap is None or 1 <= cap <= CEILING


@given(choices, periods)
def test_a_refusal_says_why_and_when_to_come_again(choice: Choice, steps: list[Period]) -> None:
    for sessions, decision in drive(choice, steps).decisions:
        if not decision.admitted:
            assert decision.code and decision.why
            assert 0.0 < decision.retry_after <= RETRY_HIGH
            assert decision.signals.sessions == sessions


@given(periods)
def test_the_kv_budget_holds_beside_the_latency(steps: list[Period]) -> None:
    for sessions, decision in drive(Choice("aimd+kv"), steps).decisions:
        assert not (decision.admitted and sessions >= KV)
