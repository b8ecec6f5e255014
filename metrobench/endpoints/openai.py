"""The OpenAI Realtime dialects (protocols.md 3a, 3b, 4c, 6): turns of a conversation, found by the server's VAD.

One table says what differs. Event names of both generations are understood whatever the dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pybase64

from metrobench.endpoints import events, ogg, opus
from metrobench.endpoints.base import UNREADABLE, EndpointBase, FrameClass, Kind, Observation, Said, Stream

TURN = 12.0
"""Seconds from the end of one turn's speech to the end of the next one's."""
BUDGET = 1.0
"""B_turn in seconds: an answer is to be heard by then after the last word (measurement.md, Protocol classes)."""
OUTPUT_RATE = 24_000
SERIAL = 0x6D657472
MAX_AUDIO = 1 << 20
"""Base64 characters of one piece of Opus that is read."""
FATAL = frozenset({"invalid_api_key", "insufficient_quota", "session_expired", "model_not_found", "fatal"})


@dataclass(frozen=True)
class Dialect:
    """What one kind of server wants."""

    name: str
    flat: bool
    """`session` is a flat table, as in the beta."""
    rate: int = 24_000
    headers: dict[str, str] = field(default_factory=dict)
    subprotocols: tuple[str, ...] = ()
    session: dict[str, Any] = field(default_factory=dict)
    """Beside the formats and the VAD."""
    vad: dict[str, Any] = field(default_factory=dict)
    opus: bool = False
    """Audio is Opus in Ogg, both ways."""
    greets: bool = True
    goodbye: str = ""
    """Event that asks the server to end the session."""


GA = Dialect("openai", flat=False)
BETA = Dialect("openai-beta", flat=True, headers={"OpenAI-Beta": "realtime=v1"})
AZURE = Dialect("azure", flat=True)
QWEN = Dialect(
    "qwen",
    flat=True,
    rate=16_000,
    session={"voice": "Cherry"},
    vad={"threshold": 0.2, "silence_duration_ms": 800},
    goodbye="session.finish",
)
UNMUTE = Dialect(
    "unmute",
    flat=True,
    subprotocols=("realtime",),
    session={"instructions": None, "voice": None, "allow_recording": False},
    opus=True,
    greets=False,
)


class _Detail(msgspec.Struct, gc=False):
    error: events.ErrorBody | None = None
    reason: str | None = None


class _Response(msgspec.Struct, gc=False):
    status: str | None = None
    status_details: _Detail | None = None


class _Done(msgspec.Struct, gc=False):
    response: _Response | None = None


class _Delta(msgspec.Struct, gc=False):
    delta: str = ""


_done = msgspec.json.Decoder(_Done)
_delta = msgspec.json.Decoder(_Delta)
_START = Observation(Kind.TURN_START)
_DONE = Observation(Kind.TURN_DONE)


class OpenAiEndpoint(EndpointBase):
    """A server of one dialect; subclasses name it."""

    dialect = GA
    name = GA.name
    frame_class = FrameClass.TURN
    converses = True

    @classmethod
    def fit(cls, unit: float, sample_rate: int) -> Stream:
        """Turns of TURN seconds, whatever the model."""
        del unit, sample_rate
        return Stream(cls.frame_class, TURN, TURN, cls.dialect.rate, budget=BUDGET)

    def url(self) -> str:
        """The address with the model."""
        return events.with_query(super().url(), model=self.access.model)

    def headers(self) -> dict[str, str]:
        """The dialect's, and the user's."""
        return self.dialect.headers | super().headers()

    def opening(self, session: int, fill_tokens: int) -> list[bytes]:
        """`session.update` with formats and VAD."""
        del session, fill_tokens
        body = self._flat() if self.dialect.flat else self._nested()
        return [msgspec.json.encode({"type": "session.update", "session": events.merged(body, self.access.session)})]

    def encode_chunk(self, pcm: bytes) -> bytes:
        """`input_audio_buffer.append`."""
        return events.append(pcm)

    def decode(self, payload: bytes) -> Observation:
        """An answer begins with `response.created` and is complete with `response.done`."""
        try:
            kind = events.kind_of(payload)
            if kind in events.SPEECH:
                return Observation(Kind.OUTPUT, tokens=1, audio=self._length(_delta.decode(payload).delta))
            if kind in events.WORDS:
                return events.OUTPUT
            if kind == "response.created":
                return _START
            if kind == "response.done":
                return _ended(_done.decode(payload).response)
            if kind == "session.created":
                return events.OPENED
            if kind == "session.updated":
                return events.ACCEPTED
            if kind == "session.finished":
                return events.goodbye(payload)
            if kind == "error":
                return events.trouble(payload, FATAL)
        except (*UNREADABLE, ogg.OggError) as error:
            return events.not_understood(error)
        return events.OTHER

    def listener(self) -> Callable[[bytes], Said]:
        """Deltas of text, of what is spoken, and of speech."""
        return events.words_of if self.dialect.opus else events.said

    def closing(self) -> list[bytes]:
        """The dialect's goodbye, where it has one."""
        name = self.dialect.goodbye
        return [msgspec.json.encode({"type": name})] if name else []

    def _vad(self) -> dict[str, Any]:
        usual = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}
        return usual | self.dialect.vad

    def _nested(self) -> dict[str, Any]:
        heard = {"format": {"type": "audio/pcm", "rate": self.sample_rate}, "turn_detection": self._vad()}
        said = {"format": {"type": "audio/pcm", "rate": OUTPUT_RATE}}
        return {"type": "realtime", "output_modalities": ["audio"], "audio": {"input": heard, "output": said}}

    def _flat(self) -> dict[str, Any]:
        if self.dialect.opus:
            return dict(self.dialect.session)
        formats = {"input_audio_format": "pcm16", "output_audio_format": "pcm16"}
        return {"modalities": ["audio", "text"], **formats, "turn_detection": self._vad()} | self.dialect.session

    def _length(self, audio: str) -> float:
        """Seconds of speech in a delta."""
        return events.pcm_seconds(audio, OUTPUT_RATE)


class BetaEndpoint(OpenAiEndpoint):
    """The beta's flat session and event names; many clones."""

    dialect, name = BETA, BETA.name


class AzureEndpoint(OpenAiEndpoint):
    """Azure's preview: the beta with a key in a header of its own."""

    dialect, name = AZURE, AZURE.name
    token_header, token_prefix = "api-key", ""


class QwenEndpoint(OpenAiEndpoint):
    """DashScope's Qwen-Omni-Realtime."""

    dialect, name = QWEN, QWEN.name
    says_goodbye = True


class UnmuteEndpoint(OpenAiEndpoint):
    """Kyutai's unmute: Opus in Ogg, a session that is silent until it is configured."""

    dialect, name = UNMUTE, UNMUTE.name
    subprotocols = UNMUTE.subprotocols
    greets = UNMUTE.greets
    costly = True
    personal = True

    def encode_chunk(self, pcm: bytes) -> bytes:
        """A clip of one chunk."""
        return self.encode_clip([pcm])[0]

    def encode_clip(self, chunks: Sequence[bytes]) -> list[bytes]:
        """An Ogg page for each chunk, which `personalise` gives its place in a stream."""
        return [ogg.page(packet, SERIAL, 0, 0) for packet in opus.encode(chunks, self.sample_rate)]

    def personalise(self, message: bytes, number: int) -> bytes:
        """The append event of a session's chunk `number`; the stream's headers go before the first."""
        page = ogg.renumber(message, SERIAL, number + 2, (number + 1) * opus.CHUNK_POSITIONS)
        return events.append(page if number else _headers(self.sample_rate) + page)

    def _length(self, audio: str) -> float:
        if len(audio) > MAX_AUDIO:
            raise ogg.OggError(f"an audio message of {len(audio)} characters")
        try:
            pages = pybase64.b64decode(audio)
        except ValueError as error:
            raise ogg.OggError(str(error)) from error
        return sum(opus.duration(packet) for packet in ogg.packets(pages) if not opus.is_header(packet))


def _headers(rate: int) -> bytes:
    return ogg.page(opus.head(rate), SERIAL, 0, 0, ogg.FIRST) + ogg.page(opus.tags(), SERIAL, 1, 0)


def _ended(response: _Response | None) -> Observation:
    """`response.done`; a response that failed is an error, and its turn has no answer."""
    if response is None or response.status != "failed":
        return _DONE
    detail = response.status_details or _Detail()
    body = detail.error or events.ErrorBody(message=detail.reason)
    code, text = str(body.code or body.type or "response failed"), body.message or ""
    limit = events.LONGEST_TEXT
    return Observation(Kind.ERROR, code=code[:limit], message=text[:limit])
