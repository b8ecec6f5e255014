"""The answer of a gate as plain text, 80 columns wide."""

from __future__ import annotations

from metrobench.gate.findings import Verdict
from metrobench.report.gate import words
from metrobench.report.layout import WIDTH, hang, wrap


def text(verdict: Verdict) -> str:
    """A table of the rules, what each rests on, what differs, the answer last."""
    lines = [""]
    rows = [words.cells(each) for each in verdict.findings]
    if rows:
        lines += _table([words.HEADINGS, *rows])
        lines.append("")
    for finding in verdict.findings:
        scope = f" ({finding.scope})" if finding.scope != "-" else ""
        lines += hang("  ", f"{finding.rule.name}{scope}: {words.beside(finding)}")
    if verdict.findings:
        lines.append("")
    for line in words.unlike(verdict):
        lines += hang("differs   ", line)
    if names := words.refused(verdict):
        lines += wrap(f"{' '.join(f'--allow {name}' for name in names)} compares all the same", indent="          ")
    for note in verdict.notes:
        lines += hang("note      ", note)
    return "\n".join([*lines, *wrap(words.headline(verdict))])


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Aligned columns; where they are wider than the page, the interval goes under its line."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if sum(widths) + 2 * (len(widths) - 1) <= WIDTH:
        return [_line(row, widths) for row in rows]
    lines = [_line(row[:-1], widths[:-1]) for row in rows[:1]]
    for row in rows[1:]:
        lines.append(_line(row[:-1], widths[:-1]))
        if row[-1] != "-":
            lines.append(f"  └ {rows[0][-1]}: {row[-1]}")
    return lines


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    left = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
    right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
    return "  ".join([*left, *right]).rstrip()
