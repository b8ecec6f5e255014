from __future__ import annotations

import numpy as np
import pytest

from metrobench.measure.facts import FrameFlag
from metrobench.measure.frames import MAX_TIME, build_table, healthy_lag, merge_stalls, stall_overlap
from metrobench.measure.plan import Plan, plan_run
from tests.virtual_servers import facts, ready_times


@pytest.fixture
def plan() -> Plan:
    return plan_run(sessions=10, budget=1.0, unit=1.0, q=0.01)


def steady(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    ready = ready_times(plan)
    return ready, ready + 0.2


def test_the_span_is_the_frames_after_the_cut_of_every_session(plan: Plan) -> None:
    ready, done = steady(plan)
    span = build_table(facts(plan, ready, done), plan).span
    assert span.ready == pytest.approx(ready[:, plan.cut_frames : plan.cut_frames + plan.frames])
    assert span.due.all() and span.met.all()


def test_rows_that_were_never_recorded_are_misses_once_their_deadline_has_passed(plan: Plan) -> None:
    ready, done = steady(plan)
    recorded = facts(plan, ready, done)
    recorded.frames = recorded.frames[recorded.frames["session"] != 4]
    span = build_table(recorded, plan).span
    assert span.missed[4].all() and span.missed.sum() == plan.frames


def test_rows_whose_deadline_lies_after_the_stop_are_not_due(plan: Plan) -> None:
    ready, done = steady(plan)
    span = build_table(facts(plan, ready, done, t_stop=15.0), plan).span
    assert (span.due == (span.ready + 1.0 <= 15.0)).all()
    assert not span.missed.any()


def test_a_deadline_at_the_very_end_of_the_run_is_due(plan: Plan) -> None:
    ready, done = steady(plan)
    done[:, plan.cut_frames + plan.frames - 1] = np.nan
    span = build_table(facts(plan, ready, done), plan).span
    assert span.due.all()
    assert span.missed.sum() == plan.sessions


def test_the_order_of_rows_does_not_matter(plan: Plan) -> None:
    ready, done = steady(plan)
    recorded = facts(plan, ready, done)
    straight = build_table(recorded, plan)
    recorded.frames = np.random.default_rng(1).permutation(recorded.frames)
    assert np.array_equal(build_table(recorded, plan).done, straight.done, equal_nan=True)


def test_rows_of_unplanned_sessions_and_impossible_frames_are_counted_and_left_out(plan: Plan) -> None:
    ready, done = steady(plan)
    recorded = facts(plan, ready, done)
    recorded.frames["session"][:3] = 4_000_000
    recorded.frames["frame"][3:5] = 4_000_000_000
    table = build_table(recorded, plan)
    assert table.ignored == 5
    assert table.ready.shape[1] < 1000


def test_a_missing_schedule_time_is_computed_from_the_phase(plan: Plan) -> None:
    ready, done = steady(plan)
    recorded = facts(plan, ready, done)
    recorded.frames["t_ready"][::7] = np.nan
    span = build_table(recorded, plan).span
    assert span.ready == pytest.approx(ready[:, plan.cut_frames : plan.cut_frames + plan.frames])


@pytest.mark.parametrize(("budget", "limit"), [(0.1, 0.005), (0.5, 0.005), (1.0, 0.010), (3.0, 0.030)])
def test_a_healthy_client_lags_at_most_5_ms_or_1_percent_of_the_budget(budget: float, limit: float) -> None:
    assert healthy_lag(budget) == pytest.approx(limit)


def test_stalls_are_sorted_and_joined_where_they_overlap() -> None:
    merged = merge_stalls([(5.0, 6.0), (1.0, 2.0), (1.5, 3.0), (np.nan, 4.0), (8.0, 8.0)])
    assert merged.tolist() == [[1.0, 3.0], [5.0, 6.0]]
    assert merge_stalls(np.empty((0, 2))).shape == (0, 2)
    assert np.abs(merge_stalls([(-1.7e308, 1e300)])).max() <= MAX_TIME


def test_a_receipt_inside_a_stall_may_have_come_at_its_start() -> None:
    stalls = merge_stalls([(1.0, 2.0), (5.0, 6.0)])
    received = np.array([0.5, 1.0, 1.7, 2.0, 2.001, 5.4, 7.0])
    assert stall_overlap(stalls, received) == pytest.approx([0.0, 0.0, 0.7, 1.0, 0.0, 0.4, 0.0])


@pytest.mark.parametrize(
    ("latency", "lag", "outcome"),
    [(0.99, 0.0, "met"), (1.0, 0.0, "met"), (1.04, 0.0, "missed"), (1.04, 0.05, "ambiguous"), (1.06, 0.05, "missed")],
)
def test_met_missed_and_ambiguous(plan: Plan, latency: float, lag: float, outcome: str) -> None:
    ready, done = steady(plan)
    sent = ready + 0.0
    sent[3, 8], done[3, 8] = ready[3, 8] + lag, ready[3, 8] + latency
    span = build_table(facts(plan, ready, done, sent=sent), plan).span
    place = (3, 8 - plan.cut_frames)
    found = [name for name in ("met", "missed", "ambiguous") if getattr(span, name)[place]]
    assert found == [outcome]
    assert span.met.sum() + span.missed.sum() + span.ambiguous.sum() == span.due.sum()


def test_no_answer_is_a_miss_although_the_last_chunk_left_a_little_late(plan: Plan) -> None:
    ready, done = steady(plan)
    done[3, -4:] = np.nan
    span = build_table(facts(plan, ready, done, sent=ready + 0.004), plan).span
    assert span.missed[3].any() and not span.ambiguous.any()


def test_an_answer_that_cannot_be_played_is_missed_however_early_it_began(plan: Plan) -> None:
    ready, done = steady(plan)
    recorded = facts(plan, ready, done)
    recorded.frames["flags"][(recorded.frames["session"] == 2) & (recorded.frames["frame"] == 7)] |= FrameFlag.BROKEN
    span = build_table(recorded, plan).span
    assert span.missed.sum() == 1 and span.missed[2, 7 - plan.cut_frames]
    assert (span.met ^ span.missed).all()
    assert span.above(0.5).sum() == 1
