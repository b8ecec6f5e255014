from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.measure.plan import Plan, plan_run
from metrobench.search.duration import AFTER, RunTime, count_runs
from metrobench.search.mscs import EFFORTS, FULL, QUICK, STANDARD, Effort, MscsSearch


def plan(sessions: int) -> Plan:
    return plan_run(sessions=sessions, budget=1.0, unit=1.0, q=0.01)


def test_a_run_is_start_filling_cut_span_and_the_last_deadline() -> None:
    times = RunTime(start=2.0, fill=0.05)
    assert times.seconds(plan(100)) == pytest.approx(2.0 + 5.0 + 1.0 + (5.0 + 15.0 + 1.0) + AFTER)


def test_the_first_run_that_was_seen_replaces_what_was_expected() -> None:
    times = RunTime(start=60.0, fill=1.0)
    times.learn(100, 3.0, 4.0)
    assert (times.start, times.fill) == (3.0, 0.04)


def test_the_slowest_of_those_seen_counts() -> None:
    times = RunTime(start=60.0, fill=1.0)
    for start, fill in ((3.0, 4.0), (5.0, 2.0), (1.0, 1.0)):
        times.learn(100, start, fill)
    assert (times.start, times.fill) == (5.0, 0.04)


def test_what_a_run_does_not_say_stays_as_expected() -> None:
    times = RunTime(start=60.0, fill=1.0)
    times.learn(100, None, None)
    assert (times.start, times.fill) == (60.0, 1.0)


@pytest.mark.parametrize(("effort", "few"), [(QUICK, 4), (STANDARD, 4), (FULL, 20)])
def test_a_right_guess_needs_the_replicates_of_both_ends(effort: Effort, few: int) -> None:
    counted = count_runs(effort, 200, 4096)
    assert counted.few == few
    assert counted.few < counted.many <= counted.most == MscsSearch(effort).max_runs


@given(
    effort=st.sampled_from(list(EFFORTS.values())),
    guess=st.none() | st.integers(1, 10_000),
    most=st.integers(1, 10_000),
)
def test_any_search_can_be_counted(effort: Effort, guess: int | None, most: int) -> None:
    counted = count_runs(effort, guess, most)
    assert 1 <= counted.few <= counted.many <= counted.most
