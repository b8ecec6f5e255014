"""The open system: sessions come, are admitted or refused, speak and leave, each at its scheduled time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from metrobench.admission.timetable import Timetable
from metrobench.endpoints.base import Endpoint
from metrobench.errors import UnreachableError, UsageError
from metrobench.load.agenda import BEGIN, COME, HUSH, LEAVE, Agenda
from metrobench.load.conn import Book, Conn
from metrobench.load.connect import connect
from metrobench.load.sender import Sender
from metrobench.load.spec import LoadEvent, LoadSpec
from metrobench.load.streaming import Streaming
from metrobench.measure.collapse import silence

LOST = 8
"""Sessions that fail to connect at all, with none that did, before the server counts as unreachable."""
SETTLE = 0.3
"""Seconds after the last deadline: answers already there are read."""


class OpenRun(Streaming):
    """One run by a timetable."""

    def __init__(
        self,
        spec: LoadSpec,
        timetable: Timetable,
        endpoint: Endpoint,
        book: Book,
        conns: list[Conn],
        sender: Sender,
        tell: Callable[[LoadEvent], None],
    ) -> None:
        super().__init__(spec, book, conns, sender, tell)
        self._endpoint = endpoint
        # where all have the one budget, the server knows it
        endpoint.budgets = timetable.budgets if len(set(timetable.budgets)) > 1 else ()
        self._agenda = Agenda(timetable, spec.unit)
        self._frames = timetable.frames
        self._waiting: list[int] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._checked = False
        self._met = self._late = 0
        self._warned = False
        self._next_progress = 1.0
        for conn in conns:
            number = conn.facts.session
            conn.facts.t_arrived = timetable.arrivals[number]
            conn.facts.frames = timetable.frames[number]
            conn.facts.budget = timetable.budgets[number]
            book.spool.session(conn.facts)
        book.greeted = self._greeted

    def extend(self, frames: int, stop_after_misses: int | None) -> None:
        """Has no meaning here."""

    def _count(self, event: LoadEvent, latencies: list[float]) -> None:
        late = sum(latency > self._spec.budget for latency in latencies)
        self._late += late
        self._met += len(latencies) - late
        event.filled = sum(conn.accepted for conn in self._conns)
        event.due, event.answered, event.missed = self._met + self._late, self._met, self._late

    def _each_turn(self, t: float) -> None:
        for kind, number in self._agenda.take(t):
            _STEPS[kind](self, self._conns[number])
        if self._waiting:
            self._waiting = [number for number in self._waiting if not self._hushed(self._conns[number])]
        if t >= self._next_progress:
            self._next_progress = max(self._next_progress + 1.0, t)
            self._second(t)
        if t >= self._agenda.end + self._spec.wait + SETTLE:
            self.stop("finished")

    def _last_look(self, t: float) -> None:
        for task in self._tasks:
            task.cancel()

    def _second(self, t: float) -> None:
        """Once a second."""
        self._tell(self.progress())
        self._look(t)
        tried = [conn for conn in self._conns if conn.over or conn.facts.t_connected is not None]
        if len(tried) >= min(LOST, len(self._conns)) and all(conn.facts.t_connected is None for conn in tried):
            reason = tried[0].facts.reason
            self.fail(UnreachableError(f"no session could be opened at {self._spec.url}: {reason}"))

    def _look(self, t: float) -> None:
        """Tell once when open sessions begin to wait for long."""
        ready, limit = self._book.ready, 0.5 * silence(self._spec.budget, self._spec.unit)
        waits = [
            t - conn.facts.phase - ready[conn.next_answer] - self._spec.budget
            for conn in self._conns
            if conn.alive and conn.next_answer < self._frames[conn.facts.session]
        ]
        silent = sum(wait >= limit for wait in waits)
        if silent and not self._warned:
            self._tell(LoadEvent("alarm", t=t, silent=silent, seconds=max(waits), message="warning"))
        self._warned = bool(silent)

    def _come(self, conn: Conn) -> None:
        """The client dials; nobody waits for it."""
        task = asyncio.create_task(self._dial(conn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial(self, conn: Conn) -> None:
        reason = await connect(conn, self._endpoint, self._spec.connect_timeout)
        if reason:
            conn.refuse(reason)
        elif not self._endpoint.greets:
            conn.open(0)

    def _greeted(self, conn: Conn) -> None:
        """The server's first message: ask for the session."""
        if not self._checked:
            self._checked = True
            if self._unlike(conn.greeting):
                return
        conn.open(self._spec.fill_tokens if self._endpoint.can_fill(conn.greeting) else 0)

    def _unlike(self, said: bytes) -> bool:
        """The frames that the server describes are not ours: nothing can be measured."""
        wrong = self._endpoint.mismatch(said)
        if wrong:
            self.fail(UsageError(wrong, "name the profile that fits it with --model"))
        return bool(wrong)

    def _begin(self, conn: Conn) -> None:
        """Its audio begins now, or never."""
        if self._unlike(conn.acceptance):
            return
        if not conn.accepted and not conn.over:
            waited = conn.facts.phase - (conn.facts.t_arrived or 0.0)
            conn.refuse(f"not accepted within {waited:.1f} s of its arrival")

    def _hush(self, conn: Conn) -> None:
        """Its last chunk is due."""
        if not self._hushed(conn):
            self._waiting.append(conn.facts.session)

    def _hushed(self, conn: Conn) -> bool:
        """True once all its frames are sent, or it is over."""
        if conn.alive and self.sender.frames_sent(conn.slot) < self._frames[conn.facts.session]:
            return False
        conn.hush()
        return True

    def _leave(self, conn: Conn) -> None:
        """The user hangs up; the deadline of the last frame is over."""
        if not conn.over:
            conn.alive = False
            conn.leave()


_STEPS = {COME: OpenRun._come, BEGIN: OpenRun._begin, HUSH: OpenRun._hush, LEAVE: OpenRun._leave}
