from __future__ import annotations

import numpy as np
import pytest

from metrobench.measure.collapse import Before, Collapse, Kind, find_collapse, silence
from metrobench.measure.frames import build_table
from metrobench.measure.plan import Plan, plan_run
from tests.virtual_servers import facts, queue_run, ready_times


@pytest.fixture
def plan() -> Plan:
    return plan_run(sessions=8, budget=1.0, unit=1.0, q=0.01, span=40.0)


def find(plan: Plan, ready: np.ndarray, done: np.ndarray, **changes) -> Collapse:
    recorded = facts(plan, ready, done, **changes)
    return find_collapse(recorded, build_table(recorded, plan))


@pytest.mark.parametrize(("budget", "seconds"), [(0.1, 5.0), (1.0, 5.0), (2.0, 6.0)])
def test_the_window_is_5_s_or_3_budgets(budget: float, seconds: float) -> None:
    assert silence(budget) == seconds


def test_a_stall_has_its_onset_between_the_last_answer_and_the_first_deadline_with_none(plan: Plan) -> None:
    ready = ready_times(plan, 0.3)
    done = ready + 0.2
    done[done > 20.0] = np.nan
    found = find(plan, ready, done)
    assert found.kind is Kind.STALL
    assert found.onset == pytest.approx((np.nanmax(done), ready[ready + 0.2 > 20.0].min() + 1.0))
    assert found.before is Before.HEALTHY and found.in_incidence
    assert found.named_at is not None and found.observed is not None
    assert found.named_at - found.observed <= silence(plan.budget) + plan.budget


@pytest.mark.parametrize(
    ("seconds", "kind"), [(3.0, Kind.NONE), (5.5, Kind.NONE), (7.5, Kind.STALL), (12.0, Kind.STALL)]
)
def test_a_pause_that_ends_is_a_stall_only_if_answers_were_overdue_for_the_whole_window(plan, seconds, kind) -> None:
    ready = ready_times(plan, 0.3)
    done = ready + 0.2
    done = np.where((done >= 20.0) & (done < 20.0 + seconds), 20.0 + seconds, done)
    found = find(plan, ready, done)
    assert found.kind is kind
    if kind is Kind.STALL:
        assert found.onset == pytest.approx((done[done < 20.0].max(), ready[ready + 0.2 >= 20.0].min() + 1.0))


def test_one_session_that_is_never_answered_again_is_starvation(plan: Plan) -> None:
    ready = ready_times(plan, 0.3)
    done = ready + 0.2
    done[[2, 5], 20:] = np.nan
    found = find(plan, ready, done)
    assert (found.kind, found.share) == (Kind.STARVATION, 0.25)
    first = min((2, 5), key=lambda session: ready[session, 20])
    assert found.onset == pytest.approx((done[first, 19], ready[first, 20] + 1.0))
    assert found.in_incidence


def test_skipped_frames_of_a_session_that_is_served_again_are_no_starvation(plan: Plan) -> None:
    ready = ready_times(plan, 0.3)
    done = ready + 0.2
    done[3, 10], done[4, 14] = np.nan, np.nan
    assert find(plan, ready, done).kind is Kind.NONE


@pytest.mark.parametrize("load", [1.2, 2.0, 8.0])
def test_late_but_moving_is_overload_and_never_a_collapse(load: float) -> None:
    plan = plan_run(sessions=round(50 * load), budget=1.0, unit=1.0, q=0.01, span=30.0)
    recorded = queue_run(plan, 50.0)
    found = find_collapse(recorded, build_table(recorded, plan))
    assert found.kind is Kind.OVERLOAD
    assert not found.collapsed


def test_a_stall_after_overload_is_outside_incidence(plan: Plan) -> None:
    ready = ready_times(plan, 0.3)
    done = ready + 1.5
    done[done > 25.0] = np.nan
    found = find(plan, ready, done)
    assert (found.kind, found.before, found.in_incidence) == (Kind.STALL, Before.OVERLOAD, False)
    assert found.onset is not None and found.onset[0] <= found.onset[1]


def test_a_stall_in_the_first_seconds_has_no_healthy_window_before_it(plan: Plan) -> None:
    ready = ready_times(plan, 0.3)
    done = ready + 0.2
    done[done > 3.0] = np.nan
    found = find(plan, ready, done)
    assert (found.kind, found.before) == (Kind.STALL, Before.START)


def test_all_connections_closed_with_an_error_is_engine_death(plan: Plan) -> None:
    ready = ready_times(plan, 0.3)
    closed = {session: (20.0 + 0.1 * session, 1011) for session in range(plan.sessions)}
    found = find(plan, ready, ready + 0.2, closed=closed)
    assert found.kind is Kind.ENGINE_DEATH
    assert found.named_at == pytest.approx(20.7)
    assert found.dead_sessions == plan.sessions
    assert found.in_incidence


def test_fewer_closed_connections_are_session_deaths_and_no_collapse(plan: Plan) -> None:
    ready = ready_times(plan, 0.3)
    found = find(plan, ready, ready + 0.2, closed=dict.fromkeys(range(plan.sessions - 1), (20.0, 1011)))
    assert (found.kind, found.collapsed) == (Kind.SESSION_DEATH, False)
    assert found.dead_sessions == plan.sessions - 1


def test_connections_closed_politely_are_no_engine_death(plan: Plan) -> None:
    ready = ready_times(plan, 0.3)
    found = find(plan, ready, ready + 0.2, closed=dict.fromkeys(range(plan.sessions), (20.0, 1000)))
    assert found.kind is Kind.SESSION_DEATH


def test_a_stall_ends_where_the_engine_died_soon_after(plan: Plan) -> None:
    """Silent for 3 s, then every connection breaks: the death is the finding, its onset is the silence."""
    ready = ready_times(plan, 0.3)
    done = ready + 0.2
    done[done > 20.0] = np.nan
    found = find(plan, ready, done, closed=dict.fromkeys(range(plan.sessions), (23.0, 1011)))
    assert found.kind is Kind.ENGINE_DEATH
    assert found.onset is not None and found.onset[0] == pytest.approx(np.nanmax(done))


def test_silence_while_the_client_itself_did_not_listen_is_no_stall(plan: Plan) -> None:
    ready = ready_times(plan, 0.3)
    done = ready + 0.2
    done = np.where((done >= 20.0) & (done < 29.0), 29.0, done)
    assert find(plan, ready, done).kind is Kind.STALL
    assert find(plan, ready, done, stalls=[(20.0, 29.0)]).kind is not Kind.STALL


def test_slow_units_are_not_starved_between_their_answers() -> None:
    plan = plan_run(sessions=4, budget=1.0, unit=10.0, q=0.01, span=100.0)
    ready = ready_times(plan, 0.3)
    assert find(plan, ready, ready + 0.2).kind is Kind.NONE


def test_with_every_session_refused_there_is_nothing_to_collapse(plan: Plan) -> None:
    ready = ready_times(plan, 0.3)
    assert find(plan, ready, ready + 0.2, refused=tuple(range(plan.sessions))).kind is Kind.NONE


def test_refused_sessions_make_no_overload(plan: Plan) -> None:
    ready = ready_times(plan)
    assert find(plan, ready, ready + 0.2, refused=(0, 1, 2)).kind is Kind.NONE


def test_refused_sessions_do_not_make_a_server_unhealthy_before_it_stalls(plan: Plan) -> None:
    ready = ready_times(plan)
    done = np.where(ready + 0.2 <= 20.0, ready + 0.2, np.nan)
    assert find(plan, ready, done, refused=(0, 1, 2)).before is Before.HEALTHY


def test_a_session_that_starves_before_the_rest_fall_silent_is_the_collapse(plan: Plan) -> None:
    ready = ready_times(plan)
    done = np.where(ready + 0.2 <= 30.0, ready + 0.2, np.nan)
    done[3, ready[3] > 20.0] = np.nan
    found = find(plan, ready, done)
    last, unanswered = float(np.nanmax(done[3])), float(ready[3][ready[3] > 20.0][0])
    assert found.kind is Kind.STARVATION
    assert found.onset == pytest.approx((last, unanswered + plan.budget))


def test_one_turn_without_an_answer_is_no_starvation() -> None:
    plan = plan_run(sessions=3, budget=1.0, unit=12.0, q=0.01, noun="turn")
    ready = ready_times(plan)
    done = ready + 0.3
    done[1, 3] = np.nan
    assert find(plan, ready, done).kind is Kind.NONE
