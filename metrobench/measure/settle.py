"""MSER-5: where does a series stop settling? (White 1997; used to warn, never to cut.)"""

from __future__ import annotations

import numpy as np

from metrobench.measure.frames import Floats

BATCH = 5
"""Values in one batch mean."""


def mser5(values: Floats) -> int:
    """Number of leading values that MSER-5 would cut, a multiple of 5; the search stops at half of the series."""
    batches = len(values) // BATCH
    if batches < 10:
        return 0
    means = values[: batches * BATCH].reshape(batches, BATCH).mean(axis=1)
    tail = (means - means.mean())[::-1]
    count = np.arange(1, batches + 1)
    total, squares = np.cumsum(tail), np.cumsum(tail**2)
    spread = np.maximum(squares - total**2 / count, 0.0) / count**2
    statistic = spread[::-1][: batches // 2]
    return int(np.argmin(statistic)) * BATCH
