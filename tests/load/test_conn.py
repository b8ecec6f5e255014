from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from metrobench.endpoints.base import Kind, Observation
from metrobench.endpoints.realtime import RealtimeEndpoint
from metrobench.load.conn import Book, Conn
from metrobench.load.spec import LoadSpec
from metrobench.load.spool import Spool, reserve
from metrobench.measure.facts import SessionFacts


@dataclass
class FakeTransport:
    """As much of a picows transport, and of the transport below it, as a connection uses."""

    sock: socket.socket
    is_secure: bool = False
    is_disconnected: bool = False
    queued: list[bytes] = field(default_factory=list)

    @property
    def underlying_transport(self) -> FakeTransport:
        return self

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def get_extra_info(self, name: str) -> socket.socket:
        return self.sock

    def write(self, data: bytes) -> None:
        self.queued.append(data)

    def disconnect(self, graceful: bool = True) -> None:
        self.is_disconnected = True


@pytest.fixture
def book(tmp_path: Path) -> Book:
    spec = LoadSpec(
        protocol="realtime",
        url="ws://h/",
        sessions=2,
        budget=1.0,
        unit=1.0,
        first_ready=1.0,
        seed=1,
        clips=(Path("a"),),
        cut_frames=0,
        frames=3,
        max_frames=3,
        spool=tmp_path,
    )
    reserve(spec)
    endpoint = RealtimeEndpoint(spec.url, unit=1.0, first_ready=1.0)
    return Book(endpoint, Spool(tmp_path), [1.0 + frame for frame in range(spec.table_frames)])


def accepted(book: Book, *, secure: bool = False) -> tuple[Conn, FakeTransport, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    transport = FakeTransport(ours, is_secure=secure)
    conn = Conn(book, SessionFacts(0, 0.5), 0)
    conn.on_ws_connected(transport)
    conn._accept(Observation(Kind.ACCEPTED, tokens=7))
    return conn, transport, theirs


def test_accepted_session_sends_past_the_transport(book: Book) -> None:
    conn, transport, theirs = accepted(book)
    conn.push(b"frame")
    assert theirs.recv(100) == b"frame"
    assert transport.queued == []
    assert book.alive().tolist() == [True, False]
    assert conn.facts.filled_tokens == 7


def test_what_the_socket_does_not_take_waits_in_order(book: Book) -> None:
    conn, transport, theirs = accepted(book)
    frames = [bytes([number]) * 1000 for number in range(200)]
    for frame in frames:
        conn.push(frame)
    assert transport.queued
    got = b""
    theirs.setblocking(False)
    while len(got) + sum(map(len, transport.queued)) < 200_000:
        got += theirs.recv(1 << 20)
    assert got + b"".join(transport.queued) == b"".join(frames)
    assert book.alive()[0] and book.fds[0] == -1


def test_tls_goes_through_the_transport(book: Book) -> None:
    conn, transport, _ = accepted(book, secure=True)
    conn.push(b"frame")
    assert transport.queued == [b"frame"]


def test_ended_session_gives_its_descriptor_back(book: Book) -> None:
    conn, _, _ = accepted(book)
    fd = book.fds[0]
    conn.drop()
    conn.drop()
    with pytest.raises(OSError):
        os.fstat(fd)
    assert not book.alive().any()


def test_server_that_leaves_too_much_unread_ends_the_session(book: Book) -> None:
    book.t0 = 1.0
    conn, transport, _ = accepted(book)
    conn.pause_writing()
    assert "unread" in conn.facts.reason
    assert conn.facts.t_closed is not None and transport.is_disconnected
    conn.on_ws_disconnected(transport)
    assert conn.facts.close_code is None


def test_answers_without_an_index_are_counted(book: Book) -> None:
    book.t0 = 1.0
    conn, _, _ = accepted(book)
    for now in (3.0, 4.0):
        conn._observe(now, Observation(Kind.OUTPUT), b"")
        conn._observe(now + 0.25, Observation(Kind.FRAME_DONE, tokens=1), b"")
    table = book.spool.table()
    assert table["t_done"][:2, 0].tolist() == [2.25, 3.25]
    assert table["t_first"][:2, 0].tolist() == [2.0, 3.0]


def test_answers_beyond_the_table_or_twice_do_no_harm(book: Book) -> None:
    book.t0 = 1.0
    conn, _, _ = accepted(book)
    for frame in (0, 0, 10**9, -5):
        conn._observe(3.0, Observation(Kind.FRAME_DONE, frame=frame), b"")
    assert len(book.latencies) == 1


def test_garbage_before_the_acceptance_is_not_a_refusal(book: Book) -> None:
    conn = Conn(book, SessionFacts(1, 0.5), 1)
    conn._observe(0.0, book.endpoint.decode(b"\xff"), b"\xff")
    assert not conn.over and book.errors == 1


def test_first_reason_counts_and_a_later_code_is_added(book: Book) -> None:
    conn = Conn(book, SessionFacts(1, 0.5), 1)
    limit = b'{"type":"error","error":{"code":"session_limit","message":"full"}}'
    conn._observe(0.0, book.endpoint.decode(limit), limit)
    conn._end(0.0, 1013, "try again later")
    assert (conn.facts.refused, conn.facts.reason, conn.facts.close_code) == (True, "session_limit: full", 1013)
