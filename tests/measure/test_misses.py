from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from metrobench.measure.facts import FrameFlag
from metrobench.measure.frames import build_table
from metrobench.measure.misses import Misses, census, longest_run
from metrobench.measure.plan import Plan, plan_run
from tests.virtual_servers import facts, ready_times


@pytest.fixture
def plan() -> Plan:
    return plan_run(sessions=10, budget=1.0, unit=1.0, q=0.01, span=40.0)


def count(plan: Plan, done: np.ndarray, ready: np.ndarray, **changes) -> Misses:
    table = build_table(facts(plan, ready, done, **changes), plan)
    return census(table, table.span)


def test_every_kind_of_miss_is_told_apart(plan: Plan) -> None:
    ready = ready_times(plan)
    done = ready + 0.2
    done[0, 10] = ready[0, 10] + 3.0
    done[1, 12:14] = np.nan
    done[2, 40:] = np.nan
    found = count(plan, done, ready, closed={3: (30.0, 1006)}, refused=(4,))
    last = plan.cut_frames + plan.frames
    after_close = int((done[3, plan.cut_frames : last] > 30.0).sum())
    assert (found.late, found.lost, found.dropped) == (1, 2 + last - 40, 2)
    assert found.dead == after_close + plan.frames
    assert found.missed == found.late + found.lost + found.dead
    assert (found.refused, found.died) == (1, 1)
    assert found.rate == found.missed / plan.planned
    assert found.longest_run == plan.frames
    assert found.interval is not None and found.interval.lower < found.rate < found.interval.upper


def test_two_misses_in_20_frames_are_not_firm_and_two_further_apart_are(plan: Plan) -> None:
    ready = ready_times(plan)
    done = ready + 0.2
    done[0, [10, 29]] += 3.0
    done[1, [10, 30]] += 3.0
    done[2, [10, 11]] += 3.0
    assert count(plan, done, ready).not_firm == 0.2


def test_firmness_is_absent_under_20_frames() -> None:
    short = plan_run(sessions=10, budget=1.0, unit=1.0, q=0.01)
    ready = ready_times(short)
    assert count(short, ready + 0.2, ready).not_firm is None


def test_with_nothing_due_there_is_no_rate(plan: Plan) -> None:
    ready = ready_times(plan)
    found = count(plan, ready + 0.2, ready, t_stop=3.0)
    assert (found.due, found.rate, found.interval) == (0, None, None)
    assert found.planned == plan.planned


def test_a_skipped_frame_is_dropped_and_a_frame_at_the_end_is_only_lost(plan: Plan) -> None:
    ready = ready_times(plan)
    done = ready + 0.2
    done[5, 20], done[6, 30:] = np.nan, np.nan
    found = count(plan, done, ready)
    assert found.dropped == 1
    assert found.lost == 1 + plan.cut_frames + plan.frames - 30


@given(hnp.arrays(bool, st.tuples(st.integers(1, 5), st.integers(1, 30))))
def test_the_longest_run_is_that_of_a_plain_count(missed: np.ndarray) -> None:
    longest = 0
    for row in missed:
        run = 0
        for each in row:
            run = run + 1 if each else 0
            longest = max(longest, run)
    assert longest_run(missed) == longest


def test_rebuilt_contexts_are_counted_in_the_measured_span(plan: Plan) -> None:
    ready = ready_times(plan)
    recorded = facts(plan, ready, ready + 0.2)
    rows = recorded.frames
    marked = (rows["session"] == 3) & np.isin(
        rows["frame"], [plan.cut_frames - 1, plan.cut_frames, plan.cut_frames + 5]
    )
    rows["flags"] |= np.where(marked, FrameFlag.ROLLOVER, 0).astype(rows["flags"].dtype)
    table = build_table(recorded, plan)
    assert census(table, table.span).rolled == 2
