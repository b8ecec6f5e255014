"""What brings a collapsed server back: nothing, a pause of the audio, fewer sessions? (measurement.md, Collapse)

It follows the measured span, so nothing in it counts for the verdict.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from time import monotonic

from metrobench.load.conn import Book, Conn
from metrobench.load.lags import HEARTBEAT
from metrobench.load.sender import Sender
from metrobench.load.spec import LoadEvent
from metrobench.load.streaming import BATCH, QUANTUM
from metrobench.load.timer import DeadlineTimer

WAITED, PAUSED, RESUMED, SHED = "waited", "paused", "resumed", "shed"
PHASES = (WAITED, PAUSED, RESUMED, SHED)
"""Streaming goes on; no audio; audio again; three quarters of the sessions closed."""
LENGTH = 5.0
"""Length of a phase, in budgets."""
KEPT = 4
"""One session of so many is left when load is shed."""
CLOSING = 0.5
"""Seconds a closed session has to say goodbye."""


class Aftermath:
    """The four phases, one after the other. `finished` resolves after the last one."""

    def __init__(
        self, book: Book, conns: list[Conn], sender: Sender, budget: float, tell: Callable[[LoadEvent], None]
    ) -> None:
        self._book = book
        self._conns = conns
        self._sender = sender
        self._length = LENGTH * budget
        self._tell = tell
        self._timer = DeadlineTimer()
        self._phase = 0
        self._answers = 0
        self._answered: set[int] = set()
        self._quantum = QUANTUM
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Begin now."""
        self._book.answered = self._heard
        # the histogram of the measured span is complete
        self._book.spool.lags = memoryview(array("q", self._book.spool.lags))
        self._begin = monotonic()
        asyncio.get_running_loop().add_reader(self._timer.fd, self._turn)
        self._timer.arm(self._begin)

    def stop(self) -> None:
        """End it where it stands; safe to repeat."""
        if not self.finished.done():
            asyncio.get_running_loop().remove_reader(self._timer.fd)
            self._timer.close()
            self.finished.set_result(None)

    def _heard(self, conn: Conn, frame: int, now: float) -> None:
        self._answers += 1
        self._answered.add(conn.facts.session)

    def _turn(self) -> None:
        now = monotonic()
        if now >= self._begin + self._length:
            self._next(now)
            if self.finished.done():
                return
        if PHASES[self._phase] == PAUSED:
            self._timer.arm(min(now + 0.05, self._begin + self._length))
            return
        t0 = self._book.t0
        self._sender.send(now - t0, BATCH)
        due = self._sender.next_due + t0
        self._timer.arm(now if due <= now else min(max(due, now + self._quantum), now + HEARTBEAT))

    def _next(self, now: float) -> None:
        """Tell what the phase saw, and prepare the next one."""
        name = PHASES[self._phase]
        self._tell(
            LoadEvent(
                "aftermath",
                t=now - self._book.t0,
                seconds=now - self._begin,
                connected=sum(not (conn.over or conn.gone) for conn in self._conns),
                answered=len(self._answered),
                frames=self._answers,
                message=name,
            )
        )
        self._phase += 1
        if self._phase == len(PHASES):
            self.stop()
            return
        if name == PAUSED:
            # the schedule stood still as well
            self._book.t0 += now - self._begin
        if PHASES[self._phase] == SHED:
            self._shed()
        self._begin, self._answers, self._answered = now, 0, set()

    def _shed(self) -> None:
        for number, conn in enumerate(self._conns):
            if number % KEPT and not conn.over:
                conn.leave()
                asyncio.get_running_loop().call_later(CLOSING, conn.drop)
