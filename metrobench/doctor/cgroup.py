"""CPU and memory limits of the control groups this process is in, version 1 or 2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

UNLIMITED_BYTES = 1 << 60
"""Version 1 says "no limit" by a number near 2^63."""
_MICROSECONDS = 1e6


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Cores' worth of CPU time that the tightest group allows; None: no limit, or none visible."""
    return min((quota for folder in _folders("cpu", root) if (quota := _quota(folder)) is not None), default=None)


def cpu_period(root: Path = Path("/")) -> float:
    """Seconds in which a quota is counted: who has used it up waits for the rest of them."""
    found = [period for folder in _folders("cpu", root) if (period := _period(folder)) is not None]
    return found[0] if found else 0.1


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes that the tightest group allows; None: no limit, or none visible."""
    found = [limit for folder in _folders("memory", root) if (limit := _memory(folder)) is not None]
    return min((limit for limit in found if limit < UNLIMITED_BYTES), default=None)


def _folders(controller: str, root: Path) -> Iterator[Path]:
    """The group of this process and all above it. A group that is not mounted here is left out, not the root."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for mount in (controllers, controller) if controllers else ("", "unified"):
            base = root / "sys/fs/cgroup" / mount
            parts = [part for part in path.split("/") if part not in ("", "..")]
            yield from (base.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def _words(file: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return file.read_text().split()
    return []


def _pair(folder: Path) -> tuple[float, float] | None:
    """Quota and period in microseconds."""
    words = _words(folder / "cpu.max")
    words = words or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    if len(words) != 2 or words[0] in ("max", "-1"):
        return None
    return float(words[0]), float(words[1])


def _quota(folder: Path) -> float | None:
    pair = _pair(folder)
    return pair[0] / pair[1] if pair else None


def _period(folder: Path) -> float | None:
    pair = _pair(folder)
    return pair[1] / _MICROSECONDS if pair else None


def _memory(folder: Path) -> int | None:
    words = _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes")
    return int(words[0]) if words and words[0] != "max" else None
