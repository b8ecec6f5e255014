from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.load.pacer import Pacer
from metrobench.schedule import make_ring, make_schedule
from metrobench.units import CHUNK

Chunk = tuple[int, int, float]


class Walk:
    """A pacer whose stretches are spelt out as (session, chunk, due)."""

    def __init__(self, sessions: int, seed: int = 1, budget: float = 1.0) -> None:
        self.schedule = make_schedule(sessions, budget, 1.0, 1.0, seed)
        self.ring = make_ring(self.schedule)
        self.pacer = Pacer(self.ring)

    def take(self, now: float, limit: int = 10**9) -> list[Chunk]:
        return [
            (self.ring.order[slot], tick - self.ring.starts[slot] - 1, tick * CHUNK + self.ring.offsets[slot])
            for tick, first, end in self.pacer.take(now, limit)
            for slot in range(first, end)
            if tick > self.ring.starts[slot]
        ]


@given(st.integers(1, 60), st.integers(0, 1000), st.lists(st.floats(0.0, 0.3), min_size=1, max_size=30))
def test_every_chunk_comes_once_in_order_and_never_early(sessions: int, seed: int, steps: list[float]) -> None:
    walk = Walk(sessions, seed)
    now, taken = 0.0, []
    for step in steps:
        now += step
        new = walk.take(now)
        assert all(due <= now for _, _, due in new)
        taken += new
    expected = {
        (session, chunk)
        for session in range(sessions)
        for chunk in range(int(now / CHUNK) + 1)
        if walk.schedule.chunk_due(session, chunk) <= now - 1e-9
    }
    assert {(session, chunk) for session, chunk, _ in taken} >= expected
    assert len(taken) == len({(session, chunk) for session, chunk, _ in taken})
    assert [due for _, _, due in taken] == sorted(due for _, _, due in taken)
    for session, chunk, due in taken:
        assert due == pytest.approx(walk.schedule.chunk_due(session, chunk), abs=1e-9)


def test_a_late_caller_gets_everything_that_is_due_and_the_schedule_does_not_move() -> None:
    walk = Walk(10)
    late = walk.take(5.0)
    assert len(late) > 1900
    assert all(due == pytest.approx(walk.schedule.chunk_due(session, chunk)) for session, chunk, due in late)


def test_limit_only_cuts_the_work_into_parts() -> None:
    whole, parts = Walk(30), Walk(30)
    expected = whole.take(1.5)
    got: list[Chunk] = []
    while parts.pacer.next_due <= 1.5:
        part = parts.take(1.5, 7)
        assert len(part) <= 7
        got += part
    assert got == expected


def test_next_due_is_where_the_next_chunk_comes() -> None:
    walk = Walk(7)
    walk.take(3.0)
    due = walk.pacer.next_due
    assert walk.take(due - 1e-6) == []
    ((_, _, taken),) = walk.take(due)
    assert taken == due


def test_session_without_audio_yet_is_left_out() -> None:
    walk = Walk(3, budget=10.0)
    last = int(walk.schedule.phases.argmax())
    taken = walk.take(float(walk.schedule.phases[last]))
    assert {session for session, _, _ in taken} == {0, 1, 2} - {last}
