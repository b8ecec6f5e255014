from __future__ import annotations

import pytest

from metrobench.admission.base import Code
from metrobench.admission.choice import Choice, make_door, parse_admission
from metrobench.admission.door import JOINS
from metrobench.errors import UsageError


@pytest.mark.parametrize("text", ["none", "static:64", "kv", "aimd", "aimd+kv"])
def test_every_rule_is_read_and_written_alike(text: str) -> None:
    assert str(parse_admission(text)) == text


@pytest.mark.parametrize("text", ["", "static", "static:0", "static:70000", "aimd+", "AIMD", "static:-1"])
def test_other_words_are_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(UsageError):
        parse_admission(text)


def test_a_join_storm_is_paced_and_told_when_the_next_place_is_free() -> None:
    door = make_door(Choice("aimd"), 1.0, None, 1000)
    answers = [door.ask(0.25, 0) for _ in range(JOINS + 1)]
    assert all(answer.admitted for answer in answers[:-1])
    assert (answers[-1].code, answers[-1].retry_after) == (Code.PACE, 1.0)
    assert door.ask(1.3, 0).admitted


def test_more_may_join_beside_many() -> None:
    door = make_door(Choice("static", 1000), 1.0, None, 1000)
    assert sum(door.ask(0.0, 400).admitted for _ in range(100)) == 100  # a fixed limit paces nobody
    door = make_door(Choice("aimd"), 1.0, None, 1000)
    door.controller._level = 1000.0  # type: ignore[attr-defined]
    assert sum(door.ask(0.0, 400).admitted for _ in range(100)) == 50


def test_the_hint_follows_from_how_fast_sessions_leave() -> None:
    door = make_door(Choice("static", 1), 1.0, None, 10)
    assert door.ask(0.0, 1).retry_after == 10.0
    for t in (5.0, 10.0):
        door.left(t)
    assert door.ask(20.0, 1).retry_after == 10.0
    for t in range(30, 40):
        door.left(float(t))
    assert door.ask(40.0, 1).retry_after == pytest.approx(40.0 / 12)


def test_a_ceiling_refuses_under_any_rule() -> None:
    decision = make_door(Choice("none"), 1.0, None, 3).ask(0.0, 3)
    assert (decision.admitted, decision.code) == (False, Code.SESSIONS)


def test_without_a_bounded_policy_the_kv_budget_admits_all() -> None:
    assert make_door(Choice("kv"), 1.0, None, 1000).ask(0.0, 900).admitted
