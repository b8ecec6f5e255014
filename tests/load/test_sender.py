from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from metrobench.endpoints.realtime import RealtimeEndpoint
from metrobench.load.conn import Book, Conn
from metrobench.load.sender import Sender
from metrobench.load.spec import LoadSpec
from metrobench.load.spool import Spool, reserve
from metrobench.measure.facts import SessionFacts
from metrobench.schedule import make_ring

FRAMES = [b"%05d" % number for number in range(200)]


class Rig:
    """A sender of three sessions that write into pipes."""

    def __init__(self, folder: Path) -> None:
        self.spec = LoadSpec(
            protocol="realtime",
            url="ws://h/",
            sessions=3,
            budget=1.0,
            unit=0.1,
            first_ready=0.14,
            seed=1,
            clips=(Path("a"),),
            cut_frames=0,
            frames=9,
            max_frames=9,
            spool=folder,
        )
        reserve(self.spec)
        endpoint = RealtimeEndpoint("ws://h/", unit=0.1, first_ready=0.14)
        self.book = Book(endpoint, Spool(folder), [])
        self.book.t0 = 100.0
        self.schedule = self.spec.schedule()
        ring = make_ring(self.schedule)
        slot_of = {session: slot for slot, session in enumerate(ring.order)}
        conns = [Conn(self.book, SessionFacts(n, float(self.schedule.phases[n])), slot_of[n]) for n in range(3)]
        self.slots = [slot_of[n] for n in range(3)]
        self.pipes = [os.pipe() for _ in range(3)]
        for session, (_, end) in enumerate(self.pipes):
            os.set_blocking(end, False)
            self.book.fds[slot_of[session]] = end
        runs = [iter([(10 * n, 3), (50, 2), *((100 + 10 * n, 7) for _ in range(99))]) for n in range(3)]
        self.sender = Sender(self.book, conns, ring, FRAMES, runs)

    def received(self, session: int) -> list[int]:
        os.set_blocking(self.pipes[session][0], False)
        try:
            data = os.read(self.pipes[session][0], 1 << 16)
        except BlockingIOError:
            data = b""
        return [int(data[place : place + 5]) for place in range(0, len(data), 5)]


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """The clock stands at 1,000 s: everything due is late by a known time."""
    monkeypatch.setattr("metrobench.load.sender.monotonic", lambda: 1000.0)
    return Rig(tmp_path)


def test_each_session_gets_its_own_audio_in_order(rig: Rig) -> None:
    rig.sender.send(1.5, 10_000)
    for session in range(3):
        count = int((1.5 - rig.schedule.phases[session]) / 0.02 + 1e-9)
        expected = [10 * session + n for n in range(3)] + [50, 51] + [100 + 10 * session + n % 7 for n in range(99)]
        assert rig.received(session) == expected[:count]


def test_lag_and_leaving_of_a_frame_are_those_of_its_chunks(rig: Rig) -> None:
    rig.sender.send(1.5, 10_000)
    table = rig.book.spool.table()
    sent = ~np.isnan(table["t_sent"])
    assert (sent == (table["t_ready"] <= 1.5 + 1e-9)).all()
    assert (table["t_sent"][sent] == 900.0).all()
    # the first chunk of a frame is its latest: five chunks of 20 ms, seven in the first frame
    for frame, session in zip(*np.nonzero(sent), strict=True):
        ready = rig.schedule.frame_ready(int(session), int(frame))
        first = ready - (6 if frame == 0 else 4) * 0.02
        assert table["lag_max"][frame, session] == pytest.approx(900.0 - first, abs=1e-3)


def test_limit_leaves_the_rest_for_the_next_turn(rig: Rig) -> None:
    for _ in range(1000):
        rig.sender.send(1.5, 1)
    whole = [rig.received(session) for session in range(3)]
    count = sum(int((1.5 - phase) / 0.02 + 1e-9) for phase in rig.schedule.phases)
    assert sum(map(len, whole)) == count == int(rig.book.spool.lag_counts().sum())
    assert rig.sender.next_due > 1.5


def test_dead_session_is_skipped_and_its_frames_stay_unsent(rig: Rig) -> None:
    rig.book.fds[rig.slots[1]] = -1
    rig.sender.send(1.5, 10_000)
    assert rig.received(1) == [] and rig.received(0)
    assert np.isnan(rig.book.spool.table()["t_sent"][:, 1]).all()


def test_session_over_its_transport_gets_the_same_frames(rig: Rig) -> None:
    slot, queued = rig.slots[2], list[bytes]()
    rig.book.fds[slot] = -1
    rig.book.queues[slot] = queued.append
    rig.sender.send(1.5, 10_000)
    assert [int(frame) for frame in queued[:5]] == [20, 21, 22, 50, 51]
    assert not np.isnan(rig.book.spool.table()["t_sent"][0, 2])


def test_broken_pipe_does_not_stop_the_others(rig: Rig) -> None:
    os.close(rig.pipes[0][0])
    rig.sender.send(1.5, 10_000)
    assert rig.received(1) and rig.received(2)
    assert rig.book.fds[rig.slots[0]] == -1
