"""The parts of a page about an open system: what it found, N(t), latency, and why each session was refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metrobench.records import Record
from metrobench.report import ramp_table
from metrobench.report.html import elements
from metrobench.report.html.canvas import Canvas, clock_axis, shown, time_axis
from metrobench.report.html.figures import Figures
from metrobench.report.html.svg import COLOURS
from metrobench.units import percent, seconds

MOST_REFUSALS = 1000
"""Refusals with a line of their own."""
MOST_LINES = 60


def findings(drawn: Figures, record: Record) -> str:
    """Tables and plots of the run; empty where nothing was measured."""
    result = record.result or {}
    if "ramp" not in result:
        return ""
    return "".join(
        (
            elements.section(
                "Findings",
                elements.pairs("The whole run", ramp_table.facts(record)),
                _plots(drawn, record, result),
                elements.paragraph(drawn.complaint, "note"),
            ),
            elements.section(
                "Over time",
                elements.table(
                    "The end of each interval; latency and misses: the worst second in it",
                    ramp_table.HEADINGS,
                    ramp_table.timeline(record, MOST_LINES),
                ),
            ),
            _refusals(record, result["ramp"]),
        )
    )


def _refusals(record: Record, found: dict[str, Any]) -> str:
    lines = ramp_table.refusals(record)
    more = len(lines) - MOST_REFUSALS
    by = found["refused_by"].items()
    meanings = [f"{code}: {count} sessions, {ramp_table.CODES.get(code, code)}" for code, count in by]
    return elements.section(
        "Why each session was refused",
        elements.items(meanings),
        elements.table(
            "What the server said of its state at that moment",
            ramp_table.REFUSALS,
            lines[:MOST_REFUSALS],
            frozenset({2}),
        ),
        elements.paragraph(f"and {more} more, in run.json") if more > 0 else "",
    )


def _plots(drawn: Figures, record: Record, result: dict[str, Any]) -> str:
    series = result["ramp"]["series"]
    if not series["t"]:
        return ""
    rows: list[tuple[str, ...]] = [
        (seconds(t), str(n), str(refused))
        for t, n, refused in zip(series["t"], series["sessions"], series["refused"], strict=True)
    ]
    waits: list[tuple[str, ...]] = [
        (seconds(t), _or_dash(p50, seconds), _or_dash(p99, seconds), _or_dash(missed, percent))
        for t, p50, p99, missed in zip(series["t"], series["p50"], series["p99"], series["missed"], strict=True)
    ]
    return drawn.grid(
        (
            *drawn.draw(
                "Sessions over time",
                "Open sessions, the controller's cap where the server shows it, N*, and the refusals so far.",
                ("time", "open", "refused so far"),
                rows,
                lambda: _sessions(result),
            ),
            *drawn.draw(
                "Latency of admitted sessions",
                "By the second in which a frame was ready; one with no answer counts with the time it was waited for.",
                ("time", "p50", "p99", "missed"),
                waits,
                lambda: _latency(series, record.setting["budget"]),
            ),
        )
    )


def _sessions(result: dict[str, Any]) -> Canvas:
    found, series = result["ramp"], result["ramp"]["series"]
    canvas = Canvas(panels=2)
    upper, lower = canvas.axes
    upper.step(series["t"], series["sessions"], where="post", color=COLOURS["one"], label="open")
    if result["caps"]:
        t, caps = zip(*result["caps"], strict=True)
        upper.step(t, caps, "--", where="post", color=COLOURS["two"], label="cap")
        upper.set_ylim(0.0, 1.15 * max(*series["sessions"], min(max(caps), 2 * max(1, found["peak"]))))
    if found["n_star"] is not None:
        upper.axhline(found["n_star"], color=COLOURS["limit"], linestyle=":", label=f"N* {found['n_star']:.0f}")
    upper.set_ylabel("sessions")
    lower.step(series["t"], series["refused"], where="post", color=COLOURS["bad"])
    lower.set_ylim(0.0, None)
    lower.set_ylabel("refused")
    clock_axis(lower, "time since the start")
    return canvas


def _latency(series: dict[str, Any], budget: float) -> Canvas:
    canvas = Canvas()
    axes = canvas.axes[0]
    for name, colour in (("p50", "low"), ("p99", "high")):
        known = _known(series["t"], series[name])
        axes.plot([t for t, _ in known], [value for _, value in known], color=COLOURS[colour], label=name)
    axes.axhline(budget, color=COLOURS["limit"], linestyle="--", label=f"budget {seconds(budget)}")
    axes.set_ylim(0.0, None)
    time_axis(axes)
    axes.yaxis.set_major_formatter(shown(lambda value: "0" if value == 0 else seconds(value)))
    clock_axis(axes, "time since the start")
    axes.set_ylabel("latency")
    return canvas


def _known(times: Sequence[float], values: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(t, value) for t, value in zip(times, values, strict=True) if value is not None]


def _or_dash(value: float | None, words: Any) -> str:
    return "-" if value is None else str(words(value))
