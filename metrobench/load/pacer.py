"""Which chunk is due when: one ring for all sessions, absolute times, nothing ever dropped or moved. Pure: no clock.

Times are seconds from t0.
"""

from __future__ import annotations

from bisect import bisect_right

from metrobench.schedule import Ring
from metrobench.units import CHUNK


class Pacer:
    """Walks the ring of a schedule: every slot once each tick, in the order of their offsets into it."""

    __slots__ = ("_offsets", "_slot", "_tick")

    def __init__(self, ring: Ring) -> None:
        self._offsets = ring.offsets
        self._slot = 0
        self._tick = min(ring.starts) + 1

    @property
    def next_due(self) -> float:
        """Due time of the next slot."""
        return self._tick * CHUNK + self._offsets[self._slot]

    def take(self, now: float, limit: int) -> list[tuple[int, int, int]]:
        """Stretches (tick, first slot, last slot + 1) that are due by `now` and not yet taken, in order of due time; at
        most `limit` slots. The next call goes on where this one stopped.

        In tick T the session of slot s sends its chunk T - starts[s] - 1, due at T ticks + offsets[s]; none while that
        number is negative.
        """
        offsets, size = self._offsets, len(self._offsets)
        stretches = []
        while limit > 0 and self.next_due <= now:
            first = self._slot
            end = bisect_right(offsets, now - self._tick * CHUNK, first, min(size, first + limit))
            end = max(end, first + 1)  # the sum that says "due" rounds differently from the difference
            stretches.append((self._tick, first, end))
            limit -= end - first
            self._slot = end
            if end == size:
                self._slot = 0
                self._tick += 1
        return stretches
