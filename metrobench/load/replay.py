"""A server that says again what a recorded one said, at the same moments of each session's audio."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_create_server

from metrobench.errors import UnreachableError
from metrobench.load.tape import Entry, Tape
from metrobench.units import CHUNK

HANDSHAKE = 30.0
"""Seconds that a client has for its handshake."""


class _Session(WSListener):  # type: ignore[misc]
    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._type = WSMsgType.BINARY if tape.head.binary else WSMsgType.TEXT
        server = [entry for entry in tape.entries if entry.who == "server"]
        self._opening = [entry for entry in server if entry.t is None and not entry.goodbye]
        self._timed = [entry for entry in server if entry.t is not None and not entry.goodbye]
        self._parting = [entry for entry in server if entry.goodbye]
        said = [entry for entry in tape.entries if entry.who == "client"]
        self._before = sum(entry.t is None for entry in said)
        self._farewell = {entry.payload for entry in said if entry.goodbye}
        self._heard = 0
        self._open = True
        self._began = False

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        self._say_opening()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._open = False

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind == WSMsgType.CLOSE:
            self._open = False
            transport.send_close(frame.get_close_code())
            transport.disconnect()
        elif kind in (WSMsgType.TEXT, WSMsgType.BINARY):
            self._heard += 1
            if self._heard > self._before and not self._began:
                self._begin()
            self._say_opening()
            if self._farewell and frame.get_payload_as_bytes() in self._farewell:
                self._part()

    def _say_opening(self) -> None:
        """What the server said after as many messages of the client."""
        while self._opening and self._opening[0].after <= self._heard:
            self._say(self._opening.pop(0))

    def _begin(self) -> None:
        """The first chunk of audio is here: it is due when it has been spoken."""
        self._began = True
        loop = asyncio.get_running_loop()
        start = loop.time() - CHUNK
        for entry in self._timed:
            loop.call_at(start + (entry.t or 0.0), self._say, entry)

    def _part(self) -> None:
        for entry in self._parting:
            self._say(entry)
        self._parting = []

    def _say(self, entry: Entry) -> None:
        if not self._open:
            return
        if entry.close is None:
            self._transport.send(self._type, entry.payload)
            return
        self._open = False
        if entry.close:
            self._transport.send_close(entry.close, entry.reason)
            asyncio.get_running_loop().call_later(1.0, self._transport.disconnect)
        else:
            self._transport.disconnect(False)


async def serve(tape: Tape, host: str, port: int) -> tuple[asyncio.Server, int]:
    """Listen; the server and its port. Raises UnreachableError where nothing can listen there."""
    logging.getLogger("picows").setLevel(logging.CRITICAL)

    def session(_: Any) -> _Session:
        return _Session(tape)

    try:
        server = await ws_create_server(session, host, port, websocket_handshake_timeout=HANDSHAKE, backlog=1024)
    except OSError as error:
        raise UnreachableError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return server, int(server.sockets[0].getsockname()[1])
