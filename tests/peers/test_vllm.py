"""vLLM's own realtime API with a tiny Voxtral: the timing rule, the two ways to hang, and the commands against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.sync.client import connect

from metrobench.endpoints.base import Access
from metrobench.endpoints.vllm import FIRST_READY, RATE, UNIT
from metrobench.load.spec import LoadEvent
from metrobench.measure.facts import RunFacts
from tests.peers.launch import metrobench, skip_if_busy
from tests.peers.streaming import Talk, stream
from tests.peers.vllm_server import vllm_server

pytestmark = [pytest.mark.peers, pytest.mark.engine, pytest.mark.timeout(900)]

VOXTRAL = ("--model", "voxtral-realtime", "--protocol", "vllm-realtime")
FIRST, EACH = round(FIRST_READY * RATE), round(UNIT * RATE)
"""Samples that delta 0 needs, and each one more."""
PROMPT = 39
"""Tokens before the first answer."""
FEW_POSITIONS, FEW_BLOCKS = 128, 24


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with room for 32 sessions of 37 s."""
    with vllm_server(tmp_path_factory.mktemp("vllm") / "log") as url:
        yield url


@pytest.fixture(scope="module")
def cramped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose KV pool holds four sessions, each of 89 frames."""
    pool = ("--num-gpu-blocks-override", str(FEW_BLOCKS))
    with vllm_server(tmp_path_factory.mktemp("cramped") / "log", *pool, positions=FEW_POSITIONS) as url:
        yield url


def voxtral(url: str, folder: Path, **changes: Any) -> tuple[list[LoadEvent], RunFacts]:
    """A run of the load process."""
    return stream("vllm-realtime", url, folder, UNIT, RATE, **{"access": Access(model="tiny")} | changes)


def test_delta_k_needs_9000_and_1280_k_samples_and_not_one_less(server: str) -> None:
    with connect(server) as socket:
        talk = Talk(socket, "transcription.delta")
        talk.hear("session.created")
        talk.say(type="session.update", model="tiny")
        talk.say(type="input_audio_buffer.commit")
        talk.send(FIRST - 1)
        assert talk.answers(0)
        talk.send(1)
        assert talk.answers(1)
        talk.send(3 * EACH - 1)
        assert talk.answers(2)
        talk.send(1)
        assert talk.answers(1)


def test_frames_are_answered_after_their_audio_and_within_one_more(server: str, tmp_path: Path) -> None:
    events, facts = voxtral(server, tmp_path)
    late = (facts.frames["t_done"] - facts.frames["t_ready"])[:40]
    assert np.isfinite(late).all()
    assert 0.0 < late.min() < UNIT
    assert events[-1].errors == 0


def test_a_wrong_model_is_refused_in_the_server_s_words(server: str, tmp_path: Path) -> None:
    _, facts = voxtral(server, tmp_path, access=Access(model="other"), frames=10, max_frames=10)
    (session,) = facts.sessions
    assert "model_not_found" in session.reason


def test_check_finds_protocol_and_model_by_itself(server: str, tmp_path: Path) -> None:
    words = ["--model", "voxtral-realtime", "--protocol", "auto", "--budget", "400ms"]
    code, record = metrobench("check", *words, "--endpoint", server, "--out", str(tmp_path))
    assert code == 0
    assert record["setting"]["protocol"] == "vllm-realtime"
    assert record["setting"]["served_model"] == "tiny"


def test_run_judges_eight_sessions(server: str, tmp_path: Path) -> None:
    words = ["--sessions", "8", "--duration", "15s", "--budget", "400ms", "--endpoint", server, "--out", str(tmp_path)]
    _, record = metrobench("run", *VOXTRAL, *words)
    skip_if_busy(record)
    (probe,) = record["probes"]
    misses = probe["verdict"]["misses"]
    assert misses["met"] + misses["late"] >= 0.9 * 8 * 15 / UNIT
    assert misses["dead"] == misses["early"] == misses["refused"] == 0


def test_capacity_ends_with_a_bound(server: str, tmp_path: Path) -> None:
    words = ["--effort", "quick", "--max-time", "4m", "--max-sessions", "32", "--budget", "400ms", "--yes"]
    _, record = metrobench("capacity", *VOXTRAL, *words, "--endpoint", server, "--out", str(tmp_path))
    skip_if_busy(record)
    mscs = record["result"]["mscs"]
    assert (mscs["lo"] or 0) >= 1
    assert mscs["hi"] is None or mscs["lo"] < mscs["hi"]


def test_a_context_that_is_full_ends_the_session_with_its_name(cramped: str, tmp_path: Path) -> None:
    frames = FEW_POSITIONS - PROMPT
    _, facts = voxtral(cramped, tmp_path, frames=frames + 10, max_frames=frames + 10)
    (session,) = facts.sessions
    assert "the context is full" in session.reason and not session.refused
    assert np.isfinite(facts.frames["t_done"]).sum() == frames


def test_a_full_pool_is_a_stall_of_all_sessions(cramped: str, tmp_path: Path) -> None:
    """vLLM frees nothing for sessions that wait for their next chunk: five need more blocks than there are."""
    words = ["--sessions", "5", "--duration", "15s", "--budget", "400ms", "--endpoint", cramped, "--out", str(tmp_path)]
    code, record = metrobench("run", *VOXTRAL, *words)
    (probe,) = record["probes"]
    assert probe["verdict"]["collapse"]["kind"] == "stall"
    skip_if_busy(record)
    assert probe["outcome"] == "failed"
    assert code == 0, "a collapse that was found is a result"


def test_the_pool_is_whole_again_when_they_have_left(cramped: str, tmp_path: Path) -> None:
    _, facts = voxtral(cramped, tmp_path, sessions=2, frames=30, max_frames=30)
    assert np.isfinite(facts.frames["t_done"][: 2 * 30]).all()
