"""Does latency depend on the age of a session? Slope, trend test, and the first against the last half minute."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from metrobench.measure.frames import Floats, FrameTable
from metrobench.measure.growth import Slope, block_index, block_medians, ranked_latency, theil_sen
from metrobench.measure.plan import Plan

MIN_BLOCKS = 8
"""Fewest blocks for a drift."""
MIN_SECONDS = 300.0
"""Shortest span in which "not growing" may be said."""
EARLY = (0.0, 30.0)
"""Session ages in seconds of the paper's first column."""
LATE = (270.0, 300.0)
"""Session ages in seconds of its second column."""


class Drift(Struct, frozen=True):
    """Latency against session age."""

    blocks: int
    """Blocks of the measured span."""
    slope: Slope | None
    """Theil-Sen slope of the block medians, seconds per second (x 60,000: ms per minute)."""
    trend_p: float | None
    """Two-sided p-value of the Mann-Kendall test."""
    not_growing: bool | None
    """Upper end below max(1 % of B, 1 ms) a minute; None: shorter than 5 min."""
    early_p50: float | None
    """Median L at ages 0-30 s, seconds."""
    late_p50: float | None
    """Median L at ages 270-300 s, seconds."""
    absent: dict[str, str]
    """Why a value is None, by its name."""
    first_tenth_p50: float | None = None
    """Median L in the first tenth of the run, seconds: the paper's first column where its 300 s are too long."""
    last_tenth_p50: float | None = None
    """Median L in the last tenth of the run, seconds."""


def drift(table: FrameTable) -> Drift:
    """Drift of a run: the slope over the measured span, the columns from the start of the sessions."""
    plan, span = table.plan, table.span
    absent: dict[str, str] = {}
    early, late, first, last = _age_medians(table, (EARLY, LATE, *_tenths(plan)))
    for name, value in (("early_p50", early), ("late_p50", late)):
        if value is None:
            absent[name] = "the run does not cover this age, or half of its frames have no answer"
    for name, value in (("first_tenth_p50", first), ("last_tenth_p50", last)):
        if value is None:
            absent[name] = "the run ended before it, or half of its frames have no answer"
    due = span.due
    blocks, slope, trend, steady = 0, None, None, None
    if due.any():
        start = table.ready[:, :1] - plan.unit
        age = (span.ready - start)[due]
        index, n, length = block_index(age, plan.block)
        held, medians = block_medians(index, n, ranked_latency(span, without_client=False)[due])
        blocks = len(held)
        if blocks >= MIN_BLOCKS:
            slope = theil_sen(np.multiply(held, length, dtype=np.float64), medians)
            trend = mann_kendall(medians)
            if slope is not None and blocks * length >= MIN_SECONDS - plan.block:
                steady = slope.upper * 60.0 < max(0.01 * plan.budget, 0.001)
    if slope is None:
        absent["slope"] = absent["trend_p"] = f"{blocks} blocks; {MIN_BLOCKS} are needed"
    if steady is None:
        absent["not_growing"] = "the measured span is shorter than 5 min"
    return Drift(blocks, slope, trend, steady, early, late, absent, first, last)


def mann_kendall(values: Floats) -> float:
    """Two-sided p-value that values in time order have no trend (Mann 1945, Kendall 1975, with ties). n >= 2."""
    n = len(values)
    score = sum(int(np.sign(values[i + 1 :] - values[i]).sum()) for i in range(n - 1))
    _, ties = np.unique(values, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18.0
    if variance <= 0.0:
        return 1.0
    z = max(0, abs(score) - 1) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2.0))


def _tenths(plan: Plan) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ages of the first and of the last tenth of what was planned; at least one frame each."""
    end = (plan.cut_frames + plan.frames) * plan.unit
    share = max(0.1 * end, plan.unit)
    return (0.0, share), (end - share, end)


def _age_medians(table: FrameTable, spans: Sequence[tuple[float, float]]) -> list[float | None]:
    """Median L at the ages of each span; None: the run does not reach it, or half of its frames have no answer."""
    whole = table.whole
    age = (whole.ready - (table.ready[:, :1] - table.plan.unit))[whole.due]
    latency = np.where(whole.answered, whole.latency, np.inf)[whole.due]
    oldest = float(age.max()) if age.size else 0.0
    found: list[float | None] = []
    for begin, end in spans:
        inside = latency[(age > begin) & (age <= end)]
        middle = float(np.median(inside)) if inside.size and oldest >= end - table.plan.unit else math.inf
        found.append(middle if math.isfinite(middle) else None)
    return found
