"""The line in front of the engine at work: sessions wait here for their turn, at once or tick by tick."""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass

from metrobench.errors import UsageError
from metrobench.units import parse_duration, seconds
from metrobench.worker.line import Line

ARRIVAL, DEADLINE = "arrival", "deadline"
MAX_INSIDE = 65_536


@dataclass(frozen=True, slots=True)
class Order:
    """In which order frames go to the engine."""

    most: int = 0
    """Frames in the engine at once, the earliest deadline first; 0: every frame goes there as soon as it is there."""
    tick: float = 0.0
    """Seconds between two moments at which frames are let in; 0: as soon as there is room."""

    def __str__(self) -> str:
        if not self.most:
            return ARRIVAL
        return f"{DEADLINE}:{self.most}" + (f"@{seconds(self.tick).replace(' ', '')}" if self.tick else "")


BY_ARRIVAL = Order()


def parse_order(text: str) -> Order:
    """`arrival`, `deadline:K` or `deadline:K@TIME`. Raises UsageError."""
    if text == ARRIVAL:
        return BY_ARRIVAL
    match = re.fullmatch(r"deadline:(\d{1,6})(?:@(\S+))?", text)
    if match is None:
        raise UsageError(
            f"--order {text!r} is unknown", "use arrival, deadline:K or deadline:K@TIME, as deadline:8@20ms"
        )
    if not 1 <= int(match[1]) <= MAX_INSIDE:
        raise UsageError(f"--order {text}: K must be 1 to {MAX_INSIDE}")
    tick = parse_duration(match[2], name="--order", high=60.0) if match[2] else 0.0
    return Order(int(match[1]), tick)


class Turnstile:
    """Used by the sessions of one worker on its event loop."""

    def __init__(self, order: Order, budget: float) -> None:
        """`budget`: B in seconds of the sessions that name none."""
        self._line = Line(order.most)
        self._tick = order.tick
        self._budget = budget
        self._turns: dict[int, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self, session: int, since: float, budget: float | None) -> None:
        """Return when it is the session's turn. `since`: when its frame was complete, CLOCK_MONOTONIC. Whoever was let
        in must `leave`; who is cancelled has left."""
        turn = self._turns[session] = asyncio.get_running_loop().create_future()
        self._line.join(session, since + (self._budget if budget is None else budget))
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            # a newer wait of the same session is not this one's to end
            if self._turns.get(session, turn) is turn:
                self.leave(session)
            raise

    def leave(self, session: int) -> None:
        """The frame is answered, or the session is over; safe to repeat."""
        if turn := self._turns.pop(session, None):
            turn.cancel()
        self._line.leave(session)
        self._let_in()

    def _let_in(self) -> None:
        if not self._tick:
            self._open()
        elif self._timer is None and self._line.waiting:
            loop = asyncio.get_running_loop()
            # ticks lie on a grid of the clock, so that frames of all sessions meet at the same ones
            due = (loop.time() // self._tick + 1.0) * self._tick
            self._timer = loop.call_at(due, self._strike)

    def _strike(self) -> None:
        self._timer = None
        self._open()
        self._let_in()

    def _open(self) -> None:
        for session in self._line.admit():
            turn = self._turns.pop(session)
            with contextlib.suppress(asyncio.InvalidStateError):
                turn.set_result(None)
