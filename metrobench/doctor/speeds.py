"""How fast each core is: on shared hardware two cores of one machine may differ by half, and change by the second."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from threading import Event

import numpy as np

from metrobench.doctor.check import Check, Status, first_of, not_visible
from metrobench.timed_work import timed_work
from metrobench.worker.cores import Layout

SECONDS = 4.0
"""For all cores together, one after another: a core that rests now and then is slow after each rest."""
MOST = 8
"""Cores that are timed: the engine's, the client's, and some of the others."""
BIN = 0.1
"""Seconds of work that make one sample, their median."""
SLOW = 1.5
"""Times the fastest core's cost from which on a core is slow, and times its own from which on it varies."""
FEWEST = 3
"""Samples that say something about a core."""


def check_speeds(plan: Layout, stop: Event) -> list[Check]:
    """Timed on several cores and judged."""
    cores = chosen(plan)
    costs = {core: time_core(core, SECONDS / len(cores), stop) for core in cores}
    return [judge_speeds(costs, min(plan.engine))]


def chosen(plan: Layout) -> list[int]:
    """At most MOST cores, the engine's and the client's among them."""
    first = list(dict.fromkeys([min(plan.engine), *sorted(plan.load)]))
    return sorted((first + sorted(plan.front - set(first)))[:MOST])


def time_core(core: int, length: float, stop: Event) -> list[float]:
    """CPU seconds of one piece of work, a median for every BIN of `length` seconds; the core is busy throughout."""
    os.sched_setaffinity(0, {core})
    end = time.monotonic() + length
    medians = []
    while time.monotonic() < end - BIN / 2 and not stop.is_set():
        begin, costs = time.monotonic(), []
        while time.monotonic() < begin + BIN:
            costs.append(timed_work())
        medians.append(float(np.median(costs)))
    return medians


def judge_speeds(costs: Mapping[int, Sequence[float]], engine: int) -> Check:
    """`costs`: core to the CPU seconds of one fixed piece of work, sample by sample."""
    known = {core: np.array(values) for core, values in costs.items() if len(values) >= FEWEST}
    if not known:
        return not_visible("core speed", "too little time on any core")
    medians = {core: float(np.median(values)) for core, values in known.items()}
    fastest = min(medians.values())
    times = {core: median / fastest for core, median in medians.items()}
    spread = {core: float(np.quantile(values, 0.9) / np.quantile(values, 0.1)) for core, values in known.items()}
    slow = [core for core in known if times[core] >= SLOW]
    varying = [core for core in known if spread[core] >= SLOW and core not in slow]
    parts = [f"core {core} takes {times[core]:.1f} times as long as the fastest" for core in slow]
    parts += [f"core {core} varies by a factor of {spread[core]:.1f}" for core in varying]
    steady = f"{len(known)} steady, {(max(times.values()) - 1) * 100:.0f} % apart" if len(known) > 1 else "steady"
    whose = f"core {engine} is the engine's; " if engine in [*slow, *varying] else ""
    advice = f"{whose}other guests of this hardware? Runs that fail on a slow core are void: measure at a calmer time"
    rules = [(bool(parts), Status.WARN, advice)]
    return first_of("core speed", rules, "; ".join(parts) or steady, medians=medians, spread=spread)
