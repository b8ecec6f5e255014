"""Naming a collapse while the run goes on, from the frames alone. Pure: no clock.

The finding in the record is made by measure/collapse.py from the stored facts; this one is for people who watch.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from metrobench.measure.collapse import Kind, silence, turns
from metrobench.measure.frames import listened

WARN_SHARE = 0.5
"""A warning comes after this share of the silence that makes a collapse."""


class Alarm(Struct, frozen=True):
    """What can be said now."""

    kind: Kind = Kind.NONE
    """A collapse once it can be named; never overload."""
    silent: int = 0
    """Open sessions that wait for an overdue answer for at least WARN_SHARE of the silence that makes a collapse."""
    waiting: float = 0.0
    """Seconds that the one waits that waits longest."""


class Watcher:
    """Follows the table of a run. Times are seconds from t0."""

    def __init__(self, table: npt.NDArray[np.void], budget: float, unit: float) -> None:
        """`table`: FRAME_DTYPE rows, shape (frames, sessions), being filled in."""
        self._ready, self._done = table["t_ready"], table["t_done"]
        self._budget = budget
        self._window = silence(budget, unit)
        sessions = table.shape[1]
        self._columns = np.arange(sessions)
        self._begins = self._ready.min(axis=1)
        """Shape (frames,): when the first session's frame of that number is ready."""
        self._newest = np.full(sessions, -1)
        self._last = np.full(sessions, -np.inf)
        self._died = np.full(sessions, np.inf)
        self._turns = turns(self._window, unit)
        self._before: deque[tuple[float, npt.NDArray[np.int64]]] = deque()
        """Newest answered frames of the last window, by time."""

    def update(
        self,
        now: float,
        stalls: npt.NDArray[np.float64],
        refused: npt.NDArray[np.bool_],
        dead: npt.NDArray[np.bool_],
    ) -> Alarm:
        """The state at `now`. `stalls`, shape (n, 2): when the client did not listen, in order, which is no silence of
        the server's. `dead`, shape (sessions,): refused or closed; `refused` never were part of the run."""
        self._read(now)
        self._before.append((now, self._newest.copy()))
        while self._before[0][0] < now - self._window and len(self._before) > 1:
            self._before.popleft()
        self._died = np.where(dead, np.minimum(self._died, now), np.inf)
        members = ~refused
        if not members.any():
            return Alarm()
        if dead[members].all():
            recent = (self._died[members] >= self._died[members].max() - self._window).mean() >= 0.5
            return Alarm(Kind.ENGINE_DEATH) if recent else Alarm()
        nxt = np.minimum(self._newest + 1, len(self._ready) - 1)
        overdue = np.maximum(self._ready[nxt, self._columns] + self._budget, self._last)
        open_ = members & ~dead & (self._newest + 1 < len(self._ready))
        waits = np.where(open_, listened(stalls, np.minimum(overdue, now), now), 0.0)
        longest = float(max(0.0, waits.max(initial=0.0)))
        silent = int((waits >= WARN_SHARE * self._window).sum())
        if longest < self._window:
            return Alarm(silent=silent, waiting=longest)
        if listened(stalls, self._last[members].max(), now) >= self._window:
            return Alarm(Kind.STALL, silent, longest)
        served = int((self._newest - self._before[0][1]).max())
        return Alarm(Kind.STARVATION if served >= self._turns else Kind.NONE, silent, longest)

    def _read(self, now: float) -> None:
        """Take in the answers since the last time; a later answer passes over the frames before it."""
        low = int(self._newest.min()) + 1
        high = int(np.searchsorted(self._begins, now, side="right"))
        if high <= low:
            return
        answered = ~np.isnan(self._done[low:high])
        found = answered.any(axis=0)
        newest = high - 1 - answered[::-1].argmax(axis=0)
        fresh = found & (newest > self._newest)
        self._newest[fresh] = newest[fresh]
        self._last[fresh] = self._done[newest[fresh], self._columns[fresh]]
