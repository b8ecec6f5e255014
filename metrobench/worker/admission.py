"""The door of this worker at work: it watches the sessions' latency and the KV pool, and answers those who come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from metrobench.admission.aimd import Gains
from metrobench.admission.base import Decision, Observation
from metrobench.admission.choice import Choice, make_door
from metrobench.units import seconds
from metrobench.worker.engine import EngineStats
from metrobench.worker.outbox import server_error
from metrobench.worker.sessions import Session

SHORTEST_PERIOD = 1.0
"""Seconds of a control period, or B where that is longer."""
HELD_UP = 0.25
"""A period that ends later than this share of it is void: the gateway itself stood still."""


class Admission:
    """Used by the gateway on its event loop."""

    def __init__(
        self,
        choice: Choice,
        budget: float,
        stats: EngineStats,
        kv_sessions: int | None,
        max_sessions: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`budget`: B in seconds. `kv_sessions`: sessions that the pool holds for ever; None: no policy bounds them."""
        self.door = make_door(choice, budget, kv_sessions, max_sessions)
        self._budget = budget
        self._period = max(SHORTEST_PERIOD, budget)
        self._overdue = Gains().target * budget
        self._stats = stats
        self._clock = clock

    async def watch(self, sessions: Callable[[], Iterable[Session]]) -> None:
        """Feed the controller, period by period, for ever."""
        due = self._clock()
        while True:
            due += self._period
            await asyncio.sleep(max(0.0, due - self._clock()))
            late = self._clock() - due
            self.observe(list(sessions()), void=late > HELD_UP * self._period)
            due = max(due, self._clock() - self._period)

    def observe(self, sessions: list[Session], void: bool) -> None:
        """A period is over: take the latencies out of all sessions."""
        now = self._clock()
        latencies = [wait for session in sessions for wait in self._waits(session, now)]
        self.door.observe(Observation(now, len(sessions), latencies, self._stats.kv_usage, void))

    def _waits(self, session: Session, now: float) -> list[float]:
        """A session's latencies as the same share of the worker's budget as they are of its own."""
        if session.budget is None:
            return session.latencies(now, self._overdue)
        scale = self._budget / session.budget
        return [scale * wait for wait in session.latencies(now, self._overdue / scale)]

    def ask(self, sessions: int) -> Decision:
        """May one more join beside `sessions`?"""
        return self.door.ask(self._clock(), sessions)

    def left(self) -> None:
        """An admitted session is over."""
        self.door.left(self._clock())


def refusal(decision: Decision) -> bytes:
    """The error a refused client gets: why in words, and the signals and the retry hint as numbers."""
    signals, hint = decision.signals, round(decision.retry_after, 1)
    # a rule that looked at no latency says the same to everybody
    known = signals.words() if signals.p50 is not None else ""
    message = f"{decision.why}{f' ({known})' if known else ''}; try again in {seconds(hint)}"
    own = {
        "retry_after_ms": 1000.0 * hint,
        "sessions": signals.sessions,
        "cap": signals.cap,
        "p50_ms": _milli(signals.p50),
        "p95_ms": _milli(signals.p95),
        "rho": None if signals.rho is None else round(signals.rho, 5),
        "rho_slope": None if signals.rho_slope is None else round(signals.rho_slope, 6),
    }
    return server_error(decision.code, message, {name: value for name, value in own.items() if value is not None})


def _milli(value: float | None) -> float | None:
    return None if value is None else round(1000.0 * value, 2)
