"""MiniCPM-o's Realtime V1 (protocols.md 5a; read in OpenBMB/MiniCPM-o-Demo, not run): a message a slice of one second.

A slice is answered by `listen`, or by text and then speech; one without either gives no answer. The server drops
slices when it falls behind and says nothing. It repeats the `input_id` of a slice where its gateway lets it through;
then answers are tied by it, else they are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from metrobench.endpoints import events, floats
from metrobench.endpoints.base import UNREADABLE, Access, EndpointBase, FrameClass, Kind, Observation, Stream
from metrobench.errors import UsageError
from metrobench.measure.facts import FrameFlag
from metrobench.units import CHUNK

RATE, OUTPUT_RATE = 16_000, 24_000
UNIT = 1.0
PROMPT = "You are a helpful assistant."
FATAL = frozenset({"service_unavailable", "queue_full", "worker_busy", "worker_connect_failed"})
"""Errors before which no answer comes; the server closes with 1013."""
_EPSILON = 1e-6
_ID = "slice-"
_LARGEST = 10**9
_HEAD = b'{"type":"input.append","input":{"audio":"'
_SPOKEN = FrameFlag.SPEAKING | FrameFlag.CONTENT_DUE
_LISTEN, _TEXT, _AUDIO = "listen", "text", "audio"


class _Metrics(msgspec.Struct, gc=False):
    kv_cache_length: float | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    kind: str | None = None
    input_id: str | int | None = None
    text: str | None = None
    audio: str | None = None
    metrics: _Metrics | None = None
    kv_cache_length: float | None = None


class _Place(msgspec.Struct, gc=False):
    position: int | None = None
    estimated_wait_s: float | None = None


_event = msgspec.json.Decoder(_Event)
_place = msgspec.json.Decoder(_Place)


def whole_seconds(unit: float, name: str) -> None:
    """Raises UsageError where a model's frames are not the slices of MiniCPM-o."""
    if abs(unit - UNIT) > _EPSILON:
        raise UsageError(
            f"{name} takes slices of 1 s, not {unit * 1000:g} ms", "choose a profile that fits: --model minicpm-o"
        )


def waiting(payload: bytes) -> Observation:
    """Where a session stands in the queue. Raises one of UNREADABLE."""
    place = _place.decode(payload)
    where = "in a queue" if place.position is None else f"place {place.position} in a queue"
    wait = place.estimated_wait_s
    words = where if wait is None else f"{where}, about {wait:.0f} s"
    return Observation(Kind.QUEUED, message=words[: events.LONGEST_TEXT])


class SliceEndpoint(EndpointBase):
    """What both of MiniCPM-o's protocols share: a message of floats a slice, a server that says when it has a place."""

    says_goodbye = True
    at_once = True
    end = b'"}'
    """What stands in a message after the samples of its last chunk."""

    def __init__(
        self, url: str, *, unit: float, first_ready: float, sample_rate: int = RATE, access: Access | None = None
    ) -> None:
        super().__init__(url, unit=unit, first_ready=first_ready, sample_rate=sample_rate, access=access)
        self.group = round(unit / CHUNK)
        self.pieces = floats.pieces(round(sample_rate * CHUNK), self.group, len(self.end))

    @classmethod
    def fit(cls, unit: float, sample_rate: int) -> Stream:
        """Slices of 1 s at 16 kHz."""
        del sample_rate
        whole_seconds(unit, cls.name)
        return Stream(cls.frame_class, UNIT, UNIT, RATE)

    def encode_chunk(self, pcm: bytes) -> bytes:
        """A chunk's part of the samples, in each form that its place may ask for."""
        return floats.encode(pcm, self.group, self.end)

    def decode(self, payload: bytes) -> Observation:
        """The meaning of the first message of a session."""
        return self.decoder()(payload)


class MiniCpmEndpoint(SliceEndpoint):
    """A gateway of MiniCPM-o-Demo, or ModelBest's cloud."""

    name = "minicpm-o"
    frame_class = FrameClass.UNIT_LOSSY
    subprotocols = ("map.realtime",)
    numbered = True
    end = b""

    def url(self) -> str:
        """The address with the mode, and with the model where one is named."""
        return events.with_query(super().url(), mode="audio", model=self.access.model)

    def group_head(self) -> bytes:
        """What stands in `input.append` before the samples."""
        return _HEAD

    def tail(self, number: int) -> bytes:
        """The slice's name, and the end of the event."""
        return b'","input_id":"%b%d"}}' % (_ID.encode(), number)

    def decoder(self) -> Callable[[bytes], Observation]:
        """Messages of one slice are told from those of the next."""
        payload: dict[str, Any] = {"system_prompt": PROMPT}
        init = {"type": "session.init", "payload": events.merged(payload, self.access.session)}
        return _Decoder(msgspec.json.encode(init)).decode

    def closing(self) -> list[bytes]:
        """`session.close`."""
        return [b'{"type":"session.close","reason":"user_stop"}']


class _Decoder:
    """One session."""

    def __init__(self, init: bytes) -> None:
        self._init = init
        self._slice: str | int | float | None = None
        """What all messages of the newest answered slice have in common; None: nothing is known to be."""
        self._kind = ""
        """What came last of it."""

    def decode(self, payload: bytes) -> Observation:
        """The meaning of one message."""
        try:
            event = _event.decode(payload)
            kind = event.type
            if kind == "response.output.delta":
                return self._delta(event, event.kind or "")
            # the names of April 2026, in which one message brings text and speech
            if kind == "response.listen":
                return self._delta(event, _LISTEN)
            if kind == "response.output_audio.delta":
                return self._delta(event, _AUDIO)
            if kind == "session.queue_done":
                return Observation(Kind.OPENED, reply=(self._init,))
            if kind in ("session.queued", "session.queue_update"):
                return waiting(payload)
            if kind == "session.created":
                return events.ACCEPTED
            if kind == "session.closed":
                return events.goodbye(payload)
            if kind == "error":
                return events.trouble(payload, FATAL)
        except UNREADABLE as error:
            return events.not_understood(error)
        return events.OTHER

    def _delta(self, event: _Event, kind: str) -> Observation:
        """The first message of a slice answers it; speech after its text completes it later."""
        if kind not in (_LISTEN, _TEXT, _AUDIO):
            return events.OTHER
        metrics = event.metrics.kv_cache_length if event.metrics else event.kv_cache_length
        known = event.input_id if event.input_id is not None else metrics
        same = self._same(known, kind, named=event.input_id is not None)
        self._slice, self._kind = known, kind
        frame = _number(event.input_id)
        if kind == _LISTEN:
            return events.OTHER if same else Observation(Kind.FRAME_DONE, frame=frame, tokens=0)
        length = events.pcm_seconds(event.audio or "", OUTPUT_RATE, floats.WIDTH)
        return Observation(Kind.FRAME_DONE, frame=frame, count=0 if same else 1, tokens=1, flags=_SPOKEN, audio=length)

    def _same(self, known: str | int | float | None, kind: str, *, named: bool) -> bool:
        """Whether a message is one more of the slice answered last. Each slice makes the KV cache longer."""
        if known is None or known != self._slice:
            return known is None and self._slice is None and (self._kind, kind) == (_TEXT, _AUDIO)
        return named or not (kind == self._kind == _LISTEN)


def _number(name: str | int | None) -> int | None:
    """k of the name of slice k."""
    if not isinstance(name, str):
        return None
    digits = name.removeprefix(_ID)
    if digits == name or not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(_LARGEST)):
        return None
    return int(digits)
