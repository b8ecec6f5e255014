"""Memory that is free, the limit on it, and the shared memory through which vLLM's processes talk."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from metrobench.doctor.cgroup import memory_limit
from metrobench.doctor.check import Check, Status, first_of, not_visible
from metrobench.units import memory

CLIENT_BYTES = 400_000_000
"""Command line and load process at 1,000 sessions."""
EMBEDDED_BYTES = 3_000_000_000
"""The same and vLLM's CPU build with a stand-in: seen 0.7 GB preloaded, 0.5 GB front end, 1.2 GB engine."""
SHARED_BYTES = 64 << 20
"""Docker's default for /dev/shm, which is too small for vLLM."""
SHARED = Path("/dev/shm")
LITTER_BYTES = 1 << 30
"""Bytes in /dev/shm that are worth a word: they are memory, and outlive the programs that wrote them."""


def check_memory(embedded: bool) -> list[Check]:
    """Read and judged. `embedded`: vLLM is installed."""
    seen = psutil.virtual_memory()
    checks = [judge_memory(seen.total, seen.available, memory_limit(), embedded)]
    try:
        shm = os.statvfs(SHARED)
    except OSError as error:
        return [*checks, not_visible("shared memory", error.strerror or "no /dev/shm")]
    total, free = shm.f_blocks * shm.f_frsize, shm.f_bavail * shm.f_frsize
    return [*checks, judge_shared(total, free, embedded)]


def judge_memory(total: int, available: int, limit: int | None, embedded: bool) -> Check:
    """All in bytes; `limit`: of the control group, None: none."""
    room = available if limit is None else min(available, limit)
    capped = limit is not None and limit < total
    words = f"{memory(room)} free of {memory(total)}"
    words += f", the container may use {memory(limit or 0)}" if capped else ""
    rules = [
        (room < CLIENT_BYTES, Status.FAIL, f"the client alone needs {memory(CLIENT_BYTES)}: end other programs"),
        (
            embedded and room < EMBEDDED_BYTES,
            Status.WARN,
            f"an embedded stand-in needs about {memory(EMBEDDED_BYTES)}: end other programs",
        ),
    ]
    return first_of("memory", rules, words, total=total, available=available, limit=limit)


def judge_shared(total: int, free: int, embedded: bool) -> Check:
    """/dev/shm, in bytes."""
    used = total - free
    rules = [
        (embedded and free <= SHARED_BYTES, Status.WARN, "vLLM may need more: docker --shm-size 1g, or --ipc host"),
        (used > LITTER_BYTES, Status.WARN, "files there take memory and outlive their programs: look at /dev/shm"),
    ]
    return first_of("shared memory", rules, f"/dev/shm {memory(total)}, {memory(used)} in use", total=total, free=free)
