"""All that a command itself printed, from its record."""

from __future__ import annotations

from metrobench.policy import parse_policy
from metrobench.records import Record
from metrobench.report import collapse_table, quality_table, ramp_table, terminal
from metrobench.report.layout import hang


def whole(record: Record) -> str:
    """The record as its own command printed it."""
    if record.kind == "check" and record.probes:
        misses = record.probes[-1].verdict["misses"]
        return "\n".join([*_status(record), terminal.check(record, record.probes[-1], misses["met"] + misses["late"])])
    if record.kind == "collapse":
        body = collapse_table.text(record) if record.result else "\nnothing was concluded"
        return "\n".join([collapse_table.heading(record), *_status(record), body])
    if record.kind == "ramp":
        return "\n".join([ramp_table.heading(record), *_status(record), ramp_table.text(record)])
    if record.kind == quality_table.KIND:
        return "\n".join([quality_table.heading(record), *_status(record), quality_table.text(record)])
    span = record.probes[0].span_seconds if record.probes else record.setting.get("span")
    lines = [terminal.heading(record, span, parse_policy(record.setting["kv"]).bounded), *_status(record)]
    if record.kind == "capacity" or len(record.probes) > 1:
        lines.append(terminal.capacity(record))
    elif record.probes:
        lines.append(terminal.run(record, record.probes[0]))
    else:
        lines += ["", "nothing was measured", *terminal.notes(record)]
    return "\n".join(lines)


def _status(record: Record) -> list[str]:
    """Where a record is not that of a command that came to its end."""
    if record.status == "complete":
        return []
    return hang(f"{record.status:<12}", record.error or "what was measured by then")
