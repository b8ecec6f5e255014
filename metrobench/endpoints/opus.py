"""Opus packets (RFC 6716, RFC 7845): made by libsndfile, read only as far as their length in time goes."""

from __future__ import annotations

import io
from collections.abc import Sequence

from metrobench.endpoints import ogg
from metrobench.errors import UsageError
from metrobench.units import CHUNK

RATE = 48_000
"""Positions of a stream count samples at this rate, whatever the audio's own."""
CHUNK_POSITIONS = round(CHUNK * RATE)
"""Positions of a packet of 20 ms, the chunk of the load path."""
COMPRESSION = 0.8
"""libsndfile's level: about 57 kbit/s for 24 kHz mono, where libopus leaves the costly hybrid mode."""

_LONGEST = 0.120
_SPEECH = (0.010, 0.020, 0.040, 0.060)
_MIXED = (0.010, 0.020)
_MUSIC = (0.0025, 0.005, 0.010, 0.020)
_FRAMES = _SPEECH * 3 + _MIXED * 2 + _MUSIC * 4
"""Seconds of one frame by configuration (RFC 6716, table 2)."""


def head(rate: int) -> bytes:
    """Identification header of mono audio recorded at `rate` Hz. Nothing is to be skipped, so that every packet counts
    as heard."""
    return b"OpusHead" + bytes((1, 1)) + (0).to_bytes(2, "little") + rate.to_bytes(4, "little") + bytes(3)


def tags() -> bytes:
    """Comment header."""
    vendor = b"metrobench"
    return b"OpusTags" + len(vendor).to_bytes(4, "little") + vendor + bytes(4)


def is_header(packet: bytes) -> bool:
    """One of the two headers: no audio."""
    return packet[:8] in (b"OpusHead", b"OpusTags")


def duration(packet: bytes) -> float:
    """Seconds of audio in a packet; 0.0 for an empty one, or one that breaks RFC 6716, section 3.2."""
    if not packet:
        return 0.0
    frames = (1, 2, 2)[packet[0] & 3] if packet[0] & 3 < 3 else packet[1] & 63 if len(packet) > 1 else 0
    seconds = frames * _FRAMES[packet[0] >> 3]
    return seconds if seconds <= _LONGEST + 1e-9 else 0.0


def encode(chunks: Sequence[bytes], rate: int) -> list[bytes]:
    """One packet of 20 ms for each consecutive chunk of PCM16 mono audio, from a fresh encoder. The codec is 6.5 ms
    late, so that much of the end is lost. Raises UsageError where libsndfile cannot do it."""
    import numpy as np
    import soundfile

    written = io.BytesIO()
    pcm = np.frombuffer(b"".join(chunks), dtype="<i2")
    try:
        soundfile.write(written, pcm, rate, format="OGG", subtype="OPUS", compression_level=COMPRESSION)
    except (ValueError, RuntimeError) as error:
        raise UsageError(
            f"libsndfile writes no Opus at {rate} Hz: {error}", "Opus takes 8, 12, 16, 24 or 48 kHz"
        ) from (error)
    made = [packet for packet in ogg.packets(written.getvalue()) if not is_header(packet)][: len(chunks)]
    if len(made) < len(chunks) or any(duration(packet) != CHUNK for packet in made):
        raise UsageError(
            "this libsndfile cuts Opus into other packets than 20 ms",
            "python -m pip install -U soundfile brings its own",
        )
    return made
