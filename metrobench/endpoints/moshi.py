"""Moshi's `/api/chat` (protocols.md 4a): Opus in Ogg both ways, 80 ms frames; the first byte of a message is its kind.

Python's server (moshi 0.2.13, run): reply r needs frame r + 1, because the first step gives no audio. The Rust servers
(kyutai-labs/moshi e6a55d2, read) answer one frame later, and greet with nine bytes in place of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metrobench.endpoints import ogg, opus
from metrobench.endpoints.base import NOT_UNDERSTOOD, NOTHING, EndpointBase, FrameClass, Kind, Observation, Said, Stream
from metrobench.errors import UsageError
from metrobench.measure.facts import FrameFlag

UNIT = 0.080
RATE = 24_000
SERIAL = 0x6D657472
"""Serial number of every stream: each has a connection of its own."""
MAX_AUDIO = 256 * 1024
"""Bytes of the largest audio message that is read; a frame has about 400."""
MAX_FRAMES = 1000
"""Most frames one message may answer."""

HANDSHAKE, AUDIO, TEXT, CONTROL, METADATA, ERROR, PING = range(7)
_AUDIO = bytes((AUDIO,))
_PYTHON_HANDSHAKE = 1
_EPSILON = 1e-6

_HEADERS = ogg.page(opus.head(RATE), SERIAL, 0, 0, ogg.FIRST) + ogg.page(opus.tags(), SERIAL, 1, 0)
_ACCEPTED = Observation(Kind.ACCEPTED, tokens=0)
_OTHER = Observation(Kind.OTHER)
_OUTPUT = Observation(Kind.OUTPUT)


class MoshiEndpoint(EndpointBase):
    """A Moshi server. A packet of 20 ms is one Ogg page is one message."""

    name = "moshi"
    frame_class = FrameClass.LOCKSTEP
    binary = True
    personal = True
    costly = True
    converses = True
    unaccepted = "connected, but no handshake within {seconds:g} s: the server is busy with another session"

    @classmethod
    def fit(cls, unit: float, sample_rate: int) -> Stream:
        """Frames of 80 ms at 24 kHz; the first answer needs two of them."""
        if abs(unit - UNIT) > _EPSILON or sample_rate != RATE:
            raise UsageError(
                f"moshi takes frames of 80 ms at 24 kHz, not {unit * 1000:g} ms at {sample_rate} Hz",
                "choose a model profile that fits, for example --model moshi",
            )
        return Stream(cls.frame_class, UNIT, 2 * UNIT, RATE)

    def encode_chunk(self, pcm: bytes) -> bytes:
        """A clip of one chunk."""
        return self.encode_clip([pcm])[0]

    def encode_clip(self, chunks: Sequence[bytes]) -> list[bytes]:
        """Audio messages with Ogg pages that `personalise` gives their place in a stream."""
        return [_AUDIO + ogg.page(packet, SERIAL, 0, 0) for packet in opus.encode(chunks, self.sample_rate)]

    def personalise(self, message: bytes, number: int) -> bytes:
        """The message as number `number` of a session's; the stream's headers go before the first."""
        page = ogg.renumber(message[1:], SERIAL, number + 2, (number + 1) * opus.CHUNK_POSITIONS)
        return _AUDIO + page if number else _AUDIO + _HEADERS + page

    def decode(self, payload: bytes) -> Observation:
        """The meaning of the first message of a session."""
        return self.decoder()(payload)

    def decoder(self) -> Callable[[bytes], Observation]:
        """Answers are told apart by the audio in them, however it is spread over messages."""
        return _Decoder().decode

    def listener(self) -> Callable[[bytes], Said]:
        """Text comes beside the speech."""
        return _words


def _words(payload: bytes) -> Said:
    return Said(payload[1:].decode("utf-8", "replace")) if payload[:1] == bytes((TEXT,)) else NOTHING


class _Decoder:
    """How much audio a session has been given."""

    def __init__(self) -> None:
        self._heard = 0.0
        self._frames = 0

    def decode(self, payload: bytes) -> Observation:
        """The meaning of one message."""
        kind = payload[0] if payload else -1
        if kind == AUDIO:
            return self._audio(payload)
        if kind == HANDSHAKE:
            if len(payload) > _PYTHON_HANDSHAKE and not self._frames:
                self._frames, self._heard = 1, UNIT
            return _ACCEPTED
        if kind == ERROR:
            return Observation(Kind.ERROR, code="error", message=payload[1:301].decode("utf-8", "replace"), fatal=True)
        # text follows the audio of its frame, which is complete by then
        return _OTHER

    def _audio(self, payload: bytes) -> Observation:
        try:
            if len(payload) > MAX_AUDIO:
                raise ogg.OggError(f"an audio message of {len(payload)} bytes")
            added = sum(opus.duration(packet) for packet in ogg.packets(payload[1:]) if not opus.is_header(packet))
        except ogg.OggError as error:
            return Observation(Kind.ERROR, code=NOT_UNDERSTOOD, message=str(error))
        if not added:
            return _OTHER
        first = self._frames
        heard = self._heard + added
        count = int(heard / UNIT + _EPSILON) - first
        if count > MAX_FRAMES:
            return Observation(Kind.ERROR, code=NOT_UNDERSTOOD, message=f"one message with {added:g} s of audio")
        self._heard = heard
        if not count:
            return _OUTPUT
        self._frames = first + count
        return Observation(
            Kind.FRAME_DONE, frame=first, count=count, tokens=1, flags=FrameFlag.CONTENT_DUE, audio=added
        )
