"""How fast one core is while something is measured on it: samples of a program that times the same small piece of work
there (timed_work.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType

import numpy as np
import numpy.typing as npt

from metrobench import timed_work
from metrobench.measure.slowdown import REFERENCE_FEWEST, reference_cost, worst_slowdown


class SpeedMeter:
    """Usable once, as a context manager."""

    def __init__(self, core: int, warm_up: bool) -> None:
        """Without `warm_up` it says something about a busy core only."""
        self._core = core
        self._warm_up = warm_up
        self._samples = os.memfd_create("metrobench-speed")
        self._program: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SpeedMeter:
        given = (self._core, int(self._warm_up), self._samples, os.getpid())
        self._program = subprocess.Popen(
            [sys.executable, "-I", "-S", timed_work.__file__, *map(str, given)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(self._samples,),
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._program is not None:
            self._program.kill()
            self._program.wait()
        os.close(self._samples)

    def worst(self, begin: float, end: float) -> float | None:
        """Largest slowdown over some 3 s in between (CLOCK_MONOTONIC seconds), against the fastest tenth of all
        samples so far: 1.5 is two thirds of the core's speed. None where too little was seen."""
        times, costs = self._read()
        reference = reference_cost(costs)
        inside = (times >= begin) & (times <= end)
        return worst_slowdown(times[inside], costs[inside], reference) if reference else None

    def mean(self, begin: float, end: float) -> float | None:
        """CPU seconds of the fixed piece of work, mean of the samples in between; None: too few."""
        times, costs = self._read()
        inside = costs[(times >= begin) & (times <= end)]
        return float(inside.mean()) if len(inside) >= REFERENCE_FEWEST else None

    def _read(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """CLOCK_MONOTONIC seconds and CPU seconds of every sample so far."""
        size = os.fstat(self._samples).st_size // timed_work.SAMPLE.size * timed_work.SAMPLE.size
        samples = np.frombuffer(os.pread(self._samples, size, 0)).reshape(-1, 2)
        return samples[:, 0], samples[:, 1]
