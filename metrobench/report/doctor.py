"""The checks of this machine as plain text, 80 columns wide."""

from __future__ import annotations

import textwrap

from metrobench.doctor.check import Check, Status, verdict
from metrobench.report.terminal import WIDTH


def examination(checks: list[Check]) -> str:
    """The verdict in one sentence, then one entry a check: name, status, finding, and advice where there is some."""
    lines = [*textwrap.wrap(verdict(checks), WIDTH), ""]
    names = max(len(check.name) for check in checks)
    states = max(len(status.value) for status in Status)
    for check in checks:
        left = f"{check.name:<{names}}  {check.status.value:<{states}}  "
        lines += _hang(left, check.finding)
        if check.advice:
            lines += _hang(" " * len(left) + "└ ", check.advice)
    return "\n".join(lines)


def _hang(left: str, text: str) -> list[str]:
    rest = " " * len(left)
    return textwrap.wrap(text, WIDTH, initial_indent=left, subsequent_indent=rest, break_on_hyphens=False) or [left]
