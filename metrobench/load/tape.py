"""A session's wire traffic in a file: what the server sent and when, and what the client said beside its audio.

JSON lines: one Head, then Entries. Audio that was sent is left out; it is that of the clips. Secrets are taken out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import pybase64

from metrobench.errors import UsageError

VERSION = 1
LARGEST = 64 * 1024 * 1024
"""Bytes of messages after which a recording goes no further."""
LONGEST_SAID = 4000
"""Characters kept of a message of the client: a reference voice in it is nobody's business."""


class Head(msgspec.Struct, frozen=True):
    """How the session was cut."""

    protocol: str
    unit: float
    first_ready: float
    sample_rate: int
    binary: bool
    wire: int = VERSION


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message, or the end of the connection."""

    who: Literal["server", "client"]
    t: float | None = None
    """Seconds from the beginning of the session's audio; None: before it."""
    after: int = 0
    """Server: messages that the client had sent, before its audio."""
    goodbye: bool = False
    """Sent after the client had begun to end the session."""
    text: str | None = None
    data: str | None = None
    """The message in base64, where it is no text."""
    close: int | None = None
    """The server closed with this code; 0: it broke the connection."""
    reason: str = ""

    @property
    def payload(self) -> bytes:
        """The message's bytes."""
        return pybase64.b64decode(self.data) if self.data is not None else (self.text or "").encode()


class Tape(msgspec.Struct, frozen=True):
    """A recording."""

    head: Head
    entries: list[Entry]


class Recorder:
    """Writes a recording as it happens. A disk that is full ends the recording, never the run."""

    def __init__(self, path: Path, head: Head, clean: Callable[[str], str]) -> None:
        """Raises UsageError where the file cannot be made."""
        try:
            self._file = path.open("xb", buffering=0)
        except OSError as error:
            raise UsageError(f"--record-wire {path}: {error.strerror}") from error
        self._binary = head.binary
        self._clean = clean
        self._written = 0
        self._said = 0
        self._leaving = False
        self._write(head)

    def client(self, payload: bytes, t: float | None) -> None:
        """The client says something that is no audio."""
        self._said += t is None
        self._write(self._entry("client", payload, t))

    def server(self, payload: bytes, t: float | None) -> None:
        """A message of the server."""
        self._write(self._entry("server", payload, t))

    def leave(self) -> None:
        """The client begins to end the session."""
        self._leaving = True

    def closed(self, code: int, reason: str, t: float | None) -> None:
        """The server closed the connection; 0: without a close."""
        told = self._clean(reason)
        self._write(Entry("server", t, self._said, self._leaving, close=code, reason=told))

    def _entry(self, who: Literal["server", "client"], payload: bytes, t: float | None) -> Entry:
        if self._binary:
            clean = self._clean(payload.decode("latin-1")).encode("latin-1", "replace")
            return Entry(who, t, self._said, self._leaving, data=pybase64.b64encode(clean).decode())
        text = self._clean(payload.decode("utf-8", "replace"))
        return Entry(who, t, self._said, self._leaving, text=text[:LONGEST_SAID] if who == "client" else text)

    def _write(self, line: Head | Entry) -> None:
        made = msgspec.json.encode(line) + b"\n"
        self._written += len(made)
        if self._written <= LARGEST:
            try:
                self._file.write(made)
            except OSError:
                self._written = LARGEST


def read_tape(path: Path) -> Tape:
    """A recording; a last line that was cut off is left out. Raises UsageError."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        if not whole:
            raise UsageError(f"{path} is empty", "metrobench check --endpoint ... --record-wire FILE makes a recording")
        head = msgspec.json.decode(whole[0], type=Head)
        entries = [msgspec.json.decode(line, type=Entry) for line in whole[1:]]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no recording of --record-wire: {error}") from error
    if head.wire != VERSION:
        raise UsageError(f"{path} has version {head.wire} of the format, this metrobench reads {VERSION}")
    return Tape(head, entries)
