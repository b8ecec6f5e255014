"""Records as CSV: one line a run with every number of it, or one line a frame. Units are in the names of the columns.

A number that does not exist is an empty field.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Any

import numpy as np

from metrobench.errors import UsageError
from metrobench.measure.facts import FRAME_DTYPE
from metrobench.records import ProbeRecord, Record
from metrobench.report import quality_table
from metrobench.report.stored import Stored

SECONDS = (
    "budget", "unit", "span", "cut", "limit",
    "latency.p50", "latency.p99", "latency.largest", "latency.jitter", "latency.interval_sd",
    "latency.interval_sd_worst", "latency.first_p50", "latency.first_p99",
    "growth.block_seconds", "growth.tail", "growth.horizon", "growth.ahead_upper", "growth.ahead_lower",
    "drift.early_p50", "drift.late_p50", "collapse.named_at", "collapse.onset_start", "collapse.onset_end",
    "client.lag_p50", "client.lag_p99", "client.lag_limit", "client.stall_longest", "client.lateness_max",
)  # fmt: skip
"""Numbers of a verdict that are seconds."""
SLOPES = ("growth.slope", "drift.slope")
"""Theil-Sen slopes: seconds per second."""
SHARES = ("q", "misses.rate", "misses.interval", "misses.not_firm", "collapse.share", "steal")
"""Fractions of one."""
CORES = ("engine", "front", "client", "parent", "others")
"""Processes whose CPU is known, in cores."""
FRAME_UNITS = {"t_ready": "s", "t_sent": "s", "t_first": "s", "t_done": "s", "lag_max": "s"}
CHUNK = 50_000
"""Frames that become text at a time."""


def runs(records: Sequence[Stored]) -> Iterator[str]:
    """The header, then one line for each run of each record."""
    lines = [
        {**_record(stored), **_probe(stored.record, probe)} for stored in records for probe in stored.record.probes
    ]
    lines += [{**_record(stored), **_ramp(stored.record)} for stored in records if _ramp(stored.record)]
    lines += [{**_record(stored), **line} for stored in records for line in _quality(stored.record)]
    names = list(dict.fromkeys(name for line in lines for name in line)) or [*_record_names()]
    yield _line(names)
    for line in lines:
        yield _line([line.get(name) for name in names])


def frames(records: Sequence[Stored]) -> Iterator[str]:
    """The header, then one line for each recorded frame. Facts that cannot be read are noted in `complaints`."""
    columns = [name + (f"_{FRAME_UNITS[name]}" if name in FRAME_UNITS else "") for name in FRAME_DTYPE.names or ()]
    yield _line(["record", "run", "sessions", "stand_in", *columns, "latency_s"])
    for stored in records:
        for probe in stored.record.probes:
            try:
                rows = stored.facts(probe).frames
            except UsageError as error:
                stored.complaints.append(error.message)
                continue
            before = [stored.path.name, probe.index, probe.sessions, _word(stored.record.stand_in)]
            for first in range(0, len(rows), CHUNK):
                yield _frames(before, rows[first : first + CHUNK])


def _frames(before: list[Any], rows: np.ndarray) -> str:
    columns = [rows[name].tolist() for name in FRAME_DTYPE.names or ()]
    latency = (rows["t_done"] - rows["t_ready"]).tolist()
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [*before, *(_cell(value) for value in values)] for values in zip(*columns, latency, strict=True)
    )
    return text.getvalue()


def _record_names() -> list[str]:
    return ["record", "kind", "status", "model", "stand_in"]


def _record(stored: Stored) -> dict[str, Any]:
    record = stored.record
    return {
        "record": stored.path.name,
        "kind": record.kind,
        "status": record.status,
        "model": record.profile["name"],
        "stand_in": _word(record.stand_in),
        "kv": record.setting["kv"],
        "endpoint": record.setting["endpoint"],
        "created": record.created,
        "metrobench": record.environment.versions.get("metrobench"),
        "warnings": " ".join(warning.code for warning in record.warnings),
    }


def _ramp(record: Record) -> dict[str, Any]:
    """The numbers of an open system; empty where the record is of none."""
    found: dict[str, Any] | None = (record.result or {}).get("ramp")
    if found is None:
        return {}
    return {
        "workload": record.setting["workload"],
        "admission": record.setting["admission"],
        **{name: found[name] for name in ("offered", "admitted", "refused", "lost", "n_star", "peak")},
        **{f"{name}_session_s": found[f"{name}_seconds"] for name in ("offered", "admitted", "good")},
        "converged_s": found["converged_after"],
        "oscillation_share": found["oscillation"],
        "fairness": found["fairness"],
        "due": found["due"],
        "missed": found["missed"],
        "p50_s": found["latency"]["p50"],
        "p99_s": found["latency"]["p99"],
        "collapse": found["collapse"]["kind"],
        "kv_peak_share": (record.result or {}).get("kv_peak"),
    }


def _quality(record: Record) -> Iterator[dict[str, Any]]:
    """One line for each arm and band of age of a quality probe."""
    found = quality_table.found(record) if record.kind == quality_table.KIND else {}
    for each in found.get("findings", ()):
        for band in each["bands"]:
            line: dict[str, Any] = {
                "policy": each["arm"]["policy"],
                "condition": each["arm"]["condition"],
                "age_windows": None if (became := band.get("asked")) else f"{band['age']} W",
                "age": band["age"] if became else None,
                "window_tokens": None if became else found["window"],
                "answers": (band["accuracy"] or {}).get("answers", 0),
            }
            for name, unit in (("accuracy", "share"), ("nll", "nats"), ("nll_loss", "nats")):
                ends = band[name] or {}
                line |= {f"{name}_{end}_{unit}": ends.get(end) for end in ("value", "lower", "upper")}
            line |= {"repetition_share": band["repetition"], "hollow": band["hollow"], "first": band["first"]}
            line |= {f"questions_{name}": count for name, count in (became or {}).items()}
            line |= {"verdict": each["verdict"], "believed": _word(found["believed"])}
            yield line


def _probe(record: Record, probe: ProbeRecord) -> dict[str, Any]:
    line: dict[str, Any] = {
        "run": probe.index,
        "sessions": probe.sessions,
        "seed": probe.seed,
        "started": probe.started,
        "outcome": probe.outcome,
        "reasons": "; ".join(probe.reasons),
        "close_reasons": "; ".join(probe.close_reasons),
        "wall_s": probe.wall_seconds,
        "start_s": probe.start_seconds,
        "fill_s": probe.fill_seconds,
        "kv_peak_share": probe.kv_peak,
        "waiting_peak": probe.waiting_peak,
        "prefix_hit_tokens": probe.prefix_hit_tokens,
        **{f"cpu_{name}_cores": probe.cpu_shares.get(name) for name in CORES},
    }
    slo = record.setting["slo"]
    line["slo_quantile"] = slo["quantile"] if slo else None
    for name, value in _flat(probe.verdict):
        line[_with_unit(name)] = value
    return line


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and plain values of a verdict; words and what the line has already are left out."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if path in ("outcome", "sentences", "sessions") or name == "absent":
            continue
        if path in (*SLOPES, "misses.interval"):
            ends = value or dict.fromkeys(("value", "lower", "upper"))
            yield from ((f"{path}.{end}", ends[end]) for end in ("value", "lower", "upper"))
        elif path == "collapse.onset":
            yield f"{path}_start", value[0] if value else None
            yield f"{path}_end", value[1] if value else None
        elif isinstance(value, dict):
            yield from _flat(value, f"{path}.")
        elif isinstance(value, list):
            yield path, " ".join(value)
        else:
            yield path, _word(value) if isinstance(value, bool) else value


def _with_unit(path: str) -> str:
    name = path.removesuffix("_seconds").replace(".", "_")
    if path in SECONDS:
        return f"{name}_s"
    if path.startswith(SLOPES):
        return f"{name}_s_per_s"
    if path in SHARES or path.startswith("misses.interval"):
        return f"{name}_share"
    return f"{name}_cores" if path == "others" else name


def _line(cells: Sequence[Any]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, str):
        # a spreadsheet must not take a server's words for a formula
        flat = " ".join(value.split())
        return f"'{flat}" if flat[:1] in ("=", "+", "-", "@") else flat
    return value


def _word(value: bool) -> str:
    return "yes" if value else "no"
