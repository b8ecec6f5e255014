"""`aimd`: additive increase, multiplicative decrease of a session cap, on measured frame latency.

The rule of the Metronome paper (arXiv:2607.02640): target p50 = 0.3 B, decrease to 0.9. What it leaves open is chosen
here: a rule for p95, a band between raising and cutting, a filter against single spikes, the KV pool as a leading
signal. benchmarks/admission.py draws where the gains are stable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrobench.admission.base import Code, Decision, Observation, Signals
from metrobench.units import percent, seconds

SOON = 2.0
"""Retry hint in seconds while the controller has not found the limit yet."""


@dataclass(frozen=True, slots=True)
class Gains:
    """The constants of the controller. Shares of B are of the frame budget."""

    target: float = 0.3
    """Median latency above which there are too many sessions, as a share of B (the paper)."""
    tail: float = 0.8
    """The same for p95: room for a fifth of B before the slowest twentieth misses."""
    hysteresis: float = 0.8
    """The cap rises only while both are below this share of their limits; between, it stays."""
    decrease: float = 0.9
    """Factor of a cut (the paper)."""
    increase: float = 0.02
    """Sessions added in a period after a cut, as a share of the cap that it left: the same step until the next cut."""
    growth: float = 1.5
    """Factor of a period before the first cut: nothing is known yet of where the limit lies."""
    headroom: float = 1.15
    """The cap never rises above this many times the sessions that are open, and `spare` more: only those were
    measured."""
    spare: float = 2.0
    filter: int = 3
    """Periods whose median decides: one spike in three changes nothing."""
    pool: float = 0.95
    """Largest share of the KV pool that may be in use `horizon` seconds ahead."""
    horizon: float = 10.0
    slope_over: int = 10
    """Periods over which the slope of rho is fitted."""
    start: int = 16
    """Cap before anything is measured."""
    floor: int = 1
    fewest: int = 3
    """Latencies that make a period; fewer are kept for the next one."""


class Aimd:
    """The controller. `ask` compares with the cap that `observe` moves."""

    def __init__(self, budget: float, ceiling: int, gains: Gains | None = None) -> None:
        """`budget`: B in seconds. `ceiling`: the cap is never above it."""
        self._gains = gains = gains or Gains()
        self._budget = budget
        self._ceiling = max(ceiling, gains.floor)
        self._level = float(min(max(gains.start, gains.floor), self._ceiling))
        self._recent: deque[tuple[float, float]] = deque(maxlen=gains.filter)
        self._pool: deque[tuple[float, float]] = deque(maxlen=gains.slope_over)
        self._held: list[float] = []
        self._searching = True
        self._step = 0.0
        self._p50: float | None = None
        self._p95: float | None = None
        self._slope: float | None = None

    @property
    def cap(self) -> int | None:
        """Most sessions now."""
        return int(self._level)

    def observe(self, seen: Observation) -> None:
        """Take in a period and move the cap. A void one moves nothing."""
        if seen.rho is not None:
            self._pool.append((seen.t, seen.rho))
            self._slope = _slope(self._pool)
        if seen.void:
            self._held.clear()
            return
        self._held += seen.latencies
        if len(self._held) < self._gains.fewest:
            return
        self._recent.append((float(np.quantile(self._held, 0.5)), float(np.quantile(self._held, 0.95))))
        self._held.clear()
        self._p50, self._p95 = (float(each) for each in np.median(np.array(self._recent), axis=0))
        self._move(seen.sessions)

    def _move(self, sessions: int) -> None:
        gains = self._gains
        load = self._load()
        if load > 1.0:
            self._cut(sessions)
        elif load * self._filling() < gains.hysteresis and sessions and self._ahead() < gains.pool:
            step = self._level * (gains.growth - 1.0) if self._searching else self._step
            most = max(self._level, gains.headroom * sessions + gains.spare)
            self._level = min(self._level + step, most, float(self._ceiling))

    def _cut(self, sessions: int) -> None:
        """Nobody is evicted, so a cut takes effect only as sessions leave: until then there is nothing new to learn."""
        gains = self._gains
        full = len(self._recent) == gains.filter
        if full and (sessions <= self._level or self._searching):
            self._level = max(float(gains.floor), min(self._level, float(sessions)) * gains.decrease)
            self._step = gains.increase * self._level
            self._searching = False
            self._recent.clear()

    def _load(self) -> float:
        """The worse of the two latencies, as a share of its limit; the median of the filter's periods."""
        median = (self._p50 or 0.0) / (self._gains.target * self._budget)
        return max(median, (self._p95 or 0.0) / (self._gains.tail * self._budget))

    def _ahead(self) -> float:
        """rho after the horizon; a falling one counts as it is now."""
        if not self._pool:
            return 0.0
        return self._pool[-1][1] + self._gains.horizon * max(0.0, self._slope or 0.0)

    def _filling(self) -> float:
        """rho after the horizon over rho now, 1 to 2: sessions that are still filling will cost more than they do."""
        rho = self._pool[-1][1] if self._pool else 0.0
        return min(2.0, self._ahead() / rho) if rho > 0.0 else 1.0

    def ask(self, t: float, sessions: int) -> Decision:
        """Below the cap, and room in the pool?"""
        rho = self._pool[-1][1] if self._pool else None
        signals = Signals(sessions, self.cap, self._p50, self._p95, rho, self._slope)
        limits = f"p50 at most {seconds(self._gains.target * self._budget)}"
        limits += f", p95 at most {seconds(self._gains.tail * self._budget)}"
        if self._load() > 1.0:
            return Decision(False, signals, Code.OVERLOADED, f"frames take too long: {limits} is allowed")
        if sessions >= int(self._level):
            why = f"{sessions} sessions are open and {self.cap} are allowed ({limits})"
            # before the first cut the cap is still on its way up
            return Decision(False, signals, Code.OVERLOADED, why, SOON if self._searching else 0.0)
        if self._ahead() >= self._gains.pool:
            why = f"the KV pool will be {percent(min(1.0, self._ahead()), 0)} full in {seconds(self._gains.horizon)}"
            return Decision(False, signals, Code.KV_PRESSURE, why)
        return Decision(True, signals)


def _slope(pool: Sequence[tuple[float, float]]) -> float | None:
    """Least-squares slope of rho in a second; None below three samples."""
    if len(pool) < 3:
        return None
    t, rho = np.array(pool).T
    t = t - t.mean()
    spread = float((t * t).sum())
    return float((t * rho).sum() / spread) if spread > 0.0 else None
