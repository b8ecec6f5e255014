"""WebSocket frames made once and sent many times (RFC 6455, section 5.2)."""

from __future__ import annotations

import os

_TEXT_FINAL = 0x81
_MASKED = 0x80


def client_frame(message: bytes, key: bytes | None = None) -> bytes:
    """One whole text message as a client's frame, masked with 4 random bytes or `key`."""
    key = os.urandom(4) if key is None else key
    size = len(message)
    if size < 126:
        head = bytes((_TEXT_FINAL, _MASKED | size))
    elif size < 1 << 16:
        head = bytes((_TEXT_FINAL, _MASKED | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((_TEXT_FINAL, _MASKED | 127)) + size.to_bytes(8, "big")
    mask = int.from_bytes((key * (size // 4 + 1))[:size], "big")
    return head + key + (int.from_bytes(message, "big") ^ mask).to_bytes(size, "big")
