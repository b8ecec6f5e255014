"""Can the result be trusted? Every check of the instrument itself, with what was seen and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from metrobench.measure.verdict import MAX_OTHERS, MAX_SLOWDOWN, MAX_STEAL
from metrobench.probe_record import DOUBTFUL_OTHERS
from metrobench.records import ProbeRecord, Record
from metrobench.report.capacity_table import SHORT
from metrobench.units import percent, seconds

OK, DOUBTFUL, BAD, UNKNOWN = "ok", "doubtful", "bad", "not visible"

NAMES = {
    "engine": "engine",
    "front": "gateway",
    "client": "client",
    "parent": "command line",
    "others": "other programs",
}
"""Names of CPU shares as people read them."""


class Check(Struct, frozen=True):
    """One question to the instrument."""

    what: str
    seen: str
    allowed: str
    state: str
    """ok, doubtful, bad or not visible."""


def checks(record: Record) -> list[Check]:
    """All checks over the runs that count; a run that was void did not decide anything."""
    probes = [probe for probe in record.probes if probe.outcome != "void"] or record.probes
    if not probes:
        return []
    return [
        _lag(probes),
        _stalls(probes),
        _ambiguous(probes),
        _cpu(probes),
        _around("CPU taken by the hypervisor", probes, "steal", MAX_STEAL / 2, MAX_STEAL, percent),
        _around("other programs", probes, "others", DOUBTFUL_OTHERS, MAX_OTHERS, _cores),
        # who passes on a slow machine passes, and a machine that stays slow is measured as it is
        _around("slowest 3 s of a core", probes, "slowdown", MAX_SLOWDOWN, None, _times),
        _void(record.probes),
    ]


def _lag(probes: list[ProbeRecord]) -> Check:
    seen = _largest(probe.verdict["client"]["lag_p99"] for probe in probes)
    limit = min(probe.verdict["client"]["lag_limit"] for probe in probes)
    shown = "not recorded" if seen is None else f"99 % of chunks at most {seconds(seen)} late"
    state = UNKNOWN if seen is None else BAD if seen > limit else OK
    return Check("client's pace", shown, f"{seconds(limit)}", state)


def _stalls(probes: list[ProbeRecord]) -> Check:
    longest = max(probe.verdict["client"]["stall_longest"] for probe in probes)
    count = sum(probe.verdict["client"]["stalls"] for probe in probes)
    budget = min(probe.verdict["budget"] for probe in probes)
    shown = f"{count} longer than 1 ms, the longest {seconds(longest)}" if count else "none longer than 1 ms"
    return Check("client's stalls", shown, "taken off a frame's latency", DOUBTFUL if longest > 0.1 * budget else OK)


def _ambiguous(probes: list[ProbeRecord]) -> Check:
    count = sum(probe.verdict["misses"]["ambiguous"] for probe in probes)
    due = sum(probe.verdict["misses"]["due"] for probe in probes)
    return Check("ambiguous frames", f"{count} of {due}", "none", DOUBTFUL if count else OK)


def _cpu(probes: list[ProbeRecord]) -> Check:
    seen = {name for probe in probes for name in probe.cpu_shares}
    if not seen & {"engine", "front", "client"}:
        return Check("CPU, in cores", "not visible", "", UNKNOWN)
    named = [
        f"{NAMES[name]} {percent(max(probe.cpu_shares.get(name, 0.0) for probe in probes), 0)}"
        for name in ("engine", "front", "client")
        if name in seen
    ]
    full = max(probe.cpu_shares.get("client", 0.0) for probe in probes) > 0.9
    return Check("CPU, in cores", "at most " + ", ".join(named), "client under 90 %", DOUBTFUL if full else OK)


def _around(
    what: str, probes: list[ProbeRecord], name: str, doubtful: float, most: float | None, show: Callable[[float], str]
) -> Check:
    seen, allowed = _largest(probe.verdict[name] for probe in probes), show(doubtful if most is None else most)
    if seen is None:
        return Check(what, "not visible", allowed, UNKNOWN)
    state = BAD if most is not None and seen > most else DOUBTFUL if seen > doubtful else OK
    return Check(what, f"at most {show(seen)}", allowed, state)


def _void(probes: list[ProbeRecord]) -> Check:
    void = [probe for probe in probes if probe.outcome == "void"]
    if not void:
        return Check("void runs", f"none of {len(probes)}", "none; they are repeated", OK)
    reasons = sorted({SHORT.get(code, code) for probe in void for code in probe.verdict["reasons"]})
    state = BAD if len(void) == len(probes) else DOUBTFUL
    return Check("void runs", f"{len(void)} of {len(probes)} ({', '.join(reasons)})", "none; they are repeated", state)


def _largest(values: Iterable[Any]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _cores(value: float) -> str:
    return f"{value:.2f} cores"


def _times(value: float) -> str:
    return f"{value:.2f} times its usual time"
