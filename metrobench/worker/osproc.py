"""Linux process control: parent-death signals, orphan adoption, and killing a whole tree without leftovers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(signum: int, parent: int) -> bool:
    """Ask the kernel for `signum` when the parent's thread ends. False: `parent` is gone already."""
    _prctl(_PR_SET_PDEATHSIG, signum)
    return os.getppid() == parent


def adopt_orphans(adopt: bool = True) -> None:
    """Descendants whose own parent dies become children of this process, so that it can reap them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(adopt))


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def process_table() -> dict[int, tuple[int, int, str]]:
    """pid -> (parent pid, session id, state letter) of every visible process."""
    table = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                rest = (entry / "stat").read_text().rpartition(")")[2].split()
                table[int(entry.name)] = (int(rest[1]), int(rest[3]), rest[0])
    return table


def tree(root: int) -> set[int]:
    """`root`, its descendants, and everything in the session it leads."""
    table = process_table()
    return _grown({pid for pid, (_, session, _) in table.items() if session == root} | ({root} & table.keys()), table)


def _grown(found: set[int], table: dict[int, tuple[int, int, str]]) -> set[int]:
    """`found` and all descendants."""
    while more := {pid for pid, (parent, _, _) in table.items() if parent in found} - found:
        found = found | more
    return found


def kill_tree(root: int, timeout: float = 10.0) -> int | None:
    """SIGKILL the tree of `root`, our child and a session leader, and reap it all. Returns root's wait status.

    Raises TimeoutError when something is still there after `timeout` seconds (a process in uninterruptible sleep).
    """
    status, signalled = None, set[int]()
    waiting = {root}
    deadline = time.monotonic() + timeout
    while waiting:
        waiting = _grown(waiting, process_table()) | tree(root)
        for pid in waiting - signalled:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        signalled |= waiting
        for pid in waiting:
            with contextlib.suppress(ChildProcessError):
                reaped, code = os.waitpid(pid, os.WNOHANG)
                if reaped == root:
                    status = code
        waiting &= process_table().keys()
        if waiting and time.monotonic() > deadline:
            raise TimeoutError(f"process group {root} is still there after {timeout:g} s")
        time.sleep(0.002 if waiting else 0)
    return status


def describe_status(status: int) -> str:
    """A wait status in words."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


def cpu_seconds(pid: int) -> float | None:
    """User plus system CPU seconds of a process so far; None when it is gone."""
    try:
        rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int) -> float | None:
    """Resident bytes of a process; None when it is gone."""
    try:
        return float(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, IndexError):
        return None
