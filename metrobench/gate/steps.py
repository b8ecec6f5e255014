"""Where a series of numbers changed its level: the piecewise-constant fit with the least penalised squares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

SHORTEST = 2
"""Fewest values of a level: a single odd record is no change yet."""
PENALTY = 6.0
"""Cost of a change, times log n, in variances of one value: a constant series of 4 to 60 normal values then has one in
at most 5 of 100 (tests/gate/test_steps.py)."""
ODD = 2.0
"""Standard deviations from its neighbours beyond which a value counts as no further off."""
_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


class Level(Struct, frozen=True):
    """Neighbouring values of one level."""

    first: int
    """Place of its first value, from 0."""
    count: int
    mean: float


def levels(values: Sequence[float], floor: float) -> list[Level]:
    """The levels of a series, at least one. `floor`: standard deviation of a value that is expected at least.

    Optimal partitioning (Jackson et al. 2005, doi 10.1109/LSP.2001.838216); the scatter is that of the differences of
    neighbours, robustly, so that the changes themselves do not count as scatter.
    """
    series = np.asarray(values, dtype=np.float64)
    n = len(series)
    if n == 0:
        return []
    scatter = _scatter(series, floor)
    variance, calm = scatter**2, _without_odd(series, scatter)
    sums, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (calm, calm**2))
    cost = PENALTY * math.log(max(n, 2)) * variance
    best = np.full(n + 1, math.inf)
    best[0] = -cost
    before = np.zeros(n + 1, dtype=int)
    for end in range(1, n + 1):
        starts = np.array([start for start in range(end) if end - start >= SHORTEST or end - start == n])
        if not len(starts):
            continue
        count = end - starts
        within = squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / count
        total = best[starts] + np.maximum(within, 0.0) + cost
        place = int(np.argmin(total))
        best[end], before[end] = total[place], starts[place]
    found: list[Level] = []
    end = n
    while end > 0:
        start = int(before[end])
        found.append(Level(start, end - start, float(series[start:end].mean())))
        end = start
    return found[::-1]


def _without_odd(series: np.ndarray, scatter: float) -> np.ndarray:
    """Values clipped to the median of three neighbours, give or take ODD deviations; it leaves steps where they are."""
    padded = np.pad(series, 1, mode="reflect") if len(series) > 1 else np.repeat(series, 3)
    middle = np.median([padded[:-2], padded[1:-1], padded[2:]], axis=0)
    return np.clip(series, middle - ODD * scatter, middle + ODD * scatter)


def _scatter(series: np.ndarray, floor: float) -> float:
    """Standard deviation of a value about its level."""
    if len(series) < 3:
        return floor
    steps = np.diff(series)
    return max(floor, _MAD * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2.0))
