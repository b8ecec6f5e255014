"""The send path: up to 50,000 chunks a second from one core, so that every look-up counts.

State by ring slot stands in flat arrays: it is walked in order, thousands of sessions at a time, and objects scattered
over memory cost more than the work done with them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from os import write
from time import monotonic

from metrobench.load.conn import Book, Conn
from metrobench.load.finish import Finish
from metrobench.load.lags import FINE, FINE_RATE, bin_of
from metrobench.load.pacer import Pacer
from metrobench.schedule import Ring, last_chunk
from metrobench.units import CHUNK


class Sender:
    """Sends what is due, in order, and records how late each chunk left."""

    def __init__(
        self,
        book: Book,
        conns: Sequence[Conn],
        ring: Ring,
        frames: list[bytes],
        runs: Sequence[Iterator[tuple[int, int]]],
        finish: Finish | None = None,
    ) -> None:
        """`conns` and `runs` by session. `frames`: WebSocket frames by chunk number. `runs`: each session's audio as
        endless (first chunk, number of chunks). `finish` makes a frame a session's own; None: it is that already."""
        self._book = book
        self._conns = [conns[session] for session in ring.order]
        self._runs = [runs[session] for session in ring.order]
        self._frames = frames
        self._finish = finish
        self._sessions = ring.order
        self._offsets = array("d", ring.offsets)
        self._starts = array("l", ring.starts)
        self._pacer = Pacer(ring)
        slots = range(len(ring.order))
        self._place = array("l", slots)  # chunk to send next
        self._sent = array("l", (0 for _ in slots))  # chunks sent; counted only where frames are finished
        self._stop = array("l", slots)  # end of the run it is in
        self._left = array("l", (last_chunk(0, book.unit, book.first_ready) + 1 for _ in slots))  # chunks to frame end
        self._worst = array("d", (0.0 for _ in slots))  # largest lag in the frame so far
        self._frame = array("l", (0 for _ in slots))
        for slot in slots:
            self._next_run(slot)

    @property
    def next_due(self) -> float:
        """Seconds from t0 at which the next chunk is due."""
        return self._pacer.next_due

    def frames_sent(self, slot: int) -> int:
        """Frames of the slot's session whose last chunk has left."""
        return self._frame[slot]

    def send(self, t: float, limit: int) -> float:
        """Send what is due at `t` seconds from t0, at most `limit` chunks; returns the time after the last one."""
        book, frames, place, stop = self._book, self._frames, self._place, self._stop
        fds, offsets, starts, lags, t0 = book.fds, self._offsets, self._starts, book.spool.lags, book.t0
        left, worst, finish, counts = self._left, self._worst, self._finish, self._sent
        sessions = self._sessions
        for tick, first, end in self._pacer.take(t, limit):
            base = t0 + tick * CHUNK
            for slot in range(first, end):
                if starts[slot] >= tick:
                    continue
                number = place[slot]
                frame = frames[number]
                if finish is not None:
                    frame = finish(frame, counts[slot], sessions[slot])
                    counts[slot] += 1
                if (fd := fds[slot]) >= 0:
                    try:
                        sent = write(fd, frame)
                    except OSError:
                        sent = 0
                    if sent != len(frame):
                        self._conns[slot].overflow(frame, sent)
                elif slot in book.queues:
                    book.queues[slot](frame)
                else:
                    continue
                now = monotonic()
                lag = now - base - offsets[slot]
                lags[int(lag * FINE_RATE) if lag < FINE else bin_of(lag)] += 1
                if lag > worst[slot]:
                    worst[slot] = lag
                place[slot] = number = number + 1
                if number == stop[slot]:
                    self._next_run(slot)
                left[slot] = rest = left[slot] - 1
                if not rest:
                    self._frame_sent(slot, now - t0)
                t = now - t0
        return t

    def _next_run(self, slot: int) -> None:
        first, count = next(self._runs[slot])
        self._place[slot] = first
        self._stop[slot] = first + count

    def _frame_sent(self, slot: int, t: float) -> None:
        book, frame = self._book, self._frame[slot]
        spool, unit, first_ready = book.spool, book.unit, book.first_ready
        if frame < spool.frames:
            spool.sent(frame * spool.sessions + self._conns[slot].facts.session, t, self._worst[slot])
        self._worst[slot] = 0.0
        self._frame[slot] = frame + 1
        self._left[slot] = last_chunk(frame + 1, unit, first_ready) - last_chunk(frame, unit, first_ready)
