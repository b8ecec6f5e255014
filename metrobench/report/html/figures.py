"""The plots of a page: which there are, in words and with the rows behind them. Without matplotlib there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from metrobench.measure.frames import Floats, Ints
from metrobench.measure.series import AgeSeries, LoadSeries, MissSeries, extremes
from metrobench.records import Record
from metrobench.report.html import elements, plots
from metrobench.report.html.canvas import Canvas, context
from metrobench.report.points import Point, points
from metrobench.report.trust import NAMES
from metrobench.report.view import Closeup
from metrobench.units import counted, percent, seconds

MOST_ROWS = 30
"""Rows that are shown as a table; more are a CSV file."""
COLUMNS = 400
"""Columns that a long series is thinned to in that file."""
NO_PLOTS = "The plots are left out: matplotlib is not installed here (pip install matplotlib), then metrobench report."


class Figures:
    """The figures of one page; they share its name space."""

    def __init__(self, noun: str = "frame") -> None:
        """`noun`: what is counted."""
        self._noun = noun
        self.drawn = 0
        self.complaint = ""
        """Why there are none."""

    def grid(self, figures: Iterable[str]) -> str:
        """Figures side by side where there is room."""
        body = "\n".join(figures)
        return f'<div class="plots">{body}</div>' if body else ""

    def draw(
        self,
        title: str,
        caption: str,
        headings: Sequence[str],
        rows: list[tuple[str, ...]],
        make: Callable[[], Canvas],
    ) -> Iterable[str]:
        """One figure, or none where it cannot be drawn: a page without a plot is better than no page."""
        if self.complaint:
            return
        title, caption = counted(title, self._noun), counted(caption, self._noun)
        headings = [counted(heading, self._noun) for heading in headings]
        self.drawn += 1
        try:
            with context():
                drawing = make().svg(f"f{self.drawn}", title, caption)
        except ImportError:
            self.complaint = NO_PLOTS
            return
        except Exception as error:
            yield elements.paragraph(f"{title}: the plot could not be drawn ({type(error).__name__}: {error}).", "note")
            return
        yield elements.figure(title, drawing, caption, _rows(title, f"f{self.drawn}", headings, rows))


def of_trials(figures: Figures, record: Record, closeups: Sequence[Closeup]) -> str:
    """Share of the runs that still serve, against time; and latency by age, one run a policy."""
    found = (record.result or {}).get("policies", {})
    end = max((probe.verdict["cut"] + probe.verdict["span"] for probe in record.probes), default=0.0)
    curves = [
        (policy, [(step["t"], step["share"], step["lower"], step["upper"]) for step in each["survival"]])
        for policy, each in found.items()
        if each["trials"]
    ]
    if not curves or not end:
        return ""
    rows: list[tuple[str, ...]] = [
        (policy, seconds(t), percent(share, 0), "-" if low is None or high is None else f"{low:.2f} to {high:.2f}")
        for policy, steps in curves
        for t, share, low, high in steps
    ]
    ages = [(run.probe.kv, run.age) for run in closeups if len(run.age.age)]
    several = len({policy for policy, _ in ages}) > 1
    return figures.grid(
        (
            *figures.draw(
                "Runs that still serve",
                "Kaplan-Meier, with 95 % intervals; runs that did not collapse count until their end.",
                ("policy", "onset", "still serving", "95 % interval"),
                rows,
                lambda: plots.survival(curves, end),
            ),
            *(_ages(figures, ages, record.setting["budget"]) if several else ()),
        )
    )


def _ages(figures: Figures, ages: Sequence[tuple[str, AgeSeries]], budget: float) -> Iterable[str]:
    return figures.draw(
        "Latency over the age of the sessions, by policy",
        "Median of the one run of each policy that is shown below; no answer counts with the longest wait seen.",
        ("policy", "age in s", "p50 in ms"),
        [
            (policy, f"{series.age[i]:.1f}", f"{series.p50[i] * 1e3:.1f}")
            for policy, series in ages
            for i in extremes(series.age, series.p50, COLUMNS)
        ],
        lambda: plots.policies_by_age(ages, budget),
    )


def of_search(figures: Figures, record: Record) -> str:
    """Misses and latency against the number of sessions."""
    runs = points(record)
    if not runs:
        return ""
    setting, mscs = record.setting, (record.result or {}).get("mscs", {})
    band = (mscs["lo"], mscs["hi"]) if mscs.get("lo") and mscs.get("hi") else None
    limit = setting["slo"]["limit"] if setting["slo"] else setting["budget"]
    q = 1.0 - setting["slo"]["quantile"] if setting["slo"] else setting["q"]
    unseen = sum(point.p99 is None for point in runs)
    note = f" {unseen} runs have no p99: it fell among frames with no answer, or there were too few." if unseen else ""
    headings = ("sessions", "outcome", "missed", "p50", "p99")
    rows = [_point(point) for point in sorted(runs, key=lambda point: point.sessions)]
    return figures.grid(
        (
            *figures.draw(
                "Missed frames against sessions",
                "One mark a run; void runs are hollow and do not count. A failed run may have ended early.",
                headings,
                rows,
                lambda: plots.missed_by_sessions(runs, q, band),
            ),
            *figures.draw(
                "Latency against sessions",
                f"Median and 99th percentile of each run.{note}",
                headings,
                rows,
                lambda: plots.latency_by_sessions(runs, limit, "objective" if setting["slo"] else "budget", band),
            ),
        )
    )


def of_records(figures: Figures, named: Sequence[tuple[str, Record]]) -> str:
    """Misses of several records in one plot."""
    groups = [(name, points(record)) for name, record in named]
    q = min(record.setting["q"] for _, record in named)
    rows = [(name, *_point(point)) for name, runs in groups for point in runs]
    return figures.grid(
        figures.draw(
            "Missed frames against sessions",
            "One mark a run.",
            ("record", "sessions", "outcome", "missed", "p50", "p99"),
            rows,
            lambda: plots.records_by_sessions(groups, q),
        )
    )


def of_run(figures: Figures, run: Closeup, *, whole: bool) -> str:
    """One run over time; not `whole`: without what tells of the client and of each process."""
    if not whole:
        return figures.grid((*_age(figures, run), *_misses(figures, run), *_pool(figures, run)))
    return figures.grid(
        (*_age(figures, run), *_misses(figures, run), *_load(figures, run), *_pool(figures, run), *_lag(figures, run))
    )


def _age(figures: Figures, run: Closeup) -> Iterable[str]:
    series = run.age
    if not len(series.age):
        return ()
    silent = int(series.unanswered.sum())
    note = f" {silent} frames had no answer: they count with the longest wait seen." if silent else ""
    kept = np.union1d(extremes(series.age, series.p50, COLUMNS), extremes(series.age, series.p99, COLUMNS))
    return figures.draw(
        "Latency over the age of the sessions",
        f"Median and 99th percentile (the largest of fewer than 100) of windows of {seconds(series.seconds)}.{note}",
        ("age in s", "p50 in ms", "p99 in ms", "frames", "unanswered"),
        _age_rows(series, kept),
        lambda: plots.latency_by_age(series, run.plan),
    )


def _misses(figures: Figures, run: Closeup) -> Iterable[str]:
    series, onset = run.misses, run.collapse.onset
    if not len(series.second):
        return ()
    found = (
        f" {run.collapse.kind.value.capitalize()} began between {seconds(onset[0])} and {seconds(onset[1])}."
        if onset
        else ""
    )
    return figures.draw(
        "Missed frames over time",
        f"All sessions, second by second, the start that is not judged included.{found}",
        ("second", "due", "missed"),
        _miss_rows(series, extremes(series.second, series.share, COLUMNS)),
        lambda: plots.misses_by_second(series, run.plan, onset),
    )


def _load(figures: Figures, run: Closeup) -> Iterable[str]:
    series = run.load
    if series is None or not len(series.t):
        return
    if any(plots.finite(series.cpu[name]) for name in ("engine", "front", "client")):
        yield from figures.draw(
            "CPU over time",
            "CPU of each process in parts of one core; other programs: all else on this machine, over 3 s.",
            ("s", *(f"{NAMES[name]} in cores" for name in ("engine", "front", "client", "others"))),
            _load_rows(series),
            lambda: plots.cpu_over_time(series),
        )


def _pool(figures: Figures, run: Closeup) -> Iterable[str]:
    series = run.load
    if series is None or not len(series.t):
        return
    if plots.finite(series.kv):
        dated = [each for each in run.probe.forecasts if each.time is not None and each.fill is not None]
        lines = " Lines: what was forecast at these fills, with its 95 % band." if dated else ""
        yield from figures.draw(
            "KV pool and queue over time",
            f"Share of the KV pool in use, and requests that wait in the engine, as the engine says.{lines}",
            ("s", "KV share", "waiting"),
            [
                (f"{series.t[i]:.1f}", _number(series.kv[i], 4), _number(series.waiting[i], 0))
                for i in extremes(series.t, series.kv, COLUMNS)
            ],
            lambda: plots.kv_over_time(series, dated, run.collapse.onset),
        )


def _lag(figures: Figures, run: Closeup) -> Iterable[str]:
    bars, client = run.lag, run.probe.verdict["client"]
    if not len(bars.count):
        return ()
    return figures.draw(
        "How late the client sent",
        f"All {client['chunks']} chunks of the run. Where p99 is past its limit, the run proves nothing.",
        ("from ms", "to ms", "chunks"),
        [
            (f"{low * 1e3:.3g}", f"{high * 1e3:.3g}", str(count))
            for low, high, count in zip(bars.lower, bars.upper, bars.count, strict=True)
        ],
        lambda: plots.send_lag(bars, client["lag_limit"], client["lag_p99"]),
    )


def _point(point: Point) -> tuple[str, ...]:
    return (
        str(point.sessions),
        point.outcome,
        "-" if point.missed is None else percent(point.missed, 2),
        "-" if point.p50 is None else seconds(point.p50),
        "-" if point.p99 is None else seconds(point.p99),
    )


def _age_rows(series: AgeSeries, kept: Ints) -> list[tuple[str, ...]]:
    return [
        (
            f"{series.age[i]:.1f}",
            f"{series.p50[i] * 1e3:.1f}",
            f"{series.p99[i] * 1e3:.1f}",
            str(series.frames[i]),
            str(series.unanswered[i]),
        )
        for i in kept
    ]


def _miss_rows(series: MissSeries, kept: Ints) -> list[tuple[str, ...]]:
    return [(f"{series.second[i]:.0f}", str(series.due[i]), str(series.missed[i])) for i in kept]


def _load_rows(series: LoadSeries) -> list[tuple[str, ...]]:
    names = ("engine", "front", "client", "others")
    busiest: Floats = np.sum([np.nan_to_num(series.cpu[name], nan=0.0) for name in names], axis=0)
    return [
        (f"{series.t[i]:.1f}", *(_number(series.cpu[name][i], 3) for name in names))
        for i in extremes(series.t, busiest, COLUMNS)
    ]


def _rows(title: str, key: str, headings: Sequence[str], rows: list[tuple[str, ...]]) -> str:
    if len(rows) <= MOST_ROWS:
        return elements.table(title, headings, rows)
    name = "".join(letter if letter.isalnum() else "-" for letter in title.lower())
    return elements.download(f"{key}-{name}.csv", headings, rows)


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else ""
