"""What holds for whatever facts a run may record."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metrobench.measure.facts import FRAME_DTYPE, LAG_EDGES, RunFacts, SessionFacts
from metrobench.measure.plan import Plan, plan_run
from metrobench.measure.verdict import judge
from tests.virtual_servers import facts, ready_times

ANY_TIME = st.one_of(
    st.floats(-5.0, 60.0), st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e9, 0.0]), st.floats()
)


@st.composite
def wild_facts(draw: st.DrawFn) -> tuple[RunFacts, Plan]:
    """Facts that no honest load process would write."""
    plan = plan_run(
        sessions=draw(st.integers(1, 6)),
        budget=draw(st.sampled_from([0.08, 1.0, 3.0])),
        unit=draw(st.sampled_from([0.5, 1.0, 2.0])),
        q=draw(st.sampled_from([0.05, 0.3])),
    )
    number = draw(st.integers(0, 40))
    rows = np.zeros(number, dtype=FRAME_DTYPE)
    for row in rows:
        row["session"], row["frame"] = draw(st.integers(0, 7)), draw(st.integers(0, 2**32 - 1) | st.integers(0, 30))
        for name in ("t_ready", "t_sent", "t_first", "t_done"):
            row[name] = draw(ANY_TIME)
        row["tokens"], row["flags"] = draw(st.integers(-1, 2)), draw(st.integers(0, 7))
    sessions = [
        SessionFacts(
            session=draw(st.integers(0, 8)),
            phase=draw(ANY_TIME),
            refused=draw(st.booleans()),
            t_closed=draw(st.none() | ANY_TIME),
            close_code=draw(st.none() | st.sampled_from([1000, 1006, 1011])),
        )
        for _ in range(draw(st.integers(0, 8)))
    ]
    stalls = draw(st.lists(st.tuples(ANY_TIME, ANY_TIME), max_size=4))
    counts = draw(st.lists(st.integers(-3, 10), max_size=5))
    return (
        RunFacts(
            frames=rows,
            sessions=sessions,
            budget=plan.budget,
            unit=plan.unit,
            first_ready=draw(ANY_TIME),
            stalls=np.array(stalls, dtype=np.float64).reshape(-1, 2),
            lag_counts=np.resize(counts, len(LAG_EDGES) - 1) if counts else np.zeros(0, dtype=np.int64),
            t_stop=draw(ANY_TIME),
        ),
        plan,
    )


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [each for inner in value.values() for each in numbers(inner)]
    if isinstance(value, list | tuple):
        return [each for inner in value for each in numbers(inner)]
    return [value] if isinstance(value, int | float) else []


@pytest.mark.filterwarnings("error")
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(wild_facts(), st.none() | st.floats())
def test_no_verdict_holds_a_number_that_is_not_finite_whatever_the_facts(
    case: tuple[RunFacts, Plan], steal: float | None
) -> None:
    verdict = judge(*case, steal=steal)
    assert np.isfinite(numbers(msgspec.to_builtins(verdict))).all()
    assert len(verdict.sentences) == len(verdict.reasons)
    misses = verdict.misses
    assert misses.met + misses.missed + misses.ambiguous == misses.due <= misses.planned
    assert misses.late + misses.lost + misses.dead == misses.missed


@st.composite
def plain_runs(draw: st.DrawFn) -> tuple[Plan, np.ndarray, np.ndarray]:
    """A plan, its schedule, and waits of which some are late and some endless."""
    plan = plan_run(sessions=draw(st.integers(1, 8)), budget=1.0, unit=1.0, q=0.2)
    ready = ready_times(plan, draw(st.floats(0.0, 0.99)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    waits = rng.uniform(0.05, draw(st.sampled_from([0.5, 1.1, 3.0])), ready.shape)
    waits[rng.random(ready.shape) < draw(st.sampled_from([0.0, 0.05, 0.5]))] = np.nan
    return plan, ready, waits


@settings(max_examples=60)
@given(plain_runs(), st.integers(0, 2**32 - 1))
def test_the_order_of_rows_is_of_no_account(case: tuple[Plan, np.ndarray, np.ndarray], seed: int) -> None:
    plan, ready, waits = case
    recorded = facts(plan, ready, ready + waits)
    straight = judge(recorded, plan)
    recorded.frames = np.random.default_rng(seed).permutation(recorded.frames)
    assert judge(recorded, plan) == straight


@settings(max_examples=60)
@given(plain_runs(), st.floats(0.0, 30.0))
def test_a_session_more_that_dies_never_lowers_the_miss_rate(
    case: tuple[Plan, np.ndarray, np.ndarray], moment: float
) -> None:
    plan, ready, waits = case
    more = msgspec.structs.replace(plan, sessions=plan.sessions + 1)
    before = judge(facts(plan, ready, ready + waits), plan).misses
    stop = float(ready[:, plan.cut_frames + plan.frames - 1].max()) + plan.wait
    joined = np.vstack([ready, ready[:1]])
    done = joined + np.vstack([waits, np.full_like(waits[:1], np.nan)])
    after = judge(facts(more, joined, done, closed={plan.sessions: (moment, 1006)}, t_stop=stop), more).misses
    assert before.rate is not None and after.rate is not None
    assert after.rate >= before.rate
    assert after.missed == before.missed + plan.frames


@settings(max_examples=60)
@given(plain_runs())
def test_closing_a_session_never_lowers_its_misses(case: tuple[Plan, np.ndarray, np.ndarray]) -> None:
    plan, ready, waits = case
    alive = judge(facts(plan, ready, ready + waits), plan).misses
    closed = judge(facts(plan, ready, ready + waits, closed={0: (15.0, 1006)}), plan).misses
    assert closed.missed >= alive.missed


@settings(max_examples=60)
@given(plain_runs(), st.sampled_from([2.0, 4.0]))
def test_all_times_and_the_budget_scaled_scale_the_results(
    case: tuple[Plan, np.ndarray, np.ndarray], factor: float
) -> None:
    plan, ready, waits = case
    scaled = msgspec.structs.replace(plan, budget=factor * plan.budget, unit=factor * plan.unit)
    one, many = (
        judge(facts(plan, ready, ready + waits), plan),
        judge(facts(scaled, factor * ready, factor * (ready + waits), lag=0.0002 * factor), scaled),
    )
    assert many.misses == one.misses
    for name in ("p50", "p99", "largest", "jitter", "interval_sd"):
        value = getattr(one.latency, name)
        assert getattr(many.latency, name) == (None if value is None else pytest.approx(factor * value, abs=1e-9))
    assert (one.growth.slope is None) == (many.growth.slope is None)
    if one.growth.slope is not None and many.growth.slope is not None:
        assert many.growth.slope.value == pytest.approx(one.growth.slope.value, abs=1e-9)


@settings(max_examples=40)
@given(plain_runs(), st.integers(0, 7), st.integers(0, 14), st.floats(0.0, 5.0))
def test_answering_one_frame_later_never_lowers_the_misses(case, session: int, frame: int, delay: float) -> None:
    plan, ready, waits = case
    before = judge(facts(plan, ready, ready + waits), plan).misses
    later = waits.copy()
    later[session % plan.sessions, plan.cut_frames + frame] += delay
    after = judge(facts(plan, ready, ready + later), plan).misses
    assert after.missed >= before.missed
    assert after.missed - before.missed <= 1
