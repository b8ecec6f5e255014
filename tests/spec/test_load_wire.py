"""What the load process finds out about a server whose behaviour is known to the frame."""

from __future__ import annotations

import numpy as np
import pytest

from metrobench.load.process import LoadProcess
from metrobench.load.spec import LoadEvent
from metrobench.measure.facts import FrameFlag
from tests.servers.streaming import stream, stream_once
from tests.servers.truth import ALL, Script

pytestmark = pytest.mark.realtime

SCRIPT = Script(unit=0.1, first_ready=0.1)


def script(**changes: object) -> Script:
    return Script(unit=0.1, first_ready=0.1, **changes)  # type: ignore[arg-type]


def test_a_server_in_time_has_no_misses_and_every_frame_its_row() -> None:
    outcome = stream(SCRIPT)
    assert [kind for kind in outcome.kinds if kind not in ("progress", "filling")] == [
        "ready",
        "connected",
        "filled",
        "started",
        "judge",
        "stopped",
    ]
    rows = outcome.measured()
    assert len(rows) == 4 * 10
    assert not len(outcome.missed())
    assert (rows["t_done"] >= rows["t_ready"]).all()
    assert (rows["t_first"] <= rows["t_done"]).all()
    assert (rows["t_sent"] >= rows["t_ready"]).all()
    assert (rows["tokens"] == 3).all()
    assert '"unit_ms": 100' in outcome.last("filled").greeting
    judge = outcome.last("judge")
    assert (judge.due, judge.answered, judge.missed) == (40, 40, 0)
    assert not any(session.refused or session.t_closed for session in outcome.facts.sessions)


def test_progress_tells_how_many_sessions_are_open() -> None:
    outcome = stream(script(close_at=[(1, 12, 1011, "gone")]), frames=20)
    told = [event.connected for event in outcome.events if event.kind == "progress"]
    assert told[0] == 4
    assert told[-1] == 3


def test_every_chunk_is_in_the_lag_histogram() -> None:
    outcome = stream(SCRIPT)
    schedule = outcome.spec.schedule()
    until = (outcome.facts.t_stop - schedule.phases) / 0.02
    assert outcome.facts.lag_counts.sum() == pytest.approx(until.sum(), abs=8)


def test_answers_200_ms_late_read_200_ms() -> None:
    outcome = stream(script(latency=0.2))
    latency = outcome.measured()["t_done"] - outcome.measured()["t_ready"]
    assert latency.min() >= 0.199  # the server's timers round to a millisecond
    assert np.median(latency) < 0.4


def test_one_late_answer_is_one_missed_frame_at_its_place() -> None:
    outcome = stream(script(late=[(ALL, 7, 5.0)]))
    assert outcome.missed_frames() == {(session, 7) for session in range(4)}


def test_a_session_that_is_no_longer_answered_misses_all_its_further_frames() -> None:
    outcome = stream(script(silent_from=[(2, 6)]))
    missed = outcome.missed_frames()
    assert len({session for session, _ in missed}) == 1
    assert sorted(frame for _, frame in missed) == [6, 7, 8, 9, 10, 11]
    assert not any(session.t_closed for session in outcome.facts.sessions)


def test_a_closed_session_keeps_missing_and_its_close_is_recorded() -> None:
    outcome = stream(script(close_at=[(1, 5, 1008, "context_exhausted")]))
    missed = outcome.missed_frames()
    ((victim,),) = [{session for session, _ in missed}]
    assert sorted(frame for _, frame in missed) == [5, 6, 7, 8, 9, 10, 11]
    facts = outcome.facts.sessions[victim]
    assert (facts.close_code, facts.reason, facts.refused) == (1008, "context_exhausted", False)
    closed_at = outcome.spec.schedule().frame_ready(victim, 5)
    assert facts.t_closed is not None and closed_at <= facts.t_closed < closed_at + 1.0
    assert outcome.last("judge").closed == 1
    assert outcome.last("judge").missed == 7


def test_a_broken_connection_is_a_closed_session() -> None:
    outcome = stream(script(cut_at=[(0, 4)]))
    (facts,) = [session for session in outcome.facts.sessions if session.t_closed is not None]
    assert facts.close_code == 1006
    assert "without a close" in facts.reason
    assert len(outcome.missed()) == 8


def test_refused_sessions_are_facts_and_miss_everything() -> None:
    outcome = stream(script(refuse=[1, 3]))
    refused = [session for session in outcome.facts.sessions if session.refused]
    assert len(refused) == 2
    assert {session.close_code for session in refused} == {1013}
    assert all("session_limit" in session.reason for session in refused)
    assert outcome.last("filled").refused == 2
    assert outcome.missed_frames() == {(session.session, frame) for session in refused for frame in range(2, 12)}
    rows = outcome.measured()
    dead = np.isin(rows["session"], [session.session for session in refused])
    assert np.isnan(rows["t_done"][dead]).all() and np.isnan(rows["t_sent"][dead]).all()


def test_a_stall_is_missed_to_the_frame() -> None:
    outcome = stream(script(stall=(1.0, 2.0), latency=0.0), frames=35, budget=0.5)
    start = float(outcome.spec.schedule().phases.min()) + 0.02 + 1.0
    end = start + 2.0
    missed = outcome.missed_frames()
    for row in outcome.measured():
        ready, frame = float(row["t_ready"]), (int(row["session"]), int(row["frame"]))
        if start + 0.1 < ready < end - 0.5 - 0.1:
            assert frame in missed
        elif ready < start - 0.1 or ready > end - 0.5 + 0.1:
            assert frame not in missed
    per_session = (2.0 - 0.5) / 0.1
    assert len(missed) == pytest.approx(4 * per_session, abs=8)


def test_hollow_answers_are_in_time_and_without_content() -> None:
    outcome = stream(script(hollow=[(ALL, 4), (ALL, 5)]))
    rows = outcome.measured()
    hollow = rows[(rows["tokens"] == 0) & (rows["flags"] & FrameFlag.CONTENT_DUE > 0)]
    assert set(hollow["frame"]) == {4, 5} and len(hollow) == 8
    assert not len(outcome.missed())
    assert np.isnan(hollow["t_first"]).all()


def test_a_server_that_accepts_and_never_answers_is_all_misses_and_no_hang() -> None:
    outcome = stream(script(silent_from=[(ALL, 0)]))
    assert len(outcome.missed()) == 40
    assert outcome.last("judge").missed == 40


def test_misses_beyond_the_limit_stop_the_run() -> None:
    outcome = stream(script(silent_from=[(ALL, 0)]), stop_after_misses=6, frames=40)
    assert outcome.last("stopped").message == "missed too many"
    assert outcome.last("stopped").missed > 6
    assert len(outcome.measured()) < 4 * 40


def test_a_server_that_never_says_a_word_refuses_everybody() -> None:
    outcome = stream_once(script(greet=False), connect_timeout=0.5, frames=5)
    assert all(session.refused for session in outcome.facts.sessions)
    assert "not accepted within 0.5 s" in outcome.facts.sessions[0].reason
    assert outcome.last("judge").missed == 4 * 5


def test_tokens_given_before_the_start_are_recorded() -> None:
    outcome = stream(script(accept_delay=0.2), fill_tokens=1024)
    assert [session.filled_tokens for session in outcome.facts.sessions] == [1024] * 4


def test_slow_handshakes_within_the_limit_are_no_refusal() -> None:
    outcome = stream(script(handshake_delay=0.2), sessions=3)
    assert not any(session.refused for session in outcome.facts.sessions)


def test_fragmented_answers_are_read() -> None:
    outcome = stream(script(fragmented=True))
    assert not len(outcome.missed())


def test_an_error_that_ends_nothing_is_counted() -> None:
    outcome = stream(script(error_at=[(0, 3, "unknown_event")]))
    assert not len(outcome.missed())
    assert outcome.last("judge").errors == 1
    assert outcome.last("judge").message == "unknown_event: scripted"


def test_a_fatal_error_ends_the_session_at_once() -> None:
    outcome = stream(script(error_at=[(0, 3, "engine_dead")], close_at=[(0, 4, 1011, "gone")]))
    (facts,) = [session for session in outcome.facts.sessions if session.t_closed is not None]
    assert facts.reason == "engine_dead: scripted"


def test_a_server_that_does_not_read_delays_nobody() -> None:
    outcome = stream(script(unread=True))
    rows = outcome.measured()
    assert len(outcome.missed()) == 40
    assert not np.isnan(rows["t_sent"]).any()


def test_a_run_can_be_extended_after_its_judgement() -> None:
    judged: list[int] = []

    def during(load: LoadProcess, event: LoadEvent) -> None:
        if event.kind == "judge":
            judged.append(event.due)
            if len(judged) == 1:
                load.extend(25)
            else:
                load.stop()

    outcome = stream(SCRIPT, during)
    # repeated runs judge twice each
    assert judged[-2:] == [4 * 10, 4 * 25]
    frames = outcome.facts.frames
    assert np.isin(np.arange(2, 27), frames["frame"]).all()
    assert not np.isnan(frames["t_done"][frames["frame"] < 27]).any()


def test_streaming_ends_by_itself_when_nobody_extends_or_stops() -> None:
    def watch(load: LoadProcess, event: LoadEvent) -> None:
        pass

    outcome = stream(SCRIPT, watch)
    assert outcome.last("stopped").message == "finished"
    assert outcome.facts.t_stop > outcome.last("judge").t + 2.0


def test_closed_loop_serves_what_the_server_can() -> None:
    outcome = stream_once(script(service=0.02, latency=0.0), mode="saturate", saturate_seconds=2.0)
    done = outcome.last("saturated")
    assert done.seconds == pytest.approx(2.0, abs=1.0)
    assert 0 < done.frames <= done.seconds / 0.02 + 1
    assert done.cycle_p50 is not None and done.cycle_p50 >= 0.02
    assert outcome.last("stopped").message == "finished"
