from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from metrobench.errors import UsageError
from metrobench.measure.plan import MAX_FRAMES, Slo, check_plan, cut_frames, extended, min_span, plan_run


@pytest.mark.parametrize(
    ("budget", "q", "sessions", "span"),
    [
        (1.0, 0.01, 200, 15.0),
        (2.0, 0.01, 200, 30.0),
        (0.1, 0.01, 200, 15.0),
        (1.0, 0.01, 1, 100.0),
        (1.0, 0.001, 10, 100.0),
    ],
)
def test_the_shortest_span_is_15_budgets_15_s_and_one_frame_allowed_to_miss(budget, q, sessions, span) -> None:
    assert min_span(budget, q, sessions) == pytest.approx(span)


@pytest.mark.parametrize(("unit", "frames"), [(1.0, 5), (2.0, 3), (10.0, 3), (0.08, 63), (0.2, 25), (5.0 / 3.0, 3)])
def test_the_cut_is_3_frames_or_5_s_whichever_is_longer(unit: float, frames: int) -> None:
    assert cut_frames(unit) == frames


@pytest.mark.parametrize(
    ("span", "horizon"), [(15.0, 100.0), (20.0, 100.0), (30.0, 150.0), (60.0, 300.0), (600.0, 300.0)]
)
def test_growth_is_carried_5_t_ahead_within_100_and_300_s(span: float, horizon: float) -> None:
    assert plan_run(sessions=100, budget=1.0, unit=1.0, q=0.01, span=span).horizon == pytest.approx(horizon)


def test_one_more_miss_than_allowed_is_above_q_of_the_planned_frames() -> None:
    plan = plan_run(sessions=200, budget=1.0, unit=1.0, q=0.01)
    assert (plan.planned, plan.allowed) == (3000, 30)


def test_an_objective_replaces_limit_and_share() -> None:
    plan = plan_run(sessions=200, budget=1.0, unit=1.0, q=0.01, slo=Slo(0.95, 2.0))
    assert (plan.limit, plan.allowed, plan.wait) == (2.0, 150, 2.0)
    assert plan.tail_share == pytest.approx(0.05)


def test_an_extended_plan_has_the_same_cut_and_more_frames() -> None:
    plan = plan_run(sessions=10, budget=1.0, unit=1.0, q=0.01)
    assert (extended(plan, 4).frames, extended(plan, 4).cut_frames) == (4 * plan.frames, plan.cut_frames)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sessions": 0},
        {"sessions": 100_001},
        {"budget": 0.0},
        {"budget": float("nan")},
        {"unit": float("inf")},
        {"q": 0.0},
        {"q": 1.0},
        {"span": -1.0},
        {"slo": Slo(1.0, 1.0)},
        {"slo": Slo(0.99, -1.0)},
        {"sessions": 100_000, "span": 60.0, "unit": 0.01},
    ],
)
def test_values_out_of_bounds_are_usage_errors(wrong: dict) -> None:
    with pytest.raises(UsageError):
        plan_run(**{"sessions": 10, "budget": 1.0, "unit": 1.0, "q": 0.01, **wrong})


@given(
    sessions=st.integers(1, 2000),
    budget=st.floats(0.01, 20.0),
    unit=st.floats(0.02, 10.0),
    q=st.floats(0.001, 0.5),
)
def test_every_plan_is_long_enough_and_never_longer_than_one_frame_more(sessions, budget, unit, q) -> None:
    try:
        plan = plan_run(sessions=sessions, budget=budget, unit=unit, q=q)
    except UsageError:
        assert sessions * min_span(budget, q, sessions) / unit > MAX_FRAMES - sessions
        return
    shortest = min_span(budget, q, sessions)
    assert shortest - 1e-6 <= plan.span < shortest + unit + 1e-6
    assert plan.cut_frames * unit >= 5.0 - 1e-6
    assert plan.allowed / plan.planned <= q + 1e-9


@pytest.mark.parametrize(
    "changes",
    [{"sessions": 0}, {"budget": 0.0}, {"unit": 0.0}, {"q": 0.0}, {"q": 2.0}, {"cut_frames": -1}, {"frames": 10**9}],
)
def test_a_plan_that_was_never_made_here_is_refused(changes: dict[str, float]) -> None:
    plan = plan_run(sessions=2, budget=1.0, unit=1.0, q=0.01)
    check_plan(plan)
    with pytest.raises(UsageError):
        check_plan(replace(plan, **changes))


def test_turns_are_measured_for_a_minute_after_the_first_in_blocks_of_five() -> None:
    plan = plan_run(sessions=3, budget=1.0, unit=12.0, q=0.01, noun="turn")
    assert (plan.cut_frames, plan.span >= 60.0) == (1, True)
    assert plan.block == pytest.approx(5 * 12.0 / 3)
    assert plan_run(sessions=100, budget=1.0, unit=12.0, q=0.01, noun="turn").block == 1.0
