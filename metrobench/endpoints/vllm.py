"""vLLM's `/v1/realtime` (protocols.md 1; run with vLLM 0.32): streaming transcription.

Voxtral answers every frame of 80 ms with one `transcription.delta`, empty in silence: delta k needs 9000 + 1280 k
samples of 16 kHz. Qwen3-ASR answers segments of 5 s with up to 64 deltas each.
"""

from __future__ import annotations

import msgspec

from metrobench.endpoints import events
from metrobench.endpoints.base import UNREADABLE, Access, EndpointBase, FrameClass, Kind, Observation, Stream
from metrobench.errors import UsageError

RATE = 16_000
UNIT = 0.080
FIRST_READY = 9000 / RATE
"""Seconds: 7 frames before the first answer, and 40 samples of look-ahead (peers.md 2a)."""
SEGMENT = 5.0
SHORTEST_SEGMENT = 1.0
"""Models with frames this long transcribe segments."""
FATAL = frozenset({"model_not_found", "model_not_validated", "invalid_event"})
"""Errors after which no answer comes."""
_EPSILON = 1e-6


class _Delta(msgspec.Struct, gc=False):
    delta: str = ""


_delta = msgspec.json.Decoder(_Delta)
_WORDS = Observation(Kind.FRAME_DONE, tokens=1)
_SILENCE = Observation(Kind.FRAME_DONE, tokens=0)


class VllmEndpoint(EndpointBase):
    """A vLLM server with a realtime model."""

    name = "vllm-realtime"
    needs_model = True
    says_goodbye = True

    def __init__(
        self, url: str, *, unit: float, first_ready: float, sample_rate: int = RATE, access: Access | None = None
    ) -> None:
        super().__init__(url, unit=unit, first_ready=first_ready, sample_rate=sample_rate, access=access)
        self.frame_class = FrameClass.SEGMENT if unit >= SHORTEST_SEGMENT else FrameClass.LOCKSTEP

    @classmethod
    def fit(cls, unit: float, sample_rate: int) -> Stream:
        """Frames of 80 ms, or segments of 5 s for a model that hears in long pieces."""
        del sample_rate
        if unit >= SHORTEST_SEGMENT:
            return Stream(FrameClass.SEGMENT, SEGMENT, SEGMENT, RATE, budget=SEGMENT)
        if abs(unit - UNIT) > _EPSILON:
            raise UsageError(
                f"vllm-realtime takes frames of 80 ms (Voxtral) or segments (Qwen3-ASR), not {unit * 1000:g} ms",
                "--model voxtral-realtime, or --model qwen3-asr",
            )
        return Stream(FrameClass.LOCKSTEP, UNIT, FIRST_READY, RATE)

    def opening(self, session: int, fill_tokens: int) -> list[bytes]:
        """`session.update` with the model, then the commit that starts transcription; neither is confirmed."""
        del session, fill_tokens
        update = {"type": "session.update", "model": self.access.model} | self.access.session
        return [msgspec.json.encode(update), b'{"type":"input_audio_buffer.commit"}']

    def encode_chunk(self, pcm: bytes) -> bytes:
        """`input_audio_buffer.append`."""
        return events.append(pcm)

    def decode(self, payload: bytes) -> Observation:
        """A delta is the answer to a frame, or some of the answer to a segment. `transcription.done` ends the session:
        unasked for, its context is full."""
        try:
            kind = events.kind_of(payload)
            if kind == "transcription.delta":
                words = _delta.decode(payload).delta
                if self.frame_class is FrameClass.SEGMENT:
                    return events.OUTPUT
                return _WORDS if words else _SILENCE
            if kind == "session.created":
                return events.ACCEPTED
            if kind == "transcription.done":
                return Observation(Kind.CLOSED, message="transcription.done unasked: the context is full")
            if kind == "error":
                return events.trouble(payload, FATAL)
        except UNREADABLE as error:
            return events.not_understood(error)
        return events.OTHER

    def closing(self) -> list[bytes]:
        """The final commit, once: a second one would end the next session of the server's handler."""
        return [b'{"type":"input_audio_buffer.commit","final":true}']
