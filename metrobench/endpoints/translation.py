"""OpenAI's Realtime translation (protocols.md 3c, read): frames of 200 ms, tied by the media time of what comes back.

A frame needs no message of its own: output at media time e answers every frame up to e.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from metrobench.endpoints import events
from metrobench.endpoints.base import UNREADABLE, EndpointBase, FrameClass, Kind, Observation, Stream

UNIT = 0.200
RATE = 24_000
MOST_FRAMES = 10_000_000
FATAL = frozenset({"invalid_api_key", "insufficient_quota", "session_expired", "rate_limit_exceeded"})
_OUTPUTS = frozenset(
    {"session.output_audio.delta", "session.output_transcript.delta", "session.input_transcript.delta"}
)
_EPSILON = 1e-6


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    elapsed_ms: float | None = None


_event = msgspec.json.Decoder(_Event)


class TranslationEndpoint(EndpointBase):
    """A translation session."""

    name = "openai-translation"
    frame_class = FrameClass.UNIT_LOSSY
    says_goodbye = True

    @classmethod
    def fit(cls, unit: float, sample_rate: int) -> Stream:
        """Frames of 200 ms at 24 kHz, whatever the model."""
        del unit, sample_rate
        return Stream(cls.frame_class, UNIT, UNIT, RATE)

    def url(self) -> str:
        """The address with the model."""
        return events.with_query(super().url(), model=self.access.model)

    def opening(self, session: int, fill_tokens: int) -> list[bytes]:
        """`session.update` with the language to translate to."""
        del session, fill_tokens
        body = events.merged({"audio": {"output": {"language": "es"}}}, self.access.session)
        return [msgspec.json.encode({"type": "session.update", "session": body})]

    def encode_chunk(self, pcm: bytes) -> bytes:
        """`session.input_audio_buffer.append`."""
        return events.append(pcm, event=b"session.input_audio_buffer.append")

    def decode(self, payload: bytes) -> Observation:
        """The meaning of the first message of a session."""
        return self.decoder()(payload)

    def decoder(self) -> Callable[[bytes], Observation]:
        """Output answers the frames since the output before it."""
        return _Decoder(self.unit).decode

    def closing(self) -> list[bytes]:
        """`session.close`."""
        return [b'{"type":"session.close"}']


class _Decoder:
    """One session: how many frames are answered."""

    def __init__(self, unit: float) -> None:
        self._unit_ms = unit * 1000.0
        self._answered = 0

    def decode(self, payload: bytes) -> Observation:
        """The meaning of one message."""
        try:
            event = _event.decode(payload)
            if event.type in _OUTPUTS:
                return self._output(event.elapsed_ms)
            if event.type == "session.created":
                return events.OPENED
            if event.type == "session.updated":
                return events.ACCEPTED
            if event.type == "session.closed":
                return events.goodbye(payload)
            if event.type == "error":
                return events.trouble(payload, FATAL)
        except UNREADABLE as error:
            return events.not_understood(error)
        return events.OTHER

    def _output(self, elapsed: float | None) -> Observation:
        if elapsed is None or not math.isfinite(elapsed) or not 0.0 <= elapsed <= MOST_FRAMES * self._unit_ms:
            return events.OUTPUT
        frames = int(elapsed / self._unit_ms + _EPSILON)
        first, count = self._answered, frames - self._answered
        if count <= 0:
            return events.OTHER
        self._answered = frames
        return Observation(Kind.FRAME_DONE, frame=first, count=count)
