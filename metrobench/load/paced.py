"""The measured run: every chunk at its scheduled time, whatever the server does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from metrobench.load.alarm import Alarm, Watcher
from metrobench.load.conn import Book, Conn
from metrobench.load.count import OnlineCount
from metrobench.load.sender import Sender
from metrobench.load.spec import GRACE, LoadEvent, LoadSpec
from metrobench.load.streaming import Streaming
from metrobench.measure.collapse import Kind
from metrobench.schedule import Schedule

COUNT_EVERY = 0.25
"""Seconds between two counts of decided frames."""
SETTLE = 0.05
"""Seconds after the last deadline before the planned frames count as decided: answers already there are read."""
HELD_UP = 1.0
"""The same, where this process has been held up and has not read yet what came meanwhile."""


class PacedRun(Streaming):
    """One paced run over open sessions."""

    def __init__(
        self,
        spec: LoadSpec,
        schedule: Schedule,
        book: Book,
        conns: list[Conn],
        sender: Sender,
        tell: Callable[[LoadEvent], None],
    ) -> None:
        super().__init__(spec, book, conns, sender, tell)
        self._schedule = schedule
        self._frames = spec.frames
        self._counted = OnlineCount(book.spool.table(), spec.late_after, spec.cut_frames)
        self._watcher = Watcher(book.spool.table(), spec.budget, spec.unit)
        self._alarm = Alarm()
        self._slots = np.array([conn.slot for conn in conns])
        self._judged = False
        self._most_missed = spec.stop_after_misses
        self._next_count = COUNT_EVERY
        self._next_progress = 1.0

    def extend(self, frames: int, stop_after_misses: int | None) -> None:
        """A new total of measured frames, and the misses that end the run; fewer frames than now have no effect."""
        if frames > self._frames:
            self._most_missed = stop_after_misses
            self._frames = min(frames, self._spec.max_frames)
            self._judged = False

    def _count(self, event: LoadEvent, latencies: list[float]) -> None:
        counted = self._counted
        event.due, event.answered = counted.due, counted.met
        event.missed, event.ambiguous = counted.missed, counted.ambiguous
        event.frames, event.silent = self._frames, self._alarm.silent

    @property
    def _decided_at(self) -> float:
        """When the last planned frame of the last session is decided."""
        return self._schedule.end_of(self._spec.cut_frames + self._frames - 1) + self._spec.wait

    def _last_look(self, t: float) -> None:
        self._update_count(t)

    def _each_turn(self, t: float) -> None:
        if t >= self._next_count:
            self._housekeeping(t)

    def _housekeeping(self, t: float) -> None:
        self._next_count = t + COUNT_EVERY
        self._update_count(t)
        if t >= self._next_progress:
            self._next_progress = max(self._next_progress + 1.0, t)
            self._tell(self.progress())
        if self._most_missed is not None and self._counted.missed > self._most_missed:
            self.stop("missed too many")
        elif not self._judged and t >= self._decided_at + (SETTLE if self._watch.since(t) is None else HELD_UP):
            self._judged = True
            self._tell(self.progress("judge"))
        elif self._judged and t >= self._decided_at + GRACE:
            self.stop("finished")

    def _update_count(self, t: float) -> None:
        stalls = self._book.spool.stalls(0)
        if (start := self._watch.since(t)) is not None:
            stalls = np.vstack([stalls, [start, t]])
        dead = ~self._book.alive()[self._slots]
        self._counted.update(t, self._spec.cut_frames + self._frames, stalls, dead)
        self._look(t, stalls, dead)

    def _look(self, t: float, stalls: npt.NDArray[np.float64], dead: npt.NDArray[np.bool_]) -> None:
        """Tell once when sessions begin to wait for long, and once what kind of collapse it is."""
        before, refused = self._alarm, np.array([conn.facts.refused for conn in self._conns])
        self._alarm = alarm = self._watcher.update(t, stalls, refused, dead)
        if alarm.kind is not Kind.NONE and before.kind is Kind.NONE:
            self._tell(LoadEvent("alarm", t=t, silent=alarm.silent, seconds=alarm.waiting, message=alarm.kind.value))
        elif alarm.silent and not before.silent:
            self._tell(LoadEvent("alarm", t=t, silent=alarm.silent, seconds=alarm.waiting, message="warning"))
