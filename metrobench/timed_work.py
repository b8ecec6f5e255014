"""One fixed piece of work, and a program that times it on one core ten times a second: what a core is worth now.

The program takes this file alone and the standard library, so that it starts at once and is small. It is no thread of
the command that starts it: one at the lowest priority would keep the interpreter's lock for as long as others keep its
core busy, and hold up the whole command for seconds.
"""

from __future__ import annotations

import os
import struct
import sys
import time

ROUNDS = 2_000
"""Steps of the timed loop: about 0.1 ms, so that metering takes about 0.2 % of a core."""
SAMPLE_EVERY = 0.1
"""Seconds between samples."""
WARM_UP = 10
"""Loops before the timed ones on a core that rests now and then, which is slow for about a millisecond after each rest.
They take 1 % of such a core, at the lowest priority: whatever is due there goes first."""
LOWEST = 19
SAMPLE = struct.Struct("dd")
"""CLOCK_MONOTONIC seconds, CPU seconds."""


def timed_work() -> float:
    """CPU seconds of the calling thread for one fixed piece of work."""
    begin = time.thread_time_ns()
    total = 0
    for number in range(ROUNDS):
        total += number * number
    return (time.thread_time_ns() - begin) * 1e-9


def main(core: int, warm_up: bool, file: int, parent: int) -> None:
    """Append a SAMPLE to the descriptor `file` at every turn, until `parent` is gone."""
    os.sched_setaffinity(0, {core})
    if warm_up:
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    due = time.monotonic()
    while os.getppid() == parent:
        for _ in range(WARM_UP if warm_up else 0):
            timed_work()
        cost = min(timed_work(), timed_work())  # the first one finds cold caches
        now = time.monotonic()
        os.write(file, SAMPLE.pack(now, cost))
        due = max(due + SAMPLE_EVERY, now)
        time.sleep(due - now)


if __name__ == "__main__":
    main(int(sys.argv[1]), bool(int(sys.argv[2])), int(sys.argv[3]), int(sys.argv[4]))
