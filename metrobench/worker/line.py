"""Frames in front of an engine, the most urgent first. Pure: no clock, no tasks; seconds on one clock are handed in.

Earliest deadline first (Liu and Layland 1973) among those that wait; whoever is inside is not put out again.
"""

from __future__ import annotations

import heapq
import itertools


class Line:
    """One frame a session, by the session's number."""

    def __init__(self, most: int) -> None:
        """`most`: frames inside at once, at least 1."""
        self._most = most
        self._order: list[tuple[float, int, int]] = []
        """Heap of (deadline, place, session); entries of those that went away are passed over when they come up."""
        self._places = itertools.count()
        self._waiting: dict[int, int] = {}
        self._inside: set[int] = set()

    @property
    def waiting(self) -> int:
        """Frames that wait."""
        return len(self._waiting)

    @property
    def inside(self) -> int:
        """Frames that were let in and have not left."""
        return len(self._inside)

    def join(self, session: int, deadline: float) -> None:
        """A frame waits from now on, due at `deadline`. A session that waits already gets the new deadline."""
        place = next(self._places)
        self._waiting[session] = place
        heapq.heappush(self._order, (deadline, place, session))

    def admit(self) -> list[int]:
        """Let in as many as there is room for: the earliest deadline first, among equal ones who came first."""
        found = []
        while self._waiting and len(self._inside) < self._most:
            _, place, session = heapq.heappop(self._order)
            if self._waiting.get(session) == place:
                del self._waiting[session]
                self._inside.add(session)
                found.append(session)
        return found

    def leave(self, session: int) -> None:
        """Its frame is answered, or the session is over: it neither waits nor is inside. Safe to repeat."""
        self._inside.discard(session)
        if self._waiting.pop(session, None) is not None and not self._waiting:
            self._order.clear()
