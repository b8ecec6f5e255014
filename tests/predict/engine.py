"""Engines whose truth is known: one that allocates block by block, and one whose gauge is read now and then."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

import numpy as np

from metrobench.measure.frames import Floats
from metrobench.predict.fit import Gauges
from metrobench.predict.model import Pool
from metrobench.schedule import GOLDEN

CLIPS = np.array([1.2, 1.5, 1.7, 1.9, 2.0, 2.1, 2.3, 2.6, 3.0, 3.4, 4.3, 7.1])
"""Seconds of speech, as long as the clips of the shipped corpus."""


@dataclass
class Talker:
    """One session of the block-by-block engine."""

    start: float
    unit: float
    growth: list[int]
    """Tokens of each frame; the last one goes on for ever."""
    resident: int
    most: int | None = None
    """Most blocks it holds at once; None: no window."""
    held: int = 0
    tokens: int = 0

    def frame(self, number: int) -> int:
        return self.growth[min(number, len(self.growth) - 1)]


@dataclass
class Engine:
    """Takes blocks from a free list one at a time, as tokens come, frame after frame."""

    pool: Pool
    talkers: list[Talker]
    free: int = field(init=False)

    def full_at(self, frames: int) -> float | None:
        """When a block was wanted and none was free; None: not within so many frames of each session."""
        self.free = self.pool.blocks - 1
        for talker in self.talkers:
            if not all(self._add(talker) for _ in range(talker.resident)):
                return 0.0
        queue = [(talker.start + talker.unit, index, 0) for index, talker in enumerate(self.talkers)]
        heapq.heapify(queue)
        while queue:
            time, index, number = heapq.heappop(queue)
            talker = self.talkers[index]
            if number == frames:
                continue
            if not all(self._add(talker) for _ in range(talker.frame(number))):
                return time
            heapq.heappush(queue, (talker.start + (number + 2) * talker.unit, index, number + 1))
        return None

    def _add(self, talker: Talker) -> bool:
        """One token more; False where it needs a block and there is none."""
        if talker.tokens % self.pool.block_size == 0:
            if talker.held == talker.most:
                talker.held -= 1
                self.free += 1
            if self.free == 0:
                return False
            self.free -= 1
            talker.held += 1
        talker.tokens += 1
        return True


@dataclass
class Truth:
    """One simulated run: its gauge, and when its pool was full."""

    pool: Pool
    gauges: Gauges
    full: float
    sessions: int
    resident: Floats
    """Tokens of all sessions at each sample."""

    def at_fill(self, fill: float) -> Gauges:
        """The samples up to the first that reads `fill`."""
        return self.gauges.until(int(np.argmax(self.gauges.used >= fill)) + 1)

    def counted(self) -> Truth:
        """The same by an engine that tells the tokens of its sessions."""
        return replace(self, gauges=replace(self.gauges, resident=self.resident))


def simulate(
    rng: np.random.Generator,
    *,
    sessions: int,
    pool: Pool,
    unit: float,
    listening: int,
    speaking: int,
    every: float = 0.5,
    lag: float = 0.05,
    ages: float = 0.0,
) -> Truth:
    """A run whose sessions start together (or are up to `ages` frames old) and talk in turns; its gauge is read every
    so often, up to `lag` seconds late."""
    frames = int(1.02 * pool.blocks * pool.block_size / sessions / listening) + 40
    if listening == speaking:
        growth = np.full((sessions, frames), listening)
    else:
        growth = np.stack([_turns(rng, frames, unit, listening, speaking) for _ in range(sessions)])
    resident = np.round(rng.uniform(0.0, ages, sessions) * listening).astype(int)
    blocks = -(-(resident[:, None] + np.cumsum(growth, axis=1)) // pool.block_size)
    starts = unit * ((GOLDEN * np.arange(sessions) + rng.random()) % 1.0)
    times = starts[:, None] + unit * (np.arange(frames) + 1)
    order = np.argsort(times, axis=None, kind="stable")
    first = -(-resident // pool.block_size)
    held = first.sum() + np.cumsum(np.diff(blocks, prepend=first[:, None], axis=1).ravel()[order])
    at = times.ravel()[order]
    full = float(at[np.argmax(held > pool.usable)])
    t = np.arange(every * rng.random(), full, every)
    seen = np.searchsorted(at, t - lag * rng.random(len(t)), side="right") - 1
    used = np.where(seen >= 0, held[seen.clip(0)], first.sum()) / pool.usable
    tokens = resident.sum() + np.concatenate([[0], np.cumsum(growth.ravel()[order])])[seen + 1]
    return Truth(pool, Gauges(t, used, np.full(len(t), float(sessions))), full, sessions, tokens.astype(np.float64))


def _turns(rng: np.random.Generator, frames: int, unit: float, listening: int, speaking: int) -> np.ndarray:
    """Tokens of each frame of one session: its user says a clip, pauses for about as long, and so on."""
    count = int(frames * unit / CLIPS.mean()) + 20
    clips = rng.choice(CLIPS, count)
    edges = np.cumsum(np.stack([clips, clips * rng.uniform(0.5, 1.5, count)], axis=1)) - 2.0 * clips[0] * rng.random()
    begin = np.searchsorted(edges, np.arange(frames) * unit)
    end = np.searchsorted(edges, (np.arange(frames) + 1) * unit - 0.01)
    return np.where((begin % 2 == 0) | (end > begin), listening, speaking)
