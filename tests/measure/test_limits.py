from __future__ import annotations

import numpy as np
import pytest

from metrobench.measure.facts import RunFacts
from metrobench.measure.limits import Evidence, Limit, limited_by
from metrobench.measure.plan import Plan, plan_run
from metrobench.measure.verdict import Verdict, judge
from tests.virtual_servers import facts, queue_run, ready_times

PLAN = plan_run(sessions=60, budget=1.0, unit=1.0, q=0.01)


def overloaded(plan: Plan = PLAN) -> Verdict:
    return judge(queue_run(plan, 50.0), plan, steal=0.0)


def of(recorded: RunFacts) -> Verdict:
    return judge(recorded, PLAN, steal=0.0)


def steady(**changes) -> RunFacts:
    ready = ready_times(PLAN)
    return facts(PLAN, ready, ready + 0.2, **changes)


@pytest.mark.parametrize(
    ("evidence", "limit"),
    [
        (Evidence(engine_cpu=0.97, front_cpu=0.4, client_cpu=0.2), Limit.COMPUTE),
        (Evidence(engine_cpu=0.97, front_cpu=0.6, client_cpu=0.2, front_shares_client_core=True), Limit.COMPUTE),
        (Evidence(engine_cpu=0.97, front_cpu=0.6, client_cpu=0.3, front_shares_client_core=True), Limit.UNKNOWN),
        (Evidence(engine_cpu=0.5, front_cpu=0.6, client_cpu=0.3, front_shares_client_core=True), Limit.GATEWAY),
        (Evidence(engine_cpu=0.5, front_cpu=0.3, client_cpu=0.6, front_shares_client_core=True), Limit.CLIENT),
        (Evidence(engine_cpu=0.5, front_cpu=0.95, client_cpu=0.3), Limit.GATEWAY),
        (Evidence(engine_cpu=0.5, front_cpu=0.4, client_cpu=0.3), Limit.UNKNOWN),
        (Evidence(engine_cpu=0.6, front_cpu=0.3, client_cpu=0.1, engine_shares_core=True), Limit.UNKNOWN),
        (Evidence(engine_cpu=0.97, kv_peak=0.99, waiting_peak=12), Limit.KV),
        (Evidence(engine_cpu=0.97, kv_peak=0.99, waiting_peak=0), Limit.COMPUTE),
        (Evidence(engine_cpu=0.97, positions_share=0.99), Limit.POSITIONS),
        (Evidence(), Limit.UNKNOWN),
    ],
)
def test_growing_latency_is_put_down_to_the_core_that_was_full(evidence: Evidence, limit: Limit) -> None:
    found = limited_by(overloaded(), evidence)
    assert found.limit is limit
    assert found.why


@pytest.mark.parametrize(
    ("engine_latency", "limit"),
    [(None, Limit.UNKNOWN), (0.0, Limit.UNKNOWN), (0.4, Limit.UNKNOWN), (0.6, Limit.COMPUTE), (9.0, Limit.COMPUTE)],
)
def test_the_engine_limits_where_it_has_a_frame_most_of_its_time(engine_latency, limit) -> None:
    failed = overloaded()
    share = None if engine_latency is None else engine_latency * failed.latency.mean
    evidence = Evidence(engine_cpu=0.9, front_cpu=0.93, client_cpu=0.2, engine_latency=share)
    assert limited_by(failed, evidence).limit is limit


def test_a_full_gateway_in_front_of_an_engine_with_little_to_do_is_the_limit() -> None:
    evidence = Evidence(engine_cpu=0.5, front_cpu=0.93, client_cpu=0.2, engine_latency=0.01)
    assert limited_by(overloaded(), evidence).limit is Limit.GATEWAY


def test_with_nothing_failed_nothing_is_known_to_limit() -> None:
    assert limited_by(None, Evidence(engine_cpu=1.0)).limit is Limit.UNKNOWN


def test_a_stall_with_the_pool_full_is_kv_though_the_gauge_fell_afterwards() -> None:
    ready = ready_times(PLAN)
    done = ready + 0.2
    done[done > 10.0] = np.nan
    found = limited_by(of(facts(PLAN, ready, done)), Evidence(engine_cpu=1.0, kv_peak=0.98))
    assert found.limit is Limit.KV
    assert "stall" in found.why


def test_a_refusal_is_the_gateway_with_the_words_of_the_server() -> None:
    found = limited_by(of(steady(refused=(1, 2))), Evidence(engine_cpu=0.99, close_reasons=("", "session_limit")))
    assert found.limit is Limit.GATEWAY
    assert "2 sessions" in found.why and "session_limit" in found.why


def test_used_up_context_is_positions() -> None:
    died = of(steady(closed={1: (12.0, 1008)}))
    assert limited_by(died, Evidence(close_reasons=("context_exhausted",))).limit is Limit.POSITIONS


def test_a_full_core_says_nothing_where_connections_were_closed() -> None:
    died = of(steady(closed=dict.fromkeys(range(60), (12.0, 1011))))
    assert limited_by(died, Evidence(engine_cpu=1.0, close_reasons=("engine_dead",))).limit is Limit.UNKNOWN


def test_a_client_limited_run_is_limited_by_the_client() -> None:
    assert limited_by(of(steady(lag=0.5)), Evidence(engine_cpu=1.0)).limit is Limit.CLIENT


def test_the_sentence_shows_latency_before_and_after_and_the_cpu_shares() -> None:
    quiet = plan_run(sessions=40, budget=1.0, unit=1.0, q=0.01)
    found = limited_by(overloaded(), Evidence(engine_cpu=0.97, front_cpu=0.4), judge(queue_run(quiet, 50.0), quiet))
    assert "median latency went from 20 ms to" in found.why
    assert "growing" in found.why
    assert "engine core 97 %" in found.why and "client not visible" in found.why


@pytest.mark.parametrize("code", ["kv_limit", "kv_exhausted"])
def test_a_server_that_names_its_kv_pool_is_limited_by_kv(code: str) -> None:
    ready = ready_times(PLAN)
    refused = of(facts(PLAN, ready, ready + 0.2, refused=(1, 2)))
    found = limited_by(refused, Evidence(engine_cpu=0.97, close_reasons=("other", f"{code}: the pool is full")))
    assert found.limit is Limit.KV
    assert code in found.why
