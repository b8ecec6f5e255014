"""A history as a self-contained page: a plot and the levels of each series."""

from __future__ import annotations

from datetime import datetime

import metrobench
from metrobench.gate.history import Series
from metrobench.report.gate.words import amount
from metrobench.report.history import words
from metrobench.report.html import elements, plots
from metrobench.report.html.figures import Figures

MOST_PLOTS = 40
"""Most series that are drawn."""


def page(found: list[Series], notes: list[str]) -> str:
    """The whole page; what changed comes first."""
    drawn = Figures()
    ordered = sorted(found, key=lambda series: len(series.changes) == 1)
    parts = [_series(drawn, place, series) for place, series in enumerate(ordered)]
    main = "".join(
        (
            elements.section("Notes", elements.items(notes), elements.paragraph(drawn.complaint, "note")),
            *parts,
        )
    )
    header = elements.paragraph("metrobench history", "kicker") + elements.headline(f"{words.headline(found)}.")
    footer = elements.paragraph(
        f"metrobench {metrobench.__version__}. Levels: the piecewise-constant fit with the least penalised squares"
        " (optimal partitioning); a single odd record is no change."
    )
    return elements.document(f"history: {words.headline(found)}", header, main, footer)


def _series(drawn: Figures, place: int, series: Series) -> str:
    rows: list[tuple[str, ...]] = [(p.created[:16], p.name, amount(series.unit, p.value)) for p in series.points]
    figure = ""
    if place < MOST_PLOTS and len(series.points) > 1:
        moments = [datetime.fromisoformat(point.created) for point in series.points]
        sizes = [(change.count, change.level) for change in series.changes]
        figure = drawn.grid(
            drawn.draw(
                words.title(series),
                "One mark a record, a line for each level.",
                ("when", "record", series.metric),
                rows,
                lambda: plots.history(
                    moments,
                    [point.value for point in series.points],
                    sizes,
                    series.metric,
                    lambda value: amount(series.unit, value),
                ),
            )
        )
    table = elements.table(
        "Levels",
        words.HEADINGS,
        [words.cells(series, change) for change in series.changes],
        frozenset({0, 4, 5}),
    )
    return elements.section(f"{words.title(series)} · {words.extent(series)}", table, figure)
