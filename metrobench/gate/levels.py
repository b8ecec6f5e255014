"""A mean over runs against a fixed limit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from metrobench.gate.moderated import MOST_MORE, quantile


class Seen(Struct, frozen=True):
    """One run's value with its own 95 % interval."""

    value: float
    lower: float
    upper: float


def mean_level(runs: Sequence[Seen]) -> Seen:
    """Mean of the runs with a 95 % interval: Student's t over runs, never narrower than their own intervals allow.

    A single run has only its own interval, which is descriptive (measurement.md, Misses).
    """
    values = np.array([each.value for each in runs])
    count, mean = len(values), float(values.mean())
    between = quantile(0.975, count - 1) * float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    below = _within([each.value - each.lower for each in runs])
    above = _within([each.upper - each.value for each in runs])
    return Seen(mean, mean - max(between, below), mean + max(between, above))


def more_runs(level: Seen, runs: int, limit: float) -> int | None:
    """Further runs after which the interval leaves the limit, if the mean stays where it is. None: not with
    MOST_MORE."""
    gap = abs(limit - level.value)
    half = level.upper - level.value if level.value <= limit else level.value - level.lower
    for extra in range(1, MOST_MORE + 1):
        narrower = half * math.sqrt(runs / (runs + extra))
        if runs > 1:
            narrower *= quantile(0.975, runs + extra - 1) / quantile(0.975, runs - 1)
        if narrower < gap:
            return extra
    return None


def _within(halves: Sequence[float]) -> float:
    """Half width of the interval of the mean, from the half widths of the runs."""
    return float(np.sqrt(np.mean(np.square(halves)) / len(halves)))
