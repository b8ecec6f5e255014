"""Is the latency growing? Theil-Sen on block medians, with the pass and fail rules of a capacity verdict."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from metrobench.measure.frames import Bools, Floats, Ints, Span
from metrobench.measure.plan import TOLERANCE, Plan

MAX_BLOCKS = 1_000
"""Most blocks of one fit; longer runs get longer blocks (the fit looks at every pair of blocks)."""
Z = 1.9599639845400545
"""97.5 % quantile of the normal distribution."""
MIN_BLOCKS = 4
"""Fewest blocks for which ends of a slope are given."""


class Slope(Struct, frozen=True):
    """Theil-Sen slope with the ends of its two-sided 95 % interval (Sen 1968)."""

    value: float
    """Seconds of latency per second."""
    lower: float
    """Lower end, seconds per second."""
    upper: float
    """Upper end, seconds per second."""


class Growth(Struct, frozen=True):
    """The growth test of one run."""

    blocks: int
    """Blocks the fit had."""
    block_seconds: float
    """Length of one block."""
    slope: Slope | None
    """None: too few blocks to tell."""
    tail: float | None
    """Q, seconds: the judged quantile of L in the last third (the largest L where the sample cannot bear it)."""
    horizon: float
    """H, seconds: how far ahead the growth is carried."""
    ahead_upper: float | None
    """Q + H max(0, upper end), seconds: passes if at most the limit."""
    ahead_lower: float | None
    """Q + H lower end, seconds, where the lower end is above 0: fails if above the limit."""
    passes: bool
    """Cannot be past the limit within H."""
    fails: bool
    """Will be past the limit within H."""


def theil_sen(times: Floats, values: Floats) -> Slope | None:
    """Slope of `values` over `times`, both shape (n,); None under MIN_BLOCKS points or where it has no ends.

    The same figures as scipy.stats.theilslopes, whose package takes a second to import.
    """
    if len(times) < MIN_BLOCKS:
        return None
    apart = np.subtract.outer(times, times)
    later = apart > 0
    slopes = np.sort(np.subtract.outer(values, values)[later] / apart[later])
    variance = _kendall_variance(times, values)
    if not len(slopes) or variance < 0.0:
        return None
    spread = Z * math.sqrt(variance)
    lower = max(round((len(slopes) - spread) / 2.0) - 1, 0)
    upper = min(round((len(slopes) + spread) / 2.0), len(slopes) - 1)
    ends = (float(np.median(slopes)), float(slopes[lower]), float(slopes[upper]))
    return Slope(*ends) if np.isfinite(ends).all() else None


def _kendall_variance(times: Floats, values: Floats) -> float:
    """Variance of Kendall's score with ties, (2.6) of Sen 1968."""
    n = len(values)
    total = n * (n - 1) * (2 * n + 5)
    for side in (times, values):
        _, ties = np.unique(side, return_counts=True)
        total -= int((ties * (ties - 1) * (2 * ties + 5)).sum())
    return total / 18.0


def block_index(ready: Floats, block: float) -> tuple[Ints, int, float]:
    """Block number of each time, the number of blocks, and their length: `block` seconds or more.

    Counted from the earliest time; the last block is left out where it is less than half as full as the others.
    """
    start = float(ready.min())
    length = max(block, (float(ready.max()) - start) / MAX_BLOCKS)
    index = ((ready - start + TOLERANCE) / length).astype(np.int64)
    counts = np.bincount(index)
    n = len(counts)
    if n > 1 and counts[-1] < 0.5 * np.median(counts[:-1]):
        n -= 1
    return index, n, length


def block_medians(index: Ints, n: int, values: Floats) -> tuple[Ints, Floats]:
    """Numbers of the blocks that hold a frame, and the median of each. All shapes (frames,) and (blocks,)."""
    # 16 bits are sorted by radix, in a twentieth of the time; block_index makes at most MAX_BLOCKS + 2 blocks
    order = np.argsort(index.astype(np.int16), kind="stable")
    values = values[order]
    edges = np.concatenate([[0], np.cumsum(np.bincount(index, minlength=n))])[: n + 1]
    held: Ints = np.flatnonzero(np.diff(edges))
    return held, np.array([_median(values[edges[block] : edges[block + 1]]) for block in held])


def _median(values: Floats) -> float:
    """numpy's median without its checks, which cost more than a short block's sorting."""
    below, above = (len(values) - 1) // 2, len(values) // 2
    ordered = np.partition(values, [below, above])
    return 0.5 * float(ordered[below] + ordered[above])


def tail_quantile(values: Floats, tail_share: float) -> float:
    """The (1 - tail_share) quantile, or the largest value where there are fewer than 1 / tail_share of them."""
    if len(values) * tail_share < 1.0:
        return float(values.max())
    return float(np.quantile(values, 1.0 - tail_share))


def ranked_latency(span: Span, *, without_client: bool) -> Floats:
    """L of every frame for ranking, shape of the span. No answer is a wait of unknown length: all such frames get the
    longest wait seen, so that they never pull a median down and never look like latency that falls."""
    silent = span.due & ~span.answered
    latency = span.latency
    if silent.any():
        longest = max(float(span.latency[silent].max()), float(span.latency[span.due].max()))
        latency = np.where(silent, longest, latency)
    return latency - span.lateness if without_client else latency


def growth_test(span: Span, plan: Plan, *, without_client: bool = False) -> Growth:
    """The growth rules of measurement.md on the due frames of a measured span, on L or on L - S."""
    due: Bools = span.due
    ready = span.ready[due]
    if not ready.size:
        return Growth(0, plan.block, None, None, plan.horizon, None, None, passes=False, fails=False)
    latency = ranked_latency(span, without_client=without_client)[due]
    index, n, length = block_index(ready, plan.block)
    held, medians = block_medians(index, n, latency)
    slope = theil_sen(np.multiply(held, length, dtype=np.float64), medians)
    tail = tail_quantile(latency[index >= 2 * n // 3], plan.tail_share)
    if slope is None:
        return Growth(len(held), length, None, tail, plan.horizon, None, None, passes=False, fails=False)
    upper = tail + plan.horizon * max(0.0, slope.upper)
    lower = tail + plan.horizon * slope.lower if slope.lower > 0 else None
    return Growth(
        blocks=len(held),
        block_seconds=length,
        slope=slope,
        tail=tail,
        horizon=plan.horizon,
        ahead_upper=upper,
        ahead_lower=lower,
        passes=upper <= plan.limit + TOLERANCE,
        fails=lower is not None and lower > plan.limit + TOLERANCE,
    )
