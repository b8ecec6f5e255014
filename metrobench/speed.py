"""A thread that times the same small piece of work on some cores, four times a second."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from types import TracebackType

import numpy as np

from metrobench.measure.slowdown import reference_cost, worst_slowdown

SAMPLE_EVERY = 0.25
"""Seconds between samples of one core."""
ROUNDS = 2_000
"""Steps of the timed loop: about 0.1 ms, so that metering takes about 0.1 % of a core."""


class SpeedMeter:
    """Usable once, as a context manager. Cores that may not be used are left out."""

    def __init__(self, cores: Iterable[int]) -> None:
        self._cores = sorted(cores)
        self._samples: dict[int, list[tuple[float, float]]] = {core: [] for core in self._cores}
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
        """Largest slowdown of any core over some 2 s in between (CLOCK_MONOTONIC seconds), against the fastest tenth
        of all samples so far: 1.5 is a core at two thirds of its speed. None where too little was seen."""
        found = [self._worst_of(list(samples), begin, end) for samples in self._samples.values()]
        return max((value for value in found if value is not None), default=None)

    @staticmethod
    def _worst_of(samples: list[tuple[float, float]], begin: float, end: float) -> float | None:
        table = np.array(samples, dtype=np.float64).reshape(-1, 2)
        reference = reference_cost(table[:, 1])
        inside = table[(table[:, 0] >= begin) & (table[:, 0] <= end)]
        return worst_slowdown(inside[:, 0], inside[:, 1], reference) if reference else None

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + SAMPLE_EVERY, time.monotonic())
            for core in self._cores:
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(0, {core})
                    self._samples[core].append((time.monotonic(), _cost()))


def _cost() -> float:
    """CPU seconds of the fixed piece of work; the better of two, for the first one finds cold caches."""
    return min(_timed(), _timed())


def _timed() -> float:
    begin = time.thread_time_ns()
    total = 0
    for number in range(ROUNDS):
        total += number * number
    return (time.thread_time_ns() - begin) * 1e-9
