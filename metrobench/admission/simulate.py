"""A worker in virtual time, to try controllers on: latency as a function of the sessions it holds. Pure and seeded.

The engine serves all due frames in one batch. The median latency rises in proportion to the work, reaches 0.3 B at
`capacity` full sessions, and beyond `saturation` times that work piles up. A fresh session costs less than a full one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrobench.admission.base import Observation
from metrobench.admission.door import Door

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class World:
    """The worker and its callers. Seconds."""

    capacity: float = 200.0
    """Full sessions at which the median latency is 0.3 B."""
    budget: float = 1.0
    saturation: float = 1.5
    """Work beyond this many times the capacity piles up."""
    fresh: float = 0.7
    """Work of a new session, as a share of a full one's."""
    fill: float = 30.0
    """Seconds in which it gets full."""
    spread: float = 0.3
    """Standard deviation of log latency within a period."""
    rate: float = 8.0
    """Arrivals a second (Poisson)."""
    hold: float = 60.0
    """Mean stay (exponential)."""
    tokens_full: float = 1 / 400
    """Share of the KV pool that a full session holds."""
    stall: tuple[float, float] = (0.0, 0.0)
    """(start, length): nothing is served."""
    slow: float = 0.0
    """Share of frames that take five times as long."""
    halved: tuple[float, float] = (0.0, 0.0)
    """(from, until): the capacity is half of what it was."""

    def capacity_at(self, t: float) -> float:
        """Full sessions at `t`."""
        return self.capacity * (0.5 if self.halved[0] <= t < self.halved[1] else 1.0)


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened; arrays of one value a period."""

    t: Floats
    sessions: Floats
    cap: Floats
    """inf where the controller has none."""
    p50: Floats
    """Of the period itself, not filtered."""
    offered: int
    admitted: int
    refused: int
    left: int
    """Admitted sessions that went by themselves: none was evicted."""

    def between(self, first: float, last: float) -> Floats:
        """N in the periods that end in (first, last]."""
        return self.sessions[(self.t > first) & (self.t <= last)]


def simulate(door: Door, world: World, length: float, seed: int, period: float = 1.0) -> Trace:
    """`length` seconds of the worker behind `door`, from an empty start."""
    rng = np.random.default_rng(seed)
    joined: list[tuple[float, float]] = []  # (leaves, came), a heap
    backlog, come, left = 0.0, float(rng.exponential(1.0 / world.rate)), 0
    rows = []
    for number in range(round(length / period)):
        end = (number + 1) * period
        while come < end:
            left += _leave(joined, door, come)
            if door.ask(come, len(joined)).admitted:
                heapq.heappush(joined, (come + float(rng.exponential(world.hold)), come))
            come += float(rng.exponential(1.0 / world.rate))
        left += _leave(joined, door, end)
        ages = np.array([end - came for _, came in joined])
        fullness = np.minimum(1.0, ages / world.fill)
        work = float((world.fresh + (1.0 - world.fresh) * fullness).sum()) / world.capacity_at(end)
        backlog = _backlog(backlog, work, world, end, period)
        latencies = _latencies(len(joined), work, backlog, world, rng)
        rho = min(1.0, float(fullness.sum()) * world.tokens_full)
        door.observe(Observation(end, len(joined), latencies, rho))
        cap = door.controller.cap
        p50 = float(np.median(latencies)) if len(latencies) else 0.0
        rows.append((end, float(len(joined)), np.inf if cap is None else float(cap), p50))
    t, sessions, caps, p50s = np.array(rows).T
    return Trace(t, sessions, caps, p50s, door.offered, door.admitted, door.refused, left)


def _leave(joined: list[tuple[float, float]], door: Door, t: float) -> int:
    count = 0
    while joined and joined[0][0] <= t:
        door.left(heapq.heappop(joined)[0])
        count += 1
    return count


def _backlog(backlog: float, work: float, world: World, end: float, period: float) -> float:
    """Seconds of waiting that all frames have before they are served."""
    start, length = world.stall
    stalled = max(0.0, min(end, start + length) - max(end - period, start))
    surplus = period * (work / world.saturation - 1.0) if work else -period
    return max(0.0, backlog + stalled + surplus)


def _latencies(count: int, work: float, backlog: float, world: World, rng: np.random.Generator) -> Sequence[float]:
    """One frame a session and period, about."""
    served = 0.3 * world.budget * work * rng.lognormal(0.0, world.spread, count)
    if world.slow:
        served = np.where(rng.random(count) < world.slow, 5.0 * served, served)
    found: list[float] = (backlog + served).tolist()
    return found


def settled_after(trace: Trace, star: float, since: float, until: float, band: float = 0.2) -> float | None:
    """Seconds from `since` after which N stays within `band` of `star` up to `until`; None: never."""
    inside = (trace.t > since) & (trace.t <= until)
    t, away = trace.t[inside], np.abs(trace.sessions[inside] - star) > band * star
    if not away.any():
        return 0.0
    last = int(np.flatnonzero(away)[-1])
    return None if last + 1 >= len(t) else float(t[last]) - since


def overshoot(trace: Trace, star: float, since: float, until: float) -> float:
    """Most sessions above `star`, as a share of it; 0: never above."""
    return max(0.0, float(trace.between(since, until).max(initial=0.0)) / star - 1.0)


def oscillation(trace: Trace, since: float, until: float) -> float:
    """Largest deviation of N from its own median, as a share of that."""
    held = trace.between(since, until)
    middle = float(np.median(held))
    return float(np.abs(held - middle).max()) / middle if middle else 0.0
