"""The plots: series in, a figure out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from metrobench.measure.frames import Floats
from metrobench.measure.plan import Plan
from metrobench.measure.series import AgeSeries, LagBars, LoadSeries, MissSeries, thin
from metrobench.records import Forecast
from metrobench.report.html.canvas import Canvas, clock_axis, sessions_axis, share_axis, shown, time_axis
from metrobench.report.html.svg import COLOURS
from metrobench.report.points import Point
from metrobench.report.trust import NAMES
from metrobench.units import percent, rate, seconds

WIDE_RANGE = 30.0
"""Largest over median latency from which the axis is logarithmic."""
MARKERS = {"passed": "o", "failed": "X", "void": "o", "unresolved": "D", "interrupted": "s"}
Step = tuple[float, float, float | None, float | None]
"""Time, share, lower and upper end of a survival curve."""
SERIES = ("one", "two", "three", "four")
"""Colours of several series of one plot."""


def missed_by_sessions(points: Sequence[Point], q: float, band: tuple[int, int] | None) -> Canvas:
    """Share missed against N: one mark a run."""
    canvas = Canvas()
    axes = canvas.axes[0]
    _band(axes, band)
    share_axis(axes, q)
    _marks(axes, points, lambda point: point.missed)
    sessions_axis(axes, [point.sessions for point in points])
    return canvas


def latency_by_sessions(points: Sequence[Point], limit: float, rule: str, band: tuple[int, int] | None) -> Canvas:
    """p50 and p99 against N: two marks a run."""
    canvas = Canvas()
    axes = canvas.axes[0]
    _band(axes, band)
    axes.axhline(limit, color=COLOURS["limit"], linestyle="--", label=f"{rule} {seconds(limit)}")
    for name, colour, marker in (("p50", "low", "o"), ("p99", "high", "^")):
        seen = [(x, getattr(point, name)) for x, point in _spread(points) if getattr(point, name) is not None]
        if seen:
            x, y = zip(*seen, strict=True)
            axes.plot(x, y, marker, color=COLOURS[colour], markersize=6, markerfacecolor="none", label=name)
    axes.set_yscale("log")
    time_axis(axes)
    sessions_axis(axes, [point.sessions for point in points])
    axes.set_ylabel("latency")
    return canvas


def latency_by_age(series: AgeSeries, plan: Plan) -> Canvas:
    """p50 and p99 over the age of the sessions."""
    canvas = Canvas()
    axes = canvas.axes[0]
    axes.axvspan(0.0, plan.cut_frames * plan.unit, color=COLOURS["faint"], alpha=0.15, linewidth=0, label="not judged")
    axes.axhline(
        plan.limit,
        color=COLOURS["limit"],
        linestyle="--",
        label=f"{'objective' if plan.slo else 'budget'} {seconds(plan.limit)}",
    )
    few = "." if len(series.age) < 40 else ""
    for values, colour, name in ((series.p50, "low", "p50"), (series.p99, "high", "p99")):
        axes.plot(*thin(series.age, values), marker=few, color=COLOURS[colour], label=name)
    top = max(float(series.p99.max()), plan.limit)
    if top > WIDE_RANGE * max(float(np.median(series.p50)), 1e-4) and float(series.p50.min()) > 0.0:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0.0, 1.1 * top)
    time_axis(axes)
    clock_axis(axes, "age of the session")
    axes.set_ylabel("latency")
    return canvas


def policies_by_age(ages: Sequence[tuple[str, AgeSeries]], budget: float) -> Canvas:
    """p50 over the age of the sessions, one line a policy."""
    canvas = Canvas()
    axes = canvas.axes[0]
    axes.axhline(budget, color=COLOURS["limit"], linestyle="--", label=f"budget {seconds(budget)}")
    for place, (name, series) in enumerate(ages):
        style = ("-", "--", "-.", ":")[place % 4]
        axes.plot(*thin(series.age, series.p50), style, color=COLOURS[SERIES[place % 4]], label=name)
    if min(float(series.p50.min()) for _, series in ages) > 0.0:
        axes.set_yscale("log")
    time_axis(axes)
    clock_axis(axes, "age of the session")
    axes.set_ylabel("p50")
    return canvas


def misses_by_second(series: MissSeries, plan: Plan, onset: tuple[float, float] | None) -> Canvas:
    """Share of missed frames of all sessions, second by second."""
    canvas = Canvas()
    axes = canvas.axes[0]
    x, y = thin(series.second, series.share)
    x, y = np.append(x, x[-1] + 1.0), np.append(y, y[-1])
    axes.fill_between(x, y, step="post", color=COLOURS["bad"], alpha=0.35, linewidth=0)
    axes.step(x, y, where="post", color=COLOURS["bad"], linewidth=1.2, label="missed")
    axes.axhline(plan.tail_share, color=COLOURS["limit"], linestyle="--", label=f"{rate(plan.tail_share)} allowed")
    if onset is not None:
        axes.axvspan(*onset, color=COLOURS["ink"], alpha=0.35, linewidth=0.8, label="onset of the collapse")
    top = float(series.share.max(initial=0.0))
    axes.set_ylim(0.0, min(1.05, max(1.2 * top, 3.0 * plan.tail_share)))
    axes.yaxis.set_major_formatter(shown(lambda value: percent(value, 0 if top > 0.08 else 1)))
    clock_axis(axes, "time since the start")
    axes.set_ylabel("frames missed")
    return canvas


def send_lag(bars: LagBars, limit: float, p99: float | None) -> Canvas:
    """How late the client sent its chunks."""
    from matplotlib.ticker import NullFormatter

    canvas = Canvas()
    axes = canvas.axes[0]
    floor = 0.5 * float(bars.upper[0])
    left, share = np.maximum(bars.lower, floor), bars.count / max(1, int(bars.count.sum()))
    axes.bar(left, share, width=bars.upper - left, align="edge", color=COLOURS["low"], linewidth=0)
    axes.axvline(limit, color=COLOURS["limit"], linestyle="--", label=f"limit of p99: {seconds(limit)}")
    if p99 is not None:
        axes.axvline(p99, color=COLOURS["high"], label=f"p99: {seconds(p99)}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(floor, max(3.0 * limit, float(bars.upper[-1])))
    axes.set_ylim(min(0.05, 0.5 * float(share[share > 0.0].min())), 1.5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(shown(seconds))
    axes.yaxis.set_major_formatter(shown(rate))
    axes.set_xlabel("a chunk was sent so late")
    axes.set_ylabel("share of chunks")
    return canvas


def cpu_over_time(series: LoadSeries) -> Canvas:
    """CPU of each process, in cores."""
    canvas = Canvas()
    axes = canvas.axes[0]
    seen = [name for name in ("engine", "front", "client", "others") if np.isfinite(series.cpu[name]).any()]
    for name, colour, style in zip(seen, SERIES, ("-", "--", "-.", ":"), strict=False):
        axes.plot(*thin(series.t, series.cpu[name]), style, color=COLOURS[colour], label=NAMES[name])
    axes.set_ylim(0.0, None)
    axes.yaxis.set_major_formatter(shown(lambda value: percent(value, 0)))
    clock_axis(axes, "time since the start")
    axes.set_ylabel("of one core")
    return canvas


def kv_over_time(
    series: LoadSeries, dated: Sequence[Forecast] = (), onset: tuple[float, float] | None = None
) -> Canvas:
    """The KV pool in use, and requests that wait, below each other."""
    canvas = Canvas(panels=2)
    upper, lower = canvas.axes
    upper.plot(*thin(series.t, series.kv), color=COLOURS["three"], label="in use" if dated else None)
    for place, each in enumerate(dated):
        _forecast(upper, each, COLOURS[SERIES[place % 2]], ("--", "-.")[place % 2])
    if onset is not None:
        upper.axvspan(*onset, color=COLOURS["ink"], alpha=0.35, linewidth=0.8, label="onset of the collapse")
    highest = 1.0 if dated else float(np.nanmax(series.kv))
    upper.set_ylim(0.0, max(0.1, min(1.05, 1.3 * highest)))
    upper.yaxis.set_major_formatter(shown(lambda value: percent(value, 0)))
    upper.set_ylabel("KV in use")
    lower.plot(*thin(series.t, series.waiting), color=COLOURS["four"])
    lower.set_ylim(0.0, None)
    lower.set_ylabel("waiting")
    clock_axis(lower, "time since the start")
    return canvas


def _forecast(axes: Any, made: Forecast, colour: str, style: str) -> None:
    """From what was in use to a full pool, with the band between the ends of its interval."""
    if made.made_at is None or made.used is None or made.time is None:
        return
    lower, upper = made.lower or made.time, made.upper or made.time
    axes.fill([made.made_at, lower, upper], [made.used, 1.0, 1.0], color=colour, alpha=0.15, linewidth=0)
    label = f"forecast at {percent(made.fill, 0)}" if made.fill is not None else "forecast"
    axes.plot([made.made_at, made.time], [made.used, 1.0], style, color=colour, linewidth=1.2, label=label)


def records_by_sessions(groups: Sequence[tuple[str, Sequence[Point]]], q: float) -> Canvas:
    """Share missed against N for several records: one mark a run, one kind of mark a record."""
    canvas = Canvas()
    axes = canvas.axes[0]
    share_axis(axes, q)
    for place, (name, points) in enumerate(groups):
        seen = [(point.sessions, point.missed) for point in points if point.missed is not None]
        if seen:
            x, y = zip(*seen, strict=True)
            colour, marker = COLOURS[SERIES[place % 4]], "o^sDvP*X"[place % 8]
            axes.plot(x, y, marker, color=colour, markersize=6, markerfacecolor="none", label=name)
    sessions_axis(axes, [point.sessions for _, points in groups for point in points])
    return canvas


def survival(curves: Sequence[tuple[str, Sequence[Step]]], end: float) -> Canvas:
    """Share of runs that still serve, one line a policy, with its interval."""
    canvas = Canvas()
    axes = canvas.axes[0]
    for place, (name, steps) in enumerate(curves):
        colour, style = COLOURS[SERIES[place % 4]], ("-", "--", "-.", ":")[place % 4]
        t = [0.0, *(step[0] for step in steps), end]
        shares = [1.0, *(step[1] for step in steps)]
        axes.step(t, [*shares, shares[-1]], style, where="post", color=colour, label=name)
        known = [step for step in steps if step[2] is not None and step[3] is not None]
        if known:
            x, low, high = [step[0] for step in known], [step[2] for step in known], [step[3] for step in known]
            axes.fill_between(
                [*x, end], [*low, low[-1]], [*high, high[-1]], step="post", color=colour, alpha=0.15, linewidth=0
            )
    axes.set_xlim(0.0, end)
    axes.set_ylim(-0.03, 1.05)
    axes.yaxis.set_major_formatter(shown(lambda value: percent(value, 0)))
    axes.set_ylabel("runs still serving")
    clock_axis(axes, "time since the start")
    return canvas


def _marks(axes: Any, points: Sequence[Point], value: Callable[[Point], float | None]) -> None:
    colours = {"passed": "good", "failed": "bad"}
    for outcome, marker in MARKERS.items():
        same = [(x, value(point)) for x, point in _spread(points) if point.outcome == outcome]
        if seen := [pair for pair in same if pair[1] is not None]:
            x, y = zip(*seen, strict=True)
            colour = COLOURS[colours.get(outcome, "void")]
            fill = colour if outcome in colours else "none"
            axes.plot(x, y, marker, color=colour, markerfacecolor=fill, markersize=7, label=outcome, clip_on=False)


def _spread(points: Sequence[Point]) -> list[tuple[float, Point]]:
    """Replicates side by side, so that none hides another."""
    if not points:
        return []
    numbers = [point.sessions for point in points]
    step = 0.012 * max(1, max(numbers) - min(numbers))
    found = []
    for sessions in sorted(set(numbers)):
        same = [point for point in points if point.sessions == sessions]
        found += [(sessions + step * (place - (len(same) - 1) / 2), point) for place, point in enumerate(same)]
    return found


def _band(axes: Any, band: tuple[int, int] | None) -> None:
    if band is not None:
        words = f"MSCS [{band[0]}, {band[1]}]"
        axes.axvspan(*band, color=COLOURS["faint"], alpha=0.2, linewidth=0, label=words)


def finite(values: Floats) -> bool:
    """Something was seen at all."""
    return bool(np.isfinite(values).any())


def history(
    moments: Sequence[datetime],
    values: Sequence[float],
    levels: Sequence[tuple[int, float]],
    name: str,
    words: Callable[[float], str],
) -> Canvas:
    """Values against the date, and a line for each level. `levels`: number of values and height, in order."""
    import matplotlib.dates as dates

    canvas = Canvas()
    axes = canvas.axes[0]
    axes.plot(moments, values, "o", color=COLOURS["low"], markersize=5, markerfacecolor="none", label="records")
    first = 0
    for count, height in levels:
        ends = moments[first], moments[first + count - 1]
        axes.plot(ends, (height, height), "-", color=COLOURS["high"], linewidth=2, label="level" if not first else None)
        first += count
    calendar: Any = dates
    # a unit from 3 of its steps on: matplotlib knows no interval for 4 days in hours, or 4 hours in minutes
    locator = calendar.AutoDateLocator(minticks=3, maxticks=7)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(calendar.ConciseDateFormatter(locator))
    axes.margins(y=0.15)
    axes.yaxis.set_major_formatter(shown(words))
    axes.set_ylabel(name)
    return canvas
