"""How many tokens each frame of a conversation adds where the decode length follows the talk. Pure, seeded.

A stand-in speaks in the frames in which its user is silent (metrobench.worker); who talks when is the run's own audio
(metrobench.corpus). So a seed decides every token of a run, and many seeds give the spread of t*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from metrobench.corpus.pattern import on_bed, session_runs
from metrobench.corpus.stream import SILENCE, ChunkTable
from metrobench.measure.frames import Bools, Floats, Ints
from metrobench.measure.growth import Z
from metrobench.predict.model import Pool, crossing_of
from metrobench.predict.stairs import full_at
from metrobench.profiles import Timing
from metrobench.schedule import offset_of, phases
from metrobench.units import CHUNK

TURN = 5.0
"""Mean seconds from one change to speaking to the next where only the share of speaking is given: a clip of the shipped
corpus and the pause after it."""
MOST_AUDIO = 150_000.0
"""Seconds of conversation that are drawn at most, over all sessions and patterns."""
LEAST_PATTERNS, MOST_PATTERNS = 5, 200
SAMPLE = (96, 400)
"""Sessions and frames from which the mean and the variance of one session are told; an even number of them."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a frame adds to a context, a + d - 1, and how long it is."""

    unit: float
    listening: int
    speaking: int

    @property
    def constant(self) -> bool:
        """Every frame adds the same."""
        return self.listening == self.speaking

    def tokens(self, loud: Bools) -> Ints:
        """Tokens that each frame adds; `loud`: its user speaks, so that the model listens."""
        added: Ints = np.where(loud, self.listening, self.speaking)
        return added

    def mean(self, share: float) -> float:
        """Tokens of a frame while the model speaks in a `share` of them."""
        return share * self.speaking + (1.0 - share) * self.listening


def rates_of(timing: Timing) -> Rates:
    """What a profile's frames add."""
    listening, speaking = timing.tokens_out_listening, timing.tokens_out_speaking
    return Rates(timing.unit, timing.tokens_in + listening - 1, timing.tokens_in + speaking - 1)


@dataclass(frozen=True, slots=True)
class Voices:
    """What users say, as far as it decides who speaks."""

    clips: tuple[tuple[int, int], ...]
    """First chunk and number of chunks of each clip."""
    energy: Floats
    """Cumulative mean square of the chunks, shape (chunks + 1,)."""
    silence: float
    """Mean square of a frame at which it still counts as silent."""
    bed: tuple[int, int] = (SILENCE, 1)
    """What is heard in pauses, as a clip is."""
    talk: str = "half"
    """When users talk (metrobench.corpus.pattern)."""

    def runs(self, seed: int, session: int) -> Iterator[tuple[int, int]]:
        """The audio of one session; SILENCE only where pauses are silent."""
        runs = session_runs(self.clips, seed, session, self.talk)
        return runs if self.bed[0] == SILENCE else on_bed(runs, self.bed)


def voices_of(table: ChunkTable, silence_dbfs: float, talk: str = "half") -> Voices:
    """The corpus as `Voices`; a frame whose RMS is at most `silence_dbfs` has no speech in it."""
    samples = table.chunks.astype(np.float32)
    power = np.einsum("cs,cs->c", samples, samples, dtype=np.float64) / samples.shape[1]
    power[SILENCE] = 0.0
    rms = 10 ** (silence_dbfs / 20) * 32768
    return Voices(table.clips, np.concatenate([[0.0], np.cumsum(power)]), rms * rms, table.bed, talk)


def listens(voices: Voices, runs: Iterator[tuple[int, int]], frames: int, unit: float) -> Bools:
    """The user speaks in a frame, so that the model only listens. Shape (frames,)."""
    chunks = round(unit / CHUNK)
    firsts, counts, total = [], [], 0
    while total <= frames * chunks:
        run_first, run_length = next(runs)
        firsts.append(run_first)
        counts.append(run_length)
        total += run_length
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


def listens_share(share: float, sessions: int, frames: int, unit: float, rng: np.random.Generator) -> Bools:
    """The same where only the share of frames is given in which the model speaks: it takes turns at random, one in TURN
    seconds in the mean. Shape (sessions, frames)."""
    turn = max(TURN, unit / max(1e-9, min(share, 1.0 - share)))
    starts, stops = unit / turn / max(1e-9, 1.0 - share), unit / turn / max(1e-9, share)
    draws = rng.random((frames, sessions))
    speaks: Bools = draws[0] < share
    loud = np.empty((frames, sessions), dtype=bool)
    for frame in range(frames):
        if frame:
            speaks = np.where(speaks, draws[frame] >= stops, draws[frame] < starts)
        loud[frame] = ~speaks
    return loud.T


def tokens_of(voices: Voices, rates: Rates, seed: int, sessions: int, frames: int) -> Ints:
    """Tokens that each session of the run with that seed has taken after each frame, shape (sessions, frames)."""
    tokens = np.empty((sessions, frames), dtype=np.int64)
    for session in range(sessions):
        loud = listens(voices, voices.runs(seed, session), frames, rates.unit)
        tokens[session] = np.cumsum(rates.tokens(loud))
    return tokens


@dataclass(frozen=True, slots=True)
class Load:
    """Sessions that no window bounds."""

    arrivals: Floats
    """Seconds at which each comes, to which its phase within the budget is added, shape (sessions,)."""
    resident: Ints
    """Tokens that each holds from the beginning, shape (sessions,)."""
    rates: Rates
    talk: Voices | float
    """What users say, or the share of frames in which the model speaks."""
    budget: float
    """B, seconds."""

    @property
    def sessions(self) -> int:
        """N."""
        return len(self.arrivals)

    def tokens(self, seed: int, sessions: int, frames: int) -> Ints:
        """Tokens that some sessions take over their frames, shape (sessions, frames)."""
        if isinstance(self.talk, Voices):
            return tokens_of(self.talk, self.rates, seed, sessions, frames)
        loud = listens_share(self.talk, sessions, frames, self.rates.unit, np.random.default_rng([seed, sessions]))
        return np.cumsum(self.rates.tokens(loud), axis=1)


@dataclass(frozen=True, slots=True)
class Spread:
    """t* over talk patterns, as normal as the sum over many turns is."""

    time: float
    deviation: float
    patterns: int
    """From which both were told; 0: from the mean and variance of single sessions."""

    @property
    def why(self) -> str:
        """Where the interval comes from."""
        if self.patterns:
            return f"{self.patterns} talk patterns drawn"
        return "from the mean and variance of single sessions"

    @property
    def lower(self) -> float:
        """Lower end of the 95 % interval of the next t*."""
        return max(0.0, self.time - self._reach())

    @property
    def upper(self) -> float:
        """Its upper end."""
        return self.time + self._reach()

    def before(self, duration: float) -> float:
        """Probability that the next t* is below `duration`."""
        from scipy.special import ndtr, stdtr

        if self.deviation <= 0.0:
            return float(self.time < duration)
        z = (duration - self.time) / self.deviation
        return float(stdtr(self.patterns - 1, z) if self.patterns else ndtr(z))

    def _reach(self) -> float:
        from scipy.special import stdtrit

        return self.deviation * (float(stdtrit(self.patterns - 1, 0.975)) if self.patterns else Z)


def spread(pool: Pool, load: Load, seed: int) -> Spread:
    """t* of runs that differ by their seed alone: simulated, or where that would take long, from single sessions."""
    frames = _frames_needed(pool, load)
    patterns = int(min(MOST_AUDIO / (load.sessions * frames * load.rates.unit), MOST_PATTERNS))
    if patterns < LEAST_PATTERNS:
        return _from_single(pool, load, seed)
    times = crossings(pool, load, range(seed, seed + patterns), frames)
    deviation = float(times.std(ddof=1)) * np.sqrt(1.0 + 1.0 / patterns)
    return Spread(float(times.mean()), float(deviation), patterns)


def crossings(pool: Pool, load: Load, seeds: range, frames: int) -> Floats:
    """t* of the runs with these seeds, shape (seeds,), each within so many frames."""
    found = []
    for seed in seeds:
        starts = load.arrivals + phases(load.sessions, load.budget, offset_of(seed))
        tokens = load.resident[:, None] + load.tokens(seed, load.sessions, frames)
        time = crossing_of(pool, starts, load.rates.unit, tokens)
        if time is not None:
            found.append(time)
    return np.array(found)


def speaking_share(talk: Voices | float, rates: Rates, seed: int) -> float:
    """Share of the frames in which the model speaks."""
    if not isinstance(talk, Voices):
        return talk
    sessions, frames = SAMPLE
    return float(tokens_of(talk, Rates(rates.unit, 0, 1), seed, sessions, frames)[:, -1].mean()) / frames


def _from_single(pool: Pool, load: Load, seed: int) -> Spread:
    """Of many frames, the sum over the sessions is normal: the mean of one session and the variance of a couple tell
    those of t*."""
    sessions, frames = SAMPLE
    tokens = load.tokens(seed, sessions, frames)
    rate = float(tokens[:, -1].mean()) / (frames * load.rates.unit)
    # the two of a couple may take turns (metrobench.corpus.pattern)
    couples = tokens[:, -1].reshape(-1, 2).sum(axis=1)
    wander = float(couples.var(ddof=1)) / 2.0 / (frames * load.rates.unit)
    wanted = full_at(pool, load.sessions, pool.block_size) * load.sessions - float(load.resident.sum())
    starts = load.arrivals + 0.5 * (load.budget + load.rates.unit)
    low, high = 0.0, float(starts.max()) + wanted / rate
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        taken = rate * float(np.maximum(middle - starts, 0.0).sum())
        low, high = (low, middle) if taken > wanted else (middle, high)
    present = max(1, int((starts < high).sum()))
    lived = float(np.maximum(high - starts, 0.0).sum())
    return Spread(high, float(np.sqrt(wander * lived)) / (rate * present), 0)


def _frames_needed(pool: Pool, load: Load) -> int:
    """Frames after which the pool is full even if the model never says more than it must."""
    slowest = min(load.rates.listening, load.rates.speaking)
    free = max(0, pool.usable * pool.block_size - int(load.resident.sum()))
    late = float((load.arrivals - load.arrivals.min()).max()) / load.rates.unit
    return int(free / (load.sessions * slowest) + late) + 2
