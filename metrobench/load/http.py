"""One session's HTTP/1.1 connection, for protocols whose messages are requests: what a connection calls a transport.

Requests are written when they are due, one behind the other; a server answers them in that order (RFC 9112, 9.3.2).
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from picows import WSMsgType

if TYPE_CHECKING:
    from metrobench.load.conn import Conn

MAX_HEAD = 64 * 1024
"""Bytes of the largest head of a response that is read."""
MAX_BODY = 64 * 1024 * 1024
_END = b"\r\n\r\n"
_NO_BODY = frozenset({204, 304})
_PORTS = {"http": 80, "https": 443}


class HttpError(ValueError):
    """Bytes that are no response."""


class Responses:
    """Responses out of the bytes of a connection, however they are cut."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._status: int | None = None
        self._left = 0
        """Bytes of the body, or of its chunk, that are missing; -1: the size of the next chunk is."""
        self._body = bytearray()
        self._chunked = False

    def feed(self, data: bytes) -> list[bytes]:
        """The responses that are complete now, each as its status, a space and its body. Raises HttpError."""
        self._bytes += data
        found: list[bytes] = []
        while self._status is not None or self._head():
            if not self._read_body():
                break
            assert self._status is not None
            if self._status >= 200:
                found.append(b"%d " % self._status + self._body)
            self._status = None
            self._body.clear()
        return found

    def _head(self) -> bool:
        """The next head is read."""
        end = self._bytes.find(_END)
        if end < 0:
            if len(self._bytes) > MAX_HEAD:
                raise HttpError("a response's head does not end")
            return False
        first, *lines = bytes(self._bytes[:end]).split(b"\r\n")
        del self._bytes[: end + len(_END)]
        version, _, rest = first.partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise HttpError("not an HTTP response")
        self._status = int(rest[:3])
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        self._chunked = fields.get(b"transfer-encoding", b"").lower() == b"chunked"
        empty = self._status < 200 or self._status in _NO_BODY
        self._left = 0 if empty else -1 if self._chunked else _size(fields.get(b"content-length", b""), 10)
        self._chunked &= not empty
        return True

    def _read_body(self) -> bool:
        """The whole body is there."""
        while True:
            if self._left < 0:
                end = self._bytes.find(b"\r\n")
                if end < 0:
                    return self._wait()
                size = _size(bytes(self._bytes[:end]).partition(b";")[0].strip(), 16)
                if not size:
                    return self._trailer(end)
                del self._bytes[: end + 2]
                self._left = size + 2
            if len(self._body) + self._left > MAX_BODY:
                raise HttpError(f"a response of more than {MAX_BODY >> 20} MiB")
            if len(self._bytes) < self._left:
                return False
            self._body += self._bytes[: self._left - 2 if self._chunked else self._left]
            del self._bytes[: self._left]
            if not self._chunked:
                return True
            self._left = -1

    def _trailer(self, end: int) -> bool:
        """The last chunk begins at the start, and its size ends at `end`; fields may follow."""
        last = self._bytes.find(_END, end)
        if last < 0:
            return self._wait()
        del self._bytes[: last + len(_END)]
        return True

    def _wait(self) -> bool:
        if len(self._bytes) > MAX_HEAD:
            raise HttpError("a chunk's size does not end")
        return False


def _size(digits: bytes, base: int) -> int:
    try:
        size = int(digits, base)
    except ValueError:
        size = -1
    if size < 0 or len(digits) > len(str(MAX_BODY)):
        raise HttpError("a response without a length")
    return size


class Body:
    """A response as a connection reads it: like a whole message of a WebSocket."""

    msg_type = WSMsgType.TEXT
    fin = True

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def get_payload_as_bytes(self) -> bytes:
        """Status, a space, and the body."""
        return self._payload


class HttpLink(asyncio.Protocol):
    """Between a socket and a Conn."""

    underlying_transport: asyncio.Transport

    def __init__(self, conn: Conn) -> None:
        self._conn = conn
        self._responses = Responses()
        self.is_disconnected = False
        self.is_secure = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.underlying_transport = cast(asyncio.Transport, transport)
        self.is_secure = transport.get_extra_info("ssl_object") is not None
        self._conn.on_ws_connected(self)

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._responses.feed(data):
                self._conn.on_ws_frame(self, Body(payload))
        except HttpError as error:
            self._conn.give_up(f"the server does not speak HTTP: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self.is_disconnected = True
        self._conn.on_ws_disconnected(self)

    def pause_writing(self) -> None:
        self._conn.pause_writing()

    def resume_writing(self) -> None:
        self._conn.resume_writing()

    def send(self, _kind: WSMsgType, message: bytes) -> None:
        """Send a request now."""
        self.underlying_transport.write(message)

    def send_close(self, *_: Any) -> None:
        """The end of a session is the end of its connection."""
        self.underlying_transport.close()

    def disconnect(self, graceful: bool = True) -> None:
        """Close, without sending what waits unless `graceful`."""
        if graceful:
            self.underlying_transport.close()
        else:
            self.underlying_transport.abort()


async def http_connect(conn: Conn, url: str, context: ssl.SSLContext | None) -> None:
    """Connect a session to the host of an address."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    port = parts.port or _PORTS[parts.scheme]
    await loop.create_connection(lambda: HttpLink(conn), parts.hostname or "", port, ssl=context)
