"""Where the capacity lies, from runs that passed and runs that failed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct

from metrobench.gate.samples import Trial

RUN_SD = 0.03
"""Standard deviation, in log N, of the capacity that one run has for itself (verdict_sim.py: 0.023 at T = 15 s)."""
_REACH = 8.0 * RUN_SD
"""Beyond the outermost runs: what lies further is less likely by e^-35."""
_STEP = RUN_SD / 20.0


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
    passed, failed = (
        tuple(sorted(each.sessions for each in trials if each.outcome == outcome)) for outcome in ("passed", "failed")
    )
    return _fitted(passed, failed) if passed and failed else None


@lru_cache(maxsize=1024)
def _fitted(passed: tuple[int, ...], failed: tuple[int, ...]) -> Knee:
    """A rule asks for the knee of a record several times."""
    from scipy.special import log_ndtr

    ends = math.log(min(passed[0], failed[0])), math.log(max(passed[-1], failed[-1]))
    grid = np.arange(ends[0] - _REACH, ends[1] + _REACH, _STEP)
    chance = np.zeros(len(grid))
    for runs, sign in ((passed, 1.0), (failed, -1.0)):
        for sessions, count in Counter(runs).items():
            chance += count * log_ndtr(sign * (grid - math.log(sessions)) / RUN_SD)
    weight = np.exp(chance - chance.max())
    weight /= weight.sum()
    value = float(weight @ grid)
    return Knee(value, float(math.sqrt(weight @ (grid - value) ** 2)))
