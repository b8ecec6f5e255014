"""The door of a worker: a controller, the pace of joining, the count of who came, and a hint when to come again."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from metrobench.admission.base import (
    RETRY_HIGH,
    RETRY_LOW,
    RETRY_UNKNOWN,
    Code,
    Controller,
    Decision,
    Observation,
    Signals,
)

JOINS = 16
"""Sessions that may join within a second, however few are open."""
JOIN_SHARE = 0.125
"""The same as a share of the open ones, where that is more: 96 full windows that joined 384 within a second pushed
everybody to frames of 2 to 4 s, on an H200."""
MEMORY = 60.0
"""Seconds over which departures are counted."""


class Door:
    """Asks the pace first, then the controller. Never queues: whoever may not join now is told so."""

    def __init__(self, controller: Controller, ceiling: int, paced: bool) -> None:
        """`ceiling`: never more sessions than these. `paced`: limit how many join within a second."""
        self.controller = controller
        self._ceiling = ceiling
        self.offered = self.admitted = self.refused = 0
        self._paced = paced
        self._joined: deque[float] = deque()
        self._left: deque[float] = deque()
        self._began: float | None = None

    def observe(self, seen: Observation) -> None:
        """A control period is over."""
        self.controller.observe(seen)

    def ask(self, t: float, sessions: int) -> Decision:
        """May one more join? What is answered is counted."""
        self._began = t if self._began is None else self._began
        self.offered += 1
        decision = self._limit(sessions) or self.controller.ask(t, sessions)
        if decision.admitted and self._paced:
            decision = self._pace(t, sessions, decision)
        if decision.admitted:
            self.admitted += 1
            if self._paced:
                self._joined.append(t)
            return decision
        self.refused += 1
        return decision if decision.retry_after else replace(decision, retry_after=self._retry(t, decision.signals))

    def left(self, t: float) -> None:
        """An admitted session is over."""
        self._left.append(t)
        self._forget(t)

    def _forget(self, t: float) -> None:
        while self._left and self._left[0] <= t - MEMORY:
            self._left.popleft()

    def _limit(self, sessions: int) -> Decision | None:
        if sessions < self._ceiling:
            return None
        return Decision(
            False, Signals(sessions, self._ceiling), Code.SESSIONS, f"all {self._ceiling} sessions are taken"
        )

    def _pace(self, t: float, sessions: int, decision: Decision) -> Decision:
        while self._joined and self._joined[0] <= t - 1.0:
            self._joined.popleft()
        most = max(JOINS, int(JOIN_SHARE * sessions))
        if len(self._joined) < most:
            return decision
        wait = max(0.05, self._joined[0] + 1.0 - t)
        why = f"{len(self._joined)} sessions joined within the last second, {most} may"
        return Decision(False, decision.signals, Code.PACE, why, wait)

    def _retry(self, t: float, signals: Signals) -> float:
        """Seconds in which as many leave as must before one more fits, at the rate of the last minute."""
        self._forget(t)
        if not self._left or self._began is None:
            return RETRY_UNKNOWN
        each = max(1e-3, min(MEMORY, t - self._began)) / len(self._left)
        surplus = 1 if signals.cap is None else max(1, signals.sessions - signals.cap + 1)
        return min(RETRY_HIGH, max(RETRY_LOW, surplus * each))
