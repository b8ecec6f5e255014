"""The forecast of a run that goes on is told how many sessions are open."""

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
