"""How probable is it that a pool is full before a moment, by who talks when? (measurement.md, First-order collapse
model) Pure, seeded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from metrobench.measure.collapse import silence
from metrobench.predict.model import Pool
from metrobench.predict.talk import Load, Rates, Voices, crossings, spread


class Foreseen(Struct, frozen=True):
    """What the audio of each trial says of that trial, against what happened."""

    trials: int
    full: int
    """Trials in which it fills the pool before the moment in question."""
    agree: int
    """Trials that collapsed where it does, or did not where it does not."""


class Odds(Struct, frozen=True):
    """P(t* < before)."""

    probability: float
    before: float
    """Seconds from t0."""
    median: float
    """Of t*, seconds from t0."""
    why: str
    """Where it comes from."""
    own: Foreseen | None = None
    """The trials by their own audio; None: not looked at."""


def last_named(cut: float, span: float, budget: float) -> float:
    """The latest onset, seconds from t0, that a run names: its last session begins one budget later, streaming goes on
    for a budget after the span, and serving must have stopped for max(5 s, 3 B) after a deadline."""
    return cut + span + budget - silence(budget)


def foreseen(
    pool: Pool,
    sessions: int,
    rates: Rates,
    talk: Voices | float,
    budget: float,
    before: float,
    trials: Sequence[tuple[int, bool]],
) -> Foreseen:
    """For trials given by seed and whether they collapsed. Fresh sessions that start together, no window."""
    load = Load(np.zeros(sessions), np.zeros(sessions, dtype=np.int64), rates, talk, budget)
    frames = int(before / rates.unit) + 2
    told = [bool((crossings(pool, load, range(seed, seed + 1), frames) <= before).any()) for seed, _ in trials]
    agree = sum(full == collapsed for full, (_, collapsed) in zip(told, trials, strict=True))
    return Foreseen(len(trials), sum(told), agree)


def odds(
    pool: Pool, sessions: int, rates: Rates, talk: Voices | float, budget: float, seed: int, before: float
) -> Odds:
    """The probability for fresh sessions that start together and that no window bounds."""
    nothing = np.zeros(sessions, dtype=np.int64)
    times = spread(pool, Load(np.zeros(sessions), nothing, rates, talk, budget), seed)
    return Odds(times.before(before), before, times.time, times.why)
