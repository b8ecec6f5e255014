"""Stream to a scripted server with the real load process, for tests."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from metrobench.corpus.manifest import default_clips
from metrobench.load.process import LoadProcess
from metrobench.load.spec import LoadEvent, LoadSpec
from metrobench.measure.facts import RunFacts
from tests.servers.binary import RATE, BinaryServer
from tests.servers.binary import SESSIONS as BINARY
from tests.servers.http_peer import HttpServer
from tests.servers.json_peers import PEERS, JsonServer
from tests.servers.truth import Script, TruthServer

HELD_UP = 0.1
"""Seconds of lateness, of the client or the scripted server, that make a run worthless as a test of exact outcomes."""

REPEATS = 4


@dataclass
class Outcome:
    """What a run told and recorded."""

    spec: LoadSpec
    events: list[LoadEvent] = field(default_factory=list)
    facts: RunFacts = field(default_factory=lambda: RunFacts(np.empty(0), [], 1.0, 1.0, 1.0))
    server_late: float = 0.0
    """Seconds by which the machine made the server late, at most."""

    def last(self, kind: str) -> LoadEvent:
        """The newest event of a kind."""
        return [event for event in self.events if event.kind == kind][-1]

    @property
    def kinds(self) -> list[str]:
        """Kinds of all events in order."""
        return [event.kind for event in self.events]

    def measured(self) -> npt.NDArray[np.void]:
        """Rows of the measured span."""
        frames = self.facts.frames
        end = self.spec.cut_frames + self.spec.frames
        return frames[(frames["frame"] >= self.spec.cut_frames) & (frames["frame"] < end)]

    def missed(self) -> npt.NDArray[np.void]:
        """Measured rows without an answer within the budget."""
        rows = self.measured()
        in_time = rows["t_done"] <= rows["t_ready"] + self.spec.budget
        return rows[~in_time]

    def missed_frames(self) -> set[tuple[int, int]]:
        """(session, frame) of the missed rows."""
        return {(int(row["session"]), int(row["frame"])) for row in self.missed()}

    @property
    def held_up(self) -> bool:
        """Client or server were late by themselves: the machine had no time for them."""
        stalls = self.facts.stalls
        longest = float((stalls[:, 1] - stalls[:, 0]).max()) if len(stalls) else 0.0
        lag = float(self.facts.frames["lag_max"].max()) if len(self.facts.frames) else 0.0
        return max(longest, lag, self.server_late) > HELD_UP


def protocol_of(dialect: str) -> str:
    """Name in the registry of a scripted peer's protocol."""
    return dialect.partition("/")[0]


def server_of(dialect: str) -> type[TruthServer]:
    """The program that speaks a dialect."""
    if dialect in BINARY:
        return BinaryServer
    return {"realtime": TruthServer, "sglang-sessions": HttpServer}.get(dialect, JsonServer)


def rate_of(dialect: str) -> int:
    """Hz of the audio that it takes."""
    if dialect in BINARY:
        return RATE
    return PEERS[dialect].rate if dialect in PEERS else 16_000


def make_spec(url: str, folder: Path, script: Script, **changes: object) -> LoadSpec:
    """A short run that fits a script."""
    spec = LoadSpec(
        protocol=protocol_of(script.dialect),
        url=url,
        sessions=4,
        budget=0.7,
        unit=script.unit,
        first_ready=script.first_ready,
        seed=1,
        clips=default_clips()[:3],
        cut_frames=2,
        frames=10,
        max_frames=40,
        spool=folder / "spool",
        sample_rate=rate_of(script.dialect),
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def stream(
    script: Script,
    during: Callable[[LoadProcess, LoadEvent], None] | None = None,
    **changes: object,
) -> Outcome:
    """One run against a fresh scripted server, stopped when its planned frames are decided. `during` sees every event
    and may act on the process. A run in which client or server were held up is repeated; the test is skipped after
    that."""
    for _ in range(REPEATS):
        outcome = stream_once(script, during, **changes)
        if not outcome.held_up:
            return outcome
    pytest.skip("this machine holds client or server up: outcomes are not exact")


def stream_once(
    script: Script, during: Callable[[LoadProcess, LoadEvent], None] | None = None, **changes: object
) -> Outcome:
    """One run, whatever becomes of it."""
    kind = server_of(script.dialect)
    with tempfile.TemporaryDirectory() as folder, kind(script) as server:
        outcome = Outcome(make_spec(server.url, Path(folder), script, **changes))
        with LoadProcess(outcome.spec) as load:
            load.start()
            for event in load.events(60.0):
                outcome.events.append(event)
                if during is not None:
                    during(load, event)
                elif event.kind == "judge":
                    load.stop()
        outcome.facts = load.facts()
    outcome.server_late = server.held_up
    return outcome
