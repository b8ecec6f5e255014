"""How long runs and searches take: told before they begin, and what decides whether one more run fits. No clock."""

from __future__ import annotations

import math

from msgspec import Struct

from metrobench.measure.plan import Plan
from metrobench.measure.verdict import Outcome
from metrobench.search.mscs import Done, Effort, MscsSearch

AFTER = 1.0
"""Seconds of a run that are neither start, filling nor streaming: lead to t0 and goodbyes (seen: 0.5 to 0.8)."""
GUESS_OFF = 2.0
"""Factor by which a first guess may be off."""


class RunTime:
    """What a run takes besides its streaming: as expected at first, as seen from the first run on."""

    def __init__(self, start: float, fill: float) -> None:
        """`start`: seconds from launching the server to open sessions; `fill`: seconds for each session to get full."""
        self.start = start
        self.fill = fill
        self._seen_start: float | None = None
        self._seen_fill: float | None = None

    def seconds(self, plan: Plan) -> float:
        """Seconds of a run that goes to its end; one that fails ends earlier."""
        return self.start + self.fill * plan.sessions + plan.budget + plan.seconds + AFTER

    def learn(self, sessions: int, start: float | None, fill: float | None) -> None:
        """One run has been made: the slowest seen counts. None: not known of this run."""
        if start is not None:
            self.start = self._seen_start = max(start, self._seen_start or 0.0)
        if fill is not None:
            self.fill = self._seen_fill = max(fill / sessions, self._seen_fill or 0.0)


class RunCount(Struct, frozen=True):
    """Runs of a search."""

    few: int
    """Where the first guess is right and no run contradicts another."""
    many: int
    """Where the guess is off by GUESS_OFF and no run contradicts another."""
    most: int
    """Never more than these."""


def count_runs(effort: Effort, guess: int | None, most_sessions: int) -> RunCount:
    """Runs against a server whose runs never contradict each other. `guess` None: it will be measured, and may lie
    anywhere below `most_sessions`."""
    near = min(guess or max(1, most_sessions // 4), most_sessions)
    away = {max(1, round(near / GUESS_OFF)), near, min(most_sessions, math.ceil(near * GUESS_OFF))}
    counts = {capacity: _runs(effort, near, capacity, most_sessions) for capacity in away}
    return RunCount(counts[near], max(counts.values()), MscsSearch(effort).max_runs)


def _runs(effort: Effort, guess: int, capacity: int, most_sessions: int) -> int:
    """Runs of a search against a server that sustains exactly `capacity` sessions."""
    search = MscsSearch(effort, guess=guess, max_sessions=most_sessions)
    while not isinstance(step := search.next_step(), Done):
        search.tell(step.sessions, Outcome.PASSED if step.sessions <= capacity else Outcome.FAILED)
    return search.result().runs
