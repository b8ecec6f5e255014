"""What the load process finds out about servers of the JSON protocols, several sessions at a time: a server in time and
every way to end with each protocol, each other behaviour with one; with all it makes sense for in `make test-thorough`.
"""

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
COUNTED = [name for name in FRAMED if name in ("vllm-realtime", "vllm-omni", "minicpm-o-demo")]
TURNS = ["openai", "openai-beta", "unmute"]
BUDGET = 0.35
CUT = 1
SESSIONS = 3

each = pytest.mark.parametrize


def first(*names: str) -> list[Any]:
    """One protocol for every check, the others for the thorough one."""
    return [names[0], *(pytest.param(name, marks=pytest.mark.thorough) for name in names[1:])]


def frames_of(name: str) -> int:
    return 10 if PEERS[name].unit < 0.5 else 4


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
    """It greets late, says things that nobody knows, in fragments, and some answers twice."""
    twice = [] if name in ("vllm-realtime", "minicpm-o-demo") else [(1, 2)]
    outcome = run(name, strange=True, fragmented=True, accept_delay=0.5, handshake_delay=0.1, doubled=twice)
    assert len(outcome.measured()) == SESSIONS * frames_of(name)
    assert not len(outcome.missed())
    assert latency(outcome).min() >= 0.0
    assert outcome.last("judge").errors == 0
    assert not any(session.refused or session.t_closed or session.reason for session in outcome.facts.sessions)


@each("name", first("vllm-omni", *(name for name in ALL_PEERS if name != "vllm-omni")))
def test_lateness_and_jitter_are_as_long_as_they_are(name: str) -> None:
    outcome = run(name, latency=0.2, jitter=0.06)
    rows, late = outcome.measured(), latency(outcome)
    odd = rows["frame"] % 2 == 1
    assert late.min() >= 0.199
    assert np.median(late) < 0.32
    assert np.median(late[odd]) - np.median(late[~odd]) > 0.04


@each("name", ALL_PEERS)
def test_every_way_to_end_has_its_name(name: str) -> None:
    """Nine sessions: turned away, never greeted, silent, closed with four codes, reset, and one in which an error
    ends nothing; with the demo of MiniCPM-o it stands in place of an answer."""
    codes = [1001, 1009, 1011, 1013]
    closes = [(3 + place, 2, code, f"said {code}") for place, code in enumerate(codes)]
    ends = {"refuse": [0], "queued": [1], "silent_from": [(2, 2)], "close_at": closes, "cut_at": [(7, 2)]}
    outcome = run(name, sessions=9, connect_timeout=0.8, error_at=[(8, 2, "odd_event")], **ends)
    facts = outcome.facts.sessions
    refusals = sorted(session.reason for session in facts if session.refused)
    words = ("Engine is full", "capacity exhausted", "no room", "too many")
    assert len(refusals) == 2
    assert sum("not accepted within 0.8 s" in reason for reason in refusals) == 1
    assert sum(any(word in reason for word in words) for reason in refusals) == 1
    closed = {session.close_code: session.reason for session in facts if session.t_closed is not None}
    assert closed == {code: f"said {code}" for code in codes} | {1006: closed[1006]}
    assert "without a close" in closed[1006]
    open_still = victims(outcome) - {session.session for session in facts if session.reason}
    missed = [sorted(frame for session, frame in outcome.missed_frames() if session == each) for each in open_still]
    failed = [[2]] if name == "minicpm-o-demo" else []
    assert sorted(missed) == [*failed, list(range(2, CUT + frames_of(name)))]
    judge = outcome.last("judge")
    assert (judge.errors, judge.message) == (1, "odd_event: scripted")
    assert len(victims(outcome)) == 8 + len(failed)


@each("name", first("sglang-omni", *(name for name in FRAMED if name != "sglang-omni")))
def test_service_longer_than_a_frame_drifts(name: str) -> None:
    unit = PEERS[name].unit
    outcome = run(name, sessions=1, service=1.25 * unit, budget=1.0)
    rows, late = outcome.measured(), latency(outcome)
    slope = np.polyfit(rows["frame"], late, 1)[0]
    assert slope == pytest.approx(0.25 * unit, abs=0.01)


@each("name", first("sglang-omni", *(name for name in FRAMED if name != "sglang-omni")))
def test_one_session_more_than_fit_makes_all_of_them_late(name: str) -> None:
    unit = PEERS[name].unit
    assert not len(run(name, service=unit / 4).missed())
    more = run(name, sessions=6, service=unit / 4, frames=30 if unit < 0.2 else 20, budget=2 * unit)
    assert victims(more) == set(range(6))


@each("name", first("openai", *(name for name in ALL_PEERS if name not in (*COUNTED, "openai", "openai-translation"))))
def test_an_answer_left_out_is_one_miss(name: str) -> None:
    assert [frame for _, frame in run(name, dropped=[(1, 2)]).missed_frames()] == [2]


@each("name", first("vllm-realtime", "minicpm-o-demo"))
def test_an_answer_left_out_of_a_count_delays_all_that_follow_by_a_frame(name: str) -> None:
    outcome = run(name, sessions=1, dropped=[(0, 5)])
    rows, late = outcome.measured(), latency(outcome)
    shift = np.median(late[rows["frame"] >= 5]) - np.median(late[rows["frame"] < 5])
    assert shift == pytest.approx(PEERS[name].unit, abs=0.02)


@each("name", first("vllm-realtime", "vllm-realtime/segments", "minicpm-o"))
def test_a_goodbye_that_nobody_asked_for_ends_the_session(name: str) -> None:
    outcome = run(name, hollow=[(1, 2)])
    facts = outcome.facts.sessions[only(victims(outcome))]
    assert facts.reason.endswith(("the context is full", "context_full")) and not facts.refused


def test_vllm_s_silence_is_an_answer_without_words() -> None:
    rows = run("vllm-realtime").measured()
    assert set(rows["tokens"][rows["frame"] % 4 == 0]) == {1}
    assert set(rows["tokens"][rows["frame"] % 4 != 0]) == {0}
    assert not (rows["flags"] & FrameFlag.CONTENT_DUE).any()


def test_omni_s_speech_is_marked() -> None:
    rows = run("vllm-omni").measured()
    assert set(rows["frame"][rows["flags"] & FrameFlag.SPEAKING > 0] % 4) == {3}


@each("name", first(*TURNS))
def test_an_answer_that_failed_is_a_missed_turn_and_an_error(name: str) -> None:
    outcome = run(name, hollow=[(1, 2)])
    assert [frame for _, frame in outcome.missed_frames()] == [2]
    assert "overloaded" in outcome.last("judge").message


@each("name", first(*TURNS))
@each(("pace", "broken"), [(0.03, False), (0.12, True)])
def test_speech_that_comes_too_slowly_to_be_played_is_marked(name: str, pace: float, broken: bool) -> None:
    outcome = run(name, pace=pace, budget=0.5)
    rows = outcome.measured()
    assert ((rows["flags"] & FrameFlag.BROKEN) > 0).all() == broken
    assert outcome.last("judge").missed == (len(rows) if broken else 0)
