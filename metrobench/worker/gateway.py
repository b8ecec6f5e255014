"""The realtime WebSocket endpoint in front of an engine: sockets here, the dialect in conversation.py."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
from picows import (
    WSCloseCode,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
    ws_create_server,
)

from metrobench.worker import conversation
from metrobench.worker.admission import Admission, refusal
from metrobench.worker.conversation import Conversation, Shared
from metrobench.worker.engine import Engine
from metrobench.worker.outbox import server_error

PATH = "/v1/realtime"
MAX_MESSAGE = 16 * 2**20
"""Bytes of one client message, all its fragments together."""
CLOSE_GRACE = 2.0
"""Seconds a client has to answer a close before its socket is cut."""
PATIENCE = 20.0
"""A client that says nothing for so many seconds is pinged, and has as many to answer: one whose machine vanished
holds its place, and its blocks, no longer than twice that."""


class Gateway:
    """All sockets of one worker. `close_all` and `engine_died` may be called at any time."""

    def __init__(self, engine: Engine, shared: Shared, admission: Admission, patience: float = PATIENCE) -> None:
        self._engine = engine
        self._patience = patience
        self._shared = shared
        self._admission = admission
        self._watching: asyncio.Task[None] | None = None
        self._server: Any = None
        self._sockets: set[_Socket] = set()
        self._count = 0
        self.dead: str | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError when it is taken."""
        self._server = await ws_create_server(
            self._route,
            host,
            port,
            max_frame_size=MAX_MESSAGE,
            enable_auto_ping=True,
            auto_ping_idle_timeout=self._patience,
            auto_ping_reply_timeout=self._patience,
            enable_auto_pong=True,
            websocket_handshake_timeout=30,
            backlog=4096,
        )
        self._watching = asyncio.create_task(self._admission.watch(lambda: self.sessions))
        return int(self._server.sockets[0].getsockname()[1])

    def _route(self, request: WSUpgradeRequest) -> Any:
        path = request.path.decode("ascii", "replace").partition("?")[0]
        if path == PATH:
            return _Socket(self)
        if path == "/health":
            return WSUpgradeResponseWithListener(self._health(), None)
        body = b"not found: the realtime endpoint is " + PATH.encode() + b"\n"
        return WSUpgradeResponseWithListener(WSUpgradeResponse.create_error_response(404, body), None)

    def _health(self) -> Any:
        """Alive or not; the places taken, and the KV pool's share in use as of the engine's last step."""
        kind = {"Content-Type": "application/json"}
        if self.dead is None:
            found = {"status": "ok", "sessions": len(self._sockets), "kv_usage": self._engine.stats.kv_usage}
            return WSUpgradeResponse.create_ok_response(msgspec.json.encode(found), kind)
        return WSUpgradeResponse.create_error_response(503, b'{"status":"engine dead"}', kind)

    def admit(self, socket: _Socket, send: Callable[[bytes], None], close: Callable[[int, str], None]) -> Any:
        """A conversation for a new socket; None when it was refused."""
        if self.dead is not None:
            send(server_error("engine_dead", self.dead))
            close(conversation.CLOSE_INTERNAL, "engine_dead")
            return None
        decision = self._admission.ask(len(self._sockets))
        if not decision.admitted:
            send(refusal(decision))
            close(conversation.CLOSE_TRY_LATER, decision.code)
            return None
        self._sockets.add(socket)
        self._count += 1
        return Conversation(self._engine, self._count, self._shared, send, close)

    def forget(self, socket: _Socket) -> None:
        """Its place is free again."""
        if socket in self._sockets:
            self._sockets.discard(socket)
            self._admission.left()

    def engine_died(self, reason: str) -> None:
        """Tell every session, close all of them, answer 503 from now on."""
        self.dead = reason
        for socket in list(self._sockets):
            if socket.conversation is not None:
                socket.conversation.failed("engine_dead", reason)

    @property
    def sessions(self) -> list[Any]:
        """Live sessions.Session objects."""
        return [socket.conversation.session for socket in self._sockets if socket.conversation is not None]

    async def close(self) -> None:
        """Stop listening and drop every socket."""
        if self._watching is not None:
            self._watching.cancel()
        if self._server is not None:
            self._server.close()
        for socket in list(self._sockets):
            socket.cut()
        await asyncio.sleep(0)


class _Socket(WSListener):  # type: ignore[misc]
    """One connection."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self._gateway = gateway
        self._transport: WSTransport | None = None
        self._partial = bytearray()
        self.conversation: Conversation | None = None

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        self.conversation = self._gateway.admit(self, self._send, self._close)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind == WSMsgType.TEXT and frame.fin:
            if self.conversation is not None:
                self.conversation.receive(frame.get_payload_as_memoryview())
        else:
            self._rare(transport, frame, kind)

    def _rare(self, transport: WSTransport, frame: WSFrame, kind: Any) -> None:
        if kind == WSMsgType.CLOSE:
            if not transport.is_close_frame_sent:
                transport.send_close(frame.get_close_code() or WSCloseCode.OK)
            transport.disconnect()
        elif kind == WSMsgType.BINARY:
            if self.conversation is not None:
                self.conversation.refuse_binary()
        elif kind in (WSMsgType.TEXT, WSMsgType.CONTINUATION):
            self._fragment(frame)

    def _fragment(self, frame: WSFrame) -> None:
        self._partial += frame.get_payload_as_memoryview()
        if len(self._partial) > MAX_MESSAGE:
            self._partial.clear()
            self._end(conversation.CLOSE_TOO_BIG, "message too big")
        elif frame.fin:
            message, self._partial = bytes(self._partial), bytearray()
            if self.conversation is not None:
                self.conversation.receive(message)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if self.conversation is not None:
            self.conversation.gone()
        self._gateway.forget(self)

    def _end(self, code: int, reason: str) -> None:
        if self.conversation is not None:
            self.conversation.end(code, reason)

    def _send(self, message: bytes) -> None:
        transport = self._transport
        if transport is not None and not transport.is_disconnected:
            transport.send(WSMsgType.TEXT, message)

    def _close(self, code: int, reason: str) -> None:
        """Say goodbye; go on reading until the client answers, so that no unread data turns the close into a reset."""
        self._gateway.forget(self)
        if self._transport is not None:
            with contextlib.suppress(Exception):
                self._transport.send_close(WSCloseCode(code), reason.encode()[:120])
            asyncio.get_running_loop().call_later(CLOSE_GRACE, self.cut)

    def cut(self) -> None:
        """Drop the connection."""
        if self._transport is not None and not self._transport.is_disconnected:
            self._transport.disconnect()
