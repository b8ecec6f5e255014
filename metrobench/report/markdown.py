"""A record as Markdown, fit for a comment on a pull request: the verdict, the table, the warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from metrobench.records import Record
from metrobench.report import (
    capacity_table,
    collapse_table,
    comparison,
    policies,
    quality_table,
    ramp_table,
    sentence,
    trust,
)
from metrobench.report.stored import Stored

MOST_WORDS = 10
"""Most words of the server that are shown, each cut to 200 characters."""


def document(found: Sequence[Stored]) -> str:
    """One record, or several: a table of all, then each."""
    parts = [_record(stored.record) for stored in found]
    if len(found) > 1:
        records = [stored.record for stored in found]
        rows = [(*row, stored.path.name) for row, stored in zip(comparison.rows(records), found, strict=True)]
        unlike = [f"- not alike: {words(line)}" for line in comparison.unlike(records)]
        both = policies.rows(records)
        beside = (
            [table(policies.HEADINGS, both), _list(words(note) for note in policies.notes(records))] if both else []
        )
        parts = [table((*comparison.NUMBERED, "record"), rows), "\n".join(unlike), *beside, *parts]
    return "\n\n".join(part for part in parts if part)


def _record(record: Record) -> str:
    parts = [f"## {words(sentence.verdict(record))}", words(sentence.beside(record)), _banner(record)]
    result = record.result or {}
    if result.get("limited_by"):
        parts.append(f"Limited by {result['limited_by']['limit']}: {words(result['limited_by']['why'])}.")
    if result.get("arithmetic"):
        parts.append(f"{words(result['arithmetic'])}.")
    if record.kind == "ramp":
        if result.get("ramp"):
            parts.append(table(ramp_table.HEADINGS, ramp_table.timeline(record, ramp_table.MOST_LINES)))
            parts.append(_list(f"{name}: {words(said)}" for name, said in ramp_table.facts(record)))
    elif record.kind == quality_table.KIND:
        parts += _quality(record)
    elif record.kind == "collapse":
        parts.append(table(collapse_table.HEADINGS, collapse_table.rows(record)))
        parts.append(_list(words(remark) for remark in collapse_table.remarks(record)))
    else:
        rows = [capacity_table.cells(row) for row in capacity_table.rows(record)]
        parts.append(table(capacity_table.HEADINGS, rows))
    parts.append(_list(words(warning.advice) for warning in record.warnings))
    doubts = [check for check in trust.checks(record) if check.state in (trust.DOUBTFUL, trust.BAD)]
    parts.append(_list(f"{check.what}: {words(check.seen)} (allowed: {check.allowed})" for check in doubts))
    said = sorted({reason for probe in record.probes for reason in probe.close_reasons})[:MOST_WORDS]
    parts.append(_list(f"the server said: {words(reason[:200])}" for reason in said))
    parts.append(f"`{_code(' '.join(record.command))}` · seed {record.seed} · {record.created}")
    return "\n\n".join(part for part in parts if part)


def _quality(record: Record) -> list[str]:
    if not quality_table.found(record):
        return []
    return [
        table(quality_table.headings(record), quality_table.rows(record)),
        _list(f"{words(name)}: {words(said)}" for name, said in quality_table.costs(record)),
        *([table(quality_table.TRIED, quality_table.tried(record))] if quality_table.tried(record) else []),
        table(("believable?", "state", "seen"), quality_table.checks(record)),
    ]


def _banner(record: Record) -> str:
    lines = []
    if record.stand_in:
        name = words(record.profile["name"])
        lines.append(f"> **Stand-in** for {name}: this machine's capacity, not the model's.")
    if record.status != "complete":
        lines.append(f"> **{record.status}**: {words(record.error or 'partial record')}")
    return "\n".join(lines)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, all columns but the last to the right; empty where there are no rows."""
    lines = [f"| {' | '.join(words(cell) for cell in row)} |" for row in rows]
    if not lines:
        return ""
    rule = "|".join(" ---: " if place < len(headings) - 1 else " --- " for place in range(len(headings)))
    return "\n".join([f"| {' | '.join(headings)} |", f"|{rule}|", *lines])


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def words(text: str) -> str:
    """Text that Markdown shows as it is, on one line: no markup, no mention of anybody, no cell that ends early."""
    flat = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    for letter in "\\`*_[]<>|#":
        flat = flat.replace(letter, f"\\{letter}")
    return flat.replace("@", "@<!-- -->")


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())
