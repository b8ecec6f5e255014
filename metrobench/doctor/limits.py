"""Limits of the system on the number of sessions: open files, and ports to connect from."""

from __future__ import annotations

import resource
from pathlib import Path

from metrobench.doctor.check import Check, Status, first_of, not_visible
from metrobench.load.files import files_allowed, files_needed, sessions_of_files

PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def check_limits(sessions: int) -> list[Check]:
    """Read and judged for that many sessions."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = judge_files(None if soft == resource.RLIM_INFINITY else soft, files_allowed(), sessions)
    try:
        low, high = (int(word) for word in PORT_RANGE.read_text().split())
    except (OSError, ValueError):
        return [files, not_visible("ports", f"no {PORT_RANGE}")]
    return [files, judge_ports(low, high, sessions)]


def judge_files(soft: int | None, hard: int | None, sessions: int) -> Check:
    """Limits of open files; None: none."""
    most = None if hard is None else sessions_of_files(hard)
    allowed = "no limit" if hard is None else f"{hard} allowed, {soft} at first: enough for {most} sessions"
    rules = [
        (most is not None and most < 1, Status.FAIL, "not even one session: raise ulimit -Hn"),
        (
            most is not None and most < sessions,
            Status.WARN,
            f"{sessions} sessions need {files_needed(sessions)}: raise ulimit -Hn (docker --ulimit nofile=65536)",
        ),
    ]
    return first_of("open files", rules, allowed, soft=soft, hard=hard, sessions=most)


def judge_ports(low: int, high: int, sessions: int) -> Check:
    """A session takes one port, and a closed connection may keep its own for a minute into the next run."""
    count = max(0, high - low + 1)
    rules = [
        (
            count < 2 * sessions,
            Status.WARN,
            f"{sessions} sessions in run after run need {2 * sessions}: sysctl net.ipv4.ip_local_port_range",
        )
    ]
    return first_of("ports", rules, f"{count} to connect from ({low}-{high})", low=low, high=high)
