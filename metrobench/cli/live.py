"""Progress on stderr: one changing line on a terminal, a plain line now and then elsewhere, nothing when quiet."""

from __future__ import annotations

import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TextIO

from metrobench.cli.output import plain

WIDTH = 80
"""Columns of lines that stay."""
PATIENCE = 1.0
"""Seconds after the first signal in which further ones are taken for the same wish."""
PLAIN_EVERY = 10.0
"""Seconds between status lines where the output is no terminal."""


class Live:
    """The live view of one command."""

    def __init__(self, quiet: bool, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._terminal = self._stream.isatty()
        self._shown = False
        self._last_plain = 0.0

    def status(self, text: str) -> None:
        """What is going on now; replaces the previous status."""
        if self._quiet:
            return
        if self._terminal:
            width = shutil.get_terminal_size((80, 24)).columns - 1
            self._write(f"\r\033[K{plain(text)[:width]}")
            self._shown = True
        elif time.monotonic() - self._last_plain >= PLAIN_EVERY:
            self._last_plain = time.monotonic()
            self._write(_wrapped(text))

    def line(self, text: str) -> None:
        """Something that stays."""
        if not self._quiet:
            self.clear()
            self._write(_wrapped(text))

    def clear(self) -> None:
        """Take the status line away."""
        if self._shown:
            self._write("\r\033[K")
            self._shown = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._quiet = True


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(plain(text), WIDTH, subsequent_indent="  ", break_on_hyphens=False)) + "\n"


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM where nothing measured can be lost."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.signum = signum


class Interrupts:
    """While it is active, SIGINT and SIGTERM are noted, not raised; another one, PATIENCE later, stops at once.

    Two records that are measured in turn share one: it is active until both are written.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._first = 0.0
        self._at_once = False
        self._deaf = False
        self._before: dict[int, object] = {}
        self._depth = 0

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Nothing is measured in this block: a signal ends it by Interrupted."""
        if self.signum is not None:
            raise Interrupted(self.signum)
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def finish(self) -> None:
        """From now on the record is being written: signals wait for the end of it."""
        self._deaf = True

    def __enter__(self) -> Interrupts:
        self._depth += 1
        if self._depth > 1:
            return self
        for signum in (signal.SIGINT, signal.SIGTERM):
            self._before[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth:
            return
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self._deaf:
            return
        now = time.monotonic()
        if self.signum is None:
            self.signum, self._first = signum, now
            if self._at_once:
                raise Interrupted(signum)
        elif now - self._first > PATIENCE:
            raise Interrupted(self.signum)
