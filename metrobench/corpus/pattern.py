"""Who talks when: a different endless pattern of speech and pauses for every session.

A pattern is an iterator of runs (first chunk, number of chunks); `(SILENCE, n)` is a pause of n chunks. All clips come
in a new order each round, and every session begins at a random place of its pattern. Equal arguments give equal runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np

from metrobench.corpus.stream import SILENCE, ChunkTable
from metrobench.units import CHUNK

Spans = tuple[tuple[int, int], ...]
"""First chunk and number of chunks of each clip."""
Runs = Iterator[tuple[int, int]]

SESSIONS, UNITS = 20, 50
"""Sessions, and units of each, that `speech_share` looks at."""

PAUSE_LOW, PAUSE_HIGH = 0.5, 1.5
"""In `half` a pause is this many times as long as the clip before it, drawn evenly: half of the time in the mean."""

ONE_TALKS, BOTH_TALK, NOBODY_TALKS = 0.854, 0.226, 0.456
"""Mean seconds of the states of a telephone conversation, each exponential (ITU-T P.59, 03/93, artificial
conversational speech)."""
JOIN = 0.40
"""Probability that the other one joins in where one talks; else the talker falls silent. From silence and from double
talk it is either one's turn with equal probability (P.59)."""


def session_runs(clips: Spans, seed: int, session: int, talk: str = "half") -> Runs:
    """Endless audio of one session. `talk` is one of TALK."""
    return TALK[talk](clips, seed, session)


def each_chunk(runs: Iterable[tuple[int, int]]) -> Iterator[int]:
    """The same audio, chunk number by chunk number, where each run is a row of chunks."""
    for first, count in runs:
        yield from range(first, first + count)


def half(clips: Spans, seed: int, session: int) -> Runs:
    """(clip, pause) after (clip, pause): the user talks half of the time, and listens while the model speaks."""
    rng = np.random.default_rng([seed, session])
    skip: int | None = None
    for first, count in _shuffled(clips, rng):
        pause = max(1, round(count * rng.uniform(PAUSE_LOW, PAUSE_HIGH)))
        skip = int(rng.integers(count + pause)) if skip is None else 0
        if skip < count:
            yield first + skip, count - skip
        yield SILENCE, pause - max(0, skip - count)


def paired(clips: Spans, seed: int, session: int) -> Runs:
    """Sessions 2i and 2i + 1 take turns clip by clip: where one user talks the other is silent.

    So half of all users talk at any moment, where the share of users who talk independently swings by 1/sqrt(N) (one
    standard deviation), within a run and between runs.
    """
    rng = np.random.default_rng([seed, session // 2])
    turn = int(rng.integers(2))
    for first, count in _clip_after_clip(clips, rng):
        yield first if turn == session % 2 else SILENCE, count
        turn = 1 - turn


def continuous(clips: Spans, seed: int, session: int) -> Runs:
    """Clip after clip without a pause: the user never stops."""
    return _clip_after_clip(clips, np.random.default_rng([seed, session]))


def dialogue(clips: Spans, seed: int, session: int) -> Runs:
    """One side of a telephone conversation, by the state model of ITU-T P.59.

    The user talks 42 % of the time, in spurts of 1.03 s and pauses of 1.40 s in the mean. A clip goes on in the next
    spurt where the last one cut it.
    """
    rng = np.random.default_rng([seed, session])
    speech = _clip_after_clip(clips, rng)
    first, left = next(speech)
    for talking, count in _talks(rng):
        if not talking:
            yield SILENCE, count
            continue
        while count:
            part = min(count, left)
            yield first, part
            count, first, left = count - part, first + part, left - part
            if not left:
                first, left = next(speech)


TALK: dict[str, Callable[[Spans, int, int], Runs]] = {
    "paired": paired,
    "half": half,
    "continuous": continuous,
    "dialogue": dialogue,
}
"""The patterns by name; each takes the clips, the seed and the number of the session."""


def _clip_after_clip(clips: Spans, rng: np.random.Generator) -> Runs:
    """Clips without a pause, from a random place of the first one on."""
    skip: int | None = None
    for first, count in _shuffled(clips, rng):
        skip = int(rng.integers(count)) if skip is None else 0
        yield first + skip, count - skip


def _shuffled(clips: Spans, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """All clips in a new order each round, endlessly."""
    lengths = np.array([count for _, count in clips], dtype=np.float64)
    # a random moment falls into a clip as often as the clip is long
    opening = int(rng.choice(len(clips), p=lengths / lengths.sum()))
    order = rng.permutation(len(clips))
    yield clips[opening]
    order = order[order != opening]
    while True:
        for number in order:
            yield clips[number]
        order = rng.permutation(len(clips))


def _talks(rng: np.random.Generator) -> Iterator[tuple[bool, int]]:
    """Does the user talk, and for how many chunks; endless, from a random moment of the conversation on."""
    # states are memoryless: a random moment is a state drawn by its share of time, with its whole length to come
    shares = np.array([ONE_TALKS / 2, ONE_TALKS / 2, JOIN * BOTH_TALK, (1.0 - JOIN) * NOBODY_TALKS])
    state = int(rng.choice(4, p=shares / shares.sum()))
    clock, spoken = 0.0, 0
    while True:
        clock += float(rng.exponential((ONE_TALKS, ONE_TALKS, BOTH_TALK, NOBODY_TALKS)[state]))
        count, spoken = round(clock / CHUNK) - spoken, round(clock / CHUNK)
        if count:
            yield state in (_USER, _BOTH), count
        if state in (_USER, _OTHER):
            state = _BOTH if rng.random() < JOIN else _NOBODY
        else:
            state = _USER if rng.random() < 0.5 else _OTHER


_USER, _OTHER, _BOTH, _NOBODY = range(4)


def speech_share(table: ChunkTable, talk: str, unit: int, dbfs: float) -> float:
    """Share of units of `unit` chunks whose RMS is above `dbfs`: those in which a listener by level hears the user.

    Over the first UNITS units of SESSIONS sessions.
    """
    loud = 10.0 ** (dbfs / 10.0) * 32768.0**2
    samples = table.chunks.astype(np.float32)
    powers = np.einsum("ij,ij->i", samples, samples) / samples.shape[1]
    heard = 0
    for session in range(SESSIONS):
        runs = session_runs(table.clips, 0, session, talk)
        chunks = np.fromiter(islice(each_chunk(on_bed(runs, table.bed)), UNITS * unit), dtype=np.int64)
        heard += int(np.count_nonzero(powers[chunks].reshape(UNITS, unit).mean(axis=1) > loud))
    return heard / (SESSIONS * UNITS)


def on_bed(runs: Runs, bed: tuple[int, int]) -> Runs:
    """Runs in which pauses are runs of the bed."""
    first, length = bed
    for start, count in runs:
        if start != SILENCE:
            yield start, count
            continue
        for done in range(0, count, length):
            yield first, min(length, count - done)
