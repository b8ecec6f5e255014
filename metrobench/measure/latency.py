"""Quantiles of latency, with the reason where a sample cannot bear one."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from metrobench.measure.frames import Floats, Span

_NEEDED = {0.5: 5, 0.99: 100}
"""Fewest frames for a quantile."""


class Latency(Struct, frozen=True):
    """Latency of the measured frames, seconds. A frame with no answer ranks above every answered one."""

    p50: float | None
    """Median of L."""
    p99: float | None
    """99th percentile of L."""
    largest: float | None
    """Largest L of an answered frame."""
    jitter: float | None
    """p99 - p50."""
    interval_sd: float | None
    """Median over the sessions of the standard deviation of the intervals between answers."""
    interval_sd_worst: float | None
    """Largest of those."""
    first_p50: float | None
    """Median of the time to the first output."""
    first_p99: float | None
    """99th percentile of the time to the first output."""
    absent: dict[str, str]
    """Why a value is None, by its name."""
    mean: float | None = None
    """Mean L of the answered frames. Records of earlier versions lack it."""


def latency(span: Span) -> Latency:
    """Latency numbers of the due frames of a span."""
    absent: dict[str, str] = {}
    due, answered = span.due, span.due & span.answered
    ranks = np.where(answered, span.latency, np.inf)[due]
    p50 = _quantile("p50", ranks, 0.5, absent)
    p99 = _quantile("p99", ranks, 0.99, absent)
    if p50 is None or p99 is None:
        absent["jitter"] = "needs p50 and p99"
    if not answered.any():
        absent["mean"] = absent["largest"] = "no frame was answered"
    has_first = answered & np.isfinite(span.first)
    first = (span.first - span.ready)[has_first]
    sd = _interval_sd(span, answered)
    if not len(sd):
        absent["interval_sd"] = absent["interval_sd_worst"] = "no session has 3 answers in a row"
    return Latency(
        p50=p50,
        p99=p99,
        mean=float(span.latency[answered].mean()) if answered.any() else None,
        largest=float(span.latency[answered].max()) if answered.any() else None,
        jitter=None if p50 is None or p99 is None else p99 - p50,
        interval_sd=float(np.median(sd)) if len(sd) else None,
        interval_sd_worst=float(sd.max()) if len(sd) else None,
        first_p50=_quantile("first_p50", first, 0.5, absent),
        first_p99=_quantile("first_p99", first, 0.99, absent),
        absent=absent,
    )


def _quantile(name: str, values: Floats, quantile: float, absent: dict[str, str]) -> float | None:
    needed = _NEEDED[quantile]
    if len(values) < needed:
        absent[name] = f"{len(values)} frames; {needed} are needed"
        return None
    place = quantile * (len(values) - 1)
    low = int(place)
    ordered = np.partition(values, [low, min(low + 1, len(values) - 1)])
    below, above = float(ordered[low]), float(ordered[min(low + 1, len(values) - 1)])
    if not np.isfinite(above):
        absent[name] = "it falls among frames with no answer"
        return None
    return below + (place - low) * (above - below)


def _interval_sd(span: Span, answered: np.ndarray) -> Floats:
    """Per session, the standard deviation of the intervals between answers to neighbouring frames."""
    both = answered[:, 1:] & answered[:, :-1]
    gaps = np.where(both, np.diff(np.where(answered, span.done, 0.0), axis=1), 0.0)
    counts = both.sum(axis=1)
    usable = counts >= 2
    counts, gaps, both = counts[usable], gaps[usable], both[usable]
    if not len(counts):
        return np.zeros(0)
    mean = gaps.sum(axis=1) / counts
    squares = np.where(both, (gaps - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return np.asarray(np.sqrt(squares / (counts - 1)))
