"""What the load process finds out about a server of requests: SGLang's streaming sessions, each behaviour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metrobench.measure.facts import FrameFlag
from tests.servers.http_peer import UNIT, http_script
from tests.servers.streaming import Outcome, stream

pytestmark = pytest.mark.realtime

BUDGET = 0.35
FRAMES = 8
END = 1 + FRAMES


def run(*, budget: float = BUDGET, sessions: int = 3, frames: int = FRAMES, **script: Any) -> Outcome:
    spec = {name: script.pop(name) for name in ("mode", "saturate_seconds", "connect_timeout") if name in script}
    usual = {"budget": budget, "cut_frames": 1, "frames": frames, "max_frames": frames}
    return stream(http_script(**script), sessions=sessions, **(usual | spec))


def latency(outcome: Outcome) -> np.ndarray:
    rows = outcome.measured()
    return rows["t_done"] - rows["t_ready"]


def missed_by(outcome: Outcome) -> list[list[int]]:
    """The missed frames of each session that has any."""
    victims = {session for session, _ in outcome.missed_frames()}
    return sorted(sorted(frame for session, frame in outcome.missed_frames() if session == each) for each in victims)


def test_a_server_in_time_answers_every_frame() -> None:
    """It opens sessions late, its bodies come in chunks and with fields that nobody knows, its packets are cut."""
    outcome = run(strange=True, fragmented=True, accept_delay=0.5)
    assert len(outcome.measured()) == 3 * FRAMES
    assert not len(outcome.missed())
    assert latency(outcome).min() >= 0.0
    assert outcome.last("judge").errors == 0
    assert not any(session.refused or session.t_closed or session.reason for session in outcome.facts.sessions)


def test_lateness_and_jitter_are_as_long_as_they_are() -> None:
    outcome = run(latency=0.2, jitter=0.06)
    rows, late = outcome.measured(), latency(outcome)
    odd = rows["frame"] % 2 == 1
    assert late.min() >= 0.199
    assert np.median(late) < 0.32
    assert np.median(late[odd]) - np.median(late[~odd]) > 0.04


def test_a_frame_is_asked_for_although_the_one_before_is_not_answered() -> None:
    """Requests wait in the connection, never in the client: service longer than a frame drifts."""
    outcome = run(sessions=1, service=1.25 * UNIT, budget=1.0)
    rows, late = outcome.measured(), latency(outcome)
    assert np.polyfit(rows["frame"], late, 1)[0] == pytest.approx(0.25 * UNIT, abs=0.01)


def test_one_session_more_than_fit_makes_all_of_them_late() -> None:
    assert not len(run(service=UNIT / 4).missed())
    more = run(sessions=6, service=UNIT / 4, frames=20, budget=2 * UNIT)
    assert {session for session, _ in more.missed_frames()} == set(range(6))


def test_an_answer_left_out_delays_all_that_follow_by_a_frame() -> None:
    outcome = run(sessions=1, dropped=[(0, 4)])
    rows, late = outcome.measured(), latency(outcome)
    shift = np.median(late[rows["frame"] >= 4]) - np.median(late[rows["frame"] < 4])
    assert shift == pytest.approx(UNIT, abs=0.02)


def test_every_way_to_end_has_its_name() -> None:
    """Seven sessions: turned away, never answered, silent, closed, reset, and two with a failed or unreadable answer,
    which go on."""
    ends = {"refuse": [0], "queued": [1], "silent_from": [(2, 2)], "close_at": [(3, 2, 1001, "")], "cut_at": [(4, 2)]}
    wrong = {"error_at": [(5, 3, "odd")], "garbage_at": [(6, 3)]}
    outcome = run(sessions=7, connect_timeout=0.8, **ends, **wrong)
    facts = outcome.facts.sessions
    refusals = sorted(session.reason for session in facts if session.refused)
    assert refusals == [
        "HTTP 400: Failed to open the session: too many sessions",
        "not accepted within 0.8 s",
    ]
    closed = [(session.close_code, session.reason) for session in facts if session.t_closed is not None]
    assert closed == [(1006, "the connection broke without a close")] * 2
    rest, whole = list(range(2, END)), list(range(1, END))
    assert missed_by(outcome) == sorted([whole, whole, rest, rest, rest, [3], [3]])
    assert outcome.last("judge").errors == 2


def test_half_a_response_is_silence() -> None:
    outcome = run(half_at=[(1, 3)])
    assert missed_by(outcome) == [list(range(3, END))]
    assert not any(session.t_closed for session in outcome.facts.sessions)


def test_an_answer_without_tokens_is_hollow() -> None:
    rows = run(hollow=[(0, 3), (1, 3), (2, 3)]).measured()
    assert set(rows["frame"][rows["tokens"] == 0]) == {3}
    assert ((rows["flags"] & FrameFlag.CONTENT_DUE) > 0).all()


def test_closed_loop_counts_the_frames_served() -> None:
    outcome = run(mode="saturate", saturate_seconds=0.5, sessions=2, latency=0.0, service=0.02)
    served = outcome.last("saturated")
    assert 2 <= served.frames <= 0.5 / 0.02 + 2
    assert served.cycle_p50 is not None and served.cycle_p50 >= 0.02
