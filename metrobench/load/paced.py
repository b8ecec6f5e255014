"""The measured run: every chunk at its scheduled time, whatever the server does."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable
from time import monotonic

import numpy as np
import numpy.typing as npt

from metrobench.load.alarm import Alarm, Watcher
from metrobench.load.conn import Book, Conn
from metrobench.load.count import OnlineCount
from metrobench.load.lags import StallWatch
from metrobench.load.sender import Sender
from metrobench.load.spec import GRACE, LoadEvent, LoadSpec
from metrobench.load.timer import DeadlineTimer
from metrobench.measure.client import histogram_quantile
from metrobench.measure.collapse import Kind
from metrobench.schedule import Schedule

QUANTUM = 0.0005
"""Seconds between two wake-ups while chunks are due: sends within it share one wake-up."""
HEARTBEAT = 0.001
"""Longest time between two wake-ups, and the quantum of runs with more than MANY sessions."""
MANY = 400
BATCH = 64
"""Chunks sent in one turn of the loop; a backlog is worked off between turns, so that answers are read in time."""
COUNT_EVERY = 0.25
"""Seconds between two counts of decided frames."""
SETTLE = 0.05
"""Seconds after the last deadline before the planned frames count as decided: answers already there are read."""


class PacedRun:
    """One paced run over open sessions. `finished` resolves to the reason for its end."""

    def __init__(
        self,
        spec: LoadSpec,
        schedule: Schedule,
        book: Book,
        conns: list[Conn],
        sender: Sender,
        tell: Callable[[LoadEvent], None],
    ) -> None:
        self._spec = spec
        self._schedule = schedule
        self._book = book
        self._conns = conns
        self.sender = sender
        self._tell = tell
        self._frames = spec.frames
        self._timer = DeadlineTimer()
        self._count = OnlineCount(book.spool.table(), spec.late_after, spec.cut_frames)
        self._watcher = Watcher(book.spool.table(), spec.budget, spec.unit)
        self._alarm = Alarm()
        self._slots = np.array([conn.slot for conn in conns])
        self._judged = False
        self._most_missed = spec.stop_after_misses
        self._quantum = QUANTUM if spec.sessions <= MANY else HEARTBEAT
        self._armed = 0.0
        self._next_count = COUNT_EVERY
        self._next_progress = 1.0
        self.finished: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def start(self, t0: float) -> None:
        """Begin at `t0` of CLOCK_MONOTONIC."""
        self._book.t0 = t0
        self._book.spool.begin(t0)
        self._watch = StallWatch(monotonic() - t0, self._book.spool.stall)
        self._tell(LoadEvent("started", t0=t0))
        asyncio.get_running_loop().add_reader(self._timer.fd, self._turn)
        self._arm(monotonic())

    def extend(self, frames: int, stop_after_misses: int | None) -> None:
        """A new total of measured frames, and the misses that end the run; fewer frames than now have no effect."""
        if frames > self._frames:
            self._most_missed = stop_after_misses
            self._frames = min(frames, self._spec.max_frames)
            self._judged = False

    def stop(self, reason: str) -> None:
        """End streaming; safe to repeat."""
        if self.finished.done():
            return
        t = monotonic() - self._book.t0
        asyncio.get_running_loop().remove_reader(self._timer.fd)
        self._timer.close()
        self._watch.close(t)
        self._book.ending = True
        self._update_count(t)
        self._book.spool.stop(t)
        self.finished.set_result(reason)

    def progress(self, kind: str = "progress", message: str = "") -> LoadEvent:
        """Where the run stands."""
        book, count = self._book, self._count
        latencies, book.latencies = sorted(book.latencies), []
        return LoadEvent(
            kind,
            t=monotonic() - book.t0,
            t0=book.t0,
            closed=sum(conn.over and not conn.facts.refused for conn in self._conns),
            refused=sum(conn.facts.refused for conn in self._conns),
            due=count.due,
            answered=count.met,
            missed=count.missed,
            ambiguous=count.ambiguous,
            p50=_at(latencies, 0.50),
            p99=_at(latencies, 0.99),
            lag_p99=histogram_quantile(book.spool.lag_counts(), 0.99),
            cpu=cpu_seconds(),
            rss=resident_bytes(),
            frames=self._frames,
            errors=book.errors,
            message=message or book.last_error,
            silent=self._alarm.silent,
        )

    @property
    def _decided_at(self) -> float:
        """When the last planned frame of the last session is decided."""
        return self._schedule.end_of(self._spec.cut_frames + self._frames - 1) + self._spec.wait

    def _turn(self) -> None:
        now = monotonic()
        t0 = self._book.t0
        self._watch.turn(now - t0, self._armed - t0)
        t = self.sender.send(now - t0, BATCH)
        self._book.spool.now(t)
        if t >= self._next_count:
            self._housekeeping(t)
        if not self.finished.done():
            self._arm(now)

    def _arm(self, start: float) -> None:
        """Set the timer at the end of a turn that began at `start`; at once when work was left over."""
        due = self.sender.next_due + self._book.t0
        self._armed = start if due <= start else min(max(due, start + self._quantum), start + HEARTBEAT)
        self._timer.arm(self._armed)

    def _housekeeping(self, t: float) -> None:
        self._next_count = t + COUNT_EVERY
        self._update_count(t)
        if t >= self._next_progress:
            self._next_progress = max(self._next_progress + 1.0, t)
            self._tell(self.progress())
        if self._most_missed is not None and self._count.missed > self._most_missed:
            self.stop("missed too many")
        elif not self._judged and t >= self._decided_at + SETTLE:
            self._judged = True
            self._tell(self.progress("judge"))
        elif self._judged and t >= self._decided_at + GRACE:
            self.stop("finished")

    def _update_count(self, t: float) -> None:
        stalls = self._book.spool.stalls(0)
        if self._watch.opened is not None:
            stalls = np.vstack([stalls, [self._watch.opened, t]])
        dead = ~self._book.alive()[self._slots]
        self._count.update(t, self._spec.cut_frames + self._frames, stalls, dead)
        self._look(t, dead)

    def _look(self, t: float, dead: npt.NDArray[np.bool_]) -> None:
        """Tell once when sessions begin to wait for long, and once what kind of collapse it is."""
        before, refused = self._alarm, np.array([conn.facts.refused for conn in self._conns])
        self._alarm = alarm = self._watcher.update(t, refused, dead)
        if alarm.kind is not Kind.NONE and before.kind is Kind.NONE:
            self._tell(LoadEvent("alarm", t=t, silent=alarm.silent, seconds=alarm.waiting, message=alarm.kind.value))
        elif alarm.silent and not before.silent:
            self._tell(LoadEvent("alarm", t=t, silent=alarm.silent, seconds=alarm.waiting, message="warning"))


def _at(ordered: list[float], q: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None


def cpu_seconds() -> float:
    """CPU seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident_bytes() -> int:
    """Resident bytes of this process."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 (a few microseconds less on the send path)
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
