"""A thousand whole searches against noisy servers in virtual time: how often the interval holds the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from metrobench.measure.collapse import find_collapse
from metrobench.measure.frames import build_table
from metrobench.measure.plan import extended, plan_run
from metrobench.measure.verdict import Decision, Outcome, decide, is_narrow, judge
from metrobench.search.mscs import STANDARD, Mscs, MscsSearch, Run, Stop
from tests.virtual_servers import queue_run

SEARCHES = 1000
CAPACITIES = (40.0, 80.0, 120.0, 160.0, 200.0, 250.0)


@dataclass
class Search:
    capacity: float
    found: Mscs


def run_once(sessions: int, capacity: float, seed: int) -> Decision:
    """One run, gone on to 2 T and 4 T while it is unresolved."""
    planned = plan_run(sessions=sessions, budget=1.0, unit=1.0, q=0.01, span=STANDARD.span)
    for times in (1, 2, 4):
        longer = extended(planned, times)
        recorded = queue_run(longer, capacity, seed=seed)
        table = build_table(recorded, longer)
        decision = decide(table, find_collapse(recorded, table))
        if decision.outcome is not Outcome.UNRESOLVED:
            break
    return decision


def search_once(rng: np.random.Generator) -> Search:
    """True capacity +-10 % around one of several, first guess off by up to 20 % either way."""
    capacity = float(rng.choice(CAPACITIES)) * rng.uniform(0.9, 1.1)
    search = MscsSearch(STANDARD, guess=round(capacity * rng.uniform(0.8, 1.2)))
    while isinstance(step := search.next_step(), Run):
        decision = run_once(step.sessions, capacity, int(rng.integers(2**40)))
        narrow = is_narrow(decision.outcome, decision.reasons, decision.growth, limit=1.0)
        search.tell(step.sessions, decision.outcome, narrow=narrow)
    return Search(capacity, search.result())


@pytest.fixture(scope="module")
def searches() -> list[Search]:
    rng = np.random.default_rng(20)
    return [search_once(rng) for _ in range(SEARCHES)]


def test_the_interval_holds_the_true_capacity_in_930_of_1000_searches(searches: list[Search]) -> None:
    holds = [each.found.lo <= each.capacity and (each.found.hi or np.inf) >= each.capacity for each in searches]
    assert sum(holds) >= 930


def test_the_median_width_is_at_most_12_percent(searches: list[Search]) -> None:
    assert np.median([each.found.width or np.inf for each in searches]) <= 0.12


def test_a_search_that_says_it_converged_is_at_most_15_percent_wide(searches: list[Search]) -> None:
    converged = [each.found for each in searches if each.found.stop is Stop.CONVERGED]
    assert len(converged) >= 900
    for found in converged:
        assert found.hi is not None
        assert found.hi - found.lo <= max(1.0, 0.15 * (found.hi + found.lo) / 2)


def test_typical_searches_take_at_most_eight_runs(searches: list[Search]) -> None:
    assert np.median([each.found.runs for each in searches]) <= 8


def test_middles_of_intervals_lie_within_10_percent_of_the_truth_in_nearly_all_searches(
    searches: list[Search],
) -> None:
    off = [abs((each.found.lo + (each.found.hi or 0)) / 2 / each.capacity - 1) for each in searches]
    assert np.mean(np.array(off) <= 0.10) >= 0.98


@pytest.mark.parametrize("load", [0.9, 0.97, 1.0, 1.03, 1.1])
def test_the_short_cut_of_this_experiment_decides_as_the_full_verdict_does(load: float) -> None:
    planned = plan_run(sessions=round(80 * load), budget=1.0, unit=1.0, q=0.01)
    for seed in range(10):
        recorded = queue_run(planned, 80.0, seed=seed)
        table = build_table(recorded, planned)
        decision, verdict = decide(table, find_collapse(recorded, table)), judge(recorded, planned, steal=0.0)
        assert (verdict.outcome, verdict.reasons) == (decision.outcome, decision.reasons)
        assert verdict.narrow == is_narrow(decision.outcome, decision.reasons, decision.growth, 1.0)
