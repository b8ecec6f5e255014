"""The verdicts again, from the stored facts: does this version say what the record says?"""

from __future__ import annotations

from typing import Any

from metrobench.measure.facts import RunFacts
from metrobench.measure.frames import FrameTable
from metrobench.measure.plan import Plan, Slo
from metrobench.measure.verdict import Outcome, Reason, Verdict, judge
from metrobench.measure.warnings import Warn
from metrobench.records import ProbeRecord, Record, plain
from metrobench.report.sentence import noun

SHOWN = 3
"""Most differing numbers that a sentence names."""
ALIKE = 1e-9
"""Largest relative difference of two numbers that are the same."""


def plan_of(record: Record, probe: ProbeRecord) -> Plan:
    """The plan that a stored run was judged by, extensions included."""
    verdict, slo = probe.verdict, record.setting["slo"]
    unit = verdict["unit"]
    return Plan(
        sessions=probe.sessions,
        budget=verdict["budget"],
        unit=unit,
        q=verdict["q"],
        cut_frames=round(verdict["cut"] / unit),
        frames=max(1, round(verdict["span"] / unit)),
        slo=None if slo is None else Slo(slo["quantile"], slo["limit"]),
        noun=noun(record.setting),
    )


def judge_again(record: Record, probe: ProbeRecord, facts: RunFacts, table: FrameTable) -> Verdict:
    """The verdict of this version, with what was seen around the run at its time."""
    stored = probe.verdict
    slow_kept = Warn.MACHINE_SLOW in stored["warnings"]
    return judge(
        facts,
        plan_of(record, probe),
        steal=stored["steal"],
        gpu_busy=Reason.GPU_BUSY in stored["reasons"],
        others=stored["others"],
        slowdown=stored["slowdown"],
        # a slow machine was excused, unless the record shows that it was not
        excuse_slow=Reason.MACHINE_SLOW in stored["reasons"] or not (slow_kept or stored["outcome"] == Outcome.VOID),
        client_died=Reason.CLIENT_DIED in stored["reasons"],
        table=table,
    )


def difference(stored: dict[str, Any], again: Verdict) -> str | None:
    """How the two verdicts differ, a few words; None: they do not."""
    fresh: dict[str, Any] = plain(again)
    if fresh["outcome"] != stored["outcome"]:
        because = f" ({again.sentences[0]})" if again.sentences else ""
        return f"{fresh['outcome']} now, {stored['outcome']} in the record{because}"
    names = _differing(stored, fresh)
    if not names:
        return None
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"the outcome stays, other numbers: {', '.join(names[:SHOWN])}{more}"


def _differing(stored: Any, fresh: Any, name: str = "") -> list[str]:
    """Dotted names of what is not the same. Sentences are left out: they say the numbers again."""
    if isinstance(stored, dict) and isinstance(fresh, dict):
        return [
            found
            for key in sorted({*stored, *fresh} - {"sentences", "absent"})
            for found in _differing(stored.get(key), fresh.get(key), f"{name}.{key}" if name else key)
        ]
    if isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        pairs = zip(stored, fresh, strict=True)
        return [name] if any(_differing(one, other, name) for one, other in pairs) else []
    if isinstance(stored, int | float) and isinstance(fresh, int | float):
        return [] if abs(stored - fresh) <= ALIKE * max(abs(stored), abs(fresh)) else [name]
    return [] if stored == fresh else [name]
