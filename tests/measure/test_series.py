"""What plots show is what the facts say, and no spike gets lost on the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.measure.facts import LAG_EDGES, TELEMETRY_FIELDS
from metrobench.measure.frames import build_table
from metrobench.measure.plan import Plan, plan_run
from metrobench.measure.series import extremes, lag_bars, latency_by_age, load_series, misses_by_second, thin
from tests.virtual_servers import facts, queue_run, ready_times

PLAN = plan_run(sessions=30, budget=1.0, unit=1.0, q=0.01)

values = st.floats(-1e6, 1e6)


@given(st.lists(st.one_of(values, st.just(float("nan"))), min_size=1, max_size=300), st.integers(1, 40))
def test_thinning_keeps_the_largest_and_the_smallest_value(series: list[float], points: int) -> None:
    y = np.array(series)
    x, thinned = thin(np.arange(float(len(y))), y, points)
    assert len(x) <= 2 * points or len(x) == len(y) <= 2 * points
    assert (np.diff(x) > 0).all()
    if np.isfinite(y).any():
        assert np.nanmax(thinned) == np.nanmax(y)
        assert np.nanmin(thinned) == np.nanmin(y)


@given(st.integers(0, 4999))
def test_a_spike_of_one_sample_survives_wherever_it_is(place: int) -> None:
    y = np.zeros(5000)
    y[place] = 1.0
    assert place in extremes(np.arange(5000.0), y, 100)


def waited(plan: Plan, waits: np.ndarray) -> np.ndarray:
    return ready_times(plan) + waits


def test_windows_of_a_short_run_are_blocks_and_hold_the_quantiles_by_rank() -> None:
    waits = np.random.default_rng(1).uniform(0.1, 0.9, ready_times(PLAN).shape)
    series = latency_by_age(build_table(facts(PLAN, ready_times(PLAN), waited(PLAN, waits)), PLAN))
    assert series.seconds == 1.0
    assert series.age[:3] == pytest.approx([0.5, 1.5, 2.5])
    for frame in range(3):
        ordered = np.sort(waits[:, frame])
        assert series.p50[frame] == pytest.approx(ordered[14])
        assert series.p99[frame] == pytest.approx(ordered[29])
    assert series.frames.sum() == build_table(facts(PLAN, ready_times(PLAN), waited(PLAN, waits)), PLAN).whole.due.sum()


def test_windows_of_a_long_run_take_10_s() -> None:
    plan = plan_run(sessions=2, budget=1.0, unit=1.0, q=0.01, span=120.0)
    series = latency_by_age(build_table(queue_run(plan, 100), plan))
    assert series.seconds == 10.0
    assert series.frames[0] == 20


def test_a_frame_with_no_answer_counts_with_the_longest_wait_seen() -> None:
    waits = np.full(ready_times(PLAN).shape, 0.2)
    waits[0, 8:] = np.inf
    table = build_table(facts(PLAN, ready_times(PLAN), waited(PLAN, waits)), PLAN)
    series = latency_by_age(table)
    longest = float(table.whole.latency[table.whole.due].max())
    assert series.p99[8] == pytest.approx(longest)
    assert series.unanswered[8] == 1
    assert series.unanswered[7] == 0


def test_every_due_and_every_missed_frame_is_in_one_second() -> None:
    table = build_table(queue_run(PLAN, 25, seed=4), PLAN)
    series = misses_by_second(table)
    assert series.due.sum() == table.whole.due.sum()
    assert series.missed.sum() == table.whole.missed.sum() > 0
    assert (series.share <= 1.0).all()


def test_wider_bars_hold_all_chunks() -> None:
    run = queue_run(PLAN, 100)
    run.lag_counts = np.random.default_rng(2).integers(0, 50, len(LAG_EDGES) - 1)
    bars = lag_bars(run)
    assert bars.count.sum() == run.lag_counts.sum()
    assert (bars.lower[1:] == bars.upper[:-1]).all()
    assert bars.lower[0] == 0.0
    assert bars.upper[0] == pytest.approx(1e-4)


def test_no_lag_recorded_has_no_bars() -> None:
    run = queue_run(PLAN, 100)
    run.lag_counts = np.zeros(0, dtype=np.int64)
    assert len(lag_bars(run).count) == 0


def columns(**given: np.ndarray) -> dict[str, np.ndarray]:
    length = len(given["t"])
    return {name: np.full(length, np.nan) for name in TELEMETRY_FIELDS} | given


def test_cpu_is_the_growth_of_its_clock() -> None:
    t = np.arange(0.0, 10.0, 0.5)
    load = load_series(columns(t=t, engine_cpu=0.8 * t, machine_cpu=2.0 * t))
    assert load.cpu["engine"][1:] == pytest.approx(0.8)
    assert np.isnan(load.cpu["front"]).all()
    assert np.isnan(load.cpu["others"]).all()


def test_the_client_tells_its_cpu_once_a_second_and_is_not_seen_in_between() -> None:
    t = np.arange(0.0, 10.0, 0.5)
    told = 0.3 * np.floor(t)
    load = load_series(columns(t=t, client_cpu=told))
    seen = load.cpu["client"][np.isfinite(load.cpu["client"])]
    assert len(seen) > 10
    assert seen == pytest.approx(0.3)


def test_what_the_machine_did_beside_us_is_others() -> None:
    t = np.arange(0.0, 20.0, 0.5)
    own = {f"{name}_cpu": 0.1 * t + 1.0 for name in ("engine", "front", "client", "parent")}
    load = load_series(columns(t=t, machine_cpu=0.9 * t, **own))
    assert load.cpu["others"][np.isfinite(load.cpu["others"])] == pytest.approx(0.5)


def test_a_run_with_nothing_due_has_empty_series() -> None:
    run = queue_run(PLAN, 100)
    run.t_stop = 0.0
    table = build_table(run, PLAN)
    assert len(latency_by_age(table).age) == 0
    assert len(misses_by_second(table).second) == 0
    assert len(load_series(columns(t=np.zeros(0))).t) == 0
