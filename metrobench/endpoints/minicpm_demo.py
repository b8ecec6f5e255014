"""MiniCPM-o-Demo's own `/ws/duplex/ID` (protocols.md 5b; read, commit 28b60cf): one `result` for each chunk of 1 s.

The worker takes the next chunk when it has answered the last, in order; a chunk that fails is answered by an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import msgspec

from metrobench.endpoints import events, floats
from metrobench.endpoints.base import UNREADABLE, Access, FrameClass, Kind, Observation
from metrobench.endpoints.minicpm import OUTPUT_RATE, PROMPT, RATE, SliceEndpoint, waiting
from metrobench.measure.facts import FrameFlag

_PATH = "/ws/duplex"
_AUDIO_SESSION = "adx_"
"""Sessions of this name are without video."""
_HEAD = b'{"type":"audio_chunk","audio_base64":"'
_SPOKEN = FrameFlag.SPEAKING | FrameFlag.CONTENT_DUE


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    is_listen: bool | None = None
    audio_data: str | None = None


_event = msgspec.json.Decoder(_Event)


class MiniCpmDemoEndpoint(SliceEndpoint):
    """A gateway of MiniCPM-o-Demo. A session has a worker to itself; further ones wait in a queue."""

    name = "minicpm-o-demo"
    frame_class = FrameClass.LOCKSTEP

    def __init__(
        self, url: str, *, unit: float, first_ready: float, sample_rate: int = RATE, access: Access | None = None
    ) -> None:
        super().__init__(url, unit=unit, first_ready=first_ready, sample_rate=sample_rate, access=access)
        self._names = (f"{_AUDIO_SESSION}{os.urandom(4).hex()}_{number}" for number in count())

    def url(self) -> str:
        """The address, with a name of its own for every session unless the address has one."""
        parts = urlsplit(super().url())
        path = parts.path.rstrip("/")
        return parts._replace(path=f"{path}/{next(self._names)}").geturl() if path.endswith(_PATH) else parts.geturl()

    def group_head(self) -> bytes:
        """What stands in `audio_chunk` before the samples."""
        return _HEAD

    def decoder(self) -> Callable[[bytes], Observation]:
        """Results are counted."""
        config = {"generate_audio": True, "chunk_ms": round(self.unit * 1000), "sample_rate": self.sample_rate}
        prepare: dict[str, Any] = {"type": "prepare", "system_prompt": PROMPT, "config": config}
        return _Decoder(msgspec.json.encode(events.merged(prepare, self.access.session))).decode

    def closing(self) -> list[bytes]:
        """`stop`."""
        return [b'{"type":"stop"}']


class _Decoder:
    """One session: how many chunks are answered."""

    def __init__(self, prepare: bytes) -> None:
        self._prepare = prepare
        self._prepared = False
        self._answered = 0

    def decode(self, payload: bytes) -> Observation:
        """The meaning of one message."""
        try:
            event = _event.decode(payload)
            kind = event.type
            if kind == "result":
                return self._result(event)
            if kind == "queue_done":
                return Observation(Kind.OPENED, reply=(self._prepare,))
            if kind in ("queued", "queue_update"):
                return waiting(payload)
            if kind == "prepared":
                self._prepared = True
                return events.ACCEPTED
            if kind in ("stopped", "timeout"):
                return events.goodbye(payload)
            if kind == "error":
                # the answer to a chunk, once there are any
                self._answered += self._prepared
                return events.trouble(payload, frozenset())
        except UNREADABLE as error:
            return events.not_understood(error)
        return events.OTHER

    def _result(self, event: _Event) -> Observation:
        frame = self._answered
        self._answered += 1
        if event.is_listen:
            return Observation(Kind.FRAME_DONE, frame=frame, tokens=0)
        length = events.pcm_seconds(event.audio_data or "", OUTPUT_RATE, floats.WIDTH)
        return Observation(Kind.FRAME_DONE, frame=frame, tokens=1, flags=_SPOKEN, audio=length)
