"""A fresh foreign server for every run: its owner's command restarts it, its health address says when it is up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from metrobench.errors import UnreachableError, UsageError

TIMEOUT = 600.0
"""Seconds that the command, and after it the health address, may take."""
POLL = 0.25
"""Seconds between two looks."""
ONE_LOOK = 5.0
"""Seconds that one look at the health address may take."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Restart:
    """How a deployment is made fresh."""

    command: str
    """A shell command that returns once the old server is gone and the new one is on its way."""
    health: str
    """http(s) address that answers 2xx when the new server is ready; empty: `url` accepts connections."""
    url: str
    """The endpoint."""
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if not self.command.strip():
            raise UsageError("--restart-cmd is empty")
        if self.health and (
            urlsplit(self.health).scheme not in ("http", "https") or not urlsplit(self.health).hostname
        ):
            raise UsageError(f"--health {self.health!r} is not an address", "write http://HOST:PORT/health")

    def run(self, log: Path, stop: Callable[[], bool]) -> None:
        """Restart and wait; what the command prints goes to `log`. Returns early once `stop()`.

        Raises UnreachableError when the command fails or the server does not come up.
        """
        end = time.monotonic() + self.timeout
        with log.open("ab") as file:
            process = subprocess.Popen(
                self.command, shell=True, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
            try:
                code = _wait(process.poll, end, stop)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if stop():
            return
        if code is None:
            raise UnreachableError(
                f"--restart-cmd did not return within {self.timeout:.0f} s",
                "it must start the server in the background and return",
            )
        if code:
            last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
            raise UnreachableError(f"--restart-cmd ended with exit code {code}: {last}", f"its output is in {log}")
        if not _wait(lambda: self._up() or None, end, stop) and not stop():
            raise UnreachableError(
                f"{self.health or self.url} did not come up within {self.timeout:.0f} s of --restart-cmd",
                f"its output is in {log}",
            )

    def _up(self) -> bool:
        if not self.health:
            return round_trip(self.url, 1) is not None
        try:
            with urllib.request.urlopen(self.health, timeout=ONE_LOOK) as answer:
                return 200 <= int(answer.status) < 300
        except (OSError, HTTPException, urllib.error.URLError, ValueError):
            return False


def round_trip(url: str, looks: int = 5) -> float | None:
    """Seconds of the fastest of several TCP connects to the address: one network round trip. None: no connect."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme in ("wss", "https") else 80)
    best: float | None = None
    for _ in range(looks):
        try:
            address = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(*address[:3]) as connection:
                connection.settimeout(ONE_LOOK)
                begin = time.monotonic()
                connection.connect(address[4])
                took = time.monotonic() - begin
        except (OSError, UnicodeError):
            return best
        best = took if best is None else min(best, took)
    return best


def _wait(look: Callable[[], Found | None], end: float, stop: Callable[[], bool]) -> Found | None:
    """The first thing that `look` finds before `end` (monotonic seconds); None when time is up or once `stop()`."""
    while (found := look()) is None and time.monotonic() < end and not stop():
        time.sleep(POLL)
    return found
