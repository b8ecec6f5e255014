"""When every chunk of audio is due (measurement.md, Time). Pure: no clock, no I/O.

All times are seconds from t0. Chunk j of a session is due when its last sample would have been recorded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrobench.errors import UsageError
from metrobench.units import CHUNK

GOLDEN = 0.618034
"""Step of the phases in parts of the budget: the golden ratio spreads any number of sessions evenly."""

MAX_SESSIONS = 100_000


def offset_of(seed: int) -> float:
    """u of the phases, uniform in [0, 1), drawn from the seed."""
    return float(np.random.default_rng(seed).random())


def phases(sessions: int, budget: float, u: float) -> npt.NDArray[np.float64]:
    """Seconds after t0 at which each session's audio begins: B * frac(0.618034 * i + u). Shape (sessions,)."""
    if not 1 <= sessions <= MAX_SESSIONS:
        raise UsageError(f"{sessions} sessions: give 1 to {MAX_SESSIONS}")
    parts: npt.NDArray[np.float64] = np.mod(GOLDEN * np.arange(sessions) + u, 1.0)
    return budget * parts


def last_chunk(frame: int, unit: float, first_ready: float) -> int:
    """Number of the chunk that brings the last sample that the frame needs."""
    return math.ceil((first_ready + frame * unit) / CHUNK - 1e-6) - 1


@dataclass(frozen=True, slots=True)
class Schedule:
    """Due times of one run."""

    phases: npt.NDArray[np.float64]
    """Seconds after t0 at which each session's audio begins, shape (sessions,)."""
    unit: float
    """Seconds of audio in one frame."""
    first_ready: float
    """Seconds of audio from the start of a session to the last sample that frame 0 needs."""

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return len(self.phases)

    def chunk_due(self, session: int, chunk: int) -> float:
        """When a chunk's last sample would have been recorded."""
        return float(self.phases[session]) + (chunk + 1) * CHUNK

    def frame_ready(self, session: int, frame: int) -> float:
        """Due time of the chunk that brings the last sample that the frame needs."""
        return self.chunk_due(session, last_chunk(frame, self.unit, self.first_ready))

    def ready_table(self, frames: int) -> npt.NDArray[np.float64]:
        """t_ready of the first `frames` frames of every session, shape (frames, sessions)."""
        chunks = np.array([last_chunk(frame, self.unit, self.first_ready) for frame in range(frames)])
        return (chunks[:, None] + 1) * CHUNK + self.phases[None, :]

    def end_of(self, frame: int) -> float:
        """When the frame is ready in the last session to reach it."""
        return float(self.phases.max()) + (last_chunk(frame, self.unit, self.first_ready) + 1) * CHUNK


def make_schedule(sessions: int, budget: float, unit: float, first_ready: float, seed: int) -> Schedule:
    """The schedule of a run: phases spread over the budget and over the 20 ms tick. Raises UsageError."""
    for name, value in (("budget", budget), ("unit", unit), ("first_ready", first_ready)):
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"{name} must be a positive number of seconds, not {value}")
    return Schedule(phases(sessions, budget, offset_of(seed)), unit, first_ready)


@dataclass(frozen=True, slots=True)
class Ring:
    """The order of sending. Every session sends once each 20 ms tick, so the order within a tick never changes:
    sessions sorted by their phase modulo the tick."""

    order: tuple[int, ...]
    """Session numbers in the order of sending."""
    offsets: tuple[float, ...]
    """Seconds into the tick, in that order, rising."""
    starts: tuple[int, ...]
    """Whole ticks before the session's audio begins, in that order."""


def make_ring(schedule: Schedule) -> Ring:
    """The send order of a schedule: chunk j of the session in slot s is due at
    (starts[s] + j + 1) ticks + offsets[s]."""
    starts = np.floor(schedule.phases / CHUNK).astype(np.int64)
    offsets = schedule.phases - starts * CHUNK
    order = np.argsort(offsets, kind="stable")
    return Ring(tuple(order.tolist()), tuple(offsets[order].tolist()), tuple(starts[order].tolist()))
