"""The count of a run that goes on, where the run itself is held up."""

from __future__ import annotations

import asyncio
import math
import time
from pathlib import Path
from typing import cast

from metrobench.endpoints.realtime import RealtimeEndpoint
from metrobench.load.conn import Book, Conn
from metrobench.load.paced import PacedRun
from metrobench.load.sender import Sender
from metrobench.load.spec import LoadEvent, LoadSpec
from metrobench.load.spool import Spool, reserve
from metrobench.measure.facts import SessionFacts

HELD_UP = 0.6


class HeldUpSender:
    """Sends frame 0 in time, and is held up in the middle of a later turn, in which the answer arrives unread."""

    next_due = math.inf

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.row = spool.table()[0, 0]
        self.woken = math.inf

    def send(self, t: float, _limit: int) -> float:
        if math.isnan(self.row["t_sent"]) and t >= self.row["t_ready"]:
            self.spool.sent(0, t, 0.0)
        elif t > self.row["t_ready"] + 0.1 and self.woken == math.inf:
            time.sleep(HELD_UP)
            t += HELD_UP
            self.woken = t
        elif t > self.woken and math.isnan(self.row["t_done"]):
            self.row["t_done"] = self.woken
        return t


def test_a_hold_up_in_the_middle_of_a_turn_makes_no_miss_of_an_answer_that_waits(tmp_path: Path) -> None:
    spec = LoadSpec(
        protocol="realtime",
        url="ws://h/",
        sessions=1,
        budget=0.3,
        unit=0.1,
        first_ready=0.1,
        seed=1,
        clips=(Path("a"),),
        cut_frames=0,
        frames=1,
        max_frames=1,
        spool=tmp_path,
    )
    reserve(spec)
    spool = Spool(tmp_path)
    book = Book(RealtimeEndpoint("ws://h/", unit=0.1, first_ready=0.1), spool, [])
    conn = Conn(book, SessionFacts(0, 0.0), 0)
    told: list[LoadEvent] = []

    async def stream() -> None:
        run = PacedRun(spec, spec.schedule(), book, [conn], cast(Sender, HeldUpSender(spool)), told.append)

        def tell(event: LoadEvent) -> None:
            told.append(event)
            if event.kind == "judge":
                run.stop("seen")

        run._tell = tell
        run.start(time.monotonic())
        await run.finished

    asyncio.run(stream())
    (judged,) = [event for event in told if event.kind == "judge"]
    assert (judged.missed, judged.ambiguous, judged.due) == (0, 1, 1)
