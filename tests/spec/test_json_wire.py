"""What the load process finds out about servers of the JSON protocols: each behaviour with each protocol it makes
sense for, several sessions at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metrobench.endpoints.base import Access
from metrobench.measure.facts import FrameFlag
from tests.servers.json_peers import MODEL, PEERS, json_script
from tests.servers.streaming import Outcome, stream

pytestmark = pytest.mark.realtime

ALL_PEERS = sorted(PEERS)
FRAMED = [name for name in ALL_PEERS if PEERS[name].frame_class in "AB"]
COUNTED = [name for name in FRAMED if name in ("vllm-realtime", "vllm-omni")]
NAMED = [name for name in FRAMED if name not in COUNTED]
TURNS = [name for name in ALL_PEERS if PEERS[name].frame_class == "D"]
SEGMENTS = [name for name in ALL_PEERS if PEERS[name].frame_class == "C"]
GREETING = [name for name in ALL_PEERS if name not in ("vllm-omni", "unmute")]
BUDGET = 0.35
CUT = 1
SESSIONS = 3

each = pytest.mark.parametrize


def frames_of(name: str) -> int:
    return 10 if PEERS[name].unit < 0.5 else 3


def run(name: str, *, sessions: int = SESSIONS, frames: int | None = None, **script: Any) -> Outcome:
    peer = PEERS[name]
    spec: dict[str, Any] = {key: script.pop(key) for key in ("connect_timeout", "budget", "mode") if key in script}
    spread = peer.unit if peer.frame_class == "D" else None
    measured = frames_of(name) if frames is None else frames
    usual = {"budget": BUDGET, "cut_frames": CUT, "frames": measured, "max_frames": measured, "spread": spread}
    return stream(json_script(name, **script), sessions=sessions, access=Access(model=MODEL), **(usual | spec))


def latency(outcome: Outcome) -> np.ndarray:
    rows = outcome.measured()
    return rows["t_done"] - rows["t_ready"]


def victims(outcome: Outcome) -> set[int]:
    return {session for session, _ in outcome.missed_frames()}


def only(found: set[int]) -> int:
    (one,) = found
    return one


@each("name", ALL_PEERS)
def test_a_server_in_time_is_met_whatever_else_it_says(name: str) -> None:
    outcome = run(name, strange=True, fragmented=True)
    assert len(outcome.measured()) == SESSIONS * frames_of(name)
    assert not len(outcome.missed())
    assert latency(outcome).min() >= 0.0
    assert outcome.last("judge").errors == 0
    assert not any(session.refused or session.t_closed for session in outcome.facts.sessions)


@each("name", ALL_PEERS)
def test_constant_lateness_is_its_length(name: str) -> None:
    late = latency(run(name, latency=0.2))
    assert late.min() >= 0.199
    assert np.median(late) < 0.3


@each("name", FRAMED)
def test_jitter_is_seen_in_the_frames_that_have_it(name: str) -> None:
    outcome = run(name, jitter=0.06)
    rows, late = outcome.measured(), latency(outcome)
    assert np.median(late[rows["frame"] % 2 == 1]) - np.median(late[rows["frame"] % 2 == 0]) > 0.04


@each("name", FRAMED)
def test_service_longer_than_a_frame_drifts(name: str) -> None:
    unit = PEERS[name].unit
    outcome = run(name, sessions=1, service=1.25 * unit, budget=1.0)
    rows, late = outcome.measured(), latency(outcome)
    slope = np.polyfit(rows["frame"], late, 1)[0]
    assert slope == pytest.approx(0.25 * unit, abs=0.01)


@each("name", FRAMED)
def test_one_session_more_than_fit_makes_all_of_them_late(name: str) -> None:
    unit = PEERS[name].unit
    assert not len(run(name, service=unit / 4).missed())
    more = run(name, sessions=6, service=unit / 4, frames=30 if unit < 0.2 else 20, budget=2 * unit)
    assert victims(more) == set(range(6))


@each("name", ALL_PEERS)
def test_an_open_socket_that_falls_silent_misses_all_further_frames(name: str) -> None:
    outcome = run(name, silent_from=[(1, 2)])
    only(victims(outcome))
    assert sorted(frame for _, frame in outcome.missed_frames()) == list(range(2, CUT + frames_of(name)))
    assert not any(session.t_closed for session in outcome.facts.sessions)


@each("name", [name for name in NAMED if name != "openai-translation"])
def test_an_answer_left_out_is_one_missed_frame(name: str) -> None:
    outcome = run(name, dropped=[(1, 5)])
    assert {frame for _, frame in outcome.missed_frames()} == {5}


@each("name", TURNS)
def test_a_turn_that_is_not_answered_is_one_missed_turn(name: str) -> None:
    outcome = run(name, dropped=[(1, 2)])
    assert [frame for _, frame in outcome.missed_frames()] == [2]


@each("name", ["vllm-realtime"])
def test_an_answer_left_out_of_a_count_delays_all_that_follow_by_a_frame(name: str) -> None:
    outcome = run(name, sessions=1, dropped=[(0, 5)])
    rows, late = outcome.measured(), latency(outcome)
    shift = np.median(late[rows["frame"] >= 5]) - np.median(late[rows["frame"] < 5])
    assert shift == pytest.approx(PEERS[name].unit, abs=0.02)


@each("name", [name for name in ALL_PEERS if name != "vllm-realtime"])
def test_an_answer_given_twice_counts_once(name: str) -> None:
    outcome = run(name, doubled=[(1, 2)])
    assert not len(outcome.missed())
    assert latency(outcome).min() >= 0.0


@each("name", ALL_PEERS)
def test_a_session_turned_away_is_refused_in_the_server_s_words(name: str) -> None:
    outcome = run(name, refuse=[1])
    (refused,) = [session for session in outcome.facts.sessions if session.refused]
    words = ("Engine is full", "capacity exhausted", "no room", "too many")
    assert any(each in refused.reason for each in words)
    assert victims(outcome) == {refused.session}


@each("name", ALL_PEERS)
def test_a_session_that_is_never_greeted_is_refused(name: str) -> None:
    outcome = run(name, queued=[2], connect_timeout=0.5)
    (refused,) = [session for session in outcome.facts.sessions if session.refused]
    assert "not accepted within 0.5 s" in refused.reason


@each("name", ALL_PEERS)
def test_a_slow_handshake_is_waited_for(name: str) -> None:
    assert not len(run(name, accept_delay=0.7, handshake_delay=0.1).missed())


@each("name", ALL_PEERS)
@each("code", [1001, 1009, 1011, 1013])
def test_a_close_is_recorded_with_its_code(name: str, code: int) -> None:
    outcome = run(name, close_at=[(1, 2, code, "said so")])
    facts = outcome.facts.sessions[only(victims(outcome))]
    assert (facts.close_code, facts.reason, facts.refused) == (code, "said so", False)


@each("name", ALL_PEERS)
def test_a_reset_connection_is_1006(name: str) -> None:
    outcome = run(name, cut_at=[(1, 2)])
    assert outcome.facts.sessions[only(victims(outcome))].close_code == 1006


@each("name", ALL_PEERS)
def test_an_error_that_ends_nothing_is_counted_in_its_words(name: str) -> None:
    outcome = run(name, error_at=[(0, 2, "odd_event")])
    judge = outcome.last("judge")
    assert (judge.errors, judge.message) == (1, "odd_event: scripted")
    assert not len(outcome.missed())


@each("name", ["vllm-realtime", "vllm-realtime/segments"])
def test_a_goodbye_that_nobody_asked_for_ends_the_session(name: str) -> None:
    outcome = run(name, hollow=[(1, 2)])
    facts = outcome.facts.sessions[only(victims(outcome))]
    assert "the context is full" in facts.reason and not facts.refused


def test_vllm_s_silence_is_an_answer_without_words() -> None:
    rows = run("vllm-realtime").measured()
    assert set(rows["tokens"][rows["frame"] % 4 == 0]) == {1}
    assert set(rows["tokens"][rows["frame"] % 4 != 0]) == {0}
    assert not (rows["flags"] & FrameFlag.CONTENT_DUE).any()


def test_omni_s_speech_is_marked() -> None:
    rows = run("vllm-omni").measured()
    assert set(rows["frame"][rows["flags"] & FrameFlag.SPEAKING > 0] % 4) == {3}


@each("name", TURNS)
def test_an_answer_that_failed_is_a_missed_turn_and_an_error(name: str) -> None:
    outcome = run(name, hollow=[(1, 2)])
    assert [frame for _, frame in outcome.missed_frames()] == [2]
    assert "overloaded" in outcome.last("judge").message


@each("name", TURNS)
@each(("pace", "broken"), [(0.05, False), (0.2, True)])
def test_speech_that_comes_too_slowly_to_be_played_is_marked(name: str, pace: float, broken: bool) -> None:
    outcome = run(name, pace=pace, budget=0.7)
    rows = outcome.measured()
    assert ((rows["flags"] & FrameFlag.BROKEN) > 0).all() == broken
    assert outcome.last("judge").missed == (len(rows) if broken else 0)


@each("name", ["vllm-realtime", "vllm-omni", "sglang-omni", "openai-translation", "qwen"])
def test_a_session_says_goodbye_and_waits_for_the_answer(name: str) -> None:
    outcome = run(name)
    assert outcome.kinds[-1] == "stopped"
    assert not any(session.reason for session in outcome.facts.sessions)
