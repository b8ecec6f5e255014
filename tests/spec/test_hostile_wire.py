"""Servers that send what no protocol allows: the session is marked, and the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from metrobench.endpoints.base import Access
from tests.servers.binary import SESSIONS as BINARY
from tests.servers.binary import binary_script
from tests.servers.json_peers import MODEL, PEERS, json_script
from tests.servers.streaming import Outcome, stream
from tests.servers.truth import Script

pytestmark = pytest.mark.realtime

IN_CI = ("realtime", "moshi", "vllm-realtime", "openai")
"""One of each kind of wire; the rest in `make test-thorough`."""
EVERY = [
    name if name in IN_CI else pytest.param(name, marks=pytest.mark.thorough)
    for name in ("realtime", *sorted(BINARY), *sorted(PEERS))
]
BUDGET = 0.4
CUT = 1
FRAMES = 8


def script(name: str, **changes: Any) -> Script:
    """A script in a dialect."""
    if name == "realtime":
        return Script(**changes)
    return binary_script(name, **changes) if name in BINARY else json_script(name, **changes)


def run(name: str, sessions: int, frames: int, connect_timeout: float = 10.0, **changes: Any) -> Outcome:
    spread = 0.6 if name in PEERS and PEERS[name].frame_class == "D" else None
    return stream(
        script(name, **changes),
        sessions=sessions,
        frames=frames,
        max_frames=frames,
        connect_timeout=connect_timeout,
        cut_frames=CUT,
        budget=BUDGET,
        spread=spread,
        access=Access(model=MODEL),
    )


@pytest.mark.parametrize("name", EVERY)
def test_garbage_is_an_error_and_half_a_message_is_silence(name: str) -> None:
    """Session 0 gets a message that nobody can read and goes on; session 1 gets half a message, and no more."""
    outcome = run(name, 3, FRAMES, garbage_at=[(0, 3)], half_at=[(1, 4)])
    judge = outcome.last("judge")
    assert judge.errors == 1
    assert judge.message.startswith("not_understood: ")
    missed = outcome.missed_frames()
    assert len({session for session, _ in missed}) == 1
    assert {frame for _, frame in missed} >= set(range(5, CUT + FRAMES))
    assert not any(session.refused or session.t_closed is not None for session in outcome.facts.sessions)


@pytest.mark.parametrize("name", ["realtime"])
def test_an_answer_left_out_and_one_given_twice_cost_one_frame(name: str) -> None:
    outcome = run(name, 2, FRAMES, dropped=[(0, 3)], doubled=[(0, 5), (1, 4)])
    assert [frame for _, frame in outcome.missed_frames()] == [3]
    assert outcome.last("judge").errors == 0


@pytest.mark.thorough
def test_of_500_sessions_each_ends_in_exactly_one_state() -> None:
    """400 are served, 50 refused, and 50 never hear anything."""
    refuse, queued = list(range(3, 500, 10)), list(range(7, 500, 10))
    unit = {"unit": 2.0, "first_ready": 2.0}
    outcome = run("sglang-omni", 500, 2, connect_timeout=20.0, refuse=refuse, queued=queued, **unit)
    sessions = outcome.facts.sessions
    reasons = [session.reason for session in sessions if session.refused]
    assert len(sessions) == 500
    assert sum("not accepted within" in reason for reason in reasons) == 50
    assert len(reasons) == 100
    assert sum(session.t_closed is not None for session in sessions) == 0
    rows = outcome.measured()
    assert len(rows) == 2 * 500
    served = {session.session for session in sessions if not session.refused}
    assert len(served) == 400
    assert {session for session, _ in outcome.missed_frames()} == set(range(500)) - served
