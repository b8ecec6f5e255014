"""Files that people name on the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from metrobench.errors import UsageError


def write_whole(file: Path, parts: Iterable[str]) -> None:
    """Write a file that appears when it is whole; its folder is made. Raises UsageError."""
    partial = file.with_name(f"{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as opened:
            opened.writelines(parts)
        partial.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise UsageError(f"cannot write to {file}: {error.strerror}") from error
