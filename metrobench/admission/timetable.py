"""When each session of an open system comes and how long it stays. Pure: no clock, no I/O; absolute times from t0.

A session arrives (its client opens the connection), has `join` seconds to be accepted, then its audio begins, whatever
became of the others. Arrivals are a Poisson process, evenly spaced, or all at once; their rate may change over time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrobench.schedule import GOLDEN, offset_of

POISSON, EVEN, AT_ONCE = "poisson", "even", "at-once"
PROCESSES = (POISSON, EVEN, AT_ONCE)
FIXED, EXPONENTIAL, LOGNORMAL = "fixed", "exponential", "lognormal"
HOLDINGS = (FIXED, EXPONENTIAL, LOGNORMAL)
SIGMA = 1.0
"""Shape of the lognormal holding times."""
_ARRIVALS, _HOLDINGS, _BUDGETS = range(3)

Floats = npt.NDArray[np.float64]
Profile = tuple[tuple[float, float], ...]
"""(seconds, factor on the rate), seconds rising from 0, straight lines between, the last factor for ever."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """All sessions that are offered, in order of arrival; seconds from t0, each tuple as long as there are sessions."""

    arrivals: tuple[float, ...]
    starts: tuple[float, ...]
    """When the session's audio begins."""
    frames: tuple[int, ...]
    """Frames it speaks for."""
    budgets: tuple[float, ...]
    """B of each, seconds."""

    def __len__(self) -> int:
        return len(self.arrivals)

    def ends(self, unit: float) -> Floats:
        """When each session's audio ends."""
        return np.array(self.starts) + unit * np.array(self.frames)

    def open_at(self, t: float, unit: float) -> int:
        """Sessions that would be talking at `t` if all were admitted."""
        return int(np.count_nonzero((np.array(self.starts) <= t) & (self.ends(unit) > t)))

    def peak(self, unit: float) -> int:
        """The most that would be talking at once if all were admitted."""
        starts = np.sort(self.starts)
        gone = np.searchsorted(np.sort(self.ends(unit)), starts, side="right")
        return int((np.arange(1, len(starts) + 1) - gone).max(initial=0))


def arrival_times(process: str, sessions: int, rate: float, profile: Profile, period: float, seed: int) -> Floats:
    """Rising, from 0 on. The k-th comes when the integral of the rate reaches the k-th event of a process of rate 1.

    `rate`: sessions a second where the profile's factor is 1. `period`: seconds after which the profile begins again;
    0: never.
    """
    if process == AT_ONCE:
        return np.zeros(sessions)
    if process == POISSON:
        wanted = np.cumsum(np.random.default_rng([seed, _ARRIVALS]).exponential(size=sessions))
    else:
        wanted = np.arange(sessions, dtype=np.float64)
    return _inverse(wanted / rate, profile or ((0.0, 1.0),), period)


def _inverse(wanted: Floats, profile: Profile, period: float) -> Floats:
    """Times at which the integral of the profile reaches `wanted`."""
    times, factors = (np.array(column) for column in zip(*profile, strict=True))
    if period > 0.0:
        factors = np.append(factors, np.interp(period, times, factors))
        times = np.append(times, period)
    areas = np.concatenate([[0.0], np.cumsum(np.diff(times) * (factors[1:] + factors[:-1]) / 2)])
    rounds = np.floor(wanted / areas[-1]) if period > 0.0 else np.zeros(len(wanted))
    rest = wanted - rounds * areas[-1] if period > 0.0 else wanted
    place = np.minimum(np.searchsorted(areas, rest, side="right") - 1, len(times) - 1)
    return np.asarray(rounds * period + times[place] + _into(rest - areas[place], place, times, factors))


def _into(area: Floats, place: npt.NDArray[np.int64], times: Floats, factors: Floats) -> Floats:
    """Seconds into the straight piece `place` after which it covers `area`: the root of a x + b x^2 / 2 = area."""
    slopes = np.append(np.diff(factors) / np.diff(times), 0.0)
    a, b = factors[place], slopes[place]
    root = a + np.sqrt(np.maximum(0.0, a * a + 2.0 * b * area))
    return np.asarray(np.divide(2.0 * area, root, out=np.zeros_like(area), where=root > 0.0))


def holding_times(distribution: str, mean: float, sessions: int, seed: int) -> Floats:
    """Seconds, with that mean."""
    rng = np.random.default_rng([seed, _HOLDINGS])
    if distribution == EXPONENTIAL:
        return rng.exponential(mean, sessions)
    if distribution == LOGNORMAL:
        return rng.lognormal(math.log(mean) - SIGMA**2 / 2, SIGMA, sessions)
    return np.full(sessions, mean)


def budget_shares(shares: Sequence[float], sessions: int, seed: int) -> npt.NDArray[np.int64]:
    """Which of several classes each session belongs to; `shares` sum to 1."""
    return np.random.default_rng([seed, _BUDGETS]).choice(len(shares), size=sessions, p=np.array(shares))


def make_timetable(
    arrivals: Floats, holds: Floats, budgets: Floats, *, budget: float, unit: float, join: float, last: float, seed: int
) -> Timetable:
    """Arrays of one row a session. Audio begins `join` seconds after the arrival, and up to one `budget` later so that
    the phases spread (metrobench.schedule). A session speaks for at least one frame, and no longer than to `last`
    seconds after the last arrival, when the run ends.
    """
    numbers = np.arange(len(arrivals))
    starts = arrivals + join + budget * np.mod(GOLDEN * numbers + offset_of(seed), 1.0)
    left = arrivals.max() + join + budget + last - starts
    frames = np.maximum(1, np.round(np.minimum(holds, left) / unit)).astype(np.int64)
    return Timetable(tuple(arrivals.tolist()), tuple(starts.tolist()), tuple(frames.tolist()), tuple(budgets.tolist()))
