from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import theilslopes

from metrobench.measure.frames import build_table
from metrobench.measure.growth import (
    MAX_BLOCKS,
    Growth,
    block_index,
    block_medians,
    growth_test,
    tail_quantile,
    theil_sen,
)
from metrobench.measure.plan import Plan, Slo, plan_run
from tests.virtual_servers import facts, ready_times


@pytest.fixture
def plan() -> Plan:
    return plan_run(sessions=40, budget=1.0, unit=1.0, q=0.01)


def measure(plan: Plan, waits: np.ndarray, ready: np.ndarray, **changes) -> Growth:
    return growth_test(build_table(facts(plan, ready, ready + waits, **changes), plan).span, plan)


def grow(plan: Plan, start: float, slope: float, noise: float = 0.002) -> Growth:
    ready = ready_times(plan)
    rng = np.random.default_rng(4)
    return measure(plan, start + slope * ready + noise * rng.standard_normal(ready.shape), ready)


def test_the_slope_and_its_ends_are_theil_and_sen_on_medians_of_1_s_blocks(plan: Plan) -> None:
    ready = ready_times(plan)
    waits = np.random.default_rng(5).uniform(0.1, 0.3, ready.shape)
    found = measure(plan, waits, ready)
    span = slice(plan.cut_frames, plan.cut_frames + plan.frames)
    times, values = ready[:, span].ravel(), waits[:, span].ravel()
    block = ((times - times.min() + 1e-9) // 1.0).astype(int)
    medians = [np.median(values[block == b]) for b in range(plan.frames)]
    expected = theilslopes(medians, np.arange(plan.frames), 0.95)
    assert found.slope is not None
    assert (found.slope.value, found.slope.lower, found.slope.upper) == pytest.approx(
        (expected.slope, expected.low_slope, expected.high_slope)
    )
    tail = values[block >= 10]
    assert found.tail == pytest.approx(np.quantile(tail, 0.99))
    assert found.ahead_upper == pytest.approx(found.tail + 100.0 * max(0.0, expected.high_slope))


@pytest.mark.parametrize(
    ("start", "slope", "passes", "fails"),
    [
        (0.2, 0.0, True, False),
        (0.2, 0.005, True, False),
        (0.2, 0.010, False, True),
        (0.2, 0.030, False, True),
        (0.5, -0.01, True, False),
        (0.95, 0.0, True, False),
    ],
)
def test_growth_that_reaches_the_budget_within_the_horizon_fails(plan, start, slope, passes, fails) -> None:
    found = grow(plan, start, slope)
    assert (found.passes, found.fails) == (passes, fails)


def test_noise_about_the_edge_neither_passes_nor_fails(plan: Plan) -> None:
    ready = ready_times(plan)
    medians = np.random.default_rng(6).normal(0.3, 0.1, ready.shape[1])
    found = measure(plan, np.broadcast_to(medians, ready.shape), ready)
    assert not found.passes and not found.fails


def test_an_objective_has_its_own_quantile_and_limit() -> None:
    plan = plan_run(sessions=40, budget=1.0, unit=1.0, q=0.01, slo=Slo(0.5, 0.1))
    assert not grow(plan, 0.2, 0.0).passes
    assert grow(plan, 0.05, 0.0).passes


def test_a_small_tail_is_judged_by_its_largest_value() -> None:
    values = np.arange(50.0)
    assert tail_quantile(values, 0.01) == 49.0
    assert tail_quantile(np.arange(101.0), 0.01) == pytest.approx(99.0)


def test_a_server_that_stops_answering_does_not_look_like_falling_latency() -> None:
    """Even where half of all frames may be missed: the wait of unanswered frames is longer the earlier they were."""
    plan = plan_run(sessions=40, budget=1.0, unit=1.0, q=0.6)
    ready = ready_times(plan)
    waits = np.full(ready.shape, 0.2)
    waits[:, 12:] = np.nan
    found = measure(plan, waits, ready)
    assert found.slope is not None and found.slope.value >= 0.0
    assert not found.passes


def test_dropping_survivors_would_flatter_but_silent_frames_count_as_long_waits(plan: Plan) -> None:
    ready = ready_times(plan)
    waits = np.full(ready.shape, 0.2)
    waits[:25, 12:] = np.nan
    found = measure(plan, waits, ready)
    assert found.tail is not None and found.tail > 1.0
    assert not found.passes


def test_a_last_block_with_hardly_a_frame_is_left_out() -> None:
    times = np.concatenate([np.repeat(np.arange(10.0), 10), [10.0]])
    assert block_index(times, 1.0)[1] == 10
    assert block_index(np.append(times, [10.0] * 6), 1.0)[1] == 11


def test_very_long_runs_get_longer_blocks() -> None:
    index, n, length = block_index(np.arange(0.0, 86_400.0), 1.0)
    assert n <= MAX_BLOCKS + 1
    assert length == pytest.approx(86.4, rel=0.01)
    assert index.max() <= n


def test_too_few_blocks_have_no_slope() -> None:
    assert theil_sen(np.arange(3.0), np.arange(3.0)) is None


def test_nothing_due_is_neither_pass_nor_failure(plan: Plan) -> None:
    ready = ready_times(plan)
    found = measure(plan, np.full(ready.shape, 0.2), ready, t_stop=0.0)
    assert (found.blocks, found.slope, found.passes, found.fails) == (0, None, False, False)


@given(st.lists(st.tuples(st.integers(0, 6), st.floats(-5, 5)), min_size=1, max_size=60))
def test_block_medians_are_those_of_numpy(pairs: list[tuple[int, float]]) -> None:
    index, values = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    held, medians = block_medians(index, 7, values)
    assert held.tolist() == sorted(set(index.tolist()))
    assert medians == pytest.approx([np.median(values[index == b]) for b in held])


@given(st.lists(st.integers(-3, 3).map(lambda value: value / 7), min_size=4, max_size=30))
def test_the_slope_is_that_of_scipy_to_the_last_bit(values: list[float]) -> None:
    times = np.arange(float(len(values)))
    expected = theilslopes(values, times, 0.95)
    found = theil_sen(times, np.array(values))
    assert found is not None
    assert (found.value, found.lower, found.upper) == (expected.slope, expected.low_slope, expected.high_slope)
