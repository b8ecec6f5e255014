"""A collapse is named while it lasts, in time, by its kind, and nothing else is called one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.load.alarm import Alarm, Watcher
from metrobench.measure.collapse import Kind, find_collapse, silence
from metrobench.measure.facts import FRAME_DTYPE
from metrobench.measure.frames import build_table
from metrobench.measure.plan import Plan, plan_run
from tests.virtual_servers import Floats, facts, noisy_service, queue, ready_times

STEP = 0.25
NO_STALLS = np.empty((0, 2))


@pytest.fixture
def plan() -> Plan:
    return plan_run(sessions=8, budget=1.0, unit=1.0, q=0.01, span=40.0)


def watch(
    plan: Plan,
    ready: Floats,
    done: Floats,
    closed: dict[int, float] | None = None,
    refused: tuple[int, ...] = (),
    stalls: Floats = NO_STALLS,
) -> list[tuple[float, Alarm]]:
    """What was said at every moment of a run with these receipts."""
    rows = np.zeros(ready.T.shape, dtype=FRAME_DTYPE)
    rows["t_ready"] = ready.T
    rows["t_done"] = np.nan
    watcher = Watcher(rows, plan.budget, plan.unit)
    ends = np.full(plan.sessions, np.inf)
    for session, moment in (closed or {}).items():
        ends[session] = moment
    gone = np.isin(np.arange(plan.sessions), refused)
    said = []
    for now in np.arange(STEP, float(ready.max()), STEP):
        known = (done <= now) & (done <= ends[:, None])
        rows["t_done"] = np.where(known, done, np.nan).T
        deaf = np.minimum(stalls[stalls[:, 0] < now], now)
        said.append((float(now), watcher.update(float(now), deaf, gone, gone | (ends <= now))))
    return said


def named(said: list[tuple[float, Alarm]]) -> tuple[float, Kind] | None:
    return next(((now, alarm.kind) for now, alarm in said if alarm.kind is not Kind.NONE), None)


def test_a_healthy_run_says_nothing(plan: Plan) -> None:
    ready = ready_times(plan)
    said = watch(plan, ready, ready + 0.2, refused=(3,))
    assert named(said) is None
    assert not any(alarm.silent for _, alarm in said)


def test_a_client_that_did_not_listen_has_seen_no_collapse(plan: Plan) -> None:
    ready = ready_times(plan)
    held = np.array([[10.0, 25.0]])
    done = np.where((ready + 0.2 > 10.0) & (ready < 25.0), 25.1, ready + 0.2)
    assert named(watch(plan, ready, done)) is not None
    said = watch(plan, ready, done, stalls=held)
    assert named(said) is None
    assert not any(alarm.silent for _, alarm in said)


def test_a_collapse_while_the_client_did_not_listen_is_named_when_it_has_listened_for_long_enough(plan: Plan) -> None:
    ready = ready_times(plan)
    done = np.where(ready < 12.0, ready + 0.2, np.nan)
    moment, kind = named(watch(plan, ready, done, stalls=np.array([[10.0, 20.0]]))) or (0.0, Kind.NONE)
    assert kind is Kind.STALL
    assert moment == pytest.approx(20.0 + silence(plan.budget, plan.unit), abs=1.5)


@pytest.mark.parametrize("overload", [1.05, 1.5, 4.0])
def test_overload_is_never_called_a_collapse(plan: Plan, overload: float) -> None:
    ready = ready_times(plan)
    done = queue(ready, noisy_service(ready.shape, overload * plan.unit / plan.sessions, seed=1))
    assert named(watch(plan, ready, done)) is None


def test_a_stall_is_named_within_the_silence_and_a_budget_and_warned_of_before(plan: Plan) -> None:
    ready = ready_times(plan)
    done = np.where(ready + 0.2 <= 20.0, ready + 0.2, np.nan)
    said = watch(plan, ready, done)
    found = named(said)
    assert found is not None
    moment, kind = found
    onset = 0.5 * (float(np.nanmax(done)) + float(ready[np.isnan(done)].min()) + plan.budget)
    assert kind is Kind.STALL
    assert onset < moment <= onset + silence(plan.budget) + plan.budget
    warned = next(now for now, alarm in said if alarm.silent)
    assert warned < moment


def test_one_starved_session_of_eight_is_starvation(plan: Plan) -> None:
    ready = ready_times(plan)
    done = ready + 0.2
    done[5, 15:] = np.nan
    found = named(watch(plan, ready, done))
    assert found is not None
    assert found[1] is Kind.STARVATION


def test_all_sessions_closed_at_once_is_the_death_of_the_engine(plan: Plan) -> None:
    ready = ready_times(plan)
    found = named(watch(plan, ready, ready + 0.2, closed=dict.fromkeys(range(8), 21.0)))
    assert found == (21.0, Kind.ENGINE_DEATH)


def test_single_closed_sessions_are_no_collapse(plan: Plan) -> None:
    ready = ready_times(plan)
    assert named(watch(plan, ready, ready + 0.2, closed={2: 12.0, 4: 30.0})) is None


@given(st.integers(2, 12), st.floats(8.0, 30.0), st.sets(st.integers(0, 11)), st.integers(0, 2**31), st.booleans())
def test_what_is_named_online_is_what_the_facts_say(
    sessions: int, onset: float, starved: set[int], seed: int, everybody: bool
) -> None:
    plan = plan_run(sessions=sessions, budget=1.0, unit=1.0, q=0.01, span=40.0)
    ready = ready_times(plan)
    done = ready + np.random.default_rng(seed).uniform(0.05, 0.6, ready.shape)
    who = np.ones(sessions, dtype=bool) if everybody else np.isin(np.arange(sessions), list(starved))
    done[who[:, None] & (done > onset)] = np.nan
    recorded = facts(plan, ready, done)
    offline = find_collapse(recorded, build_table(recorded, plan))
    found = named(watch(plan, ready, done))
    assert (found is None) == (not offline.collapsed)
    if found is not None and offline.onset is not None:
        assert found[1] is offline.kind
        assert offline.onset[0] < found[0] <= offline.onset[1] + silence(plan.budget) + STEP


def test_rows_that_are_few_are_read_to_their_end() -> None:
    rows: npt.NDArray[np.void] = np.zeros((2, 1), dtype=FRAME_DTYPE)
    rows["t_ready"] = [[1.0], [2.0]]
    rows["t_done"] = [[1.1], [2.1]]
    alive = np.zeros(1, dtype=bool)
    assert Watcher(rows, 1.0, 1.0).update(100.0, NO_STALLS, alive, alive).kind is Kind.NONE
