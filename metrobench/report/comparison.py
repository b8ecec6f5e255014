"""Several capacity records side by side: one line each."""

from __future__ import annotations

from typing import Any

from metrobench.records import ProbeRecord, Record
from metrobench.report.terminal import found
from metrobench.units import percent, seconds

HEADINGS = ("policy", "MSCS", "limited by", "p50", "p99", "kv")


def table(records: list[Record]) -> str:
    """One line a record: its policy, its interval, and latency and KV at lo."""
    lines = [HEADINGS, *(_cells(record) for record in records)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join(["", *("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)])


def _cells(record: Record) -> tuple[str, ...]:
    if record.result is None:
        return (record.setting["kv"], record.error or record.status, "", "", "", "")
    at_lo = _best(record, record.result["mscs"]["lo"])
    latency: dict[str, Any] = at_lo.verdict["latency"] if at_lo else {}
    kv = at_lo.kv_peak if at_lo else None
    return (
        record.setting["kv"],
        found(record).removeprefix("MSCS ").removesuffix(" sessions"),
        record.result["limited_by"]["limit"],
        *("-" if latency.get(name) is None else seconds(latency[name]) for name in ("p50", "p99")),
        "-" if kv is None else percent(kv, 0),
    )


def _best(record: Record, lo: int) -> ProbeRecord | None:
    """The passed run at lo with the highest p99."""
    passed = [probe for probe in record.probes if probe.sessions == lo and probe.outcome == "passed"]
    return max(passed, key=lambda probe: probe.verdict["latency"]["p99"] or 0.0, default=None)
