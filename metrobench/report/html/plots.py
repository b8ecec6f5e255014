"""Drawing, with matplotlib, which is imported here and nowhere else: arrays in, an SVG element out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import numpy as np

from metrobench.measure.frames import Floats
from metrobench.measure.plan import Plan
from metrobench.measure.series import AgeSeries, LagBars, LoadSeries, MissSeries, thin
from metrobench.report.html.svg import COLOURS, inline
from metrobench.report.points import Point
from metrobench.report.trust import NAMES
from metrobench.units import percent, rate, seconds

SIZE = (5.6, 3.1)
"""Inches at 72 points each."""
LEGEND_COLUMNS = 4
LEGEND_LINE = 0.08
"""Height of a line of the legend, as a share of the figure."""
WIDE_RANGE = 30.0
"""Largest over median latency from which the axis is logarithmic."""
MARKERS = {"passed": "o", "failed": "X", "void": "o", "unresolved": "D", "interrupted": "s"}
SERIES = ("one", "two", "three", "four")
"""Colours of several series of one plot."""


class Canvas:
    """One figure under way."""

    def __init__(self, panels: int = 1) -> None:
        from matplotlib.figure import Figure

        self.figure: Any = Figure(figsize=SIZE)
        self.axes: list[Any] = list(np.atleast_1d(self.figure.subplots(panels, 1, sharex=True)))
        for axes in self.axes:
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color=COLOURS["faint"], alpha=0.25, linewidth=0.6)
            axes.set_axisbelow(True)

    def svg(self, key: str, title: str, summary: str) -> str:
        """The element, and the end of the figure."""
        handles, labels = self.axes[0].get_legend_handles_labels()
        top = 1.0 - LEGEND_LINE * -(-len(labels) // LEGEND_COLUMNS) if labels else 0.96
        # margins that fit every label there is: to find them anew takes as long as to draw
        self.figure.subplots_adjust(left=0.155, right=0.985, bottom=0.165, top=top - 0.02, hspace=0.12)
        if labels:
            self.figure.legend(
                handles,
                labels,
                loc="lower left",
                bbox_to_anchor=(0.01, top - 0.02),
                ncols=LEGEND_COLUMNS,
                fontsize=10,
                frameon=False,
                handlelength=1.6,
                columnspacing=1.2,
                borderaxespad=0.0,
                labelcolor=COLOURS["ink"],
            )
        text = StringIO()
        self.figure.savefig(text, format="svg", transparent=True)
        return inline(text.getvalue(), key, title, summary)


def context() -> Any:
    """Settings that every drawing needs, as a context manager. Raises ImportError without matplotlib."""
    # the first import ever looks for fonts and says so
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib

    ink = COLOURS["ink"]
    return matplotlib.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "metrobench",
            "font.family": "DejaVu Sans",
            "font.size": 10.5,
            "text.color": ink,
            "axes.edgecolor": COLOURS["faint"],
            "axes.labelcolor": ink,
            "xtick.color": ink,
            "ytick.color": ink,
            "axes.facecolor": "none",
            "lines.linewidth": 1.5,
            "path.simplify": False,
        }
    )


def missed_by_sessions(points: Sequence[Point], q: float, band: tuple[int, int] | None) -> Canvas:
    """Share missed against N: one mark a run."""
    canvas = Canvas()
    axes = canvas.axes[0]
    _band(axes, band)
    _share_axis(axes, q)
    _marks(axes, points, lambda point: point.missed)
    _sessions_axis(axes, points)
    return canvas


def latency_by_sessions(points: Sequence[Point], limit: float, band: tuple[int, int] | None) -> Canvas:
    """p50 and p99 against N: two marks a run."""
    canvas = Canvas()
    axes = canvas.axes[0]
    _band(axes, band)
    axes.axhline(limit, color=COLOURS["limit"], linestyle="--", label=f"budget {seconds(limit)}")
    for name, colour, marker in (("p50", "low", "o"), ("p99", "high", "^")):
        seen = [(x, getattr(point, name)) for x, point in _spread(points) if getattr(point, name) is not None]
        if seen:
            x, y = zip(*seen, strict=True)
            axes.plot(x, y, marker, color=COLOURS[colour], markersize=6, markerfacecolor="none", label=name)
    axes.set_yscale("log")
    _time_axis(axes)
    _sessions_axis(axes, points)
    axes.set_ylabel("latency")
    return canvas


def latency_by_age(series: AgeSeries, plan: Plan) -> Canvas:
    """p50 and p99 over the age of the sessions."""
    canvas = Canvas()
    axes = canvas.axes[0]
    axes.axvspan(0.0, plan.cut_frames * plan.unit, color=COLOURS["faint"], alpha=0.15, linewidth=0, label="not judged")
    axes.axhline(plan.limit, color=COLOURS["limit"], linestyle="--", label=f"budget {seconds(plan.limit)}")
    few = "." if len(series.age) < 40 else ""
    for values, colour, name in ((series.p50, "low", "p50"), (series.p99, "high", "p99")):
        axes.plot(*thin(series.age, values), marker=few, color=COLOURS[colour], label=name)
    top = max(float(series.p99.max()), plan.limit)
    if top > WIDE_RANGE * max(float(np.median(series.p50)), 1e-4) and float(series.p50.min()) > 0.0:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0.0, 1.1 * top)
    _time_axis(axes)
    _clock(axes, "age of the session")
    axes.set_ylabel("latency")
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
    axes.yaxis.set_major_formatter(_shown(lambda value: percent(value, 0 if top > 0.08 else 1)))
    _clock(axes, "time since the start")
    axes.set_ylabel("frames missed")
    return canvas


def send_lag(bars: LagBars, limit: float, p99: float | None) -> Canvas:
    """How late the client sent its chunks."""
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
    axes.xaxis.set_major_formatter(_shown(seconds))
    axes.yaxis.set_major_formatter(_shown(lambda value: f"{value * 100:g} %"))
    axes.set_xlabel("a chunk was sent so late")
    axes.set_ylabel("share of chunks")
    return canvas


def cpu_over_time(series: LoadSeries) -> Canvas:
    """CPU of each process, in cores."""
    canvas = Canvas()
    axes = canvas.axes[0]
    shown = [name for name in ("engine", "front", "client", "others") if np.isfinite(series.cpu[name]).any()]
    for name, colour, style in zip(shown, SERIES, ("-", "--", "-.", ":"), strict=False):
        axes.plot(*thin(series.t, series.cpu[name]), style, color=COLOURS[colour], label=NAMES[name])
    axes.set_ylim(0.0, None)
    axes.yaxis.set_major_formatter(_shown(lambda value: percent(value, 0)))
    _clock(axes, "time since the start")
    axes.set_ylabel("of one core")
    return canvas


def kv_over_time(series: LoadSeries) -> Canvas:
    """The KV pool in use, and requests that wait, below each other."""
    canvas = Canvas(panels=2)
    upper, lower = canvas.axes
    upper.plot(*thin(series.t, series.kv), color=COLOURS["three"])
    upper.set_ylim(0.0, max(0.1, min(1.05, 1.3 * float(np.nanmax(series.kv)))))
    upper.yaxis.set_major_formatter(_shown(lambda value: percent(value, 0)))
    upper.set_ylabel("KV in use")
    lower.plot(*thin(series.t, series.waiting), color=COLOURS["four"])
    lower.set_ylim(0.0, None)
    lower.set_ylabel("waiting")
    _clock(lower, "time since the start")
    return canvas


def records_by_sessions(groups: Sequence[tuple[str, Sequence[Point]]], q: float) -> Canvas:
    """Share missed against N for several records: one mark a run, one kind of mark a record."""
    canvas = Canvas()
    axes = canvas.axes[0]
    _share_axis(axes, q)
    for place, (name, points) in enumerate(groups):
        seen = [(point.sessions, point.missed) for point in points if point.missed is not None]
        if seen:
            x, y = zip(*seen, strict=True)
            colour, marker = COLOURS[SERIES[place % 4]], "o^sDvP*X"[place % 8]
            axes.plot(x, y, marker, color=colour, markersize=6, markerfacecolor="none", label=name)
    _sessions_axis(axes, [point for _, points in groups for point in points])
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


def _share_axis(axes: Any, q: float) -> None:
    """Linear up to q, logarithmic above: neither a few misses nor a collapse is out of sight."""
    axes.set_yscale("symlog", linthresh=q, linscale=0.6)
    axes.axhline(q, color=COLOURS["limit"], linestyle="--", label=f"{rate(q)} allowed")
    axes.set_ylim(-0.25 * q, 1.6)
    axes.set_yticks([0.0, *(tick for tick in (q, 10 * q, 1.0) if tick <= 1.0)])
    axes.yaxis.set_minor_locator(_no_ticks())
    axes.yaxis.set_major_formatter(_shown(rate))
    axes.set_ylabel("frames missed")


def _sessions_axis(axes: Any, points: Sequence[Point]) -> None:
    from matplotlib.ticker import MaxNLocator

    numbers = [point.sessions for point in points] or [1]
    room = 0.06 * max(1, max(numbers) - min(numbers)) + 0.5
    axes.set_xlim(min(numbers) - room, max(numbers) + room)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.set_xlabel("concurrent sessions")


def _time_axis(axes: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(_shown(_time))


def _clock(axes: Any, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    steps = [1, 1.5, 2, 3, 5, 6, 10]
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=steps))
    axes.xaxis.set_major_formatter(_shown(_time))
    axes.set_xlabel(label)


def _time(value: float) -> str:
    return "0" if value == 0 else seconds(value)


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _shown(words: Callable[[float], str]) -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: words(float(value)))


def finite(values: Floats) -> bool:
    """Something was seen at all."""
    return bool(np.isfinite(values).any())
