"""The contract between the load path and a wire protocol. One protocol, one file, one class."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import msgspec


class FrameClass(Enum):
    """How replies relate to input frames (protocols.md section 0)."""

    LOCKSTEP = "A"  # one reply per unit, always
    UNIT_LOSSY = "B"  # unit-clocked, some units give no reply or several; tie by media time
    SEGMENT = "C"  # the unit is a segment of seconds
    TURN = "D"  # no reply per unit: the turn is measured


class Kind(Enum):
    """What an incoming message means for the measurement."""

    OPENED = "opened"  # the server greeted us
    ACCEPTED = "accepted"  # the session is configured (and filled, if that was asked): audio may flow
    OUTPUT = "output"  # some content of a frame (text, audio): first output
    FRAME_DONE = "frame_done"  # the complete answer to one frame
    ERROR = "error"  # the server reports an error; `fatal` ends the session
    OTHER = "other"  # known or unknown, of no weight


NOT_UNDERSTOOD = "not_understood"
"""Code of an ERROR observation that stands for a message the protocol cannot read."""


class Observation(msgspec.Struct, frozen=True, gc=False):
    """One incoming message, normalised."""

    kind: Kind
    frame: int | None = None
    """Index of the input frame it belongs to, where the protocol says."""
    media_end: float | None = None
    """Seconds of input audio covered up to the end of that frame."""
    tokens: int = -1
    """Content units in the answer; -1: not said."""
    flags: int = 0
    """Bits of measure.facts.FrameFlag."""
    code: str = ""
    message: str = ""
    fatal: bool = False
    signals: dict[str, float | str | None] | None = None
    """With a refusal: what the server says of its state."""


class Endpoint(Protocol):
    """A wire protocol as the load path sees it. Pure: bytes in, bytes out, no I/O and no clock."""

    name: str
    frame_class: FrameClass
    sample_rate: int
    """Hz of the PCM16 mono audio that `encode_chunk` takes."""
    unit: float
    """Seconds of audio in one frame."""
    first_ready: float
    """Seconds of audio from the start of a session to the last sample that frame 0 needs."""

    def url(self) -> str:
        """Address to connect to."""
        ...

    def headers(self) -> dict[str, str]:
        """Extra handshake headers."""
        ...

    def opening(self, session: int, fill_tokens: int) -> list[bytes]:
        """Text messages to send once connected; the session is accepted when an ACCEPTED observation arrives.
        `fill_tokens` > 0 asks the server for that many resident tokens of the session's own, if it can."""
        ...

    def encode_chunk(self, pcm: bytes) -> bytes:
        """The message for one chunk of PCM16 mono audio. Same for every session, so it is made once per clip."""
        ...

    def decode(self, payload: bytes) -> Observation:
        """The meaning of one incoming message; never raises on a strange one (OTHER or ERROR instead)."""
        ...

    def mismatch(self, greeting: bytes) -> str:
        """Why the frames that the server describes in its OPENED message are not this endpoint's; empty when they are,
        or when it does not say."""
        ...

    def can_fill(self, greeting: bytes) -> bool:
        """Whether the server says, in its OPENED message, that it gives a session resident tokens when asked to."""
        ...

    def closing(self) -> list[bytes]:
        """Messages that end a session politely, before the close handshake."""
        ...
