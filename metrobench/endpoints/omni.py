"""vllm-omni's `/v1/realtime?duplex=1` (protocols.md 2; its wire layer was run, 0.30.0): full duplex, a unit at a time.

While it listens it answers every unit with `response.listen`; while it speaks, with about a unit of speech, and not
always with a message of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from metrobench.endpoints import events
from metrobench.endpoints.base import UNREADABLE, EndpointBase, FrameClass, Kind, Observation, Said, Stream
from metrobench.measure.facts import FrameFlag

RATE, OUTPUT_RATE = 16_000, 24_000
ACK_EVERY = 64
"""Events between two acknowledgements; a server keeps up to 8 MiB for a client that gives none."""
FATAL = frozenset(
    {
        "resource_exhausted",
        "rate_limit_error",
        "ref_audio_required",
        "config_timeout",
        "unsupported",
        "unsupported_audio_format",
        "engine_error",
        "input_backpressure",
        "realtime_input_failed",
    }
)
"""Codes and types of errors after which the session gives no further answer."""
_EPSILON = 1e-6
_SPOKEN = FrameFlag.SPEAKING | FrameFlag.CONTENT_DUE


class _Meta(msgspec.Struct, gc=False):
    audio_duration_ms: float | None = None


class _Capabilities(msgspec.Struct, gc=False):
    chunk_period_ms: float | None = None


class _Session(msgspec.Struct, gc=False):
    capabilities: _Capabilities | None = None


class _SessionEvent(msgspec.Struct, gc=False):
    session: _Session | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    server_event_seq: int = 0
    response_id: str | None = None
    delta: str | None = None
    sample_rate_hz: float | None = None
    metadata: _Meta | None = None


_event = msgspec.json.Decoder(_Event)
_session_event = msgspec.json.Decoder(_SessionEvent)


class OmniEndpoint(EndpointBase):
    """A vllm-omni server that answers of its own accord (MiniCPM-o, Nemotron VoiceChat)."""

    name = "vllm-omni"
    frame_class = FrameClass.UNIT_LOSSY
    converses = True
    says_goodbye = True
    greets = False

    @classmethod
    def fit(cls, unit: float, sample_rate: int) -> Stream:
        """The model's unit at 16 kHz; the server resamples nothing without a click."""
        del sample_rate
        return Stream(cls.frame_class, unit, unit, RATE)

    def url(self) -> str:
        """The address; `autostart=0` keeps the server from opening a session of its own making."""
        return events.with_query(super().url(), duplex="1", model=self.access.model, autostart="0")

    def opening(self, session: int, fill_tokens: int) -> list[bytes]:
        """`session.update` opens the session; it must come within 10 s."""
        del fill_tokens
        body = {
            "modalities": ["audio", "text"],
            "input_audio_format": "pcm16",
            "output_audio_format": "pcm16",
            "sample_rate_hz": RATE,
            "audio": {"input": {"sample_rate_hz": RATE}, "output": {"sample_rate_hz": OUTPUT_RATE}},
            "turn_detection": None,
            "overlap_policy": "listen_only",
            "playback_commit_policy": "commit_all_on_done",
            "idle_timeout_s": 300,
            "extra_body": {"auto_response": True, "force_listen_count": 0},
        }
        if self.access.model:
            body["model"] = self.access.model
        body = events.merged(body, self.access.session)
        return [msgspec.json.encode({"type": "session.update", "event_id": f"evt_{session}", "session": body})]

    def encode_chunk(self, pcm: bytes) -> bytes:
        """`input_audio_buffer.append`."""
        return events.append(pcm, b',"format":"pcm16","sample_rate_hz":%d}' % RATE)

    def decode(self, payload: bytes) -> Observation:
        """The meaning of the first message of a session."""
        return self.decoder()(payload)

    def decoder(self) -> Callable[[bytes], Observation]:
        """Speech is counted by its length."""
        return _Decoder(self.unit).decode

    def listener(self) -> Callable[[bytes], Said]:
        """Deltas of what is spoken, and of speech."""
        return events.said

    def mismatch(self, said: bytes) -> str:
        """Compares the unit with `capabilities` in `session.created`."""
        try:
            session = _session_event.decode(said).session
        except UNREADABLE:
            return ""
        return (
            events.unlike(session.capabilities.chunk_period_ms, self.unit) if session and session.capabilities else ""
        )

    def closing(self) -> list[bytes]:
        """`session.close`: without it the server keeps the place for 30 s."""
        return [b'{"type":"session.close","event_id":"evt_close"}']


class _Decoder:
    """One session."""

    def __init__(self, unit: float) -> None:
        self._unit = unit
        self._heard = 0.0
        self._units = 0
        self._acknowledged = 0

    def decode(self, payload: bytes) -> Observation:
        """The meaning of one message."""
        try:
            event = _event.decode(payload)
            seen = self._meaning(event, payload)
        except UNREADABLE as error:
            return events.not_understood(error)
        if event.server_event_seq - self._acknowledged < ACK_EVERY:
            return seen
        self._acknowledged = event.server_event_seq
        ack = b'{"type":"session.event_ack","server_event_seq":%d}' % event.server_event_seq
        return msgspec.structs.replace(seen, reply=(ack,))

    def _meaning(self, event: _Event, payload: bytes) -> Observation:
        kind = event.type
        if kind == "response.listen":
            # one with a response's name is a decision inside an answer, whose speech stands for the unit
            return events.OTHER if event.response_id else Observation(Kind.FRAME_DONE, tokens=0)
        if kind == "response.created":
            self._heard, self._units = 0.0, 0
            return Observation(Kind.TURN_START)
        if kind == "response.output_audio.delta":
            return self._speech(event)
        if kind == "response.done":
            return Observation(Kind.TURN_DONE, flags=FrameFlag.SPEAKING)
        if kind == "session.created":
            return events.ACCEPTED
        if kind in ("session.closed", "session.expired", "session.replaced"):
            return events.goodbye(payload)
        if kind == "error":
            return events.trouble(payload, FATAL)
        return events.OTHER

    def _speech(self, event: _Event) -> Observation:
        said = event.metadata.audio_duration_ms if event.metadata else None
        length = said / 1000.0 if said is not None else events.pcm_seconds(event.delta or "", _rate(event))
        length = min(max(0.0, length), 600.0)
        self._heard += length
        count = int(self._heard / self._unit + _EPSILON) - self._units
        if count <= 0:
            return Observation(Kind.OUTPUT, audio=length)
        self._units += count
        return Observation(Kind.FRAME_DONE, count=count, tokens=1, flags=_SPOKEN, audio=length)


def _rate(event: _Event) -> float:
    return event.sample_rate_hz if event.sample_rate_hz and event.sample_rate_hz > 0 else OUTPUT_RATE
