"""The samples of the engines behind one metrics page, as they come, and the forecast they bear. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from metrobench.errors import NotValidError
from metrobench.predict.fit import Fit, fit
from metrobench.predict.gauges import Gauges
from metrobench.predict.model import Pool
from metrobench.predict.pages import Reading

MOST_KEPT = 4_000
"""Samples of one engine that are kept; the older half of more is thinned."""


@dataclass(slots=True)
class Engine:
    """One engine's samples since it last started."""

    pool: Pool | None = None
    times: list[float] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    restarted: float | None = None
    """When it was last seen to have started again, seconds on the watch's clock."""

    def take(self, t: float, reading: Reading) -> None:
        """One more sample; all before it are forgotten where the engine started again."""
        if self.readings and _is_new(self.readings[-1], reading):
            self.times.clear()
            self.readings.clear()
            self.restarted = t
        self.times.append(t)
        self.readings.append(reading)
        self.pool = reading.pool
        if len(self.times) > MOST_KEPT:
            half = MOST_KEPT // 2
            self.times[:half] = self.times[:half:2]
            self.readings[:half] = self.readings[:half:2]

    @property
    def last(self) -> Reading:
        """The newest sample."""
        return self.readings[-1]

    def gauges(self) -> Gauges:
        """All samples."""
        sessions = [reading.sessions for reading in self.readings]
        moved = [reading.moved for reading in self.readings]
        return Gauges(
            np.array(self.times),
            np.array([min(1.0, reading.used) for reading in self.readings]),
            _all_or_none(sessions),
            _all_or_none(moved),
        )

    def fit(self) -> Fit:
        """The forecast. Raises NotValidError."""
        try:
            return fit(self.gauges(), self.pool)
        except NotValidError as error:
            if self.restarted is None:
                raise
            raise NotValidError(f"the server started again; {error.message}", error.hint) from error


@dataclass(slots=True)
class Watched:
    """All engines behind one page."""

    engines: dict[str, Engine] = field(default_factory=dict)

    def take(self, t: float, readings: dict[str, Reading]) -> None:
        """One page; engines that are gone from it are forgotten."""
        self.engines = {name: self.engines.get(name, Engine()) for name in readings}
        for name, reading in readings.items():
            self.engines[name].take(t, reading)

    def first(self) -> tuple[str, Engine, Fit]:
        """The engine whose pool is full first, and its forecast; one that never is where all are so.

        Raises NotValidError where no engine's samples bear a forecast.
        """
        found, refused = [], None
        for name, engine in self.engines.items():
            try:
                found.append((name, engine, engine.fit()))
            except NotValidError as error:
                refused = error
        if not found:
            raise refused or NotValidError("no engine was seen")
        return min(found, key=lambda each: np.inf if each[2].time is None else each[2].time)

    def fullest(self) -> Engine:
        """The engine with the least room."""
        return max(self.engines.values(), key=lambda engine: engine.last.used)


def _is_new(before: Reading, after: Reading) -> bool:
    """The process is another one, its pool is another, or its counters began anew."""
    if before.started is not None and after.started is not None and after.started > before.started + 1.0:
        return True
    if before.moved is not None and after.moved is not None and after.moved < before.moved:
        return True
    return before.pool != after.pool


def _all_or_none(values: list[float | None]) -> np.ndarray | None:
    known = [value for value in values if value is not None]
    return np.array(known) if len(known) == len(values) else None
