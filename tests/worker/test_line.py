"""The order in front of the engine: histories of frames that come, are let in and leave."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from metrobench.worker.line import Line

deadlines = st.floats(0.0, 100.0)


@given(st.lists(deadlines, min_size=1, max_size=40), st.integers(1, 40))
def test_the_earliest_deadlines_are_let_in_first_and_equal_ones_by_arrival(due: list[float], most: int) -> None:
    line = Line(most)
    for session, deadline in enumerate(due):
        line.join(session, deadline)
    wanted = sorted(range(len(due)), key=lambda session: (due[session], session))
    assert line.admit() == wanted[:most]


@given(st.lists(deadlines, min_size=1, max_size=40), st.data())
def test_whoever_leaves_while_waiting_is_never_let_in(due: list[float], data: st.DataObject) -> None:
    line = Line(len(due))
    for session, deadline in enumerate(due):
        line.join(session, deadline)
    gone = data.draw(st.sets(st.sampled_from(range(len(due)))))
    for session in gone:
        line.leave(session)
    assert set(line.admit()) == set(range(len(due))) - gone


class Histories(RuleBasedStateMachine):
    """Sessions of which each has one frame at a time: waiting, inside or neither."""

    MOST = 3

    def __init__(self) -> None:
        super().__init__()
        self.line = Line(self.MOST)
        self.waiting: dict[int, float] = {}
        self.inside: set[int] = set()

    @rule(session=st.integers(0, 9), deadline=deadlines)
    def join(self, session: int, deadline: float) -> None:
        if session not in self.inside:
            self.waiting[session] = deadline
            self.line.join(session, deadline)

    @rule(session=st.integers(0, 9))
    def leave(self, session: int) -> None:
        self.line.leave(session)
        self.waiting.pop(session, None)
        self.inside.discard(session)

    @precondition(lambda self: self.waiting)
    @rule()
    def admit(self) -> None:
        admitted = self.line.admit()
        assert len(admitted) == min(len(self.waiting), self.MOST - len(self.inside))
        passed_over = [due for session, due in self.waiting.items() if session not in admitted]
        assert all(self.waiting[session] <= min(passed_over, default=100.0) for session in admitted)
        for session in admitted:
            del self.waiting[session]
        self.inside |= set(admitted)

    @invariant()
    def nothing_is_lost_and_no_more_are_inside_than_may(self) -> None:
        assert self.line.waiting == len(self.waiting)
        assert self.line.inside == len(self.inside) <= self.MOST


TestHistories = Histories.TestCase
