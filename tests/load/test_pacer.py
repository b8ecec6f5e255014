from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.load.pacer import Pacer
from metrobench.schedule import Schedule, make_ring, make_schedule


def make(sessions: int, seed: int = 1, budget: float = 1.0) -> tuple[Schedule, Pacer]:
    schedule = make_schedule(sessions, budget, 1.0, 1.0, seed)
    return schedule, Pacer(make_ring(schedule))


@given(st.integers(1, 60), st.integers(0, 1000), st.lists(st.floats(0.0, 0.3), min_size=1, max_size=30))
def test_every_chunk_comes_once_in_order_and_never_early(sessions: int, seed: int, steps: list[float]) -> None:
    schedule, pacer = make(sessions, seed)
    now, taken = 0.0, []
    for step in steps:
        now += step
        new = pacer.take(now, 10**9)
        assert all(due <= now for _, _, due in new)
        taken += new
    expected = {
        (session, chunk)
        for session in range(sessions)
        for chunk in range(int(now / 0.02) + 1)
        if schedule.chunk_due(session, chunk) <= now - 1e-9
    }
    assert {(session, chunk) for session, chunk, _ in taken} >= expected
    assert len(taken) == len({(session, chunk) for session, chunk, _ in taken})
    assert [due for _, _, due in taken] == sorted(due for _, _, due in taken)
    for session, chunk, due in taken:
        assert due == pytest.approx(schedule.chunk_due(session, chunk), abs=1e-9)


def test_a_late_caller_gets_everything_that_is_due_and_the_schedule_does_not_move() -> None:
    schedule, pacer = make(10)
    late = pacer.take(5.0, 10**9)
    assert len(late) > 1900
    assert all(due == pytest.approx(schedule.chunk_due(session, chunk)) for session, chunk, due in late)


def test_limit_only_cuts_the_work_into_parts() -> None:
    _, whole = make(30)
    _, parts = make(30)
    expected = whole.take(1.5, 10**9)
    got = []
    while part := parts.take(1.5, 7):
        assert len(part) <= 7
        got += part
    assert got == expected


def test_next_due_is_where_the_next_chunk_comes() -> None:
    _, pacer = make(7)
    pacer.take(3.0, 10**9)
    due = pacer.next_due
    assert pacer.take(due - 1e-6, 10) == []
    ((_, _, taken),) = pacer.take(due, 10)
    assert taken == due


def test_session_without_audio_yet_is_left_out() -> None:
    schedule, pacer = make(3, budget=10.0)
    last = int(schedule.phases.argmax())
    taken = pacer.take(float(schedule.phases[last]), 10**9)
    assert {session for session, _, _ in taken} == {0, 1, 2} - {last}
