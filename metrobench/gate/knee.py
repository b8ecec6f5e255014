"""Where the capacity lies, from runs that passed and runs that failed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from metrobench.gate.samples import Trial

RUN_SD = 0.03
"""Standard deviation, in log N, of the capacity that one run has for itself (verdict_sim.py: 0.023 at T = 15 s)."""
_REACH = math.log(4.0)
_GRID = 2001


class Knee(Struct, frozen=True):
    """Log of the number of sessions at which half of the runs pass."""

    value: float
    """Posterior mean of log N."""
    sd: float
    """Posterior standard deviation: how finely the search looked."""


def knee(trials: Sequence[Trial]) -> Knee | None:
    """The capacity under a probit model of log N with RUN_SD and a flat prior; unresolved runs count as neither.

    None: nothing passed or nothing failed, so that one side is open.
    """
    from scipy.special import log_ndtr

    passed = np.log([each.sessions for each in trials if each.outcome == "passed"])
    failed = np.log([each.sessions for each in trials if each.outcome == "failed"])
    if not len(passed) or not len(failed):
        return None
    ends = float(min(passed.min(), failed.min())), float(max(passed.max(), failed.max()))
    grid = np.linspace(ends[0] - _REACH, ends[1] + _REACH, _GRID)
    chance = np.zeros(_GRID)
    for at, sign in ((passed, 1.0), (failed, -1.0)):
        points, counts = np.unique(at, return_counts=True)
        for point, count in zip(points, counts, strict=True):
            chance += count * log_ndtr(sign * (grid - point) / RUN_SD)
    weight = np.exp(chance - chance.max())
    weight /= weight.sum()
    value = float(weight @ grid)
    return Knee(value, float(math.sqrt(weight @ (grid - value) ** 2)))
