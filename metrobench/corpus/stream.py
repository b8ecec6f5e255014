"""The audio of a run as one table of 20 ms chunks, shared by all sessions without copying.

Which chunks a session sends when is a pattern of talk and pause (metrobench.corpus.pattern).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from metrobench.corpus.decode import decode, to_pcm
from metrobench.corpus.mix import (
    Noise,
    Samples,
    amplify,
    make_noise,
    mix,
    noise_level,
    pad,
    protect,
    speech_power,
)
from metrobench.errors import UsageError
from metrobench.units import CHUNK

MAX_CHUNKS = 60_000
"""Most chunks in one table (20 minutes of speech); further clips are left out."""

SILENCE = 0
"""Number of the chunk of silence."""

LONGEST_TURN, SHORTEST_CUT = 10.0, 4.0
"""Seconds: longest turn, and shortest one that is cut off a long clip."""
QUIET_CHUNKS = 5
"""A pause inside a clip is looked for over this many chunks."""

BED = 500
"""Chunks of noise that fill the pauses, over and over."""
NOISE_SECONDS = 30.0
"""Length of the noise that clips are mixed with, each from a place of its own."""
NOISE_SEED = 20
VOICE_SECONDS = 120.0
"""Seconds of clips that babble is made of."""

Pcm = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """All distinct chunks of a run."""

    chunks: npt.NDArray[np.int16]
    """Shape (chunks, samples a chunk); row 0 is silence."""
    clips: tuple[tuple[int, int], ...]
    """First chunk and number of chunks of each turn: a clip, or a part of a long one."""
    bed: tuple[int, int] = (SILENCE, 1)
    """The same of what is heard in pauses: silence, or background noise."""

    def pcm(self, chunk: int) -> bytes:
        """PCM16 little-endian bytes of one chunk."""
        return bytes(self.chunks[chunk].astype("<i2", copy=False).data)


def build_table(clips: tuple[Path, ...], rate: int, noise: Noise | None = None, gain: float = 0.0) -> ChunkTable:
    """Decode clips and cut them into chunks of `rate` * 20 ms samples; the last chunk of a clip is padded with silence,
    so that a clip never stretches or shifts the timeline. Clips longer than LONGEST_TURN are cut where they are
    quietest: with long turns the share of users who talk would swing within a run, and from run to run.

    `gain` in dB comes first, then `noise`, under each clip and in the pauses. Equal arguments give equal tables.
    Raises UsageError.
    """
    if not clips:
        raise UsageError("no audio clips to stream")
    chunk = chunk_samples(rate)
    spoken = _decode_all(clips, rate, chunk)
    if gain:
        spoken = [to_pcm(amplify(_float(samples), gain)) for samples in spoken]
    bed: list[Pcm] = []
    if noise is not None:
        spoken, bed = _add_noise(spoken, noise, rate, chunk)
    rows = [pad(samples, chunk).reshape(-1, chunk) for samples in (np.zeros(chunk, np.int16), *spoken, *bed)]
    starts = np.cumsum([len(row) for row in rows]).tolist()
    spans = [(start, len(row)) for start, row in zip(starts, rows[1:], strict=False)]
    turns = [turn for span, row in zip(spans[: len(spoken)], rows[1:], strict=False) for turn in _turns(span, row)]
    return ChunkTable(np.concatenate(rows), tuple(turns), spans[-1] if bed else (SILENCE, 1))


def _turns(span: tuple[int, int], chunks: Pcm) -> Iterator[tuple[int, int]]:
    """A clip's span, cut into turns."""
    first, left = span
    longest, shortest = round(LONGEST_TURN / CHUNK), round(SHORTEST_CUT / CHUNK)
    around = np.ones(QUIET_CHUNKS)
    powers = np.convolve(np.mean(np.square(chunks, dtype=np.float64), axis=1), around, "same")
    place = 0
    while left - place > longest:
        count = shortest + int(np.argmin(powers[place + shortest : place + longest]))
        yield first + place, count
        place += count
    yield first + place, left - place


def save_table(path: Path, table: ChunkTable) -> None:
    """Write a table to a file, for another process. Raises UsageError."""
    try:
        with path.open("wb") as file:
            np.savez(file, chunks=table.chunks, clips=np.array(table.clips), bed=np.array(table.bed))
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UsageError(f"cannot write to {path.parent}: {error.strerror}") from error


def load_table(path: Path) -> ChunkTable:
    """A table that `save_table` wrote. Raises UsageError."""
    try:
        with np.load(path) as file:
            first, count = file["bed"].tolist()
            clips = tuple((int(start), int(length)) for start, length in file["clips"])
            return ChunkTable(file["chunks"], clips, (first, count))
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"the prepared audio {path} cannot be read: {error}") from error


def chunk_samples(rate: int) -> int:
    """Samples in one chunk. Raises UsageError where 20 ms is not a whole number of samples."""
    size = round(rate * CHUNK)
    if size < 1 or abs(size - rate * CHUNK) > 1e-9:
        raise UsageError(f"{rate} Hz does not divide into 20 ms chunks", "for example 8000, 16000, 24000 or 48000 Hz")
    return size


def _decode_all(clips: tuple[Path, ...], rate: int, chunk: int) -> list[Pcm]:
    """Samples of the clips, in order; those that no longer fit into a table are left out."""
    spoken: list[Pcm] = []
    total = 1
    for path in clips:
        samples = decode(path, rate)
        count = -(-len(samples) // chunk)
        if total + count <= MAX_CHUNKS:
            spoken.append(samples)
            total += count
        elif not spoken:
            raise UsageError(f"audio file {path} is longer than {MAX_CHUNKS * CHUNK:.0f} s", "cut it into clips")
    return spoken


def _add_noise(spoken: list[Pcm], noise: Noise, rate: int, chunk: int) -> tuple[list[Pcm], list[Pcm]]:
    """The clips with noise under them, and BED chunks of it alone, as loud as under the clip of median level."""
    rng = np.random.default_rng(NOISE_SEED)
    count = round(NOISE_SECONDS * rate)
    voices = _voices(spoken, VOICE_SECONDS * rate, rng) if noise.kind == "babble" else []
    loop = make_noise(noise.kind, count, rate, voices, rng)
    mixed, levels = [], []
    for samples in spoken:
        start = int(rng.integers(count))
        under = np.resize(np.roll(loop, -start), len(samples))
        speech = _float(samples)
        levels.append(noise_level(speech_power(speech, chunk), noise.snr))
        mixed.append(to_pcm(mix(speech, under, noise.snr, chunk)))
    bed = loop[: BED * chunk] * np.float32(np.median(levels))
    return mixed, [to_pcm(protect(bed))]


def _voices(spoken: list[Pcm], most: float, rng: np.random.Generator) -> list[Samples]:
    """Clips drawn for babble, `most` samples or a little more."""
    drawn: list[Samples] = []
    for number in rng.permutation(len(spoken)):
        if sum(map(len, drawn)) >= most:
            break
        drawn.append(_float(spoken[number]))
    return drawn


def _float(samples: Pcm) -> Samples:
    return samples.astype(np.float32) / np.float32(32768.0)
