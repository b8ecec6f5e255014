"""A different endless stream of speech for every session, shared without copying.

The corpus is one table of 20 ms chunks; a session's stream is a lazily drawn sequence of chunk numbers. Clips alternate
with pauses of about their own length: a user talks about half of the time, and listens while the model speaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt

from metrobench.corpus.decode import decode
from metrobench.errors import UsageError
from metrobench.units import CHUNK

MAX_CHUNKS = 60_000
"""Most chunks in one table (20 minutes of speech); further clips are left out."""

SILENCE = 0
"""Number of the chunk of silence."""

PAUSE_LOW, PAUSE_HIGH = 0.5, 1.5
"""A pause is this many times as long as the clip before it, drawn evenly: half talk, half silence in the mean."""


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """All distinct chunks of a run."""

    chunks: npt.NDArray[np.int16]
    """Shape (chunks, samples a chunk); row 0 is silence."""
    clips: tuple[tuple[int, int], ...]
    """First chunk and number of chunks of each clip."""

    def pcm(self, chunk: int) -> bytes:
        """PCM16 little-endian bytes of one chunk."""
        return bytes(self.chunks[chunk].astype("<i2", copy=False).data)


def build_table(clips: tuple[Path, ...], rate: int) -> ChunkTable:
    """Decode clips and cut them into chunks of `rate` * 20 ms samples; the last chunk of a clip is padded with silence,
    so that a clip never stretches or shifts the timeline. Raises UsageError."""
    if not clips:
        raise UsageError("no audio clips to stream")
    size = chunk_samples(rate)
    parts = [np.zeros((1, size), dtype=np.int16)]
    spans: list[tuple[int, int]] = []
    total = 1
    for path in clips:
        samples = decode(path, rate)
        count = -(-len(samples) // size)
        if total + count > MAX_CHUNKS:
            if not spans:
                raise UsageError(f"audio file {path} is longer than {MAX_CHUNKS * CHUNK:.0f} s", "cut it into clips")
            continue
        padded = np.zeros((count, size), dtype=np.int16)
        padded.reshape(-1)[: len(samples)] = samples
        parts.append(padded)
        spans.append((total, count))
        total += count
    return ChunkTable(np.concatenate(parts), tuple(spans))


def chunk_samples(rate: int) -> int:
    """Samples in one chunk. Raises UsageError where 20 ms is not a whole number of samples."""
    size = round(rate * CHUNK)
    if size < 1 or abs(size - rate * CHUNK) > 1e-9:
        raise UsageError(f"{rate} Hz does not divide into 20 ms chunks", "for example 8000, 16000, 24000 or 48000 Hz")
    return size


def session_runs(clips: tuple[tuple[int, int], ...], seed: int, session: int) -> Iterator[tuple[int, int]]:
    """Endless audio of one session as runs (first chunk, number of chunks); `(SILENCE, n)` is a pause of n chunks.

    (clip, pause) after (clip, pause), all clips in a new order each round, beginning at a random place of the first
    pair. Equal arguments give equal runs.
    """
    rng = np.random.default_rng([seed, session])
    skip: int | None = None
    while True:
        for number in rng.permutation(len(clips)):
            first, count = clips[number]
            pause = max(1, round(count * rng.uniform(PAUSE_LOW, PAUSE_HIGH)))
            skip = int(rng.integers(count + pause)) if skip is None else 0
            if skip < count:
                yield first + skip, count - skip
            yield SILENCE, pause - max(0, skip - count)


def session_stream(clips: tuple[tuple[int, int], ...], seed: int, session: int) -> Iterator[int]:
    """The same audio, chunk number by chunk number."""
    for first, count in session_runs(clips, seed, session):
        yield from repeat(SILENCE, count) if first == SILENCE else range(first, first + count)
