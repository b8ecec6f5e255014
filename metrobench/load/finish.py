"""What makes a shared chunk frame a session's own, where a protocol says which chunk of a session it is."""

from __future__ import annotations

from collections.abc import Callable

from metrobench.endpoints.base import Endpoint
from metrobench.load.wire import client_frame

Finish = Callable[[bytes, int], bytes]
"""(shared frame, number of the chunk in its session, from 0) -> bytes for the socket."""

_LAST_FRAGMENT = b"\x80"


def chunk_frame(message: bytes, endpoint: Endpoint) -> bytes:
    """What is kept of a chunk message, for all sessions: a WebSocket frame, or as much of it as is the same for all;
    empty where there is nothing to send."""
    if not message or endpoint.personal:
        return message
    if endpoint.group > 1:
        return client_frame(message, first=False, last=False)
    return client_frame(message, binary=endpoint.binary, last=not endpoint.numbered)


def finisher(endpoint: Endpoint) -> Finish | None:
    """How a kept chunk becomes one of a session's; None: it is sent as it is."""
    if endpoint.personal:
        return lambda message, number: client_frame(endpoint.personalise(message, number), binary=endpoint.binary)
    if endpoint.numbered:
        return lambda frame, number: frame + client_frame(endpoint.tail(number), first=False)
    if endpoint.group > 1:
        return _grouped(client_frame(endpoint.group_head(), binary=endpoint.binary, last=False), endpoint.group)
    return None


def _grouped(head: bytes, group: int) -> Finish:
    def finish(frame: bytes, number: int) -> bytes:
        place = number % group
        if place == group - 1:
            return _LAST_FRAGMENT + frame[1:]
        return frame if place else head + frame

    return finish
