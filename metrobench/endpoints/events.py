"""What the JSON protocols share: events with a `type`, audio in base64, errors in every shape that servers send."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import pybase64

from metrobench.endpoints.base import NOT_UNDERSTOOD, NOTHING, UNREADABLE, Kind, Observation, Said

LONGEST_TEXT = 300
"""Characters of a server's words that are kept."""

SAME_MS = 0.5
"""Milliseconds by which two equal lengths may differ."""
OTHER = Observation(Kind.OTHER)
OUTPUT = Observation(Kind.OUTPUT)
OPENED = Observation(Kind.OPENED)
ACCEPTED = Observation(Kind.ACCEPTED, tokens=0)


WORDS = frozenset(
    {
        "response.output_text.delta",
        "response.text.delta",
        "response.output_audio_transcript.delta",
        "response.audio_transcript.delta",
    }
)
SPEECH = frozenset({"response.output_audio.delta", "response.audio.delta"})
"""Events with parts of an answer, of both generations of OpenAI's dialects and of those who took them over."""
SPEECH_RATE = 24_000
"""Hz of speech where the event does not say."""


class Head(msgspec.Struct, gc=False):
    """What tells an event's kind."""

    type: str = ""


class ErrorBody(msgspec.Struct, gc=False):
    """`error` as an object."""

    type: str | None = None
    code: str | int | None = None
    message: str | None = None


class ErrorEvent(msgspec.Struct, gc=False):
    """`error` as an object, or as a string with its code beside it (vLLM)."""

    error: ErrorBody | str | None = None
    code: str | None = None
    message: str | None = None


class Closing(msgspec.Struct, gc=False):
    """The server's goodbye."""

    type: str = ""
    reason: str | None = None


class Part(msgspec.Struct, gc=False):
    """A part of an answer."""

    type: str = ""
    delta: str | None = None
    sample_rate_hz: float | None = None


_part = msgspec.json.Decoder(Part)
_head = msgspec.json.Decoder(Head)
_error = msgspec.json.Decoder(ErrorEvent)
_closing = msgspec.json.Decoder(Closing)


def kind_of(payload: bytes) -> str:
    """The `type` of an event. Raises one of UNREADABLE."""
    return _head.decode(payload).type


def not_understood(error: Exception) -> Observation:
    """A message that the protocol cannot read."""
    return Observation(Kind.ERROR, code=NOT_UNDERSTOOD, message=str(error)[:LONGEST_TEXT])


def trouble(payload: bytes, fatal: frozenset[str]) -> Observation:
    """An `error` event; one whose code or type is in `fatal` ends the session. Raises one of UNREADABLE."""
    event = _error.decode(payload)
    body, code, text = event.error, event.code, event.message
    if isinstance(body, str):
        text = body
    kind = ""
    if isinstance(body, ErrorBody):
        code, text, kind = str(body.code or body.type or ""), body.message, body.type or ""
    return Observation(
        Kind.ERROR,
        code=(code or "")[:LONGEST_TEXT],
        message=(text or "")[:LONGEST_TEXT],
        fatal=(code or "") in fatal or kind in fatal,
    )


def goodbye(payload: bytes) -> Observation:
    """An event that ends the session. Raises one of UNREADABLE."""
    event = _closing.decode(payload)
    return Observation(Kind.CLOSED, message=f"{event.type}: {event.reason or 'no reason given'}"[:LONGEST_TEXT])


def said(payload: bytes) -> Said:
    """The words or the speech of an event of WORDS or SPEECH."""
    try:
        event = _part.decode(payload)
        if event.type in WORDS:
            return Said(event.delta or "")
        if event.type in SPEECH and event.delta:
            rate = event.sample_rate_hz or SPEECH_RATE
            return Said(audio=pybase64.b64decode(event.delta), rate=round(rate)) if 0 < rate < 1e6 else NOTHING
    except (*UNREADABLE, ValueError):
        pass
    return NOTHING


def words_of(payload: bytes) -> Said:
    """The words alone, where the speech is no PCM16."""
    return Said(found.text) if (found := said(payload)).text else NOTHING


def unlike(said_ms: float | None, ours: float, what: str = "a frame") -> str:
    """Why a length that a server states is not the `ours` seconds that are sent; empty where it is, or is not said."""
    if said_ms is None or abs(said_ms - ours * 1000.0) <= SAME_MS:
        return ""
    return f"the endpoint says that {what} is {said_ms:g} ms of audio, not {ours * 1000.0:g} ms"


def append(pcm: bytes, rest: bytes = b"}", event: bytes = b"input_audio_buffer.append") -> bytes:
    """The event that brings audio; `rest` stands after it."""
    return b'{"type":"%b","audio":"%b"%b' % (event, pybase64.b64encode(pcm), rest)


def with_query(url: str, **values: str) -> str:
    """The address with these query values where it does not have them, empty ones left out."""
    parts = urlsplit(url)
    known = parse_qsl(parts.query, keep_blank_values=True)
    names = {name for name, _ in known}
    added = [(name, value) for name, value in values.items() if value and name not in names]
    return parts._replace(query=urlencode(known + added)).geturl() if added else url


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`; tables are merged, and nothing is changed in place."""
    out = dict(base)
    for name, value in over.items():
        old = out.get(name)
        out[name] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def pcm_seconds(text: str, rate: float, width: int = 2) -> float:
    """Seconds of base64 audio of `width` bytes a sample, read off its length."""
    return max(0, len(text) * 3 // 4 - text[-2:].count("=")) / (width * rate)
