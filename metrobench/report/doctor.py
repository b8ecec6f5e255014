"""The checks of this machine as plain text, 80 columns wide."""

from __future__ import annotations

from metrobench.doctor.check import Check, Status, verdict
from metrobench.report.layout import hang, wrap


def examination(checks: list[Check]) -> str:
    """The verdict in one sentence, then one entry a check: name, status, finding, and advice where there is some."""
    lines = [*wrap(verdict(checks)), ""]
    names = max(len(check.name) for check in checks)
    states = max(len(status.value) for status in Status)
    for check in checks:
        left = f"{check.name:<{names}}  {check.status.value:<{states}}  "
        lines += hang(left, check.finding)
        if check.advice:
            lines += hang(" " * len(left) + "└ ", check.advice)
    return "\n".join(lines)
