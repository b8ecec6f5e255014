"""Ask an endpoint, politely, which protocol it speaks: at most one question over HTTP and one connection, silent."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

import metrobench
from metrobench.endpoints.base import Access, check_url
from metrobench.endpoints.guess import from_address, from_greeting
from metrobench.errors import UnreachableError, UsageError
from metrobench.load.connect import explain, tls_context, tls_of

AUTO = "auto"
PATIENCE = 3.0
"""Seconds that an endpoint has to greet."""
SHOWN = 60
"""Characters shown of a greeting that is not known."""
_NAME_IT = "name the protocol with --protocol"


@dataclass(frozen=True)
class Found:
    """A protocol, and what speaks for it."""

    protocol: str
    why: str


def detect(url: str, access: Access) -> Found:
    """The protocol of an endpoint. Raises UnreachableError, or UsageError where it cannot be told."""
    check_url(url)
    if protocol := from_address(url):
        return Found(protocol, "by its address")
    told = _get(url, "/v1/realtime/capabilities", access)
    if isinstance(told, dict) and "native_unit_ms" in told:
        unit = told["native_unit_ms"]
        return Found("sglang-omni", f"it describes itself: units of {unit} ms" if isinstance(unit, int) else "")
    greeting, subprotocol = asyncio.run(_greeting(url, access))
    if protocol := from_greeting(greeting):
        return Found(protocol, "by its greeting")
    if not greeting and subprotocol == "realtime":
        return Found("unmute", "it takes the subprotocol `realtime` and waits to be configured")
    if not greeting:
        raise UsageError(f"{url} says nothing by itself within {PATIENCE:g} s", f"{_NAME_IT}, for example vllm-omni")
    shown = access.clean(greeting.decode("utf-8", "replace"))[:SHOWN]
    raise UsageError(f"{url} greets in no known way: {shown}", _NAME_IT)


def served_model(url: str, access: Access) -> str:
    """The only model that a server lists at /v1/models. Raises UnreachableError, or UsageError for none or a choice."""
    told = _get(url, "/v1/models", access, must=True)
    listed = told.get("data") if isinstance(told, dict) else None
    rows = listed if isinstance(listed, list) else []
    names = [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]
    if len(names) == 1:
        return str(names[0])
    which = f"it serves {', '.join(names[:3])}" if names else "it lists none at /v1/models"
    raise UsageError(f"the endpoint must be told which model is meant: {which}", "name it with --served-model")


def _get(url: str, path: str, access: Access, *, must: bool = False) -> Any:
    """JSON of a page beside the endpoint; None where there is none. `must`: raises UnreachableError where nothing
    answers at all."""
    parts = urlsplit(url)
    secure = parts.scheme in ("wss", "https")
    address = f"{'https' if secure else 'http'}://{parts.netloc}{path}"
    headers = {"user-agent": f"metrobench/{metrobench.__version__}"} | access.headers
    if access.token:
        headers = {"Authorization": f"Bearer {access.token}"} | headers
    verify = tls_context(access.ca_file, access.insecure) if secure else True
    try:
        with httpx.Client(timeout=PATIENCE, trust_env=False, verify=verify) as client:
            answer = client.get(address, headers=headers)
            return answer.json() if answer.is_success else None
    except httpx.TransportError as error:
        if must:
            raise UnreachableError(f"nothing answers at {address}", "check the address") from error
        return None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
        return None


class _Listener(WSListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type in (WSMsgType.TEXT, WSMsgType.BINARY) and not self.first.done():
            self.first.set_result(frame.get_payload_as_bytes())

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if not self.first.done():
            self.first.set_result(b"")


async def _greeting(url: str, access: Access) -> tuple[bytes, str | None]:
    """The first message, empty where none comes, and the subprotocol that was taken. Raises UnreachableError."""
    logging.getLogger("picows").setLevel(logging.CRITICAL)
    headers = {"Sec-WebSocket-Protocol": "realtime"} | access.headers
    if access.token:
        headers = {"Authorization": f"Bearer {access.token}"} | headers
    try:
        transport, listener = await ws_connect(
            _Listener,
            url,
            websocket_handshake_timeout=PATIENCE,
            extra_headers=headers,
            ssl_context=tls_of(url, access),
            max_redirects=0,
        )
    except UsageError:
        raise
    except Exception as error:  # whatever a foreign server does is a finding
        reason = access.clean(explain(error, PATIENCE))
        raise UnreachableError(f"no connection to {url}: {reason}", "check the address") from error
    try:
        greeting = await asyncio.wait_for(listener.first, PATIENCE)
    except TimeoutError:
        greeting = b""
    taken = transport.response.headers.get("Sec-WebSocket-Protocol") if transport.response else None
    if not transport.is_disconnected:
        transport.send_close(WSCloseCode.OK)
        await asyncio.wait([asyncio.ensure_future(transport.wait_disconnected())], timeout=1.0)
        transport.disconnect(False)
    return greeting, taken
