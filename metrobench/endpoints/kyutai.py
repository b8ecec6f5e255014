"""Kyutai's speech to text, `/api/asr-streaming` of moshi-server (protocols.md 4b): msgpack maps, frames of 80 ms.

The server takes one message of a session at each model step, so a message holds a whole frame, as its own clients send
it; it travels in WebSocket fragments of one chunk, each when it is due.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import msgspec
import numpy as np

from metrobench.endpoints.base import NOT_UNDERSTOOD, UNREADABLE, EndpointBase, FrameClass, Kind, Observation, Stream
from metrobench.errors import UsageError
from metrobench.units import CHUNK

UNIT = 0.080
RATE = 24_000
TOKEN_HEADER = "kyutai-api-key"
PUBLIC_TOKEN = "public_token"
"""Key of a server whose configuration names no other."""

_FRAME_SAMPLES = round(UNIT * RATE)
_FLOAT32, _ARRAY16 = 0xCA, 0xDC
_FULL_SCALE = 32768.0
_EPSILON = 1e-6
_HEAD = b"\x82\xa4type\xa5Audio\xa3pcm" + bytes((_ARRAY16,)) + _FRAME_SAMPLES.to_bytes(2, "big")


class _Message(msgspec.Struct, gc=False):
    type: str = ""
    message: str = ""


_decoder = msgspec.msgpack.Decoder(_Message)
_OTHER = Observation(Kind.OTHER)
_STEP = Observation(Kind.FRAME_DONE)
_READY = Observation(Kind.ACCEPTED, tokens=0)


class KyutaiEndpoint(EndpointBase):
    """A moshi-server with a transcription module."""

    name = "kyutai-stt"
    frame_class = FrameClass.LOCKSTEP
    binary = True
    group = round(UNIT / CHUNK)
    token_header, token_prefix = TOKEN_HEADER, ""

    @classmethod
    def fit(cls, unit: float, sample_rate: int) -> Stream:
        """Frames of 80 ms at 24 kHz, each answered when it is complete."""
        if abs(unit - UNIT) > _EPSILON or sample_rate != RATE:
            raise UsageError(
                f"kyutai-stt takes frames of 80 ms at 24 kHz, not {unit * 1000:g} ms at {sample_rate} Hz",
                "choose a model profile that fits, for example --model kyutai-stt",
            )
        return Stream(cls.frame_class, UNIT, UNIT, RATE)

    def headers(self) -> dict[str, str]:
        """The public token, unless the user or the address says another."""
        given = super().headers()
        known = {name.lower() for name in given}
        if TOKEN_HEADER in known or "auth_id" in parse_qs(urlsplit(self.url()).query):
            return given
        return {TOKEN_HEADER: PUBLIC_TOKEN} | given

    def group_head(self) -> bytes:
        """What stands in an `Audio` message before the samples."""
        return _HEAD

    def encode_chunk(self, pcm: bytes) -> bytes:
        """A chunk's part of the samples: 32-bit floats, each after its type byte."""
        samples = np.frombuffer(pcm, dtype="<i2").astype(np.float32) / np.float32(_FULL_SCALE)
        packed = np.empty((len(samples), 5), dtype=np.uint8)
        packed[:, 0] = _FLOAT32
        packed[:, 1:] = samples.astype(">f4").view(np.uint8).reshape(-1, 4)
        return packed.tobytes()

    def decode(self, payload: bytes) -> Observation:
        """A `Step` is the answer to a frame; its index counts for the whole server, so it is not the session's."""
        try:
            seen = _decoder.decode(payload)
        except UNREADABLE as error:
            return Observation(Kind.ERROR, code=NOT_UNDERSTOOD, message=str(error))
        if seen.type == "Step":
            return _STEP
        if seen.type == "Ready":
            return _READY
        if seen.type == "Error":
            return Observation(Kind.ERROR, code="error", message=seen.message[:300], fatal=True)
        return _OTHER
