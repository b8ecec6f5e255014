"""The unmodified wire layers of sglang-omni and vllm-omni: their timing rules, their refusals, and the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.sync.client import connect

from metrobench.endpoints.base import Access
from metrobench.load.spec import LoadEvent
from metrobench.measure.facts import RunFacts
from tests.peers import streaming
from tests.peers.launch import metrobench, run, skip_if_busy
from tests.peers.streaming import Talk
from tests.peers.wire_servers import sglang_omni, vllm_omni

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

UNIT, RATE = 0.080, 16_000
WORK_MS, CONNECTIONS = 30, 4
"""An engine that does two sessions in a unit, and falls behind with three."""
SAMPLES = round(UNIT * RATE)


@pytest.fixture(scope="module")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """sglang-omni with an engine that has time for two sessions, and room for four."""
    with sglang_omni(tmp_path_factory.mktemp("sglang") / "log", WORK_MS, CONNECTIONS) as url:
        yield url


@pytest.fixture(scope="module")
def omni(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """vllm-omni with units of 80 ms and two places."""
    with vllm_omni(tmp_path_factory.mktemp("omni") / "log", round(UNIT * 1000), 2) as url:
        yield url


def stream(protocol: str, url: str, folder: Path, **changes: Any) -> tuple[list[LoadEvent], RunFacts]:
    """A run of the load process."""
    return streaming.stream(protocol, url, folder, UNIT, RATE, **changes)


def test_sglang_omni_s_unit_k_needs_exactly_its_samples(sglang: str) -> None:
    with connect(sglang) as socket:
        talk = Talk(socket, "sglang.unit.done")
        talk.hear("session.created")
        audio = {"input": {"format": {"type": "audio/pcm", "rate": RATE}}}
        talk.say(type="session.update", event_id="a", session={"type": "realtime", "audio": audio})
        talk.hear("session.updated")
        for seq, (samples, units) in enumerate([(SAMPLES - 1, 0), (1, 1), (3 * SAMPLES - 1, 2), (1, 1)]):
            talk.send(samples, event_id="b", sglang={"seq": seq})
            assert talk.answers(units)


def test_vllm_omni_s_unit_k_needs_exactly_its_samples(omni: str) -> None:
    with connect(omni + "?duplex=1&autostart=0") as socket:
        talk = Talk(socket, "response.listen")
        session = {"model": "toy", "modalities": ["audio", "text"], "input_audio_format": "pcm16"}
        talk.say(type="session.update", session=session | {"extra_body": {"auto_response": True}})
        talk.hear("session.created")
        for samples, units in [(SAMPLES - 1, 0), (1, 1), (3 * SAMPLES - 1, 2), (1, 1)]:
            talk.send(samples, format="pcm16", sample_rate_hz=RATE)
            assert talk.answers(units)
        talk.say(type="session.close", event_id="c")
        talk.hear("session.closed")


@pytest.mark.parametrize("name", ["sglang-omni", "vllm-omni"])
def test_frames_are_answered_after_their_audio_and_within_one_more(
    name: str, sglang: str, omni: str, tmp_path: Path
) -> None:
    events, facts = stream(name, sglang if name == "sglang-omni" else omni, tmp_path, access=Access(model="toy"))
    late = (facts.frames["t_done"] - facts.frames["t_ready"])[:40]
    assert np.isfinite(late).all()
    assert 0.0 < late.min() < UNIT
    assert events[-1].errors == 0


@pytest.mark.parametrize(
    ("name", "places", "words"), [("sglang-omni", CONNECTIONS, "HTTP 503"), ("vllm-omni", 2, "resource_exhausted")]
)
def test_a_session_too_many_is_refused_in_the_server_s_words(
    name: str, places: int, words: str, sglang: str, omni: str, tmp_path: Path
) -> None:
    url = sglang if name == "sglang-omni" else omni
    _, facts = stream(name, url, tmp_path, sessions=places + 1, frames=5, max_frames=5)
    (refused,) = [session for session in facts.sessions if session.refused]
    assert words in refused.reason


@pytest.mark.parametrize("name", ["sglang-omni", "vllm-omni"])
def test_places_are_free_again_after_a_run(name: str, sglang: str, omni: str, tmp_path: Path) -> None:
    for place in ("a", "b"):
        url = sglang if name == "sglang-omni" else omni
        _, facts = stream(name, url, tmp_path / place, sessions=2, frames=5, max_frames=5)
        assert not any(session.refused for session in facts.sessions)


def test_sglang_omni_refuses_a_model_that_it_does_not_serve(sglang: str, tmp_path: Path) -> None:
    address = ["--endpoint", sglang, "--served-model", "other", "--out", str(tmp_path)]
    done = run("check", "--model", "moshi", "--protocol", "sglang-omni", *address)
    assert done.returncode == 4
    assert "HTTP 403" in done.stderr


def test_frames_of_another_length_are_wrong_usage(sglang: str, tmp_path: Path) -> None:
    address = ["--endpoint", sglang, "--out", str(tmp_path)]
    done = run("check", "--model", "minicpm-o", "--protocol", "auto", *address)
    assert done.returncode == 2
    assert "80 ms of audio, not 1000 ms" in done.stderr


def test_run_judges_two_sessions_of_vllm_omni(omni: str, tmp_path: Path) -> None:
    words = ["--sessions", "2", "--duration", "10s", "--budget", "400ms", "--endpoint", omni, "--out", str(tmp_path)]
    _, record = metrobench("run", "--model", "moshi", "--protocol", "vllm-omni", *words)
    skip_if_busy(record)
    (probe,) = record["probes"]
    assert probe["verdict"]["misses"]["met"] >= 0.9 * 2 * 10 / UNIT


def test_capacity_finds_the_two_sessions_that_the_engine_has_time_for(sglang: str, tmp_path: Path) -> None:
    words = ["--effort", "quick", "--max-time", "4m", "--max-sessions", "4", "--budget", "160ms", "--yes"]
    where = ["--endpoint", sglang, "--out", str(tmp_path)]
    _, record = metrobench("capacity", "--model", "moshi", "--protocol", "sglang-omni", *words, *where)
    assert not any(probe["outcome"] == "passed" for probe in record["probes"] if probe["sessions"] > 2)
    if any(probe["outcome"] == "void" for probe in record["probes"]):
        pytest.skip("this machine is too busy")
    mscs = record["result"]["mscs"]
    assert (mscs["lo"], mscs["hi"]) == (2, 3)
