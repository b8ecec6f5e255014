"""What a client may say in the OpenAI Realtime dialect, as far as a worker reads it, and how it is refused."""

from __future__ import annotations

from typing import Any

import msgspec


class Format(msgspec.Struct):
    """How audio is coded."""

    type: str = "audio/pcm"
    rate: int | None = None
    """Hz."""


class Input(msgspec.Struct):
    """What the client sends."""

    format: Format | None = None
    turn_detection: Any = msgspec.UNSET
    """None: the client says itself when to answer."""


class Audio(msgspec.Struct):
    """Both directions; only one is read."""

    input: Input | None = None


class Own(msgspec.Struct):
    """metrobench's additions to the dialect."""

    fill_tokens: int = 0
    budget_ms: float | None = None


class Update(msgspec.Struct):
    """The session of a `session.update`."""

    audio: Audio | None = None
    metrobench: Own | None = None


class ClientEvent(msgspec.Struct):
    """Any event; the fields that its type does not have are None."""

    type: str
    event_id: str | None = None
    audio: str | None = None
    session: Update | None = None


class RefusedError(Exception):
    """A client event that cannot be done: it is answered, the socket stays open."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


decode_event = msgspec.json.Decoder(ClientEvent).decode
"""Raises msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError."""
