from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from metrobench.measure.plan import Plan, Slo, extended, plan_run
from metrobench.measure.verdict import Outcome, Reason, Verdict, judge
from metrobench.measure.warnings import Warn
from tests.virtual_servers import facts, queue_run, ready_times


@pytest.fixture
def plan() -> Plan:
    return plan_run(sessions=40, budget=1.0, unit=1.0, q=0.01)


def late(plan: Plan, number: int) -> Verdict:
    """The last `number` measured frames of session 0 .. come late, all else in time."""
    ready = ready_times(plan)
    waits = np.full(ready.shape, 0.2)
    waits[:number, plan.cut_frames + 3] = 1.5
    return judge(facts(plan, ready, ready + waits), plan, steal=0.0)


def test_misses_up_to_q_of_the_frames_pass_and_one_more_fails(plan: Plan) -> None:
    assert plan.allowed == 6
    assert late(plan, 6).outcome is Outcome.PASSED
    failed = late(plan, 7)
    assert (failed.outcome, failed.reasons) == (Outcome.FAILED, (Reason.MISSES,))
    assert (failed.above, failed.allowed) == (7, 6)


def test_misses_before_the_span_do_not_count(plan: Plan) -> None:
    ready = ready_times(plan)
    done = ready + 0.2
    done[:, : plan.cut_frames] += 5.0
    assert judge(facts(plan, ready, done), plan, steal=0.0).misses.missed == 0


def test_an_objective_replaces_the_miss_rate_rule() -> None:
    plan = plan_run(sessions=40, budget=1.0, unit=1.0, q=0.01, slo=Slo(0.9, 0.5))
    ready = ready_times(plan)
    waits = np.full(ready.shape, 0.2)
    waits[:5] = 1.5
    assert judge(facts(plan, ready, ready + waits), plan, steal=0.0).outcome is Outcome.FAILED
    waits[:5] = 0.4
    passed = judge(facts(plan, ready, ready + waits), plan, steal=0.0)
    assert (passed.outcome, passed.limit) == (Outcome.PASSED, 0.5)
    waits[:5] = 0.6
    failed = judge(facts(plan, ready, ready + waits), plan, steal=0.0)
    assert failed.misses.missed == 0
    assert Reason.OBJECTIVE in failed.reasons


def test_an_unresolved_run_may_be_settled_by_the_same_run_gone_on() -> None:
    settled = 0
    for seed in range(40):
        plan = plan_run(sessions=48, budget=1.0, unit=1.0, q=0.01)
        first = judge(queue_run(plan, 50.0, seed=seed), plan, steal=0.0)
        if first.outcome is Outcome.UNRESOLVED:
            assert first.reasons == (Reason.GROWTH_UNSURE,)
            longer = extended(plan, 4)
            settled += judge(queue_run(longer, 50.0, seed=seed), longer, steal=0.0).outcome is not Outcome.UNRESOLVED
    assert settled >= 3


def test_the_run_may_stop_as_soon_as_too_many_frames_are_missed(plan: Plan) -> None:
    ready = ready_times(plan)
    stopped = judge(facts(plan, ready, ready + 1.5, t_stop=9.0), plan, steal=0.0)
    assert stopped.outcome is Outcome.FAILED
    assert stopped.reasons == (Reason.MISSES,)
    assert stopped.misses.due < stopped.misses.planned


def test_fresh_sessions_unknown_steal_and_missing_lag_are_said(plan: Plan) -> None:
    ready = ready_times(plan)
    recorded = facts(plan, ready, ready + 0.2)
    recorded.sessions[3].filled_tokens = 0
    recorded.lag_counts = np.zeros(0, dtype=np.int64)
    assert set(judge(recorded, plan).warnings) == {Warn.FRESH_SESSIONS, Warn.STEAL_UNKNOWN, Warn.NO_LAG}


def test_a_start_that_is_still_settling_after_the_cut_is_said() -> None:
    plan = plan_run(sessions=40, budget=1.0, unit=1.0, q=0.01, span=40.0)
    ready = ready_times(plan)
    waits = 0.1 + 0.7 * np.exp(-ready / 6.0) + 0.005 * np.random.default_rng(12).standard_normal(ready.shape)
    assert Warn.CUT_TOO_SHORT in judge(facts(plan, ready, ready + waits), plan).warnings
    assert Warn.CUT_TOO_SHORT not in judge(facts(plan, ready, ready + waits * 0 + 0.1), plan).warnings


def test_a_span_shorter_than_may_be_judged_is_said(plan: Plan) -> None:
    short = msgspec.structs.replace(plan, frames=10)
    ready = ready_times(short)
    assert Warn.SHORT_RUN in judge(facts(short, ready, ready + 0.2), short).warnings


def test_a_pass_or_failure_by_less_than_a_factor_of_two_is_narrow(plan: Plan) -> None:
    ready = ready_times(plan)

    def growing(slope: float) -> Verdict:
        return judge(facts(plan, ready, ready + 0.1 + slope * ready), plan, steal=0.0)

    outcomes = [(growing(slope).outcome, growing(slope).narrow) for slope in (0.001, 0.006, 0.015, 0.025)]
    assert outcomes == [
        (Outcome.PASSED, False),
        (Outcome.PASSED, True),
        (Outcome.FAILED, True),
        (Outcome.FAILED, False),
    ]
    assert not late(plan, 7).narrow


def stall(done: np.ndarray) -> dict:
    done[done > 15.0] = np.nan
    return {}


def starvation(done: np.ndarray) -> dict:
    done[3:5, 12:] = np.nan
    return {}


def engine_death(done: np.ndarray) -> dict:
    return {"closed": dict.fromkeys(range(len(done)), (15.0, 1011))}


def session_death(done: np.ndarray) -> dict:
    return {"closed": {1: (15.0, 1006)}}


def refusal(done: np.ndarray) -> dict:
    return {"refused": (1, 5)}


def client_stall(done: np.ndarray) -> dict:
    return {"stalls": [(12.0, 12.4)]}


@pytest.mark.parametrize("script", [stall, starvation, engine_death, session_death, refusal, client_stall])
def test_every_verdict_becomes_json_and_comes_back(plan: Plan, script: Callable[[np.ndarray], dict]) -> None:
    ready = ready_times(plan)
    done = ready + np.random.default_rng(2).uniform(0.1, 1.05, ready.shape)
    verdict = judge(facts(plan, ready, done, **script(done)), plan, steal=0.01)
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


def test_every_reason_has_a_sentence_with_its_figures(plan: Plan) -> None:
    ready = ready_times(plan)
    recorded = facts(plan, ready, ready + 1.5, refused=(1, 2), lag=0.2)
    verdict = judge(recorded, plan, steal=0.5, gpu_busy=True)
    assert verdict.outcome is Outcome.VOID
    assert len(verdict.sentences) == len(verdict.reasons) == 3
    assert "50.0 %" in " ".join(verdict.sentences)
    failed = judge(facts(plan, ready, ready + 1.5, refused=(1, 2)), plan)
    assert any("2 of 40 sessions were refused" in sentence for sentence in failed.sentences)
    assert any("6 are allowed" in sentence for sentence in failed.sentences)


def test_an_answer_before_its_audio_loses_the_tie() -> None:
    plan = plan_run(sessions=2, budget=1.0, unit=1.0, q=0.01)
    ready = ready_times(plan)
    verdict = judge(facts(plan, ready, ready - 3.5), plan)
    assert verdict.outcome is Outcome.VOID
    assert verdict.reasons == (Reason.TIE_LOST,)
    assert "tie lost" in verdict.sentences[0]


def test_other_programs_on_the_machine_void_a_run() -> None:
    plan = plan_run(sessions=2, budget=1.0, unit=1.0, q=0.01)
    ready = ready_times(plan)
    assert judge(facts(plan, ready, ready + 0.1), plan, others=0.05).outcome is Outcome.PASSED
    verdict = judge(facts(plan, ready, ready + 0.1), plan, others=0.5)
    assert verdict.outcome is Outcome.VOID
    assert "0.50 cores" in verdict.sentences[0]


def test_a_slow_machine_voids_a_failure_and_no_pass() -> None:
    plan = plan_run(sessions=2, budget=1.0, unit=1.0, q=0.01)
    ready = ready_times(plan)
    assert judge(facts(plan, ready, ready + 0.1), plan, slowdown=2.0).outcome is Outcome.PASSED
    assert judge(facts(plan, ready, ready + 1.5), plan, slowdown=1.1).outcome is Outcome.FAILED
    verdict = judge(facts(plan, ready, ready + 1.5), plan, slowdown=2.0)
    assert verdict.reasons == (Reason.MACHINE_SLOW,)
    assert verdict.transient
    assert "2.00 times as long" in verdict.sentences[0]
    assert not judge(facts(plan, ready, ready + 1.5), plan, slowdown=2.0, others=1.0).transient
    final = judge(facts(plan, ready, ready + 1.5), plan, slowdown=2.0, excuse_slow=False)
    assert final.outcome is Outcome.FAILED
    assert Warn.MACHINE_SLOW in final.warnings
    refused = judge(facts(plan, ready, ready + 0.1, refused=(1,)), plan, slowdown=2.0)
    assert refused.outcome is Outcome.FAILED


def test_a_client_that_died_voids_its_run() -> None:
    plan = plan_run(sessions=2, budget=1.0, unit=1.0, q=0.01)
    ready = ready_times(plan)
    assert judge(facts(plan, ready, ready + 0.1), plan, client_died=True).reasons == (Reason.CLIENT_DIED,)
