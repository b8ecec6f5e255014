"""The answer of a gate as GitHub workflow commands: annotations on the run that they are printed in."""

from __future__ import annotations

from metrobench.gate.findings import Answer, Verdict
from metrobench.report.gate import words
from metrobench.report.gate.junit import summary


def text(verdict: Verdict, strict: bool) -> str:
    """One command a line: an error for a failure, a warning for what cannot be told (`strict`: an error too)."""
    levels = {Answer.FAIL: "error", Answer.CANNOT_TELL: "error" if strict else "warning", Answer.PASS: "notice"}
    lines = [
        _command(levels[each.answer], f"metrobench: {each.rule.name} ({each.scope})", summary(each))
        for each in verdict.findings
    ]
    lines += [_command("warning", "metrobench: not alike", each) for each in words.unlike(verdict)]
    lines += [_command("notice", "metrobench", note) for note in verdict.notes]
    if not verdict.findings:
        lines.append(_command(levels[Answer.CANNOT_TELL], "metrobench gate", words.headline(verdict)))
    return "\n".join(lines) + "\n"


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_escape(title, inside=True)}::{_escape(message)}"


def _escape(text: str, *, inside: bool = False) -> str:
    """As actions/toolkit does (packages/core/src/command.ts); `inside`: a property, where , and : end it."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return escaped.replace(":", "%3A").replace(",", "%2C") if inside else escaped
