"""Chunks at their scheduled times, whatever the server does: the loop that all paced runs share."""

from __future__ import annotations

import asyncio
import os
import resource
from abc import ABC, abstractmethod
from collections.abc import Callable
from time import monotonic

from metrobench.load.conn import Book, Conn
from metrobench.load.lags import HEARTBEAT, StallWatch
from metrobench.load.sender import Sender
from metrobench.load.spec import LoadEvent, LoadSpec
from metrobench.load.timer import DeadlineTimer
from metrobench.measure.client import histogram_quantile

QUANTUM = 0.0005
"""Seconds between two wake-ups while chunks are due: sends within it share one wake-up."""
MANY = 400
"""Sessions above which the quantum is a heartbeat."""
BATCH = 64
"""Chunks sent in one turn of the loop; a backlog is worked off between turns, so that answers are read in time."""


class Streaming(ABC):
    """One run. `finished` resolves to the reason for its end."""

    def __init__(
        self, spec: LoadSpec, book: Book, conns: list[Conn], sender: Sender, tell: Callable[[LoadEvent], None]
    ) -> None:
        self.sender = sender
        self._spec = spec
        self._book = book
        self._conns = conns
        self._tell = tell
        self._timer = DeadlineTimer()
        self._quantum = QUANTUM if spec.sessions <= MANY else HEARTBEAT
        self._armed = 0.0
        self.finished: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def start(self, t0: float) -> None:
        """Begin at `t0` of CLOCK_MONOTONIC."""
        self._book.t0 = t0
        self._book.spool.begin(t0)
        self._watch = StallWatch(monotonic() - t0, self._book.spool.stall)
        self._tell(LoadEvent("started", t0=t0))
        asyncio.get_running_loop().add_reader(self._timer.fd, self._turn)
        self._arm(monotonic())

    def stop(self, reason: str) -> None:
        """End streaming; safe to repeat."""
        if self._halt():
            self.finished.set_result(reason)

    def fail(self, error: Exception) -> None:
        """End streaming: nothing can be measured."""
        if self._halt():
            self.finished.set_exception(error)

    def progress(self, kind: str = "progress", message: str = "") -> LoadEvent:
        """Where the run stands; `connected` are the sessions that are open now."""
        book, conns = self._book, self._conns
        latencies, book.latencies = sorted(book.latencies), []
        event = LoadEvent(
            kind,
            t=monotonic() - book.t0,
            t0=book.t0,
            connected=sum(conn.alive for conn in conns),
            refused=sum(conn.facts.refused for conn in conns),
            closed=sum(conn.over and not conn.facts.refused for conn in conns),
            p50=quantile(latencies, 0.50),
            p99=quantile(latencies, 0.99),
            lag_p99=histogram_quantile(book.spool.lag_counts(), 0.99),
            cpu=cpu_seconds(),
            rss=resident_bytes(),
            errors=book.errors,
            message=message or book.last_error,
        )
        self._count(event, latencies)
        return event

    @abstractmethod
    def _count(self, event: LoadEvent, latencies: list[float]) -> None:
        """Note in the event what became of the frames; `latencies`: of those answered since the last one."""

    @abstractmethod
    def _each_turn(self, t: float) -> None:
        """What else is to be done at `t` seconds from t0."""

    @abstractmethod
    def _last_look(self, t: float) -> None:
        """Streaming ended at `t`."""

    def _halt(self) -> bool:
        """False where it was over before."""
        if self.finished.done():
            return False
        t = monotonic() - self._book.t0
        asyncio.get_running_loop().remove_reader(self._timer.fd)
        self._timer.close()
        self._watch.close(t)
        self._book.ending = True
        self._last_look(t)
        self._book.spool.stop(t)
        return True

    def _turn(self) -> None:
        now = monotonic()
        t0 = self._book.t0
        self._watch.turn(now - t0, self._armed - t0)
        t = self.sender.send(now - t0, BATCH)
        self._book.spool.now(t)
        self._each_turn(t)
        if not self.finished.done():
            self._arm(now)

    def _arm(self, start: float) -> None:
        """Set the timer at the end of a turn that began at `start`; at once when work was left over."""
        due = self.sender.next_due + self._book.t0
        self._armed = start if due <= start else min(max(due, start + self._quantum), start + HEARTBEAT)
        self._timer.arm(self._armed)


def quantile(ordered: list[float], q: float) -> float | None:
    """Of a sorted list, by nearest rank; None of an empty one."""
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None


def cpu_seconds() -> float:
    """CPU seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident_bytes() -> int:
    """Resident bytes of this process."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 (a few microseconds less on the send path)
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
