"""Class D: which turn an answer belongs to, and whether its speech plays without a gap. Pure: no clock."""

from __future__ import annotations

from bisect import bisect_right

MOST_GAP = 0.100
"""Seconds that the playing of one answer may pause in all (measurement.md, Protocol classes)."""


class Player:
    """Plays an answer as it arrives."""

    def __init__(self) -> None:
        self._end: float | None = None
        self.gap = 0.0
        """Seconds in which there was nothing to play since the first sound."""

    def hear(self, t: float, seconds: float) -> None:
        """`seconds` of speech arrive at `t`."""
        if self._end is not None:
            self.gap += max(0.0, t - self._end)
        self._end = max(t, self._end or t) + seconds

    @property
    def broken(self) -> bool:
        """The gaps are more than people forgive."""
        return self.gap > MOST_GAP


class Turns:
    """One session's answers. Times are seconds from t0."""

    def __init__(self, ready: list[float], phase: float) -> None:
        """`ready`: seconds from the session's phase to the end of each turn's speech."""
        self._ready = ready
        self._phase = phase
        self._turn: int | None = None
        self.player = Player()
        self.began = 0.0
        """When the answer began."""
        self.counted = 0
        """Class B: units that it has answered by a message of their own."""

    def newest(self, t: float) -> int:
        """The newest turn whose speech is over at `t`; -1: none yet."""
        return bisect_right(self._ready, t - self._phase + 1e-9) - 1

    def begin(self, t: float) -> None:
        """The server begins an answer: it is the newest turn's, whatever is said meanwhile."""
        self._turn = self.newest(t)
        self.player = Player()
        self.began, self.counted = t, 0

    def current(self, t: float) -> int:
        """The turn that output at `t` belongs to; -1: none."""
        if self._turn is None:
            self.begin(t)
        return -1 if self._turn is None else self._turn

    def end(self) -> None:
        """The answer is complete."""
        self._turn = None
