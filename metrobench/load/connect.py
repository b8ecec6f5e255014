"""Open all sessions of a run before it starts, and say in one sentence why it could not be done."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from functools import cache

from picows import WSHandshakeError, WSInvalidStatusError, ws_connect

from metrobench.endpoints.base import Access, Endpoint
from metrobench.errors import UsageError
from metrobench.load.conn import MAX_MESSAGE, Conn
from metrobench.load.http import http_connect

PARALLEL = 64
"""Handshakes under way at a time."""

_REFUSED = f"[Errno {errno.ECONNREFUSED}]"
_READ_BUFFER = 4096


async def connect_all(conns: list[Conn], endpoint: Endpoint, timeout: float) -> None:
    """Connect every session, each within `timeout` seconds; one that does not connect is refused, with the reason.
    When a whole first wave fails, the rest is refused without trying."""
    logging.getLogger("picows").setLevel(logging.CRITICAL)
    waiting = iter(conns)
    failed: list[str] = []

    async def worker() -> None:
        for conn in waiting:
            if len(failed) >= PARALLEL and all(other.gone for other in conns):
                conn.refuse(failed[0])
                continue
            reason = await connect(conn, endpoint, timeout)
            if reason:
                failed.append(reason)
                conn.refuse(reason)

    await asyncio.gather(*(worker() for _ in range(min(PARALLEL, len(conns)))))


async def connect(conn: Conn, endpoint: Endpoint, timeout: float) -> str:
    """Empty when connected, else the reason."""
    try:
        async with asyncio.timeout(timeout):
            if endpoint.http:
                await http_connect(conn, endpoint.url(), tls_of(endpoint.url(), endpoint.access))
                return "" if not conn.gone else "the server closed the connection at once"
            await ws_connect(
                lambda: conn,
                endpoint.url(),
                websocket_handshake_timeout=timeout,
                extra_headers=_handshake(endpoint),
                ssl_context=tls_of(endpoint.url(), endpoint.access),
                max_frame_size=MAX_MESSAGE,
                read_buffer_init_size=_READ_BUFFER,
                max_redirects=0,
            )
    except Exception as error:  # whatever a foreign server does is a finding
        return explain(error, timeout)
    return "" if conn.transport is not None else "the server closed the connection during the WebSocket handshake"


def _handshake(endpoint: Endpoint) -> dict[str, str]:
    offered = {"Sec-WebSocket-Protocol": ", ".join(endpoint.subprotocols)} if endpoint.subprotocols else {}
    return endpoint.headers() | offered


def tls_of(url: str, access: Access) -> ssl.SSLContext | None:
    """How the certificate of an address is checked; None: it has none. Raises UsageError."""
    return tls_context(access.ca_file, access.insecure) if url.startswith(("wss:", "https:")) else None


@cache
def tls_context(ca_file: str, insecure: bool) -> ssl.SSLContext:
    """How the certificate of a wss:// address is checked. Raises UsageError for a file without certificates."""
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise UsageError(f"--ca-file {ca_file} holds no certificates: {error.strerror or error}") from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def explain(error: Exception, timeout: float) -> str:
    """Why a connection could not be made, for people."""
    if isinstance(error, TimeoutError):
        return f"no WebSocket handshake within {timeout:g} s"
    if isinstance(error, WSInvalidStatusError) and error.response is not None:
        status = error.response.status.value
        if status in _DENIED:
            return f"HTTP {status} at the handshake: {_DENIED[status]}"
        return f"not a WebSocket endpoint: it answers HTTP {error.response.status.value}"
    if isinstance(error, WSHandshakeError):
        return f"not a WebSocket endpoint: {error.args[0] if error.args else 'strange handshake'}"
    if isinstance(error, socket.gaierror):
        return f"the host name cannot be resolved ({error.strerror})"
    # a name with several addresses: the event loop puts all their errors into one text
    if isinstance(error, ConnectionRefusedError) or _REFUSED in str(error):
        return "connection refused"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the certificate is not valid ({getattr(error, 'verify_message', error)})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({getattr(error, 'reason', None) or error})"
    if isinstance(error, ConnectionError):
        return "the server closed the connection during the WebSocket handshake"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"{type(error).__name__}: {error}"


_DENIED = {
    401: "the endpoint wants a token (--token-env, --token-file or --header)",
    403: "forbidden, or a model that it does not serve",
    429: "too many sessions or requests",
    503: "no room for another session",
}
"""Refusals that servers express by a status, in words."""


async def greeted(conns: list[Conn], timeout: float) -> None:
    """Wait until every living connection has had its first message, or `timeout` seconds."""
    deadline = asyncio.get_running_loop().time() + timeout
    while any(not (conn.greeting or conn.over) for conn in conns) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.01)


async def accept_all(conns: list[Conn], fill_tokens: int, timeout: float) -> None:
    """Ask for every connected session and wait for its acceptance; one that is not accepted within `timeout` seconds
    counts as refused."""
    deadline = asyncio.get_running_loop().time() + timeout
    pending = [conn for conn in conns if not conn.over]
    for conn in pending:
        conn.open(fill_tokens)
    while pending and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.01)
        pending = [conn for conn in pending if not (conn.accepted or conn.over)]
    for conn in pending:
        waits = f"; the server says: {conn.waits}" if conn.waits else ""
        conn.refuse(conn.unaccepted.format(seconds=timeout) + (" of filling" if fill_tokens else "") + waits)
