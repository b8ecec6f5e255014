"""What a report shows of a record: the record itself, and the runs whose facts are looked at closely."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from metrobench.errors import UsageError
from metrobench.measure.collapse import Collapse, Kind
from metrobench.measure.facts import RunFacts
from metrobench.measure.frames import FrameTable, build_table
from metrobench.measure.plan import Plan
from metrobench.measure.series import (
    AgeSeries,
    LagBars,
    LoadSeries,
    MissSeries,
    lag_bars,
    latency_by_age,
    load_series,
    misses_by_second,
)
from metrobench.measure.sessions import SessionRow, worst_sessions
from metrobench.records import ProbeRecord, Record
from metrobench.report.comparison import worst_passed
from metrobench.report.rejudge import difference, judge_again, plan_of
from metrobench.report.stored import Stored

MOST_RUNS = 4
"""Most runs of a record, other than a search, that are shown closely."""


@dataclass(frozen=True, slots=True)
class Closeup:
    """One run seen closely."""

    probe: ProbeRecord
    why: str
    """Why this one, a few words."""
    plan: Plan
    collapse: Collapse
    age: AgeSeries
    misses: MissSeries
    lag: LagBars
    load: LoadSeries | None
    """None: the telemetry cannot be read."""
    worst: list[SessionRow]


@dataclass(slots=True)
class View:
    """One record, ready to be shown."""

    stored: Stored
    closeups: list[Closeup] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    """Where the verdicts of this version differ from the stored ones, one sentence each."""
    judged: int = 0
    """Runs that were judged again."""


def look(stored: Stored, *, closely: bool, judge: bool) -> View:
    """Read the facts: of all runs where they are judged again, else of those that are shown closely.

    What cannot be read is noted in `stored.complaints`.
    """
    view = View(stored)
    chosen = {id(probe): why for probe, why in _decisive(stored)} if closely else {}
    unread: list[str] = []
    for probe in stored.record.probes:
        why = chosen.get(id(probe))
        if why is None and not judge:
            continue
        try:
            _look_at(view, probe, why, judge)
        except UsageError as error:
            unread.append(error.message)
    view.closeups.sort(key=lambda run: run.probe.sessions)
    if unread:
        more = f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
        stored.complaints.append(f"{unread[0]}{more}")
    return view


def _look_at(view: View, probe: ProbeRecord, why: str | None, judge: bool) -> None:
    record = view.stored.record
    facts = view.stored.facts(probe)
    plan = plan_of(record, probe)
    table = build_table(facts, plan)
    again = judge_again(record, probe, facts, table)
    if judge:
        view.judged += 1
        if words := difference(probe.verdict, again):
            view.differences.append(f"run {probe.index}, {probe.sessions} sessions: {words}")
    if why is not None:
        view.closeups.append(_closeup(view.stored, probe, why, facts, table, again.collapse))


def _closeup(
    stored: Stored, probe: ProbeRecord, why: str, facts: RunFacts, table: FrameTable, collapse: Collapse
) -> Closeup:
    try:
        load = load_series(stored.telemetry(probe))
    except UsageError as error:
        stored.complaints.append(error.message)
        load = None
    return Closeup(
        probe=probe,
        why=why,
        plan=table.plan,
        collapse=collapse,
        age=latency_by_age(table),
        misses=misses_by_second(table),
        lag=lag_bars(facts),
        load=load,
        worst=worst_sessions(facts, table),
    )


def _of_batch(record: Record) -> list[tuple[ProbeRecord, str]]:
    """Of each policy the first trial that collapsed, else its first; of a single policy also the first that did not."""
    kinds = {kind.value for kind in (Kind.STALL, Kind.STARVATION, Kind.ENGINE_DEATH)}
    first: dict[tuple[str, bool], ProbeRecord] = {}
    for probe in record.probes:
        first.setdefault((probe.kv, probe.verdict["collapse"]["kind"] in kinds), probe)
    policies = list(dict.fromkeys(policy for policy, _ in first))[:MOST_RUNS]
    if len(policies) == 1:
        return [(probe, _fate(*key)) for key, probe in first.items()]
    keys = [(policy, (policy, True) in first) for policy in policies]
    return [(first[key], _fate(*key)) for key in keys]


def _fate(policy: str, collapsed: bool) -> str:
    return f"{policy}, the first that {'collapsed' if collapsed else 'went on'}"


def edges(mscs: dict[str, Any]) -> tuple[int, int | None]:
    """The interval that a search found, or where nothing was confirmed, that of single runs."""
    return mscs["lo"] or mscs["passed_once"], mscs["hi"] or mscs["failed_once"]


def _decisive(stored: Stored) -> list[tuple[ProbeRecord, str]]:
    """The runs to look at: of a search the worst passed one at its lower end and a failed one at its upper end."""
    record = stored.record
    if record.kind == "collapse":
        return _of_batch(record)
    if record.kind != "capacity" or record.result is None:
        return [(probe, "") for probe in record.probes[-MOST_RUNS:]]
    lo, hi = edges(record.result["mscs"])
    passed = worst_passed(record, lo)
    failed = [probe for probe in record.probes if probe.sessions == hi and probe.outcome == "failed"]
    found = []
    if passed:
        found.append((passed, "the worst that passed there"))
    if failed:
        found.append((max(failed, key=lambda probe: probe.verdict["misses"]["due"]), "the longest that failed there"))
    return found or [(probe, "") for probe in record.probes[-1:]]
