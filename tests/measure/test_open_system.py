"""Findings of open runs whose facts are made by hand."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from metrobench.measure.collapse import Kind
from metrobench.measure.facts import FRAME_DTYPE, LAG_EDGES, RunFacts, SessionFacts
from metrobench.measure.open_system import jain, open_system

UNIT = BUDGET = 1.0
WAIT = 0.1
"""Latency of every answer."""


def session(number: int, start: float, frames: int, **changes: object) -> SessionFacts:
    """One that was accepted half a second before its audio."""
    facts = SessionFacts(
        number,
        start,
        t_arrived=start - 1.0,
        t_connected=start - 0.9,
        t_accepted=start - 0.5,
        frames=frames,
        budget=BUDGET,
    )
    return replace(facts, **changes)  # type: ignore[arg-type]


def refused(number: int, t: float, code: str = "overloaded", **signals: float) -> SessionFacts:
    return SessionFacts(
        number,
        t + 1.0,
        refused=True,
        close_code=1013,
        reason=f"{code}: no room",
        t_arrived=t - 0.02,
        t_connected=t - 0.01,
        t_refused=t,
        frames=10,
        budget=BUDGET,
        signals=dict(signals),
    )


def run(sessions: list[SessionFacts], late: set[tuple[int, int]] = frozenset(), stop: float = 60.0) -> RunFacts:  # type: ignore[assignment]
    """Every planned frame is answered after WAIT, but `late` ones never; none of a refused session."""
    rows = []
    for each in sessions:
        for frame in range(each.frames or 0):
            ready = each.phase + (frame + 1) * UNIT
            silent = each.refused or (each.session, frame) in late or ready >= (each.t_closed or np.inf)
            done = np.nan if silent else ready + WAIT
            sent = np.nan if each.refused else ready
            rows.append((each.session, frame, ready, sent, done, done, 0.0, 3, 0))
    frames = np.array(rows, dtype=FRAME_DTYPE)
    counts = np.zeros(len(LAG_EDGES) - 1, dtype=np.int64)
    counts[0] = 1000
    return RunFacts(frames[frames["t_ready"] <= stop], sessions, BUDGET, UNIT, UNIT, lag_counts=counts, t_stop=stop)


def crowd(count: int = 10) -> list[SessionFacts]:
    """`count` sessions from 1 s to 41 s, and 20 refusals from 10 s to 29 s."""
    inside = [session(number, 1.0, 40) for number in range(count)]
    return inside + [refused(count + place, 10.0 + place, sessions=count, cap=count) for place in range(20)]


def test_everybody_is_admitted_or_refused() -> None:
    found = open_system(run(crowd()))
    assert (found.offered, found.admitted, found.refused) == (30, 10, 20)
    assert found.refused_by == {"overloaded": 20}
    assert len(found.refusals) == 20


def test_a_refusal_keeps_what_the_server_said_then() -> None:
    found = open_system(run(crowd()))
    assert found.refusals[0].signals == {"sessions": 10, "cap": 10}
    assert found.refusals[0].close_code == 1013
    assert found.slowest_refusal == pytest.approx(0.02)


def test_the_number_held_while_more_want_in_is_n_star() -> None:
    found = open_system(run(crowd()))
    assert (found.n_star, found.peak) == (10.0, 10)
    assert found.converged_after == pytest.approx(10.0)
    assert found.oscillation == 0.0


def test_a_swing_at_the_refusals_is_the_oscillation() -> None:
    sessions = crowd()
    for place in (0, 1, 2):  # three of ten leave at 28 s
        sessions[place] = session(place, 1.0, 26)
    found = open_system(run(sessions))
    assert found.n_star == 10.0 and found.oscillation == pytest.approx(0.3)


def test_without_pressure_there_is_no_n_star() -> None:
    found = open_system(run([session(number, 1.0 + number, 20) for number in range(10)]))
    assert (found.n_star, found.converged_after, found.oscillation) == (None, None, None)
    assert found.peak == 10


def test_refusals_of_the_pace_say_nothing_of_n_star() -> None:
    sessions = [session(number, 1.0, 40) for number in range(5)]
    sessions += [refused(5 + place, 10.0 + place, "join_pace") for place in range(20)]
    assert open_system(run(sessions)).n_star is None


def test_goodput_counts_the_seconds_answered_in_time() -> None:
    found = open_system(run(crowd(), late={(0, 5), (1, 6), (1, 7)}))
    assert (found.due, found.missed) == (400, 3)
    assert found.good_seconds == 397.0
    assert (found.admitted_seconds, found.offered_seconds) == (400.0, 600.0)


def test_frames_after_a_session_hung_up_are_nobodys_misses() -> None:
    found = open_system(run([session(0, 1.0, 5), session(1, 1.0, 40)]))
    assert (found.due, found.missed, found.lost) == (45, 0, 0)
    assert found.collapse.kind is Kind.NONE


def test_a_session_that_the_server_closed_keeps_missing() -> None:
    found = open_system(run([session(0, 1.0, 20, t_closed=11.5, close_code=1011), session(1, 1.0, 20)]))
    assert (found.lost, found.missed) == (1, 10)
    assert found.collapse.kind is Kind.SESSION_DEATH


def test_silence_for_all_is_a_stall() -> None:
    silent = {(number, frame) for number in range(3) for frame in range(15, 40)}
    found = open_system(run([session(number, 1.0, 40) for number in range(3)], late=silent))
    assert found.collapse.kind is Kind.STALL
    assert found.collapse.observed is not None and 15.0 < found.collapse.observed < 19.0


def test_who_hangs_up_without_the_last_answer_is_no_starvation() -> None:
    sessions = [session(number, 1.0 + number, 10) for number in range(6)] + [session(6, 1.0, 50)]
    found = open_system(run(sessions, late={(number, 9) for number in range(6)}))
    assert (found.collapse.kind, found.missed) == (Kind.NONE, 6)
    assert max(wait for wait in found.series.p99 if wait is not None) <= BUDGET


def test_all_hanging_up_at_once_is_no_death() -> None:
    assert open_system(run([session(number, 1.0, 20) for number in range(5)])).collapse.kind is Kind.NONE


def test_the_death_of_all_that_were_open_is_the_engines_though_others_had_left() -> None:
    early = [session(number, 1.0, 5) for number in range(3)]
    dying = [session(number, 3.0, 40, t_closed=20.0, close_code=1011) for number in range(3, 6)]
    assert open_system(run(early + dying)).collapse.kind is Kind.ENGINE_DEATH


def test_each_session_is_judged_by_its_own_budget() -> None:
    sessions = [session(0, 1.0, 10), session(1, 1.0, 10, budget=0.05)]
    assert open_system(run(sessions)).missed == 10


def test_who_was_not_accepted_in_time_was_refused_by_nobody_but_the_clock() -> None:
    slow = session(1, 1.0, 10, refused=True, t_accepted=None, t_refused=1.0, reason="not accepted within 1.0 s")
    far = session(2, 1.0, 10, refused=True, t_accepted=None, t_connected=None, reason="connection refused")
    assert open_system(run([session(0, 1.0, 10), slow, far])).refused_by == {"not-reached": 1, "too-slow": 1}


def test_the_series_has_a_value_for_every_second() -> None:
    series = open_system(run(crowd())).series
    assert len(series.t) == len(series.sessions) == len(series.p50) == len(series.missed) == 60
    assert series.sessions[19] == 10 and series.sessions[50] == 0
    assert series.refused[-1] == 20 and series.offered[-1] == 30
    assert series.p50[20] == pytest.approx(WAIT)
    assert series.p50[55] is None


def test_no_number_is_infinite_where_nobody_was_admitted() -> None:
    found = open_system(run([refused(number, 5.0 + number) for number in range(8)]))
    assert (found.admitted, found.n_star, found.fairness) == (0, None, None)
    assert b"inf" not in msgspec.json.encode(found).lower() and b"nan" not in msgspec.json.encode(found).lower()


def test_an_interrupted_run_is_read_as_far_as_it_went() -> None:
    coming = session(30, 20.0, 10, t_connected=None, t_accepted=None)
    sessions = [row for row in crowd() if not row.refused or (row.t_refused or 0.0) < 12.0]
    found = open_system(run([*sessions, replace(coming, session=len(sessions))], stop=12.0))
    assert (found.offered, found.admitted, found.refused) == (12, 10, 2)
    assert (found.due, found.missed) == (100, 0)
    assert found.admitted_seconds == 100.0


def test_jains_index_is_one_for_equal_shares_and_one_in_n_for_a_single_winner() -> None:
    assert jain(np.ones(7)) == pytest.approx(1.0)
    assert jain(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx(0.25)
    assert jain(np.zeros(3)) is None


def test_each_session_keeps_its_misses_and_the_most_in_20_frames() -> None:
    sessions = [session(0, 1.0, 40), session(1, 1.0, 40), session(2, 1.0, 10)]
    found = open_system(run(sessions, late={(1, 3), (1, 22), (1, 24), (2, 5)}))
    assert [(row.session, row.due, row.missed, row.worst) for row in found.firm] == [
        (0, 40, 0, 0),
        (1, 40, 3, 2),
        (2, 10, 1, None),
    ]


def test_budgets_are_judged_side_by_side_each_by_its_own() -> None:
    tight = [session(number, 1.0, 30, budget=WAIT / 2) for number in range(3)]
    found = open_system(run([*tight, *(session(number, 1.0, 30) for number in range(3, 5))]))
    assert [(each.budget, each.sessions, each.missed, each.not_firm) for each in found.budgets] == [
        (WAIT / 2, 3, 90, 3),
        (BUDGET, 2, 0, 0),
    ]
    assert all(each.p50 == pytest.approx(WAIT) for each in found.budgets)


def test_a_refused_session_is_in_no_class() -> None:
    found = open_system(run(crowd()))
    assert [each.sessions for each in found.budgets] == [10]
