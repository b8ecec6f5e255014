"""One session's WebSocket connection: sends what it is told, stamps and records what comes back."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt
from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from metrobench.endpoints.base import NOT_UNDERSTOOD, Endpoint, Kind, Observation
from metrobench.load.spool import Spool
from metrobench.load.tape import Recorder
from metrobench.load.ties import TIED, TIES
from metrobench.load.turns import Turns
from metrobench.measure.facts import SessionFacts

MAX_UNREAD = 8 * 1024 * 1024
"""Bytes of audio that may wait for a server that does not read, before its session counts as closed."""

MAX_MESSAGE = 64 * 1024 * 1024
"""Bytes of the largest message that is read."""
_NO_STATUS = 1005
_ABNORMAL = 1006


class Book:
    """What all connections of a run share."""

    def __init__(self, endpoint: Endpoint, spool: Spool, ready: list[float]) -> None:
        """`ready`: seconds from a session's phase to each frame's t_ready."""
        self.unit = endpoint.unit
        self.first_ready = endpoint.first_ready
        self.endpoint = endpoint
        self.message_type = WSMsgType.BINARY if endpoint.binary else WSMsgType.TEXT
        self.spool = spool
        self.ready = ready
        self.fds = array("l", (-1 for _ in range(spool.sessions)))
        """By slot: descriptor that takes whole WebSocket frames; -1: not (or no longer) this way."""
        self.queues: dict[int, Callable[[bytes], None]] = {}
        """Slots that send through their transport: over TLS, or to a server that does not read fast enough."""
        self.t0 = 0.0
        """Start of the schedule, CLOCK_MONOTONIC; 0 before it."""
        self.ending = False
        """Closed connections are no finding any more."""
        self.latencies: list[float] = []
        """Latencies answered since the last progress event."""
        self.answered: Callable[[Conn, int, float], None] | None = None
        """Called as (connection, frame, CLOCK_MONOTONIC) for every complete answer; saturate mode."""
        self.greeted: Callable[[Conn], None] | None = None
        """Called for the server's first message; open mode."""
        self.errors = 0
        """Error messages that ended no session."""
        self.last_error = ""

    def alive(self) -> npt.NDArray[np.bool_]:
        """Slots that are part of the run now, shape (sessions,)."""
        alive = np.array(self.fds) >= 0
        alive[list(self.queues)] = True
        return alive


class Conn(WSListener):  # type: ignore[misc]
    """A session. `alive` from acceptance to its end."""

    def __init__(self, book: Book, facts: SessionFacts, slot: int, recorder: Recorder | None = None) -> None:
        """`slot`: its place in the order of sending. `recorder`: who writes down what is said."""
        self.book = book
        self._decode = book.endpoint.decoder()
        self.facts = facts
        self.slot = slot
        self._recorder = recorder
        self.transport: WSTransport | None = None
        self.alive = False
        self.accepted = False
        self.over = False
        self.greeting = self.acceptance = b""
        """The server's first message, and the one that accepts the session."""
        self.waits = ""
        """What a server that has no place for the session yet said last."""
        self.turns = Turns(book.ready, facts.phase)
        self._buffer = bytearray()
        self.next_answer = 0
        """Frame after the newest answered one."""
        self._dropped = False
        self._left = False
        self._tie = TIES.get(book.endpoint.frame_class)

    def open(self, fill_tokens: int) -> None:
        """Ask for the session, with that many resident tokens of its own."""
        for message in self.book.endpoint.opening(self.facts.session, fill_tokens):
            self.write(message)

    def write(self, message: bytes) -> None:
        """Send one message now."""
        if self.transport is not None:
            self.transport.send(self.book.message_type, message)
            if self._recorder is not None:
                self._recorder.client(message, self._spoken(monotonic()))

    def _spoken(self, now: float) -> float | None:
        """Seconds since the session's audio began; None: it has not."""
        t = now - self.book.t0 - self.facts.phase
        return t if self.book.t0 and t > 0.0 else None

    def push(self, frame: bytes) -> None:
        """Send one ready-made WebSocket frame of a living session."""
        if self.slot in self.book.queues:
            self.book.queues[self.slot](frame)
            return
        try:
            sent = os.write(self.book.fds[self.slot], frame)
        except OSError:
            sent = 0
        if sent != len(frame):
            self.overflow(frame, sent)

    def overflow(self, frame: bytes, sent: int) -> None:
        """The socket took only `sent` bytes of a frame: the rest, and all frames after it, wait in the transport."""
        self._release()
        if self.transport is not None and not self.gone:
            write = self.book.queues[self.slot] = self.transport.underlying_transport.write
            write(frame[sent:])

    def _release(self) -> None:
        book, slot = self.book, self.slot
        if book.fds[slot] >= 0:
            os.close(book.fds[slot])
            book.fds[slot] = -1
        book.queues.pop(slot, None)

    def refuse(self, reason: str, code: int | None = None) -> None:
        """The session is not part of the run from the start."""
        self._end(monotonic(), code, reason)
        self.drop()

    def leave(self) -> None:
        """Say goodbye and close: the planned end. Where the server says goodbye as well, close when it has."""
        said, self._left = self._left, True
        self._release()
        if said or self.transport is None or self.transport.is_disconnected:
            return
        if self._recorder is not None:
            self._recorder.leave()
        for message in self.book.endpoint.farewell(self.facts.session):
            self.write(message)
        if not (self.book.endpoint.says_goodbye and self.accepted):
            self.transport.send_close(WSCloseCode.OK)

    def hush(self) -> None:
        """No more audio; answers are still read."""
        self._release()

    def drop(self) -> None:
        """Close the connection without ceremony."""
        self._dropped = True
        self._release()
        if self.transport is not None:
            self.transport.disconnect(False)

    @property
    def unaccepted(self) -> str:
        """Why the session is refused when nothing accepts it."""
        return self.book.endpoint.unaccepted

    @property
    def gone(self) -> bool:
        """No connection, or no longer."""
        return self.transport is None or self.transport.is_disconnected

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        transport.underlying_transport.set_write_buffer_limits(high=MAX_UNREAD)
        if self._dropped:
            self.drop()
        elif self.book.t0:
            self.facts.t_connected = monotonic() - self.book.t0

    def pause_writing(self) -> None:
        self.give_up(f"the server left {MAX_UNREAD >> 20} MiB of audio unread")

    def give_up(self, reason: str) -> None:
        """End the session for what the server does."""
        self._end(monotonic(), None, reason)
        self.drop()

    def resume_writing(self) -> None:
        pass

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        now = monotonic()
        kind = frame.msg_type
        if kind == WSMsgType.CLOSE:
            self._closed_by_server(now, transport, frame)
        elif kind in (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION):
            payload = frame.get_payload_as_bytes()
            if not frame.fin or self._buffer:
                self._buffer += payload
                if len(self._buffer) > MAX_MESSAGE:
                    self._buffer.clear()
                    self.give_up(f"the server sent a message of more than {MAX_MESSAGE >> 20} MiB")
                    return
                if not frame.fin:
                    return
                payload = bytes(self._buffer)
                self._buffer.clear()
            if self._recorder is not None:
                self._recorder.server(payload, self._spoken(now))
            seen = self._decode(payload)
            for message in seen.reply:
                self.write(message)
            self._observe(now, seen, payload)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._release()
        if not self._dropped:
            if self._recorder is not None and not (self._left or self.over):
                self._recorder.closed(0, "", self._spoken(monotonic()))
            self._end(monotonic(), self.facts.close_code or _ABNORMAL, "the connection broke without a close")

    def _observe(self, now: float, seen: Observation, payload: bytes) -> None:
        kind = seen.kind
        book = self.book
        if self._tie is not None and kind in TIED:
            if book.t0:
                self._tie(self, now, seen)
        elif kind is Kind.FRAME_DONE:
            first = self.next_answer if seen.frame is None else seen.frame
            for frame in range(first, first + seen.count):
                self.answer(frame, now, seen)
        elif kind is Kind.OUTPUT:
            frame = self.next_answer if seen.frame is None else seen.frame
            if book.t0 and 0 <= frame < len(book.ready):
                book.spool.first(self.row(frame), now - book.t0)
        elif kind is Kind.ACCEPTED:
            self.acceptance = self.acceptance or payload
            self._greet(payload)
            self._accept(seen)
        elif kind is Kind.OPENED:
            self._greet(payload)
        elif kind is Kind.QUEUED:
            self.waits = seen.message
        elif kind is Kind.CLOSED:
            self._said_goodbye(now, seen)
        elif kind is Kind.ERROR:
            text = book.endpoint.access.clean(f"{seen.code}: {seen.message}" if seen.code else seen.message)
            if seen.fatal or not (self.accepted or seen.code == NOT_UNDERSTOOD):
                if not self.accepted:
                    self.facts.signals = seen.signals
                self._end(now, None, text)
            else:
                book.errors += 1
                book.last_error = text

    def _greet(self, payload: bytes) -> None:
        """Keep the first message of the server."""
        if not self.greeting:
            self.greeting = payload
            if self.book.greeted is not None:
                self.book.greeted(self)

    def _said_goodbye(self, now: float, seen: Observation) -> None:
        if not self._left:
            self._end(now, None, seen.message or "the server ended the session")
        elif self.transport is not None and not self.transport.is_disconnected:
            self.transport.send_close(WSCloseCode.OK)

    def answer(self, frame: int, now: float, seen: Observation) -> None:
        """A frame's complete answer; the first one counts."""
        book = self.book
        if 0 <= frame < len(book.ready) and not book.ending:
            t = now - book.t0
            if book.spool.done(self.row(frame), t, seen.tokens, seen.flags):
                book.latencies.append(t - self.facts.phase - book.ready[frame])
        self.next_answer = max(self.next_answer, frame + 1)
        if book.answered is not None:
            book.answered(self, frame, now)

    def row(self, frame: int) -> int:
        """Its place in the facts."""
        return frame * self.book.spool.sessions + self.facts.session

    def _accept(self, seen: Observation) -> None:
        if self.over or self.accepted or self.transport is None:
            return
        self.accepted = self.alive = True
        if self.book.t0:
            self.facts.t_accepted = monotonic() - self.book.t0
        self.facts.filled_tokens = max(0, seen.tokens)
        self.book.spool.session(self.facts)
        underlying = self.transport.underlying_transport
        if self.transport.is_secure:
            self.book.queues[self.slot] = underlying.write
        else:
            # a descriptor of our own: the transport's number may be reused as soon as it closes
            self.book.fds[self.slot] = os.dup(underlying.get_extra_info("socket").fileno())

    def _closed_by_server(self, now: float, transport: WSTransport, frame: WSFrame) -> None:
        code = int(frame.get_close_code()) or _NO_STATUS
        if self._recorder is not None:
            self._recorder.closed(code, _text(frame.get_close_message()), self._spoken(now))
        self._end(now, code, _text(frame.get_close_message()) or "closed by the server")
        transport.send_close(WSCloseCode.OK if code == _NO_STATUS else frame.get_close_code())
        transport.disconnect()

    def _end(self, now: float, code: int | None, reason: str) -> None:
        """The session is over. The first reason counts; a close code that comes after it is added."""
        self.alive = False
        book, facts = self.book, self.facts
        self._release()
        if book.ending or self._left:
            return
        if not self.over:
            self.over = True
            facts.reason = book.endpoint.access.clean(reason)
            if book.t0 and self.accepted:
                facts.t_closed = max(0.0, now - book.t0)
            else:
                facts.refused = True
                facts.t_refused = max(0.0, now - book.t0) if book.t0 else None
        elif facts.close_code is not None or code is None:
            return
        facts.close_code = code
        book.spool.session(facts)


def _text(message: Any) -> str:
    return bytes(message or b"").decode("utf-8", "replace")
