"""A series in words, the same in every format."""

from __future__ import annotations

from metrobench.gate.history import Change, Series
from metrobench.report.gate.words import amount

HEADINGS = ("since", "level", "change", "records", "first record", "differs")


def title(series: Series) -> str:
    """Metric and scope."""
    beside = f" ({series.other})" if series.other else ""
    return f"{series.metric} · {series.scope}{beside}"


def extent(series: Series) -> str:
    """How many records, from when to when."""
    first, last = series.points[0].created[:10], series.points[-1].created[:10]
    count = len(series.points)
    return f"{count} record{'' if count == 1 else 's'}, {first}{f' to {last}' if last != first else ''}"


def cells(series: Series, change: Change) -> tuple[str, ...]:
    """One level, as HEADINGS."""
    return (
        change.since.created[:16].replace("T", " "),
        amount(series.unit, change.level),
        moved(series, change),
        str(change.count),
        change.since.name,
        "; ".join(change.differs) or "-",
    )


def moved(series: Series, change: Change) -> str:
    """By how much it is off the level before: a share, or where that is no measure the difference."""
    if change.before is None:
        return "-"
    if series.metric in ("mscs", "p50", "p99") and change.ratio is not None:
        return f"{change.ratio * 100.0:+.1f} %"
    difference = change.level - change.before
    sign = "+" if difference >= 0.0 and series.unit == "share" else ""
    return f"{sign}{amount(series.unit, difference)}"


def headline(found: list[Series]) -> str:
    """How many series changed."""
    changed = sum(len(series.changes) > 1 for series in found)
    return f"{len(found)} series, {changed} changed" if changed else f"{len(found)} series, none changed"
