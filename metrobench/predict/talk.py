"""How many tokens each frame of a conversation adds where the decode length follows the talk. Pure, seeded.

A stand-in speaks in the frames in which its user is silent (metrobench.worker); who talks when is the run's own audio
(metrobench.corpus). So a seed decides every token of a run, and many seeds give the spread of t*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from metrobench.corpus.stream import SILENCE, ChunkTable, session_runs
from metrobench.measure.frames import Bools, Floats, Ints
from metrobench.predict.model import Pool, crossing_of
from metrobench.schedule import offset_of, phases
from metrobench.units import CHUNK


@dataclass(frozen=True, slots=True)
class Voices:
    """What users say, as far as it decides who speaks."""

    clips: tuple[tuple[int, int], ...]
    """First chunk and number of chunks of each clip."""
    energy: Floats
    """Cumulative mean square of the chunks, shape (chunks + 1,)."""
    silence: float
    """Mean square of a frame at which it still counts as silent."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a frame adds to a context, a + d - 1, and how long it is."""

    unit: float
    listening: int
    speaking: int

    def mean(self, share: float) -> float:
        """Tokens of a frame while the model speaks in a `share` of them."""
        return share * self.speaking + (1.0 - share) * self.listening


def voices_of(table: ChunkTable, silence_dbfs: float) -> Voices:
    """The corpus as `Voices`; a frame whose RMS is at most `silence_dbfs` has no speech in it."""
    samples = table.chunks.astype(np.float32)
    power = np.einsum("cs,cs->c", samples, samples, dtype=np.float64) / samples.shape[1]
    power[SILENCE] = 0.0
    rms = 10 ** (silence_dbfs / 20) * 32768
    return Voices(table.clips, np.concatenate([[0.0], np.cumsum(power)]), rms * rms)


def listens(voices: Voices, runs: Iterator[tuple[int, int]], frames: int, unit: float) -> Bools:
    """The user speaks in a frame, so that the model only listens. Shape (frames,)."""
    chunks = round(unit / CHUNK)
    firsts, counts, total = [], [], 0
    while total <= frames * chunks:
        first, count = next(runs)
        firsts.append(first)
        counts.append(count)
        total += count
    first, length = np.array(firsts), np.array(counts)
    ends = np.cumsum(length)
    spoken = first != SILENCE
    whole = np.where(spoken, voices.energy[np.where(spoken, first + length, 0)] - voices.energy[first], 0.0)
    base = np.concatenate([[0.0], np.cumsum(whole)])
    edge = np.arange(frames + 1) * chunks
    run = np.searchsorted(ends, edge, side="right")
    inside = np.where(spoken[run], first[run] + edge - (ends - length)[run], 0)
    part = np.where(spoken[run], voices.energy[inside] - voices.energy[first[run]], 0.0)
    loud: Bools = np.diff(base[run] + part) > voices.silence * chunks
    return loud


def tokens_of(voices: Voices, rates: Rates, seed: int, sessions: int, frames: int, resident: int) -> Ints:
    """Tokens that each session of the run with that seed holds after each frame, shape (sessions, frames)."""
    tokens = np.empty((sessions, frames), dtype=np.int64)
    for session in range(sessions):
        loud = listens(voices, session_runs(voices.clips, seed, session), frames, rates.unit)
        tokens[session] = resident + np.cumsum(np.where(loud, rates.listening, rates.speaking))
    return tokens
