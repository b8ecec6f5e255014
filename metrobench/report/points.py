"""The runs of a record as points against the number of sessions."""

from __future__ import annotations

from msgspec import Struct

from metrobench.records import Record


class Point(Struct, frozen=True):
    """One run."""

    sessions: int
    outcome: str
    missed: float | None
    """Share of missed frames."""
    p50: float | None
    """Seconds."""
    p99: float | None


def points(record: Record) -> list[Point]:
    """All runs in their order, void ones included."""
    return [
        Point(
            sessions=probe.sessions,
            outcome=probe.outcome,
            missed=probe.verdict["misses"]["rate"],
            p50=probe.verdict["latency"]["p50"],
            p99=probe.verdict["latency"]["p99"],
        )
        for probe in record.probes
    ]
