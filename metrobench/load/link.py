"""JSON lines between the load process and its parent, over one socket. Neither side ever blocks on the other."""

from __future__ import annotations

import socket

import msgspec

from metrobench.load.spec import LoadEvent

MAX_WAITING = 1 << 20
"""Bytes of events that may wait for a parent that does not read; progress beyond that is left out."""


class Command(msgspec.Struct, omit_defaults=True):
    """What the parent asks of a running load process: `extend` (frames, stop_after_misses), `aftermath` (then it
    stops by itself) or `stop`."""

    kind: str
    frames: int = 0
    stop_after_misses: int | None = None


_command = msgspec.json.Decoder(Command)


class Link:
    """The load process's end."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._in = bytearray()
        self._out = bytearray()

    @property
    def fd(self) -> int:
        """Descriptor to watch for commands."""
        return self._sock.fileno()

    def read_line(self) -> bytes:
        """The first line, waiting for it. Empty when the parent is gone."""
        self._sock.setblocking(True)
        while b"\n" not in self._in:
            data = self._sock.recv(65536)
            if not data:
                return b""
            self._in += data
        line, _, rest = bytes(self._in).partition(b"\n")
        self._in = bytearray(rest)
        self._sock.setblocking(False)
        return line

    def commands(self) -> list[Command] | None:
        """Commands that have arrived; None when the parent is gone."""
        try:
            data = self._sock.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        self._in += data
        *lines, rest = bytes(self._in).split(b"\n")
        self._in = bytearray(rest)
        return [_command.decode(line) for line in lines]

    def tell(self, event: LoadEvent) -> None:
        """Send an event; what the socket does not take waits for the next call."""
        if event.kind != "progress" or len(self._out) < MAX_WAITING:
            self._out += msgspec.json.encode(event) + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send what waits."""
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except OSError:
            return

    def close(self) -> None:
        """Send what waits, for at most a second, and close."""
        self._sock.settimeout(1.0)
        self.flush()
        self._sock.close()
