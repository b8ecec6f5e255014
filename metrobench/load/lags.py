"""The client's own lateness: histogram of send lags, and times in which the event loop did not turn."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from metrobench.measure.facts import LAG_EDGES

BINS = len(LAG_EDGES) - 1
STALL = 0.001
"""Seconds by which a wake-up may be late before the loop counts as stalled."""

HEARTBEAT = 0.001
"""Seconds between two wake-ups of a loop that has nothing to do, at most."""

APART = 1e-6
"""Seconds between the end of one stall and the start of the next: stalls that touch would be taken for one."""
LONG = 0.005
"""Seconds between two wake-ups from which on their stalls are one."""
FINE = 0.010
"""Seconds below which the bins are equally wide."""
_FINE_BINS = int(np.searchsorted(LAG_EDGES, FINE - 1e-9))
FINE_RATE = _FINE_BINS / FINE
"""Bins a second there: the bin of a lag in [0, FINE) is int(lag * FINE_RATE)."""
_DECADE_BINS = (BINS - _FINE_BINS) / 4.0


def bin_of(lag: float) -> int:
    """Bin of LAG_EDGES that holds a lag in seconds; a lag on an edge may fall to either side of it."""
    if lag < FINE:
        return int(lag * FINE_RATE) if lag > 0.0 else 0
    return min(BINS - 1, _FINE_BINS + int(math.log10(lag / FINE) * _DECADE_BINS))


class StallWatch:
    """Turns of the event loop, from the wake-ups of a timer. Times in seconds on one clock.

    A wake-up later than its deadline by more than STALL opens a stall at the turn before it. The next wake-up closes
    it, not this one, because answers that waited during the stall are read only after it; but a wake-up that comes
    more than LONG after the last one keeps the stall open.
    """

    __slots__ = ("_last", "_opened", "_record")

    def __init__(self, now: float, record: Callable[[float, float], None]) -> None:
        """`record(start, end)` is called once for every stall; stalls do not overlap."""
        self._last = now
        self._opened: float | None = None
        self._record = record

    def since(self, now: float) -> float | None:
        """Start of the stall that lasts at `now`; None: there is none.

        It may have begun in the middle of a turn, and no wake-up has seen it yet.
        """
        if self._opened is None and now - self._last > HEARTBEAT + STALL:
            return self._last
        return self._opened

    def turn(self, now: float, deadline: float) -> None:
        """The loop woke at `now`; the timer was set for `deadline`."""
        if self._opened is not None and now - self._last <= LONG:
            self._record(self._opened, now)
            self._opened = None
            if now - deadline > STALL:
                self._opened = now + APART
        elif self._opened is None and now - deadline > STALL:
            self._opened = self._last
        self._last = now

    def close(self, now: float) -> None:
        """End of watching; safe to repeat."""
        if (start := self.since(now)) is not None:
            self._record(start, now)
        self._opened, self._last = None, math.inf
