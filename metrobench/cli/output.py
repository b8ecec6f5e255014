"""The way out to standard output: nothing a server says reaches the terminal raw, a reader that left is no error."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

from metrobench.errors import UsageError


def open_streams() -> None:
    """Standard streams that were closed lead nowhere from now on: no file or socket may get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # the lowest free number is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def plain(text: str) -> str:
    """`text` without control characters; lines stay."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\n" else "�" for character in text)


def say(text: str) -> bool:
    """Print one or more lines. Where the reader has gone, this and all that follows is dropped, and it is False.

    Raises UsageError when the lines cannot be written for another reason (a full disk).
    """
    try:
        sys.stdout.write(plain(text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _discard()
        return False
    except OSError as error:
        _discard()
        if error.errno != errno.EPIPE:
            raise UsageError(f"cannot write to standard output: {error.strerror}") from error
        return False
    return True


def say_json(value: Any) -> None:
    """Print a struct, or builtins of structs, as JSON."""
    import msgspec

    say(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())


def _discard() -> None:
    """Send what is still buffered, and everything after it, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
