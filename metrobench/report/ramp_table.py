"""An open system's run in words and tables: what came, what was admitted, N(t), and why each session was refused."""

from __future__ import annotations

from typing import Any

from metrobench.errors import UsageError
from metrobench.open_probe import OpenRun
from metrobench.records import Record, plain
from metrobench.report.layout import hang, wrap
from metrobench.report.terminal import stand_in_line
from metrobench.units import percent, seconds

MOST_LINES = 14
"""Lines of the table over time."""
MOST_REFUSALS = 5
"""Refusals that a terminal shows."""
HEADINGS = ("time", "offered", "open", "cap", "refused", "p50", "p99", "missed", "kv")
REFUSALS = ("session", "at", "code", "open", "cap", "p50", "p95", "kv", "kv/s", "retry")
CODES = {
    "session_limit": "the fixed limit was reached",
    "kv_limit": "the KV pool holds no more for ever",
    "overloaded": "the latency controller's cap was reached",
    "kv_pressure": "the KV pool was filling up",
    "join_pace": "too many joined at once",
    "not-reached": "no connection could be made",
    "too-slow": "not accepted in time",
}


def result(found: OpenRun) -> dict[str, Any]:
    """What run.json keeps of a run."""
    return {
        "ramp": plain(found.findings),
        "server": found.server,
        "caps": found.caps,
        "rho": found.rho,
        "kv_peak": found.kv_peak,
        "complaints": found.complaints,
    }


def heading(record: Record) -> str:
    """What is offered, in two or three lines."""
    setting = record.setting
    process = setting["arrivals"]
    arrivals = "all at once" if process == "at-once" else f"{_per_second(setting['rate'])} ({process})"
    parts = (
        record.profile["name"],
        f"budget {seconds(setting['budget'])}",
        str(setting["endpoint"] or setting["kv"]),
        *([f"admission {setting['admission']}"] if setting["admission"] else []),
        *([f"order {setting['order']}"] if setting.get("order") not in (None, "arrival") else []),
        f"{setting['workload']}: {setting['offer']} sessions, {arrivals}, {seconds(setting['hold'])} each",
        "sessions full" if setting["full"] else "fresh sessions",
        f"{seconds(round(setting['length']))} in all",
    )
    return "\n".join([*stand_in_line(record), *wrap(" · ".join(parts))])


def text(record: Record) -> str:
    """The run for a terminal, 80 columns wide."""
    if record.result is None or "ramp" not in record.result:
        return "nothing was measured"
    lines = ["", *over_time(record), ""]
    for name, words in facts(record):
        lines += hang(f"{name:<11}", words)
    if shown := refusals(record)[:MOST_REFUSALS]:
        found = record.result["ramp"]
        lines += ["", f"refusals, {len(shown)} of {found['refused']} (all: the page, or metrobench report RUN --why N)"]
        lines += _columns(REFUSALS, shown)
    return "\n".join(lines)


def facts(record: Record) -> list[tuple[str, str]]:
    """The findings, a name and a line each."""
    result = record.result or {}
    found = result["ramp"]
    by = ", ".join(f"{count} {code}" for code, count in found["refused_by"].items())
    wait = found["slowest_refusal"]
    slowest = f" · slowest refusal {seconds(wait)}" if wait is not None else ""
    latency = found["latency"]
    times = " · ".join(f"{name} {seconds(latency[name])}" for name in ("p50", "p99") if latency[name] is not None)
    missed = f"missed {percent(_share(found['missed'], found['due']))}" if found["due"] else "no frame fell due"
    fairness = "" if found["fairness"] is None else f" · fairness {found['fairness']:.3f} (Jain)"
    lost = f", {found['lost']} of them lost before their end" if found["lost"] else ""
    lines = [
        ("N*", _star(found)),
        ("admitted", f"{found['admitted']} of {found['offered']}{lost}"),
        ("refused", f"{found['refused']}{': ' + by if by else ''}{slowest}"),
        (
            "goodput",
            f"{found['good_seconds']:.0f} of {found['admitted_seconds']:.0f} admitted session-seconds in time"
            f" ({percent(_share(found['good_seconds'], found['admitted_seconds']))}),"
            f" {percent(_share(found['good_seconds'], found['offered_seconds']))} of all that was offered",
        ),
        ("latency", " · ".join(part for part in (times, missed) if part) + fairness),
        *_firm(found.get("budgets", [])),
        ("collapse", _collapse(found["collapse"])),
    ]
    if result.get("kv_peak") is not None:
        lines.append(("kv", f"at most {percent(result['kv_peak'], 0)} of the pool in use"))
    if found["client"]["lagging"]:
        client = found["client"]
        words = f"client-limited: send lag p99 {seconds(client['lag_p99'])}, more than {seconds(client['lag_limit'])}"
        lines.append(("void", words))
    lines += [("note", complaint) for complaint in result.get("complaints", [])]
    if result.get("arithmetic"):
        lines.append(("arithmetic", result["arithmetic"]))
    return lines


def over_time(record: Record) -> list[str]:
    """The table over time, at most MOST_LINES lines."""
    return _columns(HEADINGS, timeline(record, MOST_LINES))


def timeline(record: Record, most: int) -> list[tuple[str, ...]]:
    """One line each so many seconds; what was worst in them."""
    result = record.result or {}
    series = result["ramp"]["series"]
    count = len(series["t"])
    step = next((step for step in _STEPS if count <= most * step), -(-count // most))
    lines: list[tuple[str, ...]] = []
    for first in range(0, count, step):
        span = slice(first, min(count, first + step))
        t = series["t"][span][-1]
        lines.append(
            (
                f"{int(t) // 60}:{int(t) % 60:02d}",
                str(series["offered"][span][-1]),
                str(series["sessions"][span][-1]),
                _latest(result["caps"], t, lambda cap: f"{cap:.0f}"),
                str(series["refused"][span][-1]),
                _worst(series["p50"][span], seconds),
                _worst(series["p99"][span], seconds),
                _worst(series["missed"][span], percent),
                _latest(result["rho"], t, lambda rho: percent(rho, 0)),
            )
        )
    return lines


_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


def refusals(record: Record) -> list[tuple[str, ...]]:
    """One line a refusal: the signals at that moment."""
    lines: list[tuple[str, ...]] = []
    for each in (record.result or {})["ramp"]["refusals"]:
        known = each["signals"]
        lines.append(
            (
                str(each["session"]),
                f"{each['t']:.1f} s",
                each["code"],
                _signal(known, "sessions", "{:.0f}"),
                _signal(known, "cap", "{:.0f}"),
                _milliseconds(known, "p50_ms"),
                _milliseconds(known, "p95_ms"),
                _share_of(known, "rho", 0),
                _share_of(known, "rho_slope", 2),
                _milliseconds(known, "retry_after_ms"),
            )
        )
    return lines


def why(record: Record, session: int) -> str:
    """Why one session was refused, with all that the server said of its state then. Raises UsageError."""
    found = (record.result or {}).get("ramp")
    if found is None:
        raise UsageError("this record is not that of a ramp", "metrobench ramp makes one")
    if not 0 <= session < record.setting["offer"]:
        raise UsageError(f"there is no session {session}", f"0 to {record.setting['offer'] - 1} were to come")
    each = next((each for each in found["refusals"] if each["session"] == session), None)
    if each is None:
        return f"session {session} was not refused"
    place = found["refusals"].index(each)
    meaning = CODES.get(each["code"], each["code"])
    waited = "" if each["waited"] is None else f", {seconds(each['waited'])} after it came"
    closed = "" if each["close_code"] is None else f", close code {each['close_code']}"
    lines = wrap(f"session {session} was refused at {each['t']:.1f} s{waited}: {meaning}{closed}.")
    lines += hang("the server said  ", each["reason"])
    if each["signals"]:
        lines += _columns(REFUSALS, [refusals(record)[place]])
    return "\n".join(lines)


def _columns(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (headings, *rows)]


def _star(found: dict[str, Any]) -> str:
    if found["n_star"] is None:
        return f"not reached: too few were refused to tell; at most {found['peak']} were open at once"
    after = found["converged_after"]
    reached = "never settled" if after is None else f"settled after {seconds(after)}"
    swings = f"swings of {percent(found['oscillation'], 0)}"
    return f"{found['n_star']:.0f} sessions, {reached}, {swings} · peak {found['peak']}"


def _firm(classes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """How sessions of each budget fared; only whether they are firm where all have the same."""
    lines = []
    for each in classes:
        firm = f"{each['not_firm']} of {each['judged']} sessions with 2 or more misses in some 20 frames"
        words = [firm] if each["judged"] else []
        if len(classes) > 1:
            times = [f"{name} {seconds(each[name])}" for name in ("p50", "p99") if each[name] is not None]
            missed = f"missed {percent(_share(each['missed'], each['due']))}"
            words = [f"{each['sessions']} sessions", *times, missed, *words]
        name = f"B {seconds(each['budget'])}" if len(classes) > 1 else "firm"
        if each["judged"] or len(classes) > 1:
            lines.append((name, " · ".join(words)))
    return lines


def _collapse(found: dict[str, Any]) -> str:
    if found["kind"] == "none":
        return "none"
    at = "" if found["onset"] is None else f" at {seconds(sum(found['onset']) / 2)}"
    dead = f", {found['dead_sessions']} sessions closed by the server" if found["dead_sessions"] else ""
    return f"{found['kind']}{at}{dead}"


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _latest(pairs: list[Any], t: float, words: Any) -> str:
    known = [value for moment, value in pairs if moment <= t]
    return words(known[-1]) if known else "-"


def _worst(values: list[Any], words: Any) -> str:
    known = [value for value in values if value is not None]
    return words(max(known)) if known else "-"


def _number(known: dict[str, Any], name: str) -> float | None:
    value = known.get(name)
    return float(value) if isinstance(value, int | float) else None


def _signal(known: dict[str, Any], name: str, form: str) -> str:
    value = _number(known, name)
    return "-" if value is None else form.format(value)


def _milliseconds(known: dict[str, Any], name: str) -> str:
    value = _number(known, name)
    return "-" if value is None else seconds(value / 1000.0)


def _share_of(known: dict[str, Any], name: str, digits: int) -> str:
    value = _number(known, name)
    return "-" if value is None else percent(value, digits)


def _per_second(rate: float) -> str:
    return f"{rate:g}/s" if rate >= 0.1 else f"{60.0 * rate:g}/min"
