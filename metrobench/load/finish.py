"""What makes a shared chunk frame a session's own, where a protocol says which chunk of a session it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from metrobench.endpoints.base import Endpoint
from metrobench.load.wire import client_frame

Finish = Callable[[bytes, int, int], bytes]
"""(shared frame, number of the chunk in its session, from 0, number of the session) -> bytes for the socket."""

_LAST_FRAGMENT = b"\x80"
_TAILS = 4096
"""Numbers whose last fragments are kept: sessions that began together are at the same one."""


def chunk_frame(message: bytes, endpoint: Endpoint) -> bytes:
    """What is kept of a chunk message, for all sessions: a WebSocket frame, or as much of it as is the same for all;
    empty where there is nothing to send."""
    if not message or endpoint.personal or endpoint.http:
        return message
    if endpoint.group > 1:
        parts = [message[start:end] for start, end in _different(endpoint)] or [message]
        return b"".join(client_frame(part, first=False, last=False) for part in parts)
    return client_frame(message, binary=endpoint.binary, last=not endpoint.numbered)


def finisher(endpoint: Endpoint) -> Finish | None:
    """How a kept chunk becomes one of a session's; None: it is sent as it is."""
    if endpoint.http:
        return lambda _frame, number, session: endpoint.request(number, session)
    if endpoint.personal:
        return lambda message, number, _: client_frame(endpoint.personalise(message, number), binary=endpoint.binary)
    if endpoint.group > 1:
        return _grouped(endpoint)
    if endpoint.numbered:
        last = _last_fragments(endpoint)
        return lambda frame, number, _: frame + last(number)
    return None


def _last_fragments(endpoint: Endpoint) -> Callable[[int], bytes]:
    """By number: what ends a message, made once for all sessions."""
    return lru_cache(_TAILS)(lambda number: client_frame(endpoint.tail(number), first=False))


def _grouped(endpoint: Endpoint) -> Finish:
    head = client_frame(endpoint.group_head(), binary=endpoint.binary, last=False)
    group, spans = endpoint.group, _frame_spans(endpoint)
    last = _last_fragments(endpoint) if endpoint.numbered else None

    def finish(frame: bytes, number: int, _session: int) -> bytes:
        place = number % group
        if spans:
            start, end = spans[place]
            frame = frame[start:end]
        if place == 0:
            frame = head + frame
        if place != group - 1:
            return frame
        if last is not None:
            return frame + last(number // group)
        return _LAST_FRAGMENT + frame[1:]

    return _held(finish, group) if endpoint.at_once else finish


def _held(finish: Finish, group: int) -> Finish:
    """The same, with the frames of a message, which all sessions share, kept until its last one is due."""
    waiting: dict[int, list[bytes]] = {}

    def whole(frame: bytes, number: int, session: int) -> bytes:
        frames = waiting.setdefault(session, [])
        frames.append(frame)
        if (number + 1) % group:
            return b""
        first = number + 1 - group
        return b"".join(finish(each, first + place, session) for place, each in enumerate(waiting.pop(session)))

    return whole


def _different(endpoint: Endpoint) -> list[tuple[int, int]]:
    """The pieces of a chunk in the order in which they are encoded."""
    return sorted(set(endpoint.pieces))


def _frame_spans(endpoint: Endpoint) -> list[tuple[int, int]]:
    """By place in the message: start and end of the chunk's frame in what is kept of it."""
    at, start = {}, 0
    for piece in _different(endpoint):
        size = len(client_frame(bytes(piece[1] - piece[0]), first=False, last=False))
        at[piece] = (start, start + size)
        start += size
    return [at[piece] for piece in endpoint.pieces]
