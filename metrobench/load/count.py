"""A running count of decided frames while a run goes on, for progress and for stopping early. Pure: no clock.

The verdict is not taken from it: measure/ derives that from the stored facts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrobench.measure.facts import FrameFlag


class OnlineCount:
    """Counts of the measured span. Times are seconds from t0."""

    def __init__(self, table: npt.NDArray[np.void], budget: float, cut: int) -> None:
        """`table`: FRAME_DTYPE rows, shape (frames, sessions), being filled in; `cut`: frames before the span."""
        self._table = table
        self._budget = budget
        self._low = cut
        self._open = np.ones(table.shape, dtype=bool)
        self.met = 0
        self.missed = 0
        self.ambiguous = 0

    @property
    def due(self) -> int:
        """Frames that are decided."""
        return self.met + self.missed + self.ambiguous

    def update(self, now: float, end: int, stalls: npt.NDArray[np.float64], dead: npt.NDArray[np.bool_]) -> None:
        """Decide what can be decided at `now` among the frames before number `end`.

        `stalls`: shape (n, 2), the client's loop stalls so far, in order, an open one up to `now`.
        `dead`: sessions that are refused or closed.
        A late answer, or none, is missed only if it is still late without the client's own lateness
        (measurement.md, Client lateness); an unsent frame of a living session waits.
        """
        low = self._low
        high = low + int(np.count_nonzero(self._table["t_ready"][low:end].min(axis=1) + self._budget <= now))
        if high == low:
            return
        rows, undecided = self._table[low:high], self._open[low:high]
        ready, done = rows["t_ready"], rows["t_done"]
        answered = ~np.isnan(done)
        due = undecided & (ready + self._budget <= now)
        broken = (rows["flags"] & FrameFlag.BROKEN) != 0
        met = due & answered & (done <= ready + self._budget) & ~broken
        received = np.where(answered, done, now)
        excuse = _held_up(received, stalls) + self._lag(rows, now, dead)
        late = received - ready - excuse > self._budget
        missed = due & ~met & (late | broken)
        ambiguous = due & ~met & ~missed & answered
        self.met += int(np.count_nonzero(met))
        self.missed += int(np.count_nonzero(missed))
        self.ambiguous += int(np.count_nonzero(ambiguous))
        undecided &= ~(met | missed | ambiguous)
        while self._low < high and not self._open[self._low].any():
            self._low += 1

    @staticmethod
    def _lag(rows: npt.NDArray[np.void], now: float, dead: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        unsent = np.isnan(rows["t_sent"])
        lag = np.where(unsent, now, rows["t_sent"]) - rows["t_ready"]
        return np.where(unsent & dead[None, :], 0.0, np.maximum(lag, 0.0))


def _held_up(received: npt.NDArray[np.float64], stalls: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Seconds from the start of the stall in which an answer was read to its reading; 0 outside stalls."""
    if not len(stalls):
        return np.zeros_like(received)
    place = np.minimum(np.searchsorted(stalls[:, 1], received), len(stalls) - 1)
    inside = (stalls[place, 0] <= received) & (received <= stalls[place, 1])
    return np.where(inside, received - stalls[place, 0], 0.0)
