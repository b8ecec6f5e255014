"""The forecast while a run goes on: when its pool will be full, said only where the fit is narrow enough. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from metrobench.errors import NotValidError
from metrobench.predict.fit import Fit, fit
from metrobench.predict.gauges import Gauges
from metrobench.predict.model import Pool

EVERY = 5.0
"""Seconds between two fits: each takes a moment of a core that others may need."""
WIDEST = 0.5
"""Width of the 95 % interval, in parts of the time left, up to which a date is said."""
CLOSE = 2.0
"""Seconds of width that are narrow enough in any case."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What can be said now of the pool."""

    left: float | None
    """Seconds until it is full; None: never at this load."""


@dataclass(slots=True)
class Follower:
    """Follows the gauge of one run. Seconds from its t0."""

    pool: Pool
    held: bool
    """The pool holds all sessions at their peak, for ever."""
    exact: bool = False
    """What moves are the sessions' tokens, and each holds its place in the pool."""
    _rows: list[tuple[float, float, float, float]] = field(default_factory=list)
    _fit: Fit | None = None
    _fitted: float = -np.inf

    def take(self, t: float, used: float | None, sessions: int, moved: float | None) -> None:
        """One sample: part of the pool in use, open sessions, anything that grows while the engine works."""
        if self.held or used is None or moved is None or t < 0.0:
            return
        self._rows.append((t, used, float(sessions), moved))
        if t >= self._fitted + EVERY:
            self._fitted = t
            self._fit = self._again()

    def ahead(self, t: float) -> Ahead | None:
        """What can be said at `t`; None: nothing yet."""
        if self.held:
            return Ahead(None)
        found = self._fit
        if found is None:
            return None
        if found.time is None:
            return Ahead(None)
        left, width = found.time - t, (found.upper or found.time) - (found.lower or found.time)
        return Ahead(max(0.0, left)) if width <= max(CLOSE, WIDEST * left) else None

    def _again(self) -> Fit | None:
        t, used, sessions, moved = np.array(self._rows).T
        try:
            return fit(Gauges(t, used, sessions, moved, moved if self.exact else None), self.pool)
        except (NotValidError, np.linalg.LinAlgError):
            return None
