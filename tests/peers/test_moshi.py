"""Moshi's own server: the timing rule, its one session, and the commands against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metrobench.endpoints.moshi import UNIT
from metrobench.load.spec import LoadEvent
from metrobench.measure.facts import RunFacts
from tests.peers import streaming
from tests.peers.launch import metrobench, skip_if_busy
from tests.peers.moshi_servers import moshi_servers

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

MOSHI = ("--model", "moshi", "--protocol", "moshi")


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server, which holds one session."""
    with moshi_servers(1, tmp_path_factory.mktemp("moshi") / "log") as url:
        yield url


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two servers behind one address."""
    with moshi_servers(2, tmp_path_factory.mktemp("moshi") / "log") as url:
        yield url


def stream(url: str, folder: Path, **changes: Any) -> tuple[list[LoadEvent], RunFacts]:
    """A run of the load process."""
    return streaming.stream("moshi", url, folder, UNIT, 24_000, **changes)


def test_reply_r_needs_frame_r_plus_1(one: str, tmp_path: Path) -> None:
    """An answer that came before its audio would have a latency below zero, one that needed a frame more at least
    80 ms."""
    events, facts = stream(one, tmp_path)
    late = (facts.frames["t_done"] - facts.frames["t_ready"])[:40]
    assert np.isfinite(late).all()
    assert late.min() > 0.0
    assert late.min() < UNIT
    assert events[-1].errors == 0


def test_a_second_session_is_refused_as_waiting_and_the_first_goes_on(one: str, tmp_path: Path) -> None:
    _, facts = stream(one, tmp_path, sessions=2, connect_timeout=2.0)
    refused = [session for session in facts.sessions if session.refused]
    assert len(refused) == 1
    assert "busy with another session" in refused[0].reason
    going = facts.frames[facts.frames["session"] != refused[0].session]
    assert np.isfinite(going["t_done"][:40]).all()


def test_the_server_is_free_again_after_a_run(one: str, tmp_path: Path) -> None:
    for place in ("a", "b"):
        _, facts = stream(one, tmp_path / place, frames=10, max_frames=10)
        assert not any(session.refused for session in facts.sessions)


def test_check_says_that_it_answers(one: str, tmp_path: Path) -> None:
    code, record = metrobench("check", *MOSHI, "--endpoint", one, "--budget", "400ms", "--out", str(tmp_path))
    assert code == 0
    assert record["status"] == "complete"


def test_run_judges_two_sessions(two: str, tmp_path: Path) -> None:
    words = ["--sessions", "2", "--duration", "10s", "--budget", "400ms", "--endpoint", two, "--out", str(tmp_path)]
    _, record = metrobench("run", *MOSHI, *words)
    (probe,) = record["probes"]
    skip_if_busy(record)
    assert probe["sessions"] == 2
    misses = probe["verdict"]["misses"]
    assert misses["met"] + misses["late"] >= 0.9 * 2 * 10 / UNIT
    assert misses["dead"] == misses["early"] == 0


def test_capacity_never_exceeds_the_number_of_servers(two: str, tmp_path: Path) -> None:
    words = ["--effort", "quick", "--max-time", "3m", "--max-sessions", "4", "--budget", "400ms", "--yes"]
    _, record = metrobench("capacity", *MOSHI, *words, "--endpoint", two, "--out", str(tmp_path))
    skip_if_busy(record)
    mscs = record["result"]["mscs"]
    assert mscs["hi"] == 3 or mscs["failed_once"] is not None
    assert (mscs["lo"] or 0) <= 2
    beyond = [probe for probe in record["probes"] if probe["sessions"] > 2]
    assert beyond and all(probe["outcome"] == "failed" for probe in beyond)
    assert all("busy with another session" in probe["close_reasons"][0] for probe in beyond)
