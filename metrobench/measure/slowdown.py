"""Was the machine itself slower for a while? Other guests of the same hardware slow a core down without any steal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WINDOW = 3.0
"""Seconds over which slowness is averaged: shorter spells are the noise of scheduling and caches."""
FEWEST = 10
"""Samples that make a window."""
REFERENCE_QUANTILE = 0.1
"""The fastest tenth of all samples counts as the machine undisturbed; one lucky sample does not."""
REFERENCE_FEWEST = 20
"""Samples that make a reference."""
UNEVEN = 1.25
"""Largest cost of the fixed piece of work over the smallest, of runs on one machine: on a steady one it scatters by
less. A capacity follows more than proportionally (seen on shared hardware: a fifth faster, 48 % more sessions)."""


def reference_cost(costs: NDArray[np.float64]) -> float | None:
    """Seconds that the fixed piece of work takes on an undisturbed core; None: too few samples."""
    if len(costs) < REFERENCE_FEWEST:
        return None
    return float(np.quantile(costs, REFERENCE_QUANTILE))


def worst_slowdown(times: NDArray[np.float64], costs: NDArray[np.float64], reference: float) -> float | None:
    """Largest mean of cost/reference over WINDOW seconds; None: no window holds enough samples.

    `times`: seconds, ascending, when each sample was taken; `costs`: CPU seconds the fixed piece of work took.
    """
    worst = None
    for first, begin in enumerate(times):
        end = int(np.searchsorted(times, begin + WINDOW, side="right"))
        if end - first < FEWEST or (end == len(times) and times[-1] - begin < 0.9 * WINDOW):
            continue
        mean = float(costs[first:end].mean()) / reference
        worst = mean if worst is None else max(worst, mean)
    return worst


def uneven(costs: Sequence[float]) -> bool:
    """Did the machine's speed change between runs? `costs`: of the fixed work, mean CPU seconds of each run."""
    return len(costs) > 1 and max(costs) > UNEVEN * min(costs)
