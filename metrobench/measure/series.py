"""Series of one run over time, as plots show them. Every spike survives: long series are thinned by extremes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from metrobench.measure.facts import LAG_EDGES, RunFacts
from metrobench.measure.frames import Floats, FrameTable, Ints
from metrobench.measure.growth import ranked_latency
from metrobench.measure.plan import TOLERANCE
from metrobench.measure.telemetry import PROCESSES

WINDOW = 10.0
"""Seconds of session age in one window of a long run."""
FEW_WINDOWS = 8
"""Fewest windows of WINDOW seconds; shorter runs have windows of one block of the growth test."""
MAX_AGE = 1e7
"""Seconds up to which times are told apart: a damaged one costs no memory."""
POINTS = 800
"""Most columns of a plot; each keeps its smallest and its largest value."""
BARS_PER_DECADE = 8
"""Bars of the lag histogram in a factor of ten."""
SMOOTH = 3.0
"""Seconds over which the CPU of other programs is averaged: it is a difference of clocks read at different moments."""
FIRST_BAR = 1e-4
"""Seconds: upper edge of its first bar."""


class AgeSeries(Struct, frozen=True):
    """Latency against session age. All shapes (windows,)."""

    seconds: float
    """Length of a window."""
    age: Floats
    """Middle of each window, seconds since the session's audio began."""
    p50: Floats
    """Median of L, seconds; a frame with no answer counts with the longest wait seen."""
    p99: Floats
    """99th percentile by nearest rank: the largest L where a window holds fewer than 100 frames."""
    frames: Ints
    unanswered: Ints


class MissSeries(Struct, frozen=True):
    """Misses of all sessions in each second. All shapes (seconds,)."""

    second: Floats
    """Start of each second, from t0."""
    due: Ints
    missed: Ints

    @property
    def share(self) -> Floats:
        """Missed / due; 0 where nothing was due."""
        return np.asarray(self.missed / np.maximum(self.due, 1), dtype=np.float64)


class LagBars(Struct, frozen=True):
    """Send lags of all chunks. Shapes (bars,)."""

    lower: Floats
    upper: Floats
    count: Ints


class LoadSeries(Struct, frozen=True):
    """What engine and processes did. Shapes (samples,); NaN where a source was not visible."""

    t: Floats
    """Seconds from t0."""
    cpu: dict[str, Floats]
    """CPU seconds per second since the sample before, by process; `others`: everything else on the machine,
    over SMOOTH seconds."""
    kv: Floats
    """Share of the KV pool in use."""
    waiting: Floats
    """Requests waiting in the engine."""


def latency_by_age(table: FrameTable) -> AgeSeries:
    """Latency of all due frames, the cut ones included, by the age of their session."""
    whole = table.whole
    due = whole.due
    length = _window(table)
    if not due.any():
        nothing, none = np.zeros(0), np.zeros(0, dtype=np.int64)
        return AgeSeries(length, nothing, nothing, nothing, none, none)
    age = (whole.ready - (table.ready[:, :1] - table.plan.unit))[due]
    index = (np.clip(age - TOLERANCE, 0.0, MAX_AGE) / length).astype(np.int64)
    order, edges = _grouped(index)
    latency = ranked_latency(whole, without_client=False)[due][order]
    silent = ~whole.answered[due][order]
    held = np.flatnonzero(np.diff(edges))
    ranks = [_ranks(latency[edges[window] : edges[window + 1]]) for window in held]
    missing = np.concatenate([[0], np.cumsum(silent)])[edges]
    return AgeSeries(
        seconds=length,
        age=np.asarray((held + 0.5) * length, dtype=np.float64),
        p50=np.array([low for low, _ in ranks]),
        p99=np.array([high for _, high in ranks]),
        frames=np.diff(edges)[held],
        unanswered=np.diff(missing)[held],
    )


def misses_by_second(table: FrameTable) -> MissSeries:
    """Due and missed frames of all sessions by the second of their t_ready."""
    whole = table.whole
    second = np.clip(whole.ready[whole.due], 0.0, MAX_AGE).astype(np.int64)
    due = np.bincount(second)
    missed = np.bincount(second[whole.missed[whole.due]], minlength=len(due))
    return MissSeries(np.arange(len(due), dtype=np.float64), due, missed)


def lag_bars(facts: RunFacts) -> LagBars:
    """The recorded histogram in wider bins: from 0 to 0.1 ms, then BARS_PER_DECADE a decade."""
    counts = np.maximum(np.asarray(facts.lag_counts, dtype=np.int64), 0)
    decades = np.log10(LAG_EDGES[-1] / FIRST_BAR)
    wanted = np.concatenate([[0.0], FIRST_BAR * 10.0 ** np.arange(0, decades + 1e-9, 1 / BARS_PER_DECADE)])
    places = np.unique(np.searchsorted(LAG_EDGES, wanted * (1 - 1e-9)).clip(0, len(LAG_EDGES) - 1))
    total = np.concatenate([[0], np.cumsum(counts)])[places.clip(0, len(counts))]
    used = np.flatnonzero(np.diff(total))
    last = int(used[-1]) + 1 if len(used) else 0
    return LagBars(LAG_EDGES[places[:last]], LAG_EDGES[places[1 : last + 1]], np.diff(total)[:last])


def load_series(telemetry: dict[str, Floats]) -> LoadSeries:
    """CPU rates, KV and waiting requests from the telemetry columns."""
    t = telemetry["t"]
    fresh = np.concatenate([np.ones(min(1, len(t)), dtype=bool), np.diff(t) > 0])
    t = t[fresh]
    totals = {name: telemetry[f"{name}_cpu"][fresh] for name in (*PROCESSES, "machine")}
    totals["client"] = _told_now_and_then(t, totals["client"])
    machine = totals.pop("machine")
    rates = {name: _rate(t, total) for name, total in totals.items()}
    rates["others"] = _rate(t, machine - np.sum(list(totals.values()), axis=0), SMOOTH)
    return LoadSeries(t, rates, telemetry["kv_usage"][fresh], telemetry["waiting"][fresh])


def extremes(x: Floats, y: Floats, points: int = POINTS) -> Ints:
    """Places of at most two values for each of `points` columns of equal width: the smallest and the largest.

    `x` ascending; shapes (n,). All places where there are no more than two a column. NaN only where a column has
    nothing else.
    """
    if len(x) <= 2 * points:
        return np.arange(len(x))
    width = (x[-1] - x[0]) / points or 1.0
    column = np.minimum(((x - x[0]) / width).astype(np.int64), points - 1)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(column) > 0]))
    ends = np.append(starts[1:], len(x))
    keep: set[int] = set()
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        part = y[start:end]
        none = bool(np.isnan(part).all())
        keep |= {start} if none else {start + int(np.nanargmin(part)), start + int(np.nanargmax(part))}
    return np.array(sorted(keep), dtype=np.int64)


def thin(x: Floats, y: Floats, points: int = POINTS) -> tuple[Floats, Floats]:
    """The values at those places, and where they are."""
    kept = extremes(x, y, points)
    return x[kept], y[kept]


def _window(table: FrameTable) -> float:
    whole = (table.plan.cut_frames + table.plan.frames) * table.plan.unit
    return WINDOW if whole >= FEW_WINDOWS * WINDOW else max(table.plan.block, table.plan.unit)


def _grouped(index: Ints) -> tuple[npt.NDArray[np.intp], Ints]:
    """Order that brings equal numbers together, and the edges of each number's rows in it."""
    edges = np.concatenate([[0], np.cumsum(np.bincount(index))])
    # 16 bits are sorted by radix, in a twentieth of the time
    small = index.astype(np.int16) if len(edges) < 2**15 else index
    return np.argsort(small, kind="stable"), edges


def _ranks(values: Floats) -> tuple[float, float]:
    """Median and 99th percentile by nearest rank."""
    middle, high = (len(values) - 1) // 2, int(np.ceil(0.99 * len(values))) - 1
    ordered = np.partition(values, [middle, high])
    return float(ordered[middle]), float(ordered[high])


def _told_now_and_then(t: Floats, total: Floats) -> Floats:
    """A total that its process tells once a second, 0 before the first time: NaN before it, straight lines between."""
    told = np.flatnonzero(np.concatenate([[False], np.diff(total) > 0])) if len(total) else np.zeros(0, dtype=np.int64)
    if not len(told):
        return np.full(len(total), np.nan)
    inside = (t >= t[told[0]]) & (t <= t[told[-1]])
    return np.where(inside, np.interp(t, t[told], total[told]), np.nan)


def _rate(t: Floats, total: Floats, over: float = 0.0) -> Floats:
    """Growth per second since the sample before, or over at least `over` seconds; never negative."""
    if len(t) < 2:
        return np.full(len(t), np.nan)
    now = np.arange(len(t))
    before = np.minimum(np.searchsorted(t, t - over, side="right") - 1, now - 1).clip(0)
    later = now > before
    rate = np.full(len(t), np.nan)
    rate[later] = np.maximum(0.0, (total[now] - total[before])[later] / (t[now] - t[before])[later])
    return rate
