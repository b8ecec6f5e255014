"""What the records of benchmarks/admission_study.py say: a sentence a cell, a table, two plots."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metrobench.admission.aimd import Gains
from metrobench.admission.base import Code
from metrobench.errors import UsageError
from metrobench.records import Record, read_record
from metrobench.report.layout import hang
from metrobench.units import percent, seconds

CAPACITY = "capacity"
PILOT = "pilot"
LEAST = 0.6
"""N* of a rule that measures latency is to lie within [LEAST lo, hi] of `capacity`."""
HEADINGS = ("", "N*", "bounds", "most", "good", "offer", "p99", "missed", "collapse")


@dataclass(frozen=True)
class Outcome:
    """One cell of the grid. Seconds, sessions, shares."""

    load: str
    kv: str
    rule: str
    record: str
    void: str
    """Why it proves nothing; empty: it does."""
    n_star: float | None
    lo: int | None
    hi: int | None
    """Of `capacity` under the same policy and pool; None: not measured."""
    peak: int
    offered: int
    admitted: int
    good: float
    """Share of admitted session-seconds in time."""
    good_of_offered: float
    p50: float | None
    p99: float | None
    missed: float
    oscillation: float | None
    converged_after: float | None
    kv_peak: float | None
    collapse: str
    onset: float | None
    held_back: str
    """What refused most of those who came late, in words."""
    series: dict[str, list[Any]]
    """`t`, open `sessions`, `p99`: second by second."""


def newest(folder: Path) -> Path | None:
    """The latest record in a cell's folder."""
    return max(folder.glob("*/run.json"), default=None)


def read(file: Path) -> Record:
    """A record. Raises UsageError."""
    return read_record(file)


def void(record: Record) -> str:
    """Why a record proves nothing, in words; empty where it does."""
    if record.status != "complete":
        return record.error or f"the command was {record.status}"
    result = record.result or {}
    if record.kind == CAPACITY:
        found = result.get("mscs") or {}
        limit = (result.get("limited_by") or {}).get("why", "nothing was found")
        return "" if found.get("lo") else f"no number of sessions passed, {result.get('stopped') or 'no run'}: {limit}"
    if "ramp" not in result:
        return "nothing was measured"
    client = result["ramp"]["client"]
    if client["lagging"]:
        lag, limit = seconds(client["lag_p99"]), seconds(client["lag_limit"])
        return f"client-limited: send lag p99 {lag}, more than {limit}"
    return ""


def useful(record: Record) -> bool:
    """It is whole and proves something."""
    return not void(record)


def sentence(record: Record) -> str:
    """One cell in one sentence."""
    if why := void(record):
        return f"void: {why}; measured again when the study is started again"
    assert record.result is not None
    if record.kind == CAPACITY:
        found = record.result["mscs"]
        return f"[{found['lo']}, {found['hi'] or '...'}] sessions ({record.result['stopped']})"
    found = record.result["ramp"]
    star = "no N*: too few were refused" if found["n_star"] is None else f"N* {found['n_star']:.0f}"
    good = percent(_share(found["good_seconds"], found["admitted_seconds"]))
    p99 = found["latency"]["p99"]
    late = "nothing answered" if p99 is None else f"p99 {seconds(p99)}"
    return f"{star}, peak {found['peak']}, {good} in time, {late}, collapse: {found['collapse']['kind']}"


def conclude(out: Path, names: list[str], sessions: int) -> str:
    """Write table.txt, study.json and the plots; the table in words."""
    records: dict[str, Record] = {}
    unread: list[str] = []
    for name in names:
        if (file := newest(out / name)) is not None:
            try:
                records[name] = read(file)
            except UsageError as error:
                unread.append(str(error))
    bounds = {name.split("/")[1]: _bounds(record) for name, record in records.items() if record.kind == CAPACITY}
    grid = [
        _outcome(name, record, bounds)
        for name, record in records.items()
        if record.kind == "ramp" and "ramp" in (record.result or {})
    ]
    text = "\n".join([_about(records, sessions), *_table(grid), "", *_notes(grid), *unread])
    (out / "table.txt").write_text(text + "\n")
    told = {"sessions": sessions, "capacity": bounds, "cells": [asdict(each) for each in grid]}
    (out / "study.json").write_text(json.dumps(told) + "\n")
    if grid:
        _draw(grid, out)
    return text


def _bounds(record: Record) -> tuple[int, int | None] | None:
    if not useful(record) or record.result is None:
        return None
    found = record.result["mscs"]
    return int(found["lo"]), found["hi"]


def _outcome(name: str, record: Record, bounds: dict[str, tuple[int, int | None] | None]) -> Outcome:
    load, kv, rule = name.split("/")
    result = record.result or {}
    found = result["ramp"]
    lo, hi = bounds.get(kv) or (None, None)
    onset = found["collapse"]["onset"]
    return Outcome(
        load=load,
        kv=kv,
        rule=rule,
        record=record.created,
        void=void(record),
        n_star=found["n_star"],
        lo=lo,
        hi=hi,
        peak=found["peak"],
        offered=found["offered"],
        admitted=found["admitted"],
        good=_share(found["good_seconds"], found["admitted_seconds"]),
        good_of_offered=_share(found["good_seconds"], found["offered_seconds"]),
        p50=found["latency"]["p50"],
        p99=found["latency"]["p99"],
        missed=_share(found["missed"], found["due"]),
        oscillation=found["oscillation"],
        converged_after=found["converged_after"],
        kv_peak=result["kv_peak"],
        collapse=found["collapse"]["kind"],
        onset=None if onset is None else sum(onset) / 2,
        held_back=held_back(found["refusals"], record.setting["budget"]),
        series={each: found["series"][each] for each in ("t", "sessions", "p99")},
    )


def held_back(refusals: list[dict[str, Any]], budget: float) -> str:
    """Which signal refused most of those who came in the last half of the time in which sessions were refused."""
    if not refusals:
        return "nobody was refused"
    times = [each["t"] for each in refusals]
    late = [each for each in refusals if each["t"] >= (min(times) + max(times)) / 2]
    code, count = Counter(each["code"] for each in late).most_common(1)[0]
    words = f"{code} ({count} of {len(late)} late refusals)"
    if code == Code.OVERLOADED:
        gains = Gains()
        limits = {"p50_ms": 1e3 * gains.target * budget, "p95_ms": 1e3 * gains.tail * budget}
        known = {
            name: statistics.median(each["signals"][name] for each in late if name in each["signals"]) / limit
            for name, limit in limits.items()
            if any(name in each["signals"] for each in late)
        }
        if known:
            name = max(known, key=lambda each: known[each])
            words += f": {name.removesuffix('_ms')} at {percent(known[name], 0)} of its limit, in the median"
    return words


def _about(records: dict[str, Record], sessions: int) -> str:
    record = next(iter(records.values()), None)
    if record is None:
        return "no cell has been measured"
    machine = record.environment
    pool = next((each.setting["pool_tokens"] for each in records.values() if each.setting["pool_tokens"]), None)
    words = f"{machine.cpu}, {machine.cores} cores · about {sessions} sessions fit · pool {pool} tokens"
    return "\n".join(hang("", f"{words} · budget {seconds(record.setting['budget'])}")) + "\n"


def _table(grid: list[Outcome]) -> list[str]:
    lines: list[str] = []
    for load, kv in dict.fromkeys((each.load, each.kv) for each in grid):
        rows = [_row(each) for each in grid if (each.load, each.kv) == (load, kv)]
        widths = [max(len(row[place]) for row in (HEADINGS, *rows)) for place in range(len(HEADINGS))]
        lines += ["", f"{load}, {kv}"] if lines else [f"{load}, {kv}"]
        lines += [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (HEADINGS, *rows)
        ]
    return lines


def _row(each: Outcome) -> tuple[str, ...]:
    if each.void:
        return (each.rule, "void", *["-"] * (len(HEADINGS) - 2))
    bounds = "-" if each.lo is None else f"[{LEAST * each.lo:.0f}, {'...' if each.hi is None else each.hi}]"
    return (
        each.rule,
        "-" if each.n_star is None else f"{each.n_star:.0f}",
        bounds,
        str(each.peak),
        percent(each.good, 0),
        percent(each.good_of_offered, 0),
        "-" if each.p99 is None else seconds(each.p99),
        percent(each.missed),
        each.collapse if each.onset is None else f"{each.collapse} {each.onset:.0f} s",
    )


def _notes(grid: list[Outcome]) -> list[str]:
    """What the columns mean, what is void, and what held N* back where it is below."""
    words = [
        f"bounds: [{LEAST:g} lo, hi] of capacity under the same policy and pool, whose sessions start full; none"
        " without a bound, where it depends on how long sessions live.",
        "most: most sessions at once. good: session-seconds in time, of those admitted; offer: of all offered.",
    ]
    for each in grid:
        name = f"{each.load}/{each.kv}/{each.rule}"
        if each.void:
            words.append(f"{name} is void: {each.void}.")
        elif each.n_star is not None and each.lo is not None and each.n_star < LEAST * each.lo:
            words.append(f"{name}: N* {each.n_star:.0f} is below {LEAST * each.lo:.0f}; held back by {each.held_back}.")
        elif each.n_star is not None and each.hi is not None and each.n_star > each.hi:
            words.append(f"{name}: N* {each.n_star:.0f} is above {each.hi}: more were admitted than are sustained.")
    return [line for text in words for line in hang("- ", text)]


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _draw(grid: list[Outcome], out: Path) -> None:
    """Open sessions, and p99, over time: a row of panels a policy, a column a workload, a line a rule."""
    from matplotlib.figure import Figure

    loads, kvs, rules = (list(dict.fromkeys(getattr(each, name) for each in grid)) for name in ("load", "kv", "rule"))
    for what, label in (("sessions", "open sessions"), ("p99", "p99 of each second, s")):
        figure = Figure(figsize=(3.9 * len(loads), 2.5 * len(kvs) + 0.4), layout="constrained")
        panels: Any = figure.subplots(len(kvs), len(loads), sharex="col", sharey=True, squeeze=False)
        for each in grid:
            axes = panels[kvs.index(each.kv)][loads.index(each.load)]
            style = {"color": f"C{rules.index(each.rule)}", "linestyle": ":" if each.void else "-", "linewidth": 1.3}
            known = [(t, y) for t, y in zip(each.series["t"], each.series[what], strict=True) if y is not None]
            axes.plot(*zip(*known, strict=True) if known else ([], []), label=each.rule, **style)
            if each.onset is not None and not each.void:
                axes.axvline(each.onset, color=style["color"], linewidth=0.8, linestyle="--")
            axes.set_title(f"{each.load}, {each.kv}", fontsize=9)
            if what == "sessions" and each.lo is not None and each.hi is not None:
                axes.axhspan(LEAST * each.lo, each.hi, color="0.5", alpha=0.06, linewidth=0)
            elif what == "p99":
                axes.set_yscale("log")
        panels[-1][0].set_xlabel("seconds", fontsize=9)
        panels[-1][0].set_ylabel(label, fontsize=9)
        handles = {
            name: line for axes in figure.axes for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(rules), fontsize=8)
        figure.savefig(out / f"{what}.svg", metadata={"Date": None})
