"""The table of a capacity search: one row per number of sessions, the same in every format."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from metrobench.records import ProbeRecord, Record
from metrobench.units import percent, seconds


class Row(Struct, frozen=True):
    """All runs at one number of sessions."""

    sessions: int
    runs: int
    """Runs that count: void and interrupted ones left out, unless there is no other."""
    missed: float | None
    """Mean share of missed frames."""
    p50: float | None
    """Median latency, seconds, mean over the runs."""
    p99: float | None
    """99th percentile of latency, seconds, largest of the runs."""
    growth: float | None
    """Growth of latency in seconds per second, largest of the runs; None: none that could be told from zero."""
    lag_p99: float | None
    """Send lag of the client, seconds, largest of the runs."""
    kv: float | None
    """Largest share of the KV pool in use."""
    passed: int
    failed: int
    why: str
    """In words: the reason of the first run that did not pass."""


VISIBLE_GROWTH = 0.05e-3
"""Growth in seconds per second that shows in the table."""
HEADINGS = ("sessions", "runs", "missed", "p50", "p99", "growth", "lag p99", "kv", "verdict")


def rows(record: Record) -> list[Row]:
    """Rows by number of sessions, ascending."""
    by_sessions: dict[int, list[ProbeRecord]] = {}
    for probe in record.probes:
        by_sessions.setdefault(probe.sessions, []).append(probe)
    return [_row(sessions, probes) for sessions, probes in sorted(by_sessions.items())]


def cells(row: Row) -> tuple[str, ...]:
    """The row in words, one cell per heading."""
    total = row.passed + row.failed
    if row.passed:
        verdict = f"passed {row.passed} of {total}"
    elif row.failed:
        verdict = f"failed {row.failed} of {total}"
    else:
        verdict = row.why or "undecided"
    return (
        str(row.sessions),
        str(row.runs),
        "-" if row.missed is None else percent(row.missed),
        "-" if row.p50 is None else seconds(row.p50),
        "-" if row.p99 is None else seconds(row.p99),
        "none" if row.growth is None else f"{row.growth * 1e3:+.1f} ms/s",
        "-" if row.lag_p99 is None else seconds(row.lag_p99),
        "-" if row.kv is None else percent(row.kv, 0),
        verdict,
    )


SHORT = {
    "misses": "too many missed",
    "objective": "past the objective",
    "refused": "sessions refused",
    "collapse": "collapse",
    "growth": "grows past the budget",
    "growth-unsure": "growth unclear",
    "too-few-blocks": "too short",
    "not-complete": "not complete",
    "client-lag": "client too slow",
    "client-decides": "client too slow",
    "steal": "CPU stolen",
    "gpu-busy": "GPU shared",
    "others-busy": "machine busy",
    "machine-slow": "machine slowed",
    "client-died": "client died",
    "tie-lost": "tie lost",
}
"""Reasons of metrobench.measure.verdict in a few words."""


def _row(sessions: int, probes: list[ProbeRecord]) -> Row:
    sound = [probe for probe in probes if probe.outcome in ("passed", "failed", "unresolved")] or probes
    verdicts: list[dict[str, Any]] = [probe.verdict for probe in sound]
    growths = [verdict["growth"]["slope"] for verdict in verdicts if verdict["growth"]["slope"]]
    clear = [slope["value"] for slope in growths if slope["lower"] > 0 and slope["value"] >= VISIBLE_GROWTH]
    reasons = [verdict["reasons"][0] for verdict in verdicts if verdict["reasons"]]
    return Row(
        sessions=sessions,
        runs=len(sound),
        missed=_mean([verdict["misses"]["rate"] for verdict in verdicts]),
        p50=_mean([verdict["latency"]["p50"] for verdict in verdicts]),
        p99=_largest([verdict["latency"]["p99"] for verdict in verdicts]),
        growth=max(clear) if clear else None,
        lag_p99=_largest([verdict["client"]["lag_p99"] for verdict in verdicts]),
        kv=_largest([probe.kv_peak for probe in sound]),
        passed=sum(probe.outcome == "passed" for probe in sound),
        failed=sum(probe.outcome == "failed" for probe in sound),
        why=SHORT.get(reasons[0], reasons[0]) if reasons else "",
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _largest(values: list[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
