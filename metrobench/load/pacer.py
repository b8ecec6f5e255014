"""Which chunk is due when: one ring for all sessions, absolute times, nothing ever dropped or moved. Pure: no clock.

Times are seconds from t0.
"""

from __future__ import annotations

from metrobench.schedule import Ring
from metrobench.units import CHUNK


class Pacer:
    """Walks the ring of a schedule: every session once each tick, in the order of their offsets into it."""

    __slots__ = ("_offsets", "_order", "_slot", "_starts", "_tick")

    def __init__(self, ring: Ring) -> None:
        self._order = ring.order
        self._offsets = ring.offsets
        self._starts = ring.starts
        self._slot = 0
        self._tick = min(ring.starts) + 1

    @property
    def next_due(self) -> float:
        """Due time at the ring's next slot (a session that has not begun there counts as well)."""
        return self._tick * CHUNK + self._offsets[self._slot]

    def take(self, now: float, limit: int) -> list[tuple[int, int, float]]:
        """(session, chunk, due) of the chunks due by `now` and not yet taken, in order of due time; at most `limit`.
        The next call goes on where this one stopped."""
        order, offsets, starts = self._order, self._offsets, self._starts
        slot, tick, size = self._slot, self._tick, len(order)
        taken: list[tuple[int, int, float]] = []
        base = tick * CHUNK
        while (due := base + offsets[slot]) <= now:
            chunk = tick - starts[slot] - 1
            if chunk >= 0:
                if len(taken) >= limit:
                    break
                taken.append((order[slot], chunk, due))
            slot += 1
            if slot == size:
                slot = 0
                tick += 1
                base = tick * CHUNK
        self._slot, self._tick = slot, tick
        return taken
