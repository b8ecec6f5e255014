"""What every plot is drawn on: a figure of the page's size and colours, and its axes in the units people read.

matplotlib is imported here and in plots.py, inside functions, and nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import numpy as np

from metrobench.report.html.svg import COLOURS, inline
from metrobench.units import rate, seconds

SIZE = (5.6, 3.1)
"""Inches at 72 points each."""
LEGEND_COLUMNS = 4
LEGEND_LINE = 0.08
"""Height of a line of the legend, as a share of the figure."""
CLOCK_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
"""Seconds between two ticks of a time axis."""
CLOCK_TICKS = 8


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
    matplotlib = _loaded()
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


def _loaded() -> Any:
    """matplotlib, without the lists of properties in its docstrings: they take a third of the time of its import."""
    import matplotlib
    import matplotlib.artist

    artist: Any = matplotlib.artist
    kwdoc, artist.kwdoc = artist.kwdoc, lambda _: ""
    try:
        import matplotlib.figure
    finally:
        artist.kwdoc = kwdoc
    return matplotlib


def share_axis(axes: Any, q: float) -> None:
    """Linear up to q, logarithmic above: neither a few misses nor a collapse is out of sight."""
    axes.set_yscale("symlog", linthresh=q, linscale=0.6)
    axes.axhline(q, color=COLOURS["limit"], linestyle="--", label=f"{rate(q)} allowed")
    axes.set_ylim(-0.25 * q, 1.6)
    axes.set_yticks([0.0, *(tick for tick in (q, 10 * q, 1.0) if tick <= 1.0)])
    axes.yaxis.set_minor_locator(_no_ticks())
    axes.yaxis.set_major_formatter(shown(rate))
    axes.set_ylabel("frames missed")


def sessions_axis(axes: Any, numbers: Sequence[int]) -> None:
    """Whole numbers of sessions, with a little room around them."""
    from matplotlib.ticker import MaxNLocator

    numbers = numbers or [1]
    room = 0.06 * max(1, max(numbers) - min(numbers)) + 0.5
    axes.set_xlim(min(numbers) - room, max(numbers) + room)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.set_xlabel("concurrent sessions")


def time_axis(axes: Any) -> None:
    """Times on the y axis, whichever its scale."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(shown(_time))


def clock_axis(axes: Any, label: str) -> None:
    """Whole seconds, minutes or hours, at most CLOCK_TICKS steps."""
    from matplotlib.ticker import MultipleLocator

    low, high = axes.get_xlim()
    step = next((step for step in CLOCK_STEPS if high - low <= CLOCK_TICKS * step), CLOCK_STEPS[-1])
    unit, name = next(pair for pair in ((3600, "h"), (60, "min"), (1, "s")) if step % pair[0] == 0)
    axes.xaxis.set_major_locator(MultipleLocator(max(step, (high - low) / 50)))
    axes.xaxis.set_major_formatter(shown(lambda value: f"{value / unit:g} {name}" if value else "0"))
    axes.set_xlabel(label)


def _time(value: float) -> str:
    return "0" if value == 0 else f"{value:g} s" if value >= 10 else seconds(value)


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def shown(words: Callable[[float], str]) -> Any:
    """Tick labels by a function of the value."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: words(float(value)))
