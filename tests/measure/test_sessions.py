"""The worst sessions of a run."""

from __future__ import annotations

import numpy as np
import pytest

from metrobench.measure.frames import build_table
from metrobench.measure.plan import plan_run
from metrobench.measure.sessions import worst_sessions
from tests.virtual_servers import facts, ready_times

PLAN = plan_run(sessions=30, budget=1.0, unit=1.0, q=0.01)


def worst(waits: np.ndarray, **changes):
    run = facts(PLAN, ready_times(PLAN), ready_times(PLAN) + waits, **changes)
    return worst_sessions(run, build_table(run, PLAN))


def calm() -> np.ndarray:
    return np.full(ready_times(PLAN).shape, 0.2)


def test_refused_come_first_then_the_most_missed_then_the_slowest() -> None:
    waits = calm()
    waits[5, PLAN.cut_frames] = 3.0
    waits[7, PLAN.cut_frames : PLAN.cut_frames + 3] = 2.0
    waits[9, PLAN.cut_frames] = 0.9
    rows = worst(waits, refused=(11,))
    assert [row.session for row in rows[:4]] == [11, 7, 5, 9]
    assert [row.missed for row in rows[1:4]] == [3, 1, 0]
    assert rows[3].slowest == pytest.approx(0.9)
    assert len(rows) == 10


def test_a_session_has_no_p99_under_100_frames() -> None:
    assert worst(calm())[0].p99 is None


def test_the_longest_gap_reaches_from_the_last_answer_to_the_end() -> None:
    waits = calm()
    waits[2, 10:] = np.inf
    run = facts(PLAN, ready_times(PLAN), ready_times(PLAN) + waits)
    row = worst_sessions(run, build_table(run, PLAN))[0]
    assert row.session == 2
    assert row.longest_gap == pytest.approx(run.t_stop - ready_times(PLAN)[2, 9] - 0.2)


def test_a_session_that_was_never_answered_has_no_slowest() -> None:
    waits = calm()
    waits[4] = np.inf
    row = worst(waits)[0]
    assert (row.session, row.slowest, row.closed) == (4, None, None)


def test_a_closed_session_says_when_and_why() -> None:
    row = worst(calm(), closed={6: (9.0, 1011)})[0]
    assert (row.session, row.closed, row.refused) == (6, 9.0, False)
