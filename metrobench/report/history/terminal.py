"""A history as plain text, 80 columns wide."""

from __future__ import annotations

from metrobench.gate.history import Series
from metrobench.report.gate.words import amount
from metrobench.report.history import words
from metrobench.report.layout import hang, wrap

BARS = "▁▂▃▄▅▆▇█"
MOST = 60
"""Newest records of a line of bars."""


def text(found: list[Series], notes: list[str]) -> str:
    """Each series: a line of bars, then its levels."""
    lines: list[str] = []
    for series in found:
        lines += ["", *wrap(f"{words.title(series)} · {words.extent(series)}")]
        values = [point.value for point in series.points[-MOST:]]
        span = f"{amount(series.unit, min(values))} to {amount(series.unit, max(values))}"
        lines.append(f"  {bars(values)}  {span if len(values) > 1 else amount(series.unit, values[0])}")
        for change in series.changes:
            since, level, moved, count, name, differs = words.cells(series, change)
            plural = "" if count == "1" else "s"
            lines += hang(f"  {since}  ", f"{level} ({count} record{plural})" + ("" if moved == "-" else f"  {moved}"))
            if change.before is not None:
                lines += hang("                    └ ", name + ("" if differs == "-" else f" · {differs}"))
    lines.append("")
    for note in notes:
        lines += hang("note  ", note)
    return "\n".join([*lines, *wrap(words.headline(found))])


def bars(values: list[float]) -> str:
    """One letter a value, from the smallest to the largest."""
    low, high = min(values), max(values)
    if high <= low:
        return BARS[3] * len(values)
    return "".join(BARS[round((value - low) / (high - low) * (len(BARS) - 1))] for value in values)
