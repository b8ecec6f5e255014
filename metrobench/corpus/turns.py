"""Audio for protocols that answer turns: in every period of a session one utterance, which ends at a known time.

The utterance of turn k ends `first_ready + k * period` after the session's beginning, so that a turn is a frame whose
last needed sample is the last one that is spoken. The rest of the period is silence, in which the server answers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from metrobench.corpus.stream import SILENCE, ChunkTable
from metrobench.units import CHUNK

SPOKEN = 0.5
"""Largest share of a period that is spoken: of a longer clip the end is taken."""
QUIET_DBFS = -45.0
"""RMS of a chunk below which nothing is spoken in it."""


def turns(table: ChunkTable, seed: int, session: int, period: float, first_ready: float) -> Iterator[tuple[int, int]]:
    """Endless runs (first chunk, number of chunks) of one session; `period` and `first_ready` in seconds."""
    every, place = round(period / CHUNK), 0
    end = round(first_ready / CHUNK)
    spans = [span for clip in table.clips if (span := utterance(table, clip, round(SPOKEN * every)))]
    rng = np.random.default_rng([seed, session])
    while spans:
        for number in rng.permutation(len(spans)):
            start, count = spans[number]
            count, skip = min(count, end - place), max(0, count - (end - place))
            if end - count > place:
                yield SILENCE, end - count - place
            yield start + skip, count
            place, end = end, end + every
    yield SILENCE, every


def utterance(table: ChunkTable, clip: tuple[int, int], most: int) -> tuple[int, int] | None:
    """The last `most` chunks of a clip up to the end of its speech, as (first chunk, number of chunks); None where
    nothing is spoken."""
    first, count = clip
    samples = table.chunks[first : first + count].astype(np.float64)
    loud = np.flatnonzero(np.mean(samples**2, axis=1) > 10.0 ** (QUIET_DBFS / 10.0) * 32768.0**2)
    if not len(loud):
        return None
    begin, end = int(loud[0]), int(loud[-1]) + 1
    begin = max(begin, end - most)
    return first + begin, end - begin
