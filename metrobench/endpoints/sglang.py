"""sglang-omni's `/v1/realtime` (protocols.md 7c; its wire layer was run, 0.1.9): every answer names its unit.

Its schema is strict: an event carries an id and nothing unknown, and audio is numbered without a gap. The number is a
fragment of its own after audio that all sessions share.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from metrobench.endpoints import events
from metrobench.endpoints.base import UNREADABLE, EndpointBase, FrameClass, Kind, Observation, Said, Stream

RATE = 16_000
FATAL = frozenset({"connection capacity exhausted", "cleanup_failed"})
_UNIT = "unit_"
_ACKNOWLEDGED = tuple(b'{"type":%b"sglang.input_audio.accepted"' % space for space in (b"", b" "))
"""How the answer to every chunk begins: nothing is counted by it, and it comes 50 times a second."""
_LARGEST_UNIT = 10**9
_OUTPUTS = frozenset(
    {"response.output_audio.delta", "response.output_text.delta", "response.output_audio_transcript.delta"}
)


class _Sglang(msgspec.Struct, gc=False):
    unit_id: str | None = None
    fatal: bool | None = None


class _Granted(msgspec.Struct, gc=False):
    native_unit_ms: float | None = None


class _Grants(msgspec.Struct, gc=False):
    granted: _Granted | None = None


class _Session(msgspec.Struct, gc=False):
    sglang: _Grants | None = None


class _SessionEvent(msgspec.Struct, gc=False):
    session: _Session | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    unit_id: str | None = None
    sglang: _Sglang | None = None


_event = msgspec.json.Decoder(_Event)
_session_event = msgspec.json.Decoder(_SessionEvent)


class SglangOmniEndpoint(EndpointBase):
    """A native full-duplex session: `sglang.unit.done` for each unit."""

    name = "sglang-omni"
    frame_class = FrameClass.LOCKSTEP
    numbered = True
    converses = True
    says_goodbye = True

    @classmethod
    def fit(cls, unit: float, sample_rate: int) -> Stream:
        """The model's unit at 16 kHz."""
        del sample_rate
        return Stream(cls.frame_class, unit, unit, RATE)

    def url(self) -> str:
        """The address with the model, where one is named: a wrong one is refused at the handshake."""
        return events.with_query(super().url(), model=self.access.model)

    def opening(self, session: int, fill_tokens: int) -> list[bytes]:
        """`session.update`; formats that are left out are the server's."""
        del fill_tokens
        audio = {"input": {"format": {"type": "audio/pcm", "rate": self.sample_rate}}}
        body = events.merged({"type": "realtime", "audio": audio}, self.access.session)
        return [msgspec.json.encode({"type": "session.update", "event_id": f"open_{session}", "session": body})]

    def encode_chunk(self, pcm: bytes) -> bytes:
        """`input_audio_buffer.append` without its number."""
        return events.append(pcm, b',"event_id":"audio","sglang":{"seq":')

    def tail(self, number: int) -> bytes:
        """The number, and the end of the event."""
        return b"%d}}" % number

    def decode(self, payload: bytes) -> Observation:
        """`sglang.unit.done` completes the unit it names; the outputs before it are that unit's."""
        if payload.startswith(_ACKNOWLEDGED):
            return events.OTHER
        try:
            event = _event.decode(payload)
            if event.type == "sglang.unit.done":
                frame = _number(event)
                return Observation(Kind.FRAME_DONE, frame=frame) if frame is not None else events.OTHER
            if event.type in _OUTPUTS:
                return Observation(Kind.OUTPUT, frame=_number(event))
            if event.type == "session.created":
                return events.OPENED
            if event.type == "session.updated":
                return events.ACCEPTED
            if event.type == "session.closed":
                return events.goodbye(payload)
            if event.type == "error":
                seen = events.trouble(payload, FATAL)
                fatal = seen.fatal or bool(event.sglang and event.sglang.fatal)
                return msgspec.structs.replace(seen, fatal=fatal)
        except UNREADABLE as error:
            return events.not_understood(error)
        return events.OTHER

    def listener(self) -> Callable[[bytes], Said]:
        """Deltas of text, of what is spoken, and of speech."""
        return events.said

    def mismatch(self, said: bytes) -> str:
        """Compares the unit with what `session.updated` grants."""
        try:
            session = _session_event.decode(said).session
        except UNREADABLE:
            return ""
        granted = session.sglang.granted if session and session.sglang else None
        return events.unlike(granted.native_unit_ms, self.unit) if granted else ""

    def closing(self) -> list[bytes]:
        """`session.close`."""
        return [b'{"type":"session.close","event_id":"close"}']


def _number(event: _Event) -> int | None:
    """k of `unit_<k>`."""
    name = (event.sglang.unit_id if event.sglang else None) or event.unit_id or ""
    digits = name.removeprefix(_UNIT)
    if digits == name or not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(_LARGEST_UNIT)):
        return None
    return int(digits)
