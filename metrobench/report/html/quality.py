"""A quality probe on its page: what each policy costs, whether to believe it, accuracy and likelihood by age."""

from __future__ import annotations

from typing import Any

from metrobench.quality.checks import BROKEN, HELD, OPEN
from metrobench.records import Record
from metrobench.report import quality_table
from metrobench.report.html import elements
from metrobench.report.html.canvas import Canvas, shown
from metrobench.report.html.figures import Figures
from metrobench.report.html.svg import COLOURS

FOOTER = (
    "An answer is right if it names the fact asked for. Intervals are 95 % and resample whole sessions. Easy facts need"
    " no history: this tells whether a session goes on speaking sense, not what it remembers."
)
LINES = ("one", "two", "three", "four")
"""Colours of arms, in order; more arms begin again, dashed."""


def findings(drawn: Figures, record: Record) -> str:
    """All sections of the page but the setting."""
    result = quality_table.found(record)
    if not result:
        return ""
    words = frozenset({0})
    return "".join(
        (
            elements.section(
                "Answers by age",
                elements.table(
                    _caption(record, result),
                    quality_table.headings(record),
                    quality_table.rows(record),
                    words,
                ),
                elements.items(f"{name}: {said}" for name, said in quality_table.costs(record)),
                _plots(drawn, result, quality_table.spoken(record)),
                elements.paragraph(drawn.complaint, "note"),
            ),
            elements.section(
                "The smallest window",
                elements.table(
                    "What each window costs at ages of twice its own width and more",
                    quality_table.TRIED,
                    quality_table.tried(record),
                    frozenset({0, 3}),
                ),
                elements.paragraph(quality_table.smallest(record)),
            )
            if quality_table.tried(record)
            else "",
            elements.section(
                "The text by position",
                elements.table(
                    "Negative log-likelihood, nats a token; one text, one pass",
                    ("arm", *(f"{age} W" for age in quality_table.text_ages(record))),
                    quality_table.texts(record),
                    words,
                ),
            ),
            elements.section(
                "Can it be believed?",
                elements.table(
                    "What must hold",
                    ("check", "state", "seen"),
                    [(name, (state, _STATES[state]), seen) for name, state, seen in quality_table.checks(record)],
                    frozenset(range(3)),
                ),
            ),
            elements.section(
                "Symptoms",
                elements.table(
                    "Repeated 4-grams in the last 96 tokens, answers without a word, the first answer said again",
                    ("arm", "age in W", "answers", "repetition", "hollow", "first"),
                    [] if quality_table.spoken(record) else quality_table.symptoms(record),
                    words,
                ),
                elements.details("Sample answers", _samples(result)),
            ),
        )
    )


_STATES = {HELD: "ok", BROKEN: "bad", OPEN: "note"}


def _caption(record: Record, result: dict[str, Any]) -> str:
    if quality_table.spoken(record):
        return "What became of the questions, by the age of the session"
    return f"Share of answers that are right; W = {result['window']} tokens"


def _samples(result: dict[str, Any]) -> str:
    return "".join(elements.subheading(each["name"]) + elements.items(each["samples"]) for each in result["findings"])


def _plots(drawn: Figures, result: dict[str, Any], spoken: bool) -> str:
    if spoken:
        return drawn.grid(
            drawn.draw(
                "Right answers by age",
                "Share of right answers among those in time with 95 % intervals, by the age of the session.",
                ("arm", "age", "right", "95 % interval", "answers"),
                _rows(result, "accuracy", 100.0, "%.0f %%"),
                lambda: _by_age(result, "accuracy", "right answers", 100.0, "age of the session"),
            )
        )
    ages = f"age in windows of {result['window']} tokens"
    return drawn.grid(
        (
            *drawn.draw(
                "Right answers by age",
                "Share of right answers with 95 % intervals over sessions, by the age of the session in windows.",
                ("arm", "age in W", "right", "95 % interval", "answers"),
                _rows(result, "accuracy", 100.0, "%.0f %%"),
                lambda: _by_age(result, "accuracy", "right answers", 100.0, ages),
            ),
            *drawn.draw(
                "Likelihood lost by age",
                "How much less likely than with unbounded KV the right answer is, in a fixed transcript, by age.",
                ("arm", "age in W", "nats a token", "95 % interval", "answers"),
                _rows(result, "nll_loss", 1.0, "%+.2f"),
                lambda: _by_age(result, "nll_loss", "loss, nats a token", 1.0, ages),
            ),
        )
    )


def _rows(result: dict[str, Any], key: str, scale: float, form: str) -> list[tuple[str, ...]]:
    return [
        (
            each["name"],
            band["age"],
            form % (band[key]["value"] * scale),
            f"{form % (band[key]['lower'] * scale)} to {form % (band[key]['upper'] * scale)}",
            str(band[key]["answers"]),
        )
        for each in result["findings"]
        for band in each["bands"]
        if band[key] is not None
    ]


def _by_age(result: dict[str, Any], key: str, label: str, scale: float, ages: str) -> Canvas:
    canvas = Canvas()
    axes = canvas.axes[0]
    names = list(dict.fromkeys(band["age"] for each in result["findings"] for band in each["bands"]))
    shift = 0.0
    for number, each in enumerate(result["findings"]):
        known = [(names.index(band["age"]), band[key]) for band in each["bands"] if band[key] is not None]
        if not known:
            continue
        x = [place + shift for place, _ in known]
        y = [found["value"] * scale for _, found in known]
        ends = [
            [(found["value"] - found["lower"]) * scale for _, found in known],
            [(found["upper"] - found["value"]) * scale for _, found in known],
        ]
        line = "-" if number < len(LINES) else "--"
        axes.errorbar(
            x, y, yerr=ends, color=COLOURS[LINES[number % len(LINES)]], linestyle=line, marker="o", markersize=3.5,
            capsize=2.5, label=each["name"],
        )  # fmt: skip
        shift += 0.06
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel(ages)
    axes.set_ylabel(label)
    if scale != 1.0:
        axes.set_ylim(-4.0, 104.0)
        axes.yaxis.set_major_formatter(shown(lambda value: f"{value:g} %"))
    return canvas
