"""Whose is a run folder? The command that measures into it holds a lock on a file in it, for as long as it lives.

The system drops the lock with the process, however it ends, so a lock that can be had means that nobody is at work.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

NAME = ".live"
"""The locked file; its name in the folder."""


class Lock:
    """A folder of one's own. Usable once; `release` ends it."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self._path = folder / NAME
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the folder up. Safe to repeat."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = -1


def take(folder: Path, *, wait: bool = False) -> Lock | None:
    """The folder's lock; None when a live process holds it. Raises OSError where the folder cannot be written.

    With `wait`, for a folder just made, that of a passing look at it is waited for. On a file system without locks the
    folder counts as one's own.
    """
    descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            os.close(descriptor)
            return None
    return Lock(folder, descriptor)


def held(folder: Path) -> bool:
    """A live process measures into the folder, or that cannot be told. Changes nothing."""
    try:
        descriptor = os.open(folder / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
