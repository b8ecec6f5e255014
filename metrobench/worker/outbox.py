"""What one conversation says to its client: numbered events of the OpenAI Realtime dialect, as JSON text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Outbox:
    """Numbers the events of a socket and sends them."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._events = 0

    def emit(self, kind: str, **fields: Any) -> None:
        """One event of that type."""
        self._events += 1
        self._send(msgspec.json.encode({"type": kind, "event_id": f"event_{self._events}", **fields}))

    def write(self, kind: str, rest: str) -> None:
        """One of the events of every frame: `rest` is JSON already, its members without braces."""
        self._events += 1
        self._send(f'{{"type":"{kind}","event_id":"event_{self._events}",{rest}}}'.encode())

    def error(self, code: str, message: str, param: str | None, event_id: str | None, kind: str | None = None) -> None:
        """An error, about the client's event of that id where it is known."""
        detail = _detail(kind or "invalid_request_error", code, message, param, event_id)
        self.emit("error", error=detail)


def server_error(code: str, message: str, own: dict[str, Any] | None = None) -> bytes:
    """The error a client gets that has no session. `own`: this server's additions to the dialect."""
    detail = _detail("server_error", code, message, None, None)
    if own is not None:
        detail["metrobench"] = own
    return msgspec.json.encode({"type": "error", "event_id": "event_1", "error": detail})


def _detail(kind: str, code: str, message: str, param: str | None, event_id: str | None) -> dict[str, Any]:
    return {"type": kind, "code": code, "message": message, "param": param, "event_id": event_id}
