from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.admission.timetable import (
    AT_ONCE,
    EVEN,
    EXPONENTIAL,
    HOLDINGS,
    LOGNORMAL,
    POISSON,
    PROCESSES,
    Profile,
    arrival_times,
    budget_shares,
    holding_times,
    make_timetable,
)

counts, seeds = st.integers(1, 200), st.integers(0, 2**31)
rates = st.floats(0.01, 100.0)
profiles = st.lists(st.tuples(st.floats(0.5, 50.0), st.floats(0.0, 10.0)), max_size=5).map(
    lambda gaps: ((0.0, 1.0), *zip(np.cumsum([gap for gap, _ in gaps]).tolist(), [f for _, f in gaps], strict=True))
)


def integral(profile: Profile, t: float) -> float:
    """The profile's integral from 0 to t; its last factor holds for ever."""
    times, factors = (np.array(column) for column in zip(*profile, strict=True))
    grid = np.union1d(times[times < t], [t])
    values = np.interp(grid, times, factors)
    return float(((values[1:] + values[:-1]) / 2 * np.diff(grid)).sum())


@given(st.sampled_from(PROCESSES), counts, rates, seeds)
def test_arrivals_rise_from_zero_on_and_repeat_by_seed(process: str, count: int, rate: float, seed: int) -> None:
    times = arrival_times(process, count, rate, (), 0.0, seed)
    assert len(times) == count and (times >= 0.0).all() and (np.diff(times) >= 0.0).all()
    assert np.array_equal(times, arrival_times(process, count, rate, (), 0.0, seed))


@given(counts, rates)
def test_even_arrivals_are_equally_far_apart(count: int, rate: float) -> None:
    assert np.allclose(arrival_times(EVEN, count, rate, (), 0.0, 1), np.arange(count) / rate)


@given(counts, rates, profiles)
def test_the_k_th_arrival_comes_when_the_rate_has_made_k(count: int, rate: float, profile: Profile) -> None:
    if profile[-1][1] < 0.01:
        profile = (*profile, (profile[-1][0] + 1.0, 1.0))
    times = arrival_times(EVEN, count, rate, profile, 0.0, 1)
    assert (np.diff(times) >= -1e-9).all()
    for number in (0, count // 2, count - 1):
        assert integral(profile, float(times[number])) * rate == pytest.approx(number, rel=1e-6, abs=1e-6)


def test_a_profile_with_a_period_begins_again() -> None:
    times = arrival_times(EVEN, 40, 1.0, ((0.0, 2.0), (10.0, 0.0)), 20.0, 1)
    first, second = times[times < 20.0], times[(times >= 20.0) & (times < 40.0)]
    assert len(first) == len(second) == 10
    assert np.allclose(second - 20.0, first)


def test_poisson_arrivals_have_the_mean_and_the_spread_of_their_kind() -> None:
    gaps = np.diff(arrival_times(POISSON, 20_000, 8.0, (), 0.0, 3))
    assert gaps.mean() == pytest.approx(1 / 8.0, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 8.0, rel=0.03)


@pytest.mark.parametrize("distribution", HOLDINGS)
def test_holding_times_have_their_mean(distribution: str) -> None:
    assert holding_times(distribution, 60.0, 50_000, 2).mean() == pytest.approx(60.0, rel=0.05)


@given(
    st.sampled_from(PROCESSES),
    st.sampled_from(HOLDINGS),
    counts,
    rates,
    st.floats(0.1, 500.0),
    st.sampled_from([0.08, 1.0, 2.0]),
    seeds,
)
def test_everybody_has_time_to_join_and_is_gone_by_the_end(
    process: str, distribution: str, count: int, rate: float, hold: float, unit: float, seed: int
) -> None:
    arrivals = arrival_times(process, count, rate, (), 0.0, seed)
    stays = holding_times(distribution, hold, count, seed)
    table = make_timetable(
        arrivals, stays, np.full(count, unit), budget=unit, unit=unit, join=1.0, last=hold, seed=seed
    )
    starts = np.array(table.starts)
    assert len(table) == count
    assert (starts >= arrivals + 1.0 - 1e-9).all() and (starts <= arrivals + 1.0 + unit + 1e-9).all()
    assert min(table.frames) >= 1
    assert table.ends(unit).max() <= arrivals.max() + 1.0 + unit + hold + 1.5 * unit


def test_those_who_come_at_once_speak_out_of_step() -> None:
    table = make_timetable(
        arrival_times(AT_ONCE, 50, 1.0, (), 0.0, 1),
        holding_times(EXPONENTIAL, 10.0, 50, 1),
        np.ones(50),
        budget=1.0,
        unit=1.0,
        join=1.0,
        last=10.0,
        seed=1,
    )
    assert np.diff(np.sort(np.array(table.starts))).min() > 0.004


def test_budget_classes_have_their_shares() -> None:
    classes = budget_shares([0.25, 0.75], 40_000, 5)
    assert (classes == 0).mean() == pytest.approx(0.25, abs=0.01)


def test_lognormal_stays_differ_more_than_equal_ones() -> None:
    assert holding_times(LOGNORMAL, 60.0, 1000, 1).std() > 30.0


@given(counts, rates, st.floats(0.2, 60.0), seeds)
def test_the_peak_is_the_most_that_are_ever_open(count: int, rate: float, hold: float, seed: int) -> None:
    come = arrival_times(POISSON, count, rate, (), 0.0, seed)
    stay = holding_times(EXPONENTIAL, hold, count, seed)
    made = make_timetable(come, stay, np.ones(count), budget=1.0, unit=0.5, join=1.0, last=hold, seed=seed)
    assert made.peak(0.5) == max(made.open_at(start, 0.5) for start in made.starts)
