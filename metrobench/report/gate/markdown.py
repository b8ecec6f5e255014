"""The answer of a gate as Markdown, fit for a comment on a pull request."""

from __future__ import annotations

from metrobench.gate.findings import Answer, Verdict
from metrobench.report.gate import words
from metrobench.report.markdown import table
from metrobench.report.markdown import words as plain

MARK = "<!-- metrobench gate -->"
"""First line, by which a bot finds its own comment again."""
SIGNS = {Answer.PASS: "✅", Answer.FAIL: "❌", Answer.CANNOT_TELL: "❓"}


def text(verdict: Verdict) -> str:
    """Headline, table, what each rule rests on, what differs."""
    parts = [MARK, f"## {SIGNS[verdict.answer]} metrobench gate: {plain(words.headline(verdict))}"]
    rows = []
    for finding in verdict.findings:
        rule, answer, *numbers = words.cells(finding)
        rows.append((f"{rule} ({finding.scope})", f"{SIGNS[finding.answer]} {answer}", *numbers, words.beside(finding)))
    parts.append(table((*words.HEADINGS, "rests on"), rows))
    if verdict.differences:
        parts.append(
            "**Not alike** (baseline → now)\n\n" + "\n".join(f"- {plain(each)}" for each in words.unlike(verdict))
        )
    if verdict.notes:
        parts.append("\n".join(f"- {plain(note)}" for note in verdict.notes))
    return "\n\n".join(part for part in parts if part)
