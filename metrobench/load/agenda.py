"""What an open system does when: every step of every session at an absolute time. Pure: no clock."""

from __future__ import annotations

from metrobench.admission.timetable import Timetable
from metrobench.units import CHUNK

COME, BEGIN, HUSH, LEAVE = range(4)
"""The client dials; its audio begins; its last chunk was due; it hangs up."""


class Agenda:
    """All steps in order of time; each is taken once, none is dropped or moved."""

    def __init__(self, timetable: Timetable, unit: float) -> None:
        """`unit`: seconds of audio in a frame. A session hangs up when its last frame's deadline is over."""
        ends: list[float] = timetable.ends(unit).tolist()
        steps: list[tuple[float, int, int]] = []
        for number, (come, begin, end, budget) in enumerate(
            zip(timetable.arrivals, timetable.starts, ends, timetable.budgets, strict=True)
        ):
            # between its last chunk and the next one
            hush = end + CHUNK / 2
            steps += [(come, COME, number), (begin, BEGIN, number), (hush, HUSH, number)]
            steps.append((max(hush, end + budget), LEAVE, number))
        self._steps = sorted(steps)
        self._next = 0

    @property
    def end(self) -> float:
        """Seconds from t0 of the last step."""
        return self._steps[-1][0]

    def take(self, t: float) -> list[tuple[int, int]]:
        """(kind, session) of the steps that are due by `t` and not yet taken."""
        first = self._next
        while self._next < len(self._steps) and self._steps[self._next][0] <= t:
            self._next += 1
        return [(kind, number) for _, kind, number in self._steps[first : self._next]]
