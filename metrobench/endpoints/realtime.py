"""The OpenAI Realtime GA dialect with one event more for every consumed frame (protocols.md 3a and 7c).

`metrobench.frame.done` carries the frame's index, so an answer is tied to its frame without guessing.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pybase64

from metrobench.endpoints import events
from metrobench.endpoints.base import UNREADABLE, EndpointBase, Kind, Observation, Said
from metrobench.measure.facts import FrameFlag

FATAL_CODES = frozenset(
    {
        "session_limit",
        "kv_limit",
        "overloaded",
        "kv_pressure",
        "join_pace",
        "context_exhausted",
        "kv_exhausted",
        "engine_dead",
        "engine_error",
        "buffer_overflow",
    }
)
"""Error codes after which the server closes the session."""

_OUTPUT_TYPES = frozenset(
    {"response.output_text.delta", "response.output_audio.delta", "response.output_audio_transcript.delta"}
)


class _Head(msgspec.Struct, gc=False):
    type: str = ""


class _FrameDone(msgspec.Struct, gc=False):
    frame: int
    tokens: int = -1
    speaking: bool = False
    rollover: bool = False


class _ErrorBody(msgspec.Struct, gc=False):
    code: str | None = None
    message: str | None = None
    metrobench: dict[str, float | str | None] | None = None


class _Error(msgspec.Struct, gc=False):
    error: _ErrorBody | str | None = None
    code: str | None = None


class SessionInfo(msgspec.Struct, frozen=True):
    """What a server of this dialect says about itself in `session.created`."""

    unit_ms: float | None = None
    first_ready_ms: float | None = None
    frame_class: str | None = None
    kv: str | None = None
    max_positions: int | None = None
    stand_in: bool | None = None
    engine: str | None = None
    filled_tokens: int = 0
    can_fill: bool = False


class _Session(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    metrobench: SessionInfo | None = None


class _SessionEvent(msgspec.Struct):
    session: _Session | None = None


_head = msgspec.json.Decoder(_Head)
_frame_done = msgspec.json.Decoder(_FrameDone)
_error = msgspec.json.Decoder(_Error)
_session_event = msgspec.json.Decoder(_SessionEvent)

_OTHER = Observation(Kind.OTHER)
_OPENED = Observation(Kind.OPENED)
_OUTPUT = Observation(Kind.OUTPUT)


class RealtimeEndpoint(EndpointBase):
    """The dialect of the embedded worker."""

    name = "realtime"
    converses = True

    def opening(self, session: int, fill_tokens: int) -> list[bytes]:
        """`session.update` with the audio format, and the resident tokens and the budget where there are any."""
        body: dict[str, object] = {
            "type": "realtime",
            "audio": {"input": {"format": {"type": "audio/pcm", "rate": self.sample_rate}}},
        }
        own: dict[str, float] = {"fill_tokens": fill_tokens} if fill_tokens > 0 else {}
        if self.budgets:
            own["budget_ms"] = round(1e3 * self.budgets[session], 3)
        if own:
            body["metrobench"] = own
        return [msgspec.json.encode({"type": "session.update", "session": body})]

    def encode_chunk(self, pcm: bytes) -> bytes:
        """`input_audio_buffer.append` with the audio in base64."""
        return b'{"type":"input_audio_buffer.append","audio":"%b"}' % pybase64.b64encode(pcm)

    def decode(self, payload: bytes) -> Observation:
        """The meaning of one message. What is not JSON, or not of the promised shape, is an ERROR that is not fatal."""
        try:
            kind = _head.decode(payload).type
            if kind == "metrobench.frame.done":
                return _done(_frame_done.decode(payload))
            if kind in _OUTPUT_TYPES:
                return _OUTPUT
            if kind == "session.created":
                return _OPENED
            if kind == "session.updated":
                info = session_info(payload)
                return Observation(Kind.ACCEPTED, tokens=info.filled_tokens if info else 0)
            if kind == "error":
                return _trouble(_error.decode(payload))
        except UNREADABLE as error:
            return events.not_understood(error)
        return _OTHER

    def listener(self) -> Callable[[bytes], Said]:
        """Deltas of text, of what is spoken, and of speech."""
        return events.said

    def mismatch(self, said: bytes) -> str:
        """Compares the unit and the first frame's length with `session.created`."""
        info = session_info(said)
        if info is None:
            return ""
        return events.unlike(info.unit_ms, self.unit) or events.unlike(
            info.first_ready_ms, self.first_ready, "the first frame"
        )

    def can_fill(self, greeting: bytes) -> bool:
        """`can_fill` in the description of itself that this dialect adds to `session.created`."""
        info = session_info(greeting)
        return info is not None and info.can_fill

    def closing(self) -> list[bytes]:
        """`session.close`."""
        return [b'{"type":"session.close"}']


def session_info(payload: bytes) -> SessionInfo | None:
    """The server's own description in a `session.created` or `session.updated` message; None where it gives none."""
    try:
        session = _session_event.decode(payload).session
    except UNREADABLE:
        return None
    return session.metrobench if session else None


def _done(message: _FrameDone) -> Observation:
    return Observation(
        Kind.FRAME_DONE,
        frame=message.frame,
        tokens=message.tokens,
        flags=FrameFlag.CONTENT_DUE
        | (FrameFlag.SPEAKING if message.speaking else 0)
        | (FrameFlag.ROLLOVER if message.rollover else 0),
    )


def _trouble(message: _Error) -> Observation:
    body, signals = message.error, None
    if isinstance(body, str):
        code, text = message.code or "", body
    elif body is not None:
        code, text, signals = body.code or "", body.message or "", body.metrobench
    else:
        code, text = message.code or "", ""
    limit = events.LONGEST_TEXT
    return Observation(Kind.ERROR, code=code[:limit], message=text[:limit], fatal=code in FATAL_CODES, signals=signals)
