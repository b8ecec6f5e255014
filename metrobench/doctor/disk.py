"""Where the records go: writable, free, and quick enough to be out of the way."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from metrobench.doctor.check import Check, Status, first_of
from metrobench.units import memory, seconds

LEAST_BYTES = 100_000_000
"""A search of 20 runs at 200 sessions leaves about 20 MB; one long run may take 260 MB."""
FEW_BYTES = 1_000_000_000
WRITES = 5
WRITE_BYTES = 1 << 16
SLOW = 0.2
"""Seconds of one small write down to the disk."""


def check_disk(out: Path) -> list[Check]:
    """Read and judged; nothing is left behind, and `out` is not made."""
    folder = existing(out)
    try:
        took = _write(folder)
    except OSError as error:
        advice = "choose another folder with --out"
        return [Check("disk", Status.FAIL, f"cannot write to {folder}: {error.strerror or error}", advice)]
    return [judge_disk(_shown(folder), shutil.disk_usage(folder).free, took)]


def judge_disk(folder: str, free: int, write: float) -> Check:
    """`free`: bytes; `write`: seconds that a write of 64 KiB takes to reach the disk."""
    words = f"{memory(free)} free in {folder}, a small write takes {seconds(write)}"
    rules = [
        (free < LEAST_BYTES, Status.FAIL, "free some space, or choose another folder with --out"),
        (free < FEW_BYTES, Status.WARN, "long runs may fill it: free some space, or choose another folder with --out"),
        (write > SLOW, Status.WARN, "a slow disk holds up the end of every run: choose a local folder with --out"),
    ]
    return first_of("disk", rules, words, free=free, write=write)


def _shown(folder: Path) -> str:
    """As short as it can be said from here."""
    here = Path.cwd()
    if folder == here:
        return "the current folder"
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def existing(folder: Path) -> Path:
    """The nearest folder on the way up that exists."""
    folder = folder.absolute()
    return next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))


def _write(folder: Path) -> float:
    """Median seconds of one write that reaches the disk. Raises OSError."""
    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(WRITES):
            begin = time.monotonic()
            file.write(b"\0" * WRITE_BYTES)
            file.flush()
            os.fsync(file.fileno())
            took.append(time.monotonic() - begin)
    return statistics.median(took)
