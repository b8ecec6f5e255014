"""WebSocket frames made once and sent many times (RFC 6455, section 5.2)."""

from __future__ import annotations

import os

_CONTINUATION, _TEXT, _BINARY = 0x00, 0x01, 0x02
_FINAL = 0x80
_MASKED = 0x80


def client_frame(
    message: bytes, key: bytes | None = None, *, binary: bool = False, first: bool = True, last: bool = True
) -> bytes:
    """One message, or its `first` or `last` fragment, as a client's frame, masked with 4 random bytes or `key`."""
    opcode = (_BINARY if binary else _TEXT) if first else _CONTINUATION
    start = opcode | (_FINAL if last else 0)
    key = os.urandom(4) if key is None else key
    size = len(message)
    if size < 126:
        head = bytes((start, _MASKED | size))
    elif size < 1 << 16:
        head = bytes((start, _MASKED | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((start, _MASKED | 127)) + size.to_bytes(8, "big")
    mask = int.from_bytes((key * (size // 4 + 1))[:size], "big")
    return head + key + (int.from_bytes(message, "big") ^ mask).to_bytes(size, "big")
