"""What is known of server, client and machine lies on one axis of time; the forecast is told what is open."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from metrobench.journal import Journal
from metrobench.load.spec import LoadEvent
from metrobench.predict.ahead import Follower
from metrobench.predict.model import Pool
from metrobench.probe import Sampler


class Gauge:
    """A server that shows its pool."""

    url = ""

    def telemetry(self) -> list[dict[str, float | None]]:
        return [{"t": time.monotonic(), "kv_usage": 0.1, "resident_tokens": 100.0}]

    def death(self) -> None:
        return None

    def describe(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("events", "sessions"),
    [
        ([LoadEvent("connected", connected=8)], 8),
        ([LoadEvent("connected", connected=8), LoadEvent("filled", filled=7, refused=1)], 7),
        ([LoadEvent("connected", connected=8), LoadEvent("progress", connected=6, closed=2)], 6),
        ([LoadEvent("progress", connected=6), LoadEvent("alarm", silent=3)], 6),
    ],
)
def test_the_open_sessions_of_the_newest_event_count(
    events: list[LoadEvent], sessions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    taken: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Follower, "take", lambda _, *given: taken.append(given))
    sampler = Sampler(Gauge(), Journal(tmp_path), follower=Follower(Pool(100, 16), False))
    for event in [LoadEvent("started", t0=time.monotonic()), *events]:
        sampler.client(event)
    sampler.sample()
    assert [(used, count, moved) for _, used, count, moved in taken] == [(0.1, sessions, 100.0)]


class Backlog(Gauge):
    """A server whose samples of the last seconds are told at once: the command line was held up."""

    def telemetry(self) -> list[dict[str, float | None]]:
        now = time.monotonic()
        return [{"t": now - late, "engine_cpu": 10.0 - late} for late in (4.0, 3.0, 2.0, 1.0, 0.0)]


def test_what_this_process_sees_is_of_now_and_not_of_the_samples_that_waited(tmp_path: Path):
    sampler = Sampler(Backlog(), Journal(tmp_path))
    sampler.client(LoadEvent("progress", cpu=2.0, rss=1))
    sampler.sample()
    assert [row["engine_cpu"] for row in sampler.rows] == [6.0, 7.0, 8.0, 9.0, 10.0]
    assert [row["client_cpu"] for row in sampler.rows] == [None, None, None, None, 2.0]
    assert [row["machine_cpu"] is None for row in sampler.rows] == [True, True, True, True, False]
    assert {tuple(row) for row in sampler.rows} == {tuple(sampler.rows[0])}
