"""Closed loop: every session sends its next frame as soon as the last one is answered. A first guess, no proof."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import monotonic

from metrobench.load.conn import Book, Conn
from metrobench.load.spec import LoadEvent, LoadSpec
from metrobench.load.streaming import cpu_seconds, resident_bytes
from metrobench.schedule import last_chunk


class SaturateRun:
    """One closed-loop run over open sessions. `finished` resolves to the reason for its end."""

    def __init__(
        self,
        spec: LoadSpec,
        book: Book,
        conns: list[Conn],
        streams: Sequence[Iterator[bytes]],
        tell: Callable[[LoadEvent], None],
    ) -> None:
        self._spec = spec
        self._book = book
        self._conns = conns
        self._streams = streams
        self._tell = tell
        self._frame = [0] * len(conns)
        self._sent = [0.0] * len(conns)
        self._cycles: list[float] = []
        self.finished: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def start(self, t0: float) -> None:
        """Begin at `t0` of CLOCK_MONOTONIC."""
        loop = asyncio.get_running_loop()
        self._book.t0 = t0
        self._book.spool.begin(t0)
        self._book.answered = self._answered
        self._tell(LoadEvent("started", t0=t0))
        wait = max(0.0, t0 - monotonic())
        loop.call_later(wait, self._first_frames)
        loop.call_later(wait + self._spec.saturate_seconds, self.stop, "finished")

    def extend(self, frames: int, stop_after_misses: int | None) -> None:
        """Has no meaning here."""

    def stop(self, reason: str) -> None:
        """End the loop and tell what was served; safe to repeat."""
        if self.finished.done():
            return
        t = max(0.0, monotonic() - self._book.t0)
        self._book.answered = None
        self._book.ending = True
        self._book.spool.stop(t)
        cycles = sorted(self._cycles)
        self._tell(
            LoadEvent(
                "saturated",
                t=t,
                frames=len(cycles),
                seconds=t,
                cycle_p50=cycles[len(cycles) // 2] if cycles else None,
                cycle_mean=sum(cycles) / len(cycles) if cycles else None,
                cycle_p99=cycles[len(cycles) * 99 // 100] if cycles else None,
                closed=sum(conn.over for conn in self._conns),
                cpu=cpu_seconds(),
                rss=resident_bytes(),
            )
        )
        self.finished.set_result(reason)

    def progress(self, kind: str = "progress", message: str = "") -> LoadEvent:
        """Where the run stands."""
        return LoadEvent(kind, t=max(0.0, monotonic() - self._book.t0), frames=len(self._cycles), message=message)

    def _first_frames(self) -> None:
        for conn in self._conns:
            if conn.alive:
                self._send_frame(conn)

    def _answered(self, conn: Conn, frame: int, now: float) -> None:
        session = conn.facts.session
        if conn.alive and frame == self._frame[session] - 1:
            self._cycles.append(now - self._sent[session])
            self._send_frame(conn)

    def _send_frame(self, conn: Conn) -> None:
        session = conn.facts.session
        for frame in islice(self._streams[session], self._chunks(self._frame[session])):
            if conn.alive:
                conn.push(frame)
        self._frame[session] += 1
        self._sent[session] = monotonic()

    def _chunks(self, frame: int) -> int:
        unit, first_ready = self._spec.unit, self._spec.first_ready
        before = last_chunk(frame - 1, unit, first_ready) if frame else -1
        return last_chunk(frame, unit, first_ready) - before
