"""Workloads: who calls, when, for how long, and how they talk. Small TOML files, shipped or one's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec
import numpy as np

from metrobench.admission.timetable import (
    AT_ONCE,
    FIXED,
    HOLDINGS,
    POISSON,
    PROCESSES,
    Profile,
    Timetable,
    arrival_times,
    budget_shares,
    holding_times,
    make_timetable,
)
from metrobench.corpus.pattern import TALK
from metrobench.errors import UsageError
from metrobench.resources import data_folder
from metrobench.tomlfile import read_struct, refuse, shipped_or_own

MAX_END = 86_400.0
"""Seconds that a timetable may last."""


class Arrivals(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """When sessions come."""

    process: str = POISSON
    rate: float = 8.0
    """Sessions a second; --rate wins."""
    profile: list[tuple[float, float]] = []
    """[seconds, factor on the rate], ...; straight lines between. Empty: the rate is constant."""
    period_s: float = 0.0
    """Seconds after which the profile begins again; 0: its last factor holds for ever."""


class Holding(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long they stay."""

    distribution: str = FIXED
    mean_s: float = 60.0
    """--hold wins."""


class Audio(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How they talk; each is the default of the option of that name."""

    talk: str = "half"
    noise: str | None = None
    language: str | None = None


class BudgetClass(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Sessions with a frame budget of their own."""

    share: float
    budget: float
    """As a factor on --budget."""


class Workload(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One workload."""

    name: str
    title: str
    arrivals: Arrivals = Arrivals()
    holding: Holding = Holding()
    audio: Audio = Audio()
    full: bool = False
    """Sessions are filled with a whole window before their audio begins, where the server can do that."""
    budgets: list[BudgetClass] = []
    """Shares must sum to 1; empty: all have the one budget."""


def load_workload(name_or_path: str) -> Workload:
    """A shipped workload by name, or one's own TOML file by path. Raises UsageError."""
    names = workload_names()
    path = shipped_or_own(
        name_or_path,
        data_folder("workloads"),
        names,
        what="workload",
        called="workload",
        hint=f"shipped: {', '.join(names)}.",
    )
    workload = read_struct(path, Workload, "workload")
    refuse(path, "workload", list(_problems(workload)))
    return workload


def workload_names() -> list[str]:
    """Names of the shipped workloads."""
    return sorted(path.stem for path in data_folder("workloads").glob("*.toml"))


def timetable(
    workload: Workload, sessions: int, *, rate: float, hold: float, budget: float, unit: float, join: float, seed: int
) -> Timetable:
    """All sessions of a run, which ends a mean holding time after the last arrival. Seconds; `rate` in sessions a
    second. Raises UsageError where it would last too long."""
    arrivals = workload.arrivals
    profile: Profile = tuple(arrivals.profile)
    come = arrival_times(arrivals.process, sessions, rate, profile, arrivals.period_s, seed)
    stay = holding_times(workload.holding.distribution, hold, sessions, seed)
    factors = np.ones(sessions)
    if workload.budgets:
        classes = budget_shares([each.share for each in workload.budgets], sessions, seed)
        factors = np.array([each.budget for each in workload.budgets])[classes]
    found = make_timetable(come, stay, budget * factors, budget=budget, unit=unit, join=join, last=hold, seed=seed)
    if (end := float(found.ends(unit).max())) > MAX_END:
        raise UsageError(f"the last session would end after {end / 3600.0:.1f} h", "a higher --rate, or fewer --offer")
    return found


def _problems(workload: Workload) -> Iterator[str]:
    """What is wrong in a workload whose fields have the right types."""
    if not workload.name:
        yield "name is empty"
    for path, value, known in (
        ("arrivals.process", workload.arrivals.process, PROCESSES),
        ("holding.distribution", workload.holding.distribution, HOLDINGS),
        ("audio.talk", workload.audio.talk, tuple(TALK)),
    ):
        if value not in known:
            yield f"{path} = {value!r} is none of {', '.join(known)}"
    yield from _outside("arrivals.rate", workload.arrivals.rate, 1e-3, 1e4)
    yield from _outside("arrivals.period_s", workload.arrivals.period_s, 0.0, MAX_END)
    yield from _outside("holding.mean_s", workload.holding.mean_s, 0.1, MAX_END)
    yield from _profile_problems(workload.arrivals)
    yield from _budget_problems(workload.budgets)


def _profile_problems(arrivals: Arrivals) -> Iterator[str]:
    profile = arrivals.profile
    if not profile:
        if arrivals.period_s:
            yield "arrivals.period_s needs an arrivals.profile"
        return
    if arrivals.process == AT_ONCE:
        yield "arrivals.profile has no meaning where all arrive at once"
    times, factors = [time for time, _ in profile], [factor for _, factor in profile]
    if times[0] != 0.0 or any(not late > early for early, late in itertools.pairwise(times)):
        yield "arrivals.profile needs rising seconds that begin at 0"
    if not all(0.0 <= factor <= 1000.0 for factor in factors):
        yield "arrivals.profile needs factors of 0 to 1000"
    elif not any(factors):
        yield "arrivals.profile has only zeros: nobody would ever come"
    elif not arrivals.period_s and not factors[-1]:
        yield "arrivals.profile ends with 0 and has no arrivals.period_s: the last sessions would never come"
    if arrivals.period_s and not arrivals.period_s > times[-1]:
        yield "arrivals.period_s must be after the last second of arrivals.profile"


def _budget_problems(budgets: list[BudgetClass]) -> Iterator[str]:
    for place, each in enumerate(budgets):
        yield from _outside(f"budgets[{place}].share", each.share, 1e-3, 1.0)
        yield from _outside(f"budgets[{place}].budget", each.budget, 0.05, 20.0)
    if budgets and abs(sum(each.share for each in budgets) - 1.0) > 1e-6:
        yield "the shares of budgets must sum to 1"


def _outside(path: str, value: float, low: float, high: float) -> Iterator[str]:
    if not low <= value <= high:
        yield f"{path} = {value:g} is outside {low:g} to {high:g}"
