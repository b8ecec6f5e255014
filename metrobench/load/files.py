"""Open files: how many the sessions of a run need, and the limit raised to that."""

from __future__ import annotations

import resource

from metrobench.errors import UsageError

_OWN = 64
"""Files that a process has open besides its sessions."""


def files_needed(sessions: int) -> int:
    """Open files of the load process, or of a gateway, for that many sessions."""
    return 2 * sessions + _OWN


def sessions_of_files(files: int) -> int:
    """Most sessions that so many open files allow."""
    return max(0, (files - _OWN) // 2)


def files_allowed() -> int | None:
    """Most open files that this process may ask for; None: no limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return None if hard == resource.RLIM_INFINITY else hard


def allow_files(sessions: int) -> None:
    """Raise this process's limit of open files to what the sessions need. Raises UsageError."""
    needed = files_needed(sessions)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(f"{sessions} sessions need {needed} open files, and {hard} are allowed", "see ulimit -Hn")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
