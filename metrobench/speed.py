"""A thread that times the same small piece of work on one core, ten times a second."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from array import array
from types import TracebackType

import numpy as np

from metrobench.measure.slowdown import REFERENCE_FEWEST, reference_cost, worst_slowdown

SAMPLE_EVERY = 0.1
"""Seconds between samples."""
ROUNDS = 2_000
"""Steps of the timed loop: about 0.1 ms, so that metering takes about 0.2 % of a core."""
WARM_UP = 10
"""Loops before the timed ones on a core that rests now and then, which is slow for about a millisecond after each rest.
They take 1 % of such a core, at the lowest priority: whatever is due there goes first."""
LOWEST = 19


class SpeedMeter:
    """Usable once, as a context manager."""

    def __init__(self, core: int, warm_up: bool) -> None:
        """Without `warm_up` it says something about a busy core only."""
        self._core = core
        self._warm_up = WARM_UP if warm_up else 0
        self._times = array("d")
        self._costs = array("d")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="speed-meter", daemon=True)

    def __enter__(self) -> SpeedMeter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def worst(self, begin: float, end: float) -> float | None:
        """Largest slowdown over some 3 s in between (CLOCK_MONOTONIC seconds), against the fastest tenth of all
        samples so far: 1.5 is two thirds of the core's speed. None where too little was seen."""
        costs = np.array(self._costs[:])
        times = np.array(self._times[: len(costs)])
        reference = reference_cost(costs)
        inside = (times >= begin) & (times <= end)
        return worst_slowdown(times[inside], costs[inside], reference) if reference else None

    def mean(self, begin: float, end: float) -> float | None:
        """CPU seconds of the fixed piece of work, mean of the samples in between; None: too few."""
        costs = np.array(self._costs[:])
        times = np.array(self._times[: len(costs)])
        inside = costs[(times >= begin) & (times <= end)]
        return float(inside.mean()) if len(inside) >= REFERENCE_FEWEST else None

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {self._core})
            if self._warm_up:
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST)
            due = time.monotonic()
            while not self._stop.wait(max(0.0, due - time.monotonic())):
                due = max(due + SAMPLE_EVERY, time.monotonic())
                cost, now = self._cost(), time.monotonic()
                self._times.append(now)
                self._costs.append(cost)

    def _cost(self) -> float:
        """CPU seconds of the fixed piece of work; the better of two, for the first one finds cold caches."""
        for _ in range(self._warm_up):
            timed_work()
        return min(timed_work(), timed_work())


def timed_work() -> float:
    """CPU seconds of the calling thread for one fixed piece of work."""
    begin = time.thread_time_ns()
    total = 0
    for number in range(ROUNDS):
        total += number * number
    return (time.thread_time_ns() - begin) * 1e-9
