"""The verdict of a record in one sentence, the first thing of every report that people read."""

from __future__ import annotations

from typing import Any

from metrobench.endpoints.base import FrameClass
from metrobench.records import ProbeRecord, Record
from metrobench.report import quality_table
from metrobench.units import counted, percent, rate, seconds


def noun(setting: dict[str, Any]) -> str:
    """What is counted: frames, segments or turns."""
    return FrameClass(setting.get("frame_class") or "A").noun


def verdict(record: Record) -> str:
    """What was found, in one sentence without units of the trade."""
    return counted(_verdict(record), noun(record.setting))


def _verdict(record: Record) -> str:
    if record.kind == "capacity":
        return _capacity(record)
    if record.kind == "ramp":
        return _ramp(record)
    if record.kind == quality_table.KIND:
        return quality_table.sentence(record)
    if not record.probes:
        return "Nothing was measured."
    if record.kind == "collapse":
        return _batch(record)
    probe = record.probes[-1]
    return _check(probe) if record.kind == "check" else _run(probe)


def objective(setting: dict[str, Any]) -> str | None:
    """The latency objective in words; None: the miss rate is the rule."""
    slo = setting["slo"]
    return f"p{slo['quantile'] * 100:g} at most {seconds(slo['limit'])}" if slo else None


def beside(record: Record) -> str:
    """What the sentence rests on: the rule, the policy, the length of a run."""
    setting = record.setting
    if record.kind == quality_table.KIND:
        return quality_table.beside(record)
    if record.kind == "ramp":
        admission = setting["admission"] or "its own"
        parts = (record.profile["name"], setting["endpoint"] or setting["kv"], f"admission {admission}")
        length = f"{setting['workload']}, {setting['offer']} sessions offered in {seconds(record.wall_seconds)}"
        return " · ".join((*parts, f"budget {seconds(setting['budget'])}", length))
    frames = f"{noun(setting)}s"
    rule = objective(setting) or f"at most {rate(setting['q'])} of {frames} later than {seconds(setting['budget'])}"
    spans = sorted({probe.span_seconds for probe in record.probes})
    length = f"{seconds(spans[0])} to {seconds(spans[-1])} a run" if len(spans) > 1 else ""
    return " · ".join(
        part
        for part in (
            record.profile["name"],
            rule,
            str(setting["endpoint"] or setting["kv"]),
            length or (f"{seconds(spans[0])} a run" if spans else ""),
            f"{len(record.probes)} run{'s' if len(record.probes) != 1 else ''} in {seconds(record.wall_seconds)}",
        )
        if part
    )


def _capacity(record: Record) -> str:
    if record.result is None:
        return "The search did not get far enough to say anything."
    mscs: dict[str, Any] = record.result["mscs"]
    limit = record.result["limited_by"]["limit"]
    because = "" if limit == "unknown" else f"; what gives out is {_LIMITS.get(limit, limit)}"
    if mscs["hi"] is not None and mscs["lo"]:
        return f"{mscs['lo']} concurrent sessions hold, {mscs['hi']} do not{because}."
    if mscs["hi"] is not None:
        return f"No number of sessions was confirmed to hold; {mscs['hi']} do not{because}."
    if mscs["stop"] == "nothing-failed":
        return f"At least {mscs['lo']} concurrent sessions hold: nothing failed."
    if mscs["lo"]:
        return f"At least {mscs['lo']} concurrent sessions hold; how many do not is open: {record.result['stopped']}."
    once = ""
    if mscs["failed_once"] is not None:
        passed = f"{mscs['passed_once']} sessions passed once, " if mscs["passed_once"] else ""
        once = f" So far: {passed}{mscs['failed_once']} failed once."
    return f"No capacity was found: {record.result['stopped']}.{once}"


_LIMITS = {
    "compute": "the engine's compute",
    "kv": "the KV pool",
    "positions": "the model's positions",
    "gateway": "the gateway",
    "client": "the load generator itself, not the server",
}


def _batch(record: Record) -> str:
    if record.result is None:
        return "The trials did not get far enough to say anything."
    parts: list[str] = []
    for policy, found in record.result["policies"].items():
        count = f"none of {found['trials']}" if not found["collapsed"] else f"{found['collapsed']} of {found['trials']}"
        parts.append(f"{count} at {policy}")
    return f"Runs of {record.setting['sessions']} sessions that collapsed: {', '.join(parts)}."


def _ramp(record: Record) -> str:
    found: dict[str, Any] | None = (record.result or {}).get("ramp")
    if found is None:
        return "Nothing was measured."
    if found["client"]["lagging"]:
        return "This run proves nothing: the client itself was late."
    kind = found["collapse"]["kind"]
    ended = f" Serving ended in {kind}." if kind in ("stall", "starvation", "engine-death") else ""
    share = found["good_seconds"] / found["admitted_seconds"] if found["admitted_seconds"] else 0.0
    good = f"{percent(share)} of the admitted speech was answered in time"
    if found["n_star"] is not None:
        held = f"About {found['n_star']:.0f} sessions were held at once"
        return f"{held}, {found['refused']} of {found['offered']} were refused, and {good}.{ended}"
    some = "none was refused" if not found["refused"] else f"{found['refused']} were refused"
    return f"Of {found['offered']} sessions {some}; {found['peak']} were open at the most, and {good}.{ended}"


def _run(probe: ProbeRecord) -> str:
    rate = probe.verdict["misses"]["rate"]
    missed = "no frame fell due" if rate is None else f"{percent(rate)} of frames missed"
    who = f"{probe.sessions} session{'s' if probe.sessions != 1 else ''}"
    holds = "holds" if probe.sessions == 1 else "hold"
    length = seconds(probe.span_seconds)
    if probe.outcome == "passed":
        return f"{who} {holds} for {length}: {missed}."
    if probe.outcome == "failed":
        return f"{who} {'does' if probe.sessions == 1 else 'do'} not hold for {length}: {_collapse(probe)}{missed}."
    if probe.outcome == "void":
        return f"This run of {who} proves nothing: {probe.reasons[0] if probe.reasons else 'it is void'}."
    if probe.outcome == "interrupted":
        return f"Interrupted: {missed}, with {who}, of the {probe.verdict['misses']['due']} that were due by then."
    return f"Undecided for {who} after {length}: {missed}."


def _collapse(probe: ProbeRecord) -> str:
    kind = probe.verdict["collapse"]["kind"]
    return f"{kind}, " if kind in ("stall", "starvation", "engine-death") else ""


def _check(probe: ProbeRecord) -> str:
    misses, latency = probe.verdict["misses"], probe.verdict["latency"]
    answered = misses["met"] + misses["late"]
    if not answered:
        return "It does not answer."
    slowest = f", the slowest in {seconds(latency['largest'])}" if latency["largest"] is not None else ""
    return f"It answers: {answered} of {misses['planned']} frames{slowest}."
