"""What the load process finds out about servers of the binary protocols, each behaviour with each protocol."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.servers.binary import UNIT, binary_script
from tests.servers.streaming import Outcome, stream

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.parametrize("protocol", ["moshi", pytest.param("kyutai-stt", marks=pytest.mark.thorough)]),
]

BUDGET = 0.4
FRAMES = 10
END = 2 + FRAMES


def run(protocol: str, *, budget: float = BUDGET, sessions: int = 3, frames: int = FRAMES, **script: Any) -> Outcome:
    spec = {name: script.pop(name) for name in ("mode", "saturate_seconds", "connect_timeout") if name in script}
    return stream(binary_script(protocol, **script), budget=budget, sessions=sessions, frames=frames, **spec)


def refused(outcome: Outcome) -> list[int]:
    return [session.session for session in outcome.facts.sessions if session.refused]


def latency(outcome: Outcome) -> np.ndarray:
    rows = outcome.measured()
    return rows["t_done"] - rows["t_ready"]


def test_a_server_in_time_answers_every_frame(protocol: str) -> None:
    outcome = run(protocol, fragmented=True)
    assert len(outcome.measured()) == 3 * FRAMES
    assert not len(outcome.missed())
    assert latency(outcome).min() >= 0.0
    assert latency(outcome).max() < UNIT
    assert outcome.last("judge").errors == 0


def test_constant_lateness_is_its_length(protocol: str) -> None:
    late = latency(run(protocol, latency=0.2))
    assert late.min() >= 0.199
    assert np.median(late) < 0.35


def test_jitter_is_seen_in_the_frames_that_have_it(protocol: str) -> None:
    outcome = run(protocol, jitter=0.06)
    rows, late = outcome.measured(), latency(outcome)
    assert np.median(late[rows["frame"] % 2 == 1]) - np.median(late[rows["frame"] % 2 == 0]) > 0.04


def test_service_longer_than_a_frame_drifts(protocol: str) -> None:
    outcome = run(protocol, sessions=1, service=0.1, frames=15, budget=1.0)
    rows, late = outcome.measured(), latency(outcome)
    slope = np.polyfit(rows["frame"], late, 1)[0]
    assert slope == pytest.approx(0.1 - UNIT, abs=0.005)


def test_one_session_more_than_fit_makes_all_of_them_late(protocol: str) -> None:
    fits = run(protocol, sessions=3, service=0.025, frames=12)
    assert not len(fits.missed())
    more = run(protocol, sessions=5, service=0.025, frames=25)
    assert {session for session, _ in more.missed_frames()} == set(range(5))


def test_an_open_socket_that_falls_silent_misses_all_further_frames(protocol: str) -> None:
    outcome = run(protocol, silent_from=[(1, 6)])
    missed = outcome.missed_frames()
    assert len({session for session, _ in missed}) == 1
    assert sorted(frame for _, frame in missed) == list(range(6, END))
    assert not any(session.t_closed for session in outcome.facts.sessions)


def test_an_answer_left_out_delays_all_that_follow_by_a_frame(protocol: str) -> None:
    """Answers are counted, as the protocol says neither index nor time: the lack shows as lateness."""
    outcome = run(protocol, sessions=1, dropped=[(0, 5)])
    rows, late = outcome.measured(), latency(outcome)
    after, before = late[rows["frame"] >= 5], late[rows["frame"] < 5]
    assert np.median(after) - np.median(before) == pytest.approx(UNIT, abs=0.015)


def test_a_stall_of_the_server_misses_the_frames_in_it_and_no_others(protocol: str) -> None:
    outcome = run(protocol, sessions=1, stall=(0.5, 0.6), budget=0.2, frames=16)
    missed = sorted(frame for _, frame in outcome.missed_frames())
    assert 3 <= len(missed) <= 6
    assert missed == list(range(missed[0], missed[-1] + 1))
    assert 3 <= missed[0] <= 7


def test_a_session_turned_away_is_refused_in_the_server_s_words(protocol: str) -> None:
    outcome = run(protocol, refuse=[1])
    (victim,) = refused(outcome)
    reason = outcome.facts.sessions[victim].reason
    assert reason == ("busy" if protocol == "moshi" else "error: no free channels")
    assert outcome.last("filled").refused == 1


def test_a_session_that_is_never_greeted_is_refused_as_queued(protocol: str) -> None:
    outcome = run(protocol, queued=[2], connect_timeout=0.5)
    (victim,) = refused(outcome)
    assert "within 0.5 s" in outcome.facts.sessions[victim].reason
    if protocol == "moshi":
        assert "busy with another session" in outcome.facts.sessions[victim].reason
    others = {session for session, _ in outcome.missed_frames()}
    assert others == {victim}


def test_a_slow_greeting_is_waited_for(protocol: str) -> None:
    assert not len(run(protocol, accept_delay=0.7).missed())


def test_a_close_is_recorded_with_its_code(protocol: str) -> None:
    codes = [1000, 1001, 1009, 1011, 1013]
    closes = [(session, 5, code, f"said {code}") for session, code in enumerate(codes)]
    outcome = run(protocol, sessions=len(codes) + 1, close_at=closes)
    ended = [session for session in outcome.facts.sessions if session.t_closed is not None]
    assert {session.session for session in ended} == {session for session, _ in outcome.missed_frames()}
    assert {session.close_code: session.reason for session in ended} == {code: f"said {code}" for code in codes}
    assert not any(session.refused for session in ended)


def test_a_reset_connection_is_1006(protocol: str) -> None:
    outcome = run(protocol, cut_at=[(1, 5)])
    ((victim,),) = [{session for session, _ in outcome.missed_frames()}]
    assert outcome.facts.sessions[victim].close_code == 1006


def test_an_error_message_ends_the_session_with_its_words(protocol: str) -> None:
    outcome = run(protocol, error_at=[(0, 4, "model fell over")])
    ended = [session for session in outcome.facts.sessions if session.t_closed is not None]
    assert [session.reason for session in ended] == ["error: model fell over"]


def test_closed_loop_counts_the_frames_served(protocol: str) -> None:
    outcome = run(protocol, mode="saturate", saturate_seconds=0.5, sessions=2, latency=0.0, service=0.02)
    served = outcome.last("saturated")
    assert 2 <= served.frames <= 0.5 / 0.02 + 2
    assert served.cycle_p50 is not None and served.cycle_p50 >= 0.02
