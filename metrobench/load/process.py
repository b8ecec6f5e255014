"""The load process as its parent sees it."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from types import TracebackType

import msgspec

from metrobench.errors import UsageError
from metrobench.load.link import Command
from metrobench.load.spec import LoadEvent, LoadSpec
from metrobench.load.spool import read_facts, reserve
from metrobench.measure.facts import RunFacts

LAST_EVENTS = frozenset({"stopped", "failed", "died"})
"""Kinds after which no event follows."""

_event = msgspec.json.Decoder(LoadEvent)


class LoadProcess:
    """One run of the load process. Usable once, and as a context manager (leaving it ends the process)."""

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._in = bytearray()
        self._over = False

    @property
    def pid(self) -> int | None:
        """Process number; None before the start."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Reserve the spool and start the process. Raises UsageError: a bad spec, or no room for the facts."""
        self.spec.check()
        reserve(self.spec)
        ours, theirs = socket.socketpair()
        try:
            log = (self.spec.spool / "driver.log").open("wb")
        except OSError as error:
            raise UsageError(f"cannot write to {self.spec.spool}: {error.strerror}") from error
        # one thread is enough for numpy here, and idle ones cost memory
        env = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
        with log, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "metrobench.load.driver"],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env=env,
                start_new_session=True,
            )
        ours.setblocking(False)
        self._sock = ours
        self._tell(msgspec.json.encode(self.spec, enc_hook=str))

    def next_event(self, timeout: float) -> LoadEvent | None:
        """The next event; None when none came within `timeout` seconds, or none will come any more."""
        deadline = time.monotonic() + timeout
        while not self._over and self._sock is not None:
            line, found, rest = bytes(self._in).partition(b"\n")
            if found:
                self._in = bytearray(rest)
                return self._note(_event.decode(line))
            wait = deadline - time.monotonic()
            if not select.select([self._sock], [], [], max(0.0, wait))[0]:
                if wait <= 0:
                    return None
                continue
            data = self._receive()
            if not data:
                return self._note(LoadEvent("died", message=self._obituary()))
            self._in += data
        return None

    def events(self, timeout: float) -> Iterator[LoadEvent]:
        """Events as they come; ends after `stopped`, `failed` or `died`, or after `timeout` seconds of silence."""
        while (event := self.next_event(timeout)) is not None:
            yield event

    def extend(self, frames: int, stop_after_misses: int | None = None) -> None:
        """A new total of measured frames of each session, and the most misses it may have before the run stops.

        Raises UsageError above spec.max_frames.
        """
        if not self.spec.frames <= frames <= self.spec.max_frames:
            raise UsageError(f"{frames} measured frames are not {self.spec.frames} to {self.spec.max_frames}")
        self._tell(msgspec.json.encode(Command("extend", frames, stop_after_misses)))

    def aftermath(self) -> None:
        """End the measured span and try what brings the server back; events `aftermath`, then `stopped`."""
        self._tell(msgspec.json.encode(Command("aftermath")))

    def stop(self, timeout: float = 5.0) -> None:
        """End streaming, close the sessions and the process; kill it if it does not obey. Safe to repeat."""
        if self._process is None or self._sock is None:
            return
        self._tell(msgspec.json.encode(Command("stop")))
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process at once; what it recorded stays readable. Safe to repeat."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def facts(self) -> RunFacts:
        """Everything recorded so far; also while streaming and after the process died. Raises UsageError."""
        return read_facts(self.spec.spool)

    def __enter__(self) -> LoadProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _note(self, event: LoadEvent) -> LoadEvent:
        self._over = event.kind in LAST_EVENTS
        return event

    def _receive(self) -> bytes:
        if self._sock is None:
            return b""
        try:
            return self._sock.recv(1 << 16)
        except OSError:
            return b""

    def _tell(self, line: bytes) -> None:
        if self._sock is None:
            return
        # a process that is gone shows as the event `died`
        with contextlib.suppress(OSError):
            self._sock.setblocking(True)
            self._sock.sendall(line + b"\n")
            self._sock.setblocking(False)

    def _obituary(self) -> str:
        if self._process is None:
            return "the load process was never started"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        if code is not None and code < 0:
            return f"the load process was killed by signal {-code}"
        return f"the load process ended unexpectedly (exit code {code}); see {self.spec.spool / 'driver.log'}"
