"""The answer of a gate as JSON, for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from metrobench.gate.findings import Verdict
from metrobench.report.gate import words

LAYOUT = 1
"""Version of this JSON; raised when an older reader would misread it."""


def data(verdict: Verdict, code: int) -> dict[str, Any]:
    """Plain values. `code`: the exit code."""
    found: dict[str, Any] = msgspec.to_builtins(verdict)
    for each, finding in zip(found["findings"], verdict.findings, strict=True):
        each["sentence"] = words.beside(finding)
    return {"gate": LAYOUT, "exit_code": code, "headline": words.headline(verdict), **found}


def text(verdict: Verdict, code: int) -> str:
    """Indented."""
    return msgspec.json.format(msgspec.json.encode(data(verdict, code)), indent=1).decode() + "\n"
