"""One record, or several beside each other, as a self-contained page."""

from __future__ import annotations

import metrobench
from metrobench.records import Record
from metrobench.report import comparison, policies, quality_table, sentence
from metrobench.report.html import elements, quality, ramp, sections
from metrobench.report.html.figures import Figures, of_records, of_search
from metrobench.report.view import View

MOST_RECORDS = 50
"""Most records of a comparison that get a part of their own."""
MOST_SERIES = 8
"""Most records in one plot."""


def page(view: View) -> str:
    """The page of one record: the verdict, whether it can be trusted, the runs, plots, setting."""
    record = view.stored.record
    drawn = Figures(sentence.noun(record.setting))
    searched = record.kind == "capacity" or len({probe.sessions for probe in record.probes}) > 1
    trials = record.kind == "collapse"
    against = of_search(drawn, record) if searched else ""
    closeups = [sections.closeup(drawn, run, alone=len(record.probes) == 1, whole=not trials) for run in view.closeups]
    if record.kind == "ramp":
        main = "".join((ramp.findings(drawn, record), sections.warnings(view), sections.setting(record)))
        title = f"{record.kind} {record.profile['name']}: {sentence.verdict(record)}"
        return elements.document(title, sections.verdict(view), main, _footer())
    if record.kind == quality_table.KIND:
        title = f"{record.kind} {record.profile['name']}: {sentence.verdict(record)}"
        main = "".join((quality.findings(drawn, record), sections.setting(record)))
        return elements.document(title, sections.verdict(view), main, elements.paragraph(quality.FOOTER))
    main = "".join(
        (
            sections.collapses(drawn, view) if trials else "",
            sections.trusted(view),
            elements.section(
                "Runs",
                sections.runs_by_sessions(record) if searched else "",
                against,
                elements.paragraph(drawn.complaint, "note"),
            ),
            *closeups,
            sections.each_run(record),
            sections.close_reasons(record),
            sections.setting(record),
        )
    )
    title = f"{record.kind} {record.profile['name']}: {sentence.verdict(record)}"
    return elements.document(title, sections.verdict(view), main, _footer())


def compared(views: list[View]) -> str:
    """Several records on one page: the table, one plot, then each in short."""
    records = [view.stored.record for view in views]
    names = [view.stored.path.name for view in views]
    drawn = Figures()
    rows = comparison.rows(records)
    headings = ("record", *comparison.NUMBERED[1:])
    unlike = comparison.unlike(records)
    labelled = [(f"record {place}", record) for place, record in enumerate(records, 1)]
    main = "".join(
        (
            elements.section(
                "Side by side",
                elements.table("The same order below", headings, _named(rows, names), frozenset({0, 1, 2, 3})),
                elements.subheading("Not alike") + elements.items(unlike) if unlike else "",
                of_records(drawn, labelled[:MOST_SERIES]),
                elements.paragraph(drawn.complaint, "note"),
            ),
            elements.section(
                "Capacity beside answers",
                elements.table("By KV policy", policies.HEADINGS, policies.rows(records), frozenset({0, 4})),
                elements.items(policies.notes(records)),
            )
            if policies.rows(records)
            else "",
            *(_short(place, view) for place, view in enumerate(views[:MOST_RECORDS], 1)),
        )
    )
    more = len(views) - MOST_RECORDS
    header = "".join(
        (
            elements.paragraph("metrobench report", "kicker"),
            elements.headline(f"{len(views)} records side by side"),
            elements.paragraph(f"The last {more} are in the table only.") if more > 0 else "",
        )
    )
    return elements.document(f"{len(views)} records", header, main, _footer())


def _named(rows: list[tuple[str, ...]], names: list[str]) -> list[tuple[str, ...]]:
    return [(f"{row[0]} · {name}", *row[1:]) for row, name in zip(rows, names, strict=True)]


def _short(place: int, view: View) -> str:
    record: Record = view.stored.record
    return elements.section(
        f"{place} · {view.stored.path.name}",
        elements.paragraph(sentence.verdict(record)),
        elements.paragraph(sentence.beside(record), "note"),
        sections.stand_in(record),
        sections.runs_by_sessions(record),
        elements.items(warning.advice for warning in record.warnings),
        elements.items(f"Judged again by this version: {words}" for words in view.differences),
        elements.items(f"Not shown: {complaint}" for complaint in view.stored.complaints),
    )


def _footer() -> str:
    return elements.paragraph(
        f"metrobench {metrobench.__version__}. Times count from the scheduled end of a frame's audio to its complete"
        " answer; a frame that is never answered, and every frame of a session that was closed, is missed."
    )
