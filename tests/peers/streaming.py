"""Stream to a real server with the load process, for tests."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection

from metrobench.corpus.manifest import default_clips
from metrobench.endpoints.registry import fit
from metrobench.load.process import LoadProcess
from metrobench.load.spec import LoadEvent, LoadSpec
from metrobench.measure.facts import RunFacts

BUDGET = 0.4
"""Seconds for frames of 80 ms on a machine that is shared: the wire is tested here, not the speed."""
PATIENCE = 20.0
"""Seconds for an answer that must come."""
ABSENCE = 1.0
"""Seconds in which an answer that must not come does not."""


def stream(
    protocol: str, url: str, folder: Path, unit: float, rate: int, **changes: Any
) -> tuple[list[LoadEvent], RunFacts]:
    """One run of the load process for a model with frames of `unit` seconds, stopped when they are decided."""
    said = fit(protocol, unit, rate)
    usual = {"sessions": 1, "frames": 40, "max_frames": 40, "connect_timeout": PATIENCE, "budget": BUDGET}
    fields: dict[str, Any] = usual | changes
    spec = LoadSpec(
        protocol=protocol,
        url=url,
        unit=said.unit,
        first_ready=said.first_ready,
        sample_rate=said.sample_rate,
        seed=1,
        clips=default_clips()[:3],
        cut_frames=0,
        spool=folder / "spool",
        **fields,
    )
    events = []
    with LoadProcess(spec) as load:
        load.start()
        for event in load.events(120.0):
            events.append(event)
            if event.kind == "judge":
                load.stop()
        return events, load.facts()


class Talk:
    """A session that is spoken to by hand, in JSON."""

    def __init__(self, socket: ClientConnection, answer: str) -> None:
        """`answer`: type of the event that answers a frame."""
        self._socket = socket
        self._answer = answer

    def say(self, **event: Any) -> None:
        """Send an event."""
        self._socket.send(json.dumps(event))

    def send(self, samples: int, **more: Any) -> None:
        """Send silence."""
        self.say(type="input_audio_buffer.append", audio=base64.b64encode(bytes(2 * samples)).decode(), **more)

    def hear(self, kind: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """The next event of a type. Raises TimeoutError where none comes."""
        while True:
            event: dict[str, Any] = json.loads(self._socket.recv(timeout=seconds))
            if event["type"] == kind:
                return event
            assert event["type"] != "error", event

    def answers(self, count: int) -> bool:
        """Exactly so many answers come."""
        for _ in range(count):
            self.hear(self._answer)
        try:
            self.hear(self._answer, ABSENCE)
        except TimeoutError:
            return True
        return False
