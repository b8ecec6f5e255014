"""What was measured alternately, side B over side A."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metrobench.gate.changes import capacity_change, quantile_change
from metrobench.gate.groups import Group
from metrobench.gate.knee import knee
from metrobench.gate.moderated import Change
from metrobench.gate.samples import Sample

QUANTILES = ("p50", "p99")


def lines(first: Sequence[Sample], second: Sequence[Sample]) -> list[str]:
    """One line a number, with its 95 % interval; a number that a side lacks is named as missing."""
    if not first or not second:
        return ["B/A        not known: no pair has two sides that prove something"]
    if first[0].kind == "capacity":
        if any(knee(sample.trials) is None for sample in (*first, *second)):
            return ["MSCS B/A   not known: a search found only one side of its capacity"]
        change = capacity_change(first, second)
        lower, upper = change.bounds()
        # a loss is a positive change
        return [_line("MSCS B/A", -change.value, -upper, -lower, change)]
    groups = [
        Group((), tuple(side), tuple(trial for each in side for trial in each.trials)) for side in (first, second)
    ]
    found = []
    for metric in QUANTILES:
        if any(getattr(trial, metric) is None for group in groups for trial in group.trials):
            found.append(f"{metric} B/A    not known: a run has no {metric}")
            continue
        change = quantile_change(metric, *groups)
        found.append(_line(f"{metric} B/A", change.value, *change.bounds(), change))
    return found


def _line(name: str, value: float, lower: float, upper: float, change: Change) -> str:
    ratio, low, high = (math.exp(each) for each in (value, lower, upper))
    count = change.current
    how = f"{count} pair{'' if count == 1 else 's'}" if change.paired else f"{change.baseline} and {count} records"
    return f"{name:<9}  {ratio:.3f}  [{low:.3f}, {high:.3f}]  {how}"
