"""Servers whose truth is known, in virtual time: what the measurement must say about each."""

from __future__ import annotations

import numpy as np
import pytest

from metrobench.measure.collapse import Kind
from metrobench.measure.facts import RunFacts
from metrobench.measure.plan import Plan, plan_run
from metrobench.measure.verdict import Outcome, Reason, judge
from metrobench.measure.warnings import Warn
from metrobench.search.mscs import MscsSearch, Run
from tests.virtual_servers import facts, noisy_service, queue, queue_run, ready_times, stop_time

CAPACITY = 200


def plan(sessions: int, **changes: float) -> Plan:
    return plan_run(**{"sessions": sessions, "budget": 1.0, "unit": 1.0, "q": 0.01, **changes})


def steady(planned: Plan, latency: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """A server with room to spare: every answer after the same time."""
    ready = ready_times(planned, 0.3)
    return ready, ready + latency


def in_span(planned: Plan, ready: np.ndarray) -> np.ndarray:
    """Which frames are measured, shape of `ready`."""
    column = np.arange(ready.shape[1])
    return np.broadcast_to((column >= planned.cut_frames) & (column < planned.cut_frames + planned.frames), ready.shape)


@pytest.mark.parametrize("load", [0.5, 0.8, 0.95, 1.0])
def test_a_queue_within_its_capacity_passes(load: float) -> None:
    planned = plan(round(CAPACITY * load))
    assert judge(queue_run(planned, CAPACITY), planned, steal=0.0).outcome is Outcome.PASSED


@pytest.mark.parametrize("overload", [0.03, 0.05, 0.10])
def test_a_queue_above_its_capacity_fails_in_15_s_though_hardly_a_deadline_is_missed(overload: float) -> None:
    planned = plan(round(CAPACITY * (1 + overload)))
    verdict = judge(queue_run(planned, CAPACITY), planned, steal=0.0)
    assert planned.span == 15.0
    assert verdict.outcome is Outcome.FAILED
    assert Reason.GROWTH in verdict.reasons
    if overload < 0.05:  # B / e lies beyond the run: the bare miss rate sees nothing
        assert verdict.misses.missed == 0


@pytest.mark.parametrize("overload", [0.05, 0.07, 0.10])
def test_single_15_s_runs_of_noisy_overload_never_pass(overload: float) -> None:
    """The service varies (cv 0.5); the server's speed is exactly its own, so the overload is what it says."""
    planned = plan(round(CAPACITY * (1 + overload)))
    ready = ready_times(planned, 0.3)
    for seed in range(100):
        service = noisy_service(ready.shape, 1.0 / CAPACITY, seed, speed_sd=0.0)
        verdict = judge(facts(planned, ready, queue(ready, service)), planned, steal=0.0)
        assert verdict.outcome is not Outcome.PASSED, seed


@pytest.mark.parametrize("guess", [None, 1, 150, 200, 260, 1000])
@pytest.mark.parametrize("capacity", [7, 60, 200, 333])
def test_the_interval_of_an_exact_queue_holds_its_capacity_and_no_overload_at_or_below_lo(
    capacity: int, guess: int | None
) -> None:
    search = MscsSearch(guess=guess)
    while isinstance(step := search.next_step(), Run):
        planned = plan(step.sessions)
        verdict = judge(queue_run(planned, capacity), planned, steal=0.0)
        search.tell(step.sessions, verdict.outcome, narrow=verdict.narrow)
    found = search.result()
    horizon = plan(capacity).horizon
    assert found.hi is not None
    assert found.hi > capacity
    # a queue fed 1 + e times its capacity is past B after B / e seconds: up to B / H the rule calls it sustainable
    assert found.lo <= capacity * (1 + 1.0 / horizon)
    assert all(capacity * (1 + overload) > found.lo for overload in (0.03, 0.05, 0.10))
    assert found.hi - found.lo <= max(1, 0.15 * capacity)


def test_a_server_that_refuses_20_of_100_fails_and_the_refused_miss_every_frame() -> None:
    planned = plan(100)
    ready, done = steady(planned)
    verdict = judge(facts(planned, ready, done, refused=tuple(range(80, 100))), planned, steal=0.0)
    assert verdict.outcome is Outcome.FAILED
    assert Reason.REFUSED in verdict.reasons
    assert verdict.misses.refused == 20
    assert verdict.misses.missed == verdict.misses.dead == 20 * planned.frames


def test_one_refusal_fails_even_where_the_miss_rate_would_pass() -> None:
    planned = plan(200)
    ready, done = steady(planned)
    verdict = judge(facts(planned, ready, done, refused=(7,)), planned, steal=0.0)
    assert verdict.misses.missed <= planned.allowed
    assert verdict.outcome is Outcome.FAILED
    assert verdict.reasons == (Reason.REFUSED,)


def test_a_server_that_starves_1_of_4_is_starvation_with_its_share() -> None:
    planned = plan(4, q=0.05)
    ready, done = steady(planned)
    done[2, 10:] = np.nan
    verdict = judge(facts(planned, ready, done), planned, steal=0.0)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.collapse.kind is Kind.STARVATION
    assert verdict.collapse.share == 0.25
    assert verdict.collapse.onset == pytest.approx((done[2, 9], ready[2, 10] + 1.0))
    assert verdict.misses.lost == planned.cut_frames + planned.frames - 10


@pytest.mark.parametrize("sessions", [1, 4, 50])
@pytest.mark.parametrize("begin", [9.0, 10.37])
def test_a_stall_of_3_s_misses_exactly_the_frames_that_arithmetic_says(sessions: int, begin: float) -> None:
    """Nothing is answered in [begin, begin + 3); what was due in it comes out at its end."""
    planned = plan(sessions, q=0.01, span=100.0)
    ready, done = steady(planned)
    end = begin + 3.0
    held = (done >= begin) & (done < end)
    done = np.where(held, end, done)
    verdict = judge(facts(planned, ready, done), planned, steal=0.0)
    expected = int((held & (end - ready > 1.0) & in_span(planned, ready)).sum())
    assert expected == int(((ready + 0.2 >= begin) & (ready < end - 1.0) & in_span(planned, ready)).sum()) > 0
    assert verdict.misses.missed == verdict.misses.late == expected
    assert verdict.misses.lost == verdict.misses.ambiguous == 0
    assert not verdict.collapse.collapsed


def test_a_stall_that_drops_what_it_held_misses_those_frames_too() -> None:
    planned = plan(50, span=100.0)
    ready, done = steady(planned)
    held = (done >= 20.0) & (done < 23.0)
    verdict = judge(facts(planned, ready, np.where(held, np.nan, done)), planned, steal=0.0)
    assert verdict.misses.missed == verdict.misses.lost == verdict.misses.dropped == int(held.sum())
    assert Warn.SILENT_DROPS in verdict.warnings


@pytest.mark.parametrize("code", [1000, 1011])
def test_a_server_that_drops_half_its_sessions_is_worse_and_never_better(code: int) -> None:
    """The survivors are served faster once the others are gone; the result must not improve by it."""
    planned = plan(100)
    ready, done = steady(planned, 0.9)
    alive = judge(facts(planned, ready, done), planned, steal=0.0)
    done[:50, 12:] = ready[:50, 12:] + 0.01
    dropped = judge(facts(planned, ready, done, closed=dict.fromkeys(range(50, 100), (12.0, code))), planned, steal=0.0)
    gone = in_span(planned, ready)[50:] & (done[50:] > 12.0)
    assert alive.outcome is Outcome.PASSED
    assert dropped.outcome is Outcome.FAILED
    assert dropped.misses.missed == dropped.misses.dead == int(gone.sum())
    assert dropped.collapse.kind is Kind.SESSION_DEATH


def test_answering_one_frame_late_is_exactly_one_miss_and_shifts_nothing() -> None:
    planned = plan(20, span=100.0)
    ready, done = steady(planned)
    done[:, 7] = ready[:, 7] + 0.2
    done[3, 7] = ready[3, 7] + 1.5
    verdict = judge(facts(planned, ready, done), planned, steal=0.0)
    assert (verdict.misses.missed, verdict.misses.late, verdict.misses.longest_run) == (1, 1, 1)


def test_a_late_answer_is_late_and_not_lost_even_when_it_comes_seconds_later() -> None:
    planned = plan(20)
    ready, done = steady(planned)
    done[3, 7] = ready[3, 7] + 6.5
    verdict = judge(facts(planned, ready, done), planned, steal=0.0)
    assert (verdict.misses.late, verdict.misses.lost) == (1, 0)


def test_hollow_answers_are_on_time_and_counted() -> None:
    planned = plan(20)
    ready, done = steady(planned)
    tokens = np.full(ready.shape, 4, dtype=np.int32)
    tokens[5, 8:12] = 0
    verdict = judge(facts(planned, ready, done, tokens=tokens), planned, steal=0.0)
    assert verdict.outcome is Outcome.PASSED
    assert (verdict.misses.hollow, verdict.misses.missed) == (4, 0)
    assert Warn.HOLLOW in verdict.warnings


def test_empty_answers_where_no_content_was_promised_are_not_hollow() -> None:
    planned = plan(20)
    ready, done = steady(planned)
    assert judge(facts(planned, ready, done, tokens=0, flags=0), planned, steal=0.0).misses.hollow == 0


def held_up_in_sending(planned: Plan, latency: float) -> RunFacts:
    """The client sends nothing for 50 ms, once a second; the server takes `latency` from the late send."""
    ready = ready_times(planned, 0.3)
    hold = np.floor(ready) + 0.5
    sent = np.where((ready >= hold) & (ready < hold + 0.05), hold + 0.05, ready + 0.0002)
    stalls = [(float(second) + 0.5, float(second) + 0.55) for second in range(int(stop_time(planned, ready)))]
    return facts(planned, ready, sent + latency, sent=sent, stalls=stalls)


def held_up_in_receiving(planned: Plan, latency: float) -> RunFacts:
    """The client reads nothing for 50 ms, once a second; answers that came meanwhile are read at the end of it."""
    ready = ready_times(planned, 0.3)
    came = ready + latency
    hold = np.floor(came) + 0.5
    done = np.where((came >= hold) & (came < hold + 0.05), hold + 0.05, came)
    stalls = [(float(second) + 0.5, float(second) + 0.55) for second in range(int(stop_time(planned, ready)) + 2)]
    return facts(planned, ready, done, stalls=stalls)


@pytest.mark.parametrize("script", [held_up_in_sending, held_up_in_receiving])
@pytest.mark.parametrize("latency", [0.2, 0.94, 0.96, 0.98, 0.999])
def test_a_client_held_up_by_50_ms_makes_frames_ambiguous_or_the_run_void_but_never_a_miss(script, latency) -> None:
    planned = plan(100)
    verdict = judge(script(planned, latency), planned, steal=0.0)
    assert verdict.misses.missed == 0
    assert (verdict.misses.ambiguous > 0) == (Warn.AMBIGUOUS in verdict.warnings) == (latency > 0.95)
    decides = verdict.misses.ambiguous > planned.allowed
    assert verdict.outcome is (Outcome.VOID if decides else Outcome.PASSED)
    assert verdict.reasons == ((Reason.CLIENT_DECIDES,) if decides else ())
    assert decides or latency < 0.98


def test_a_late_answer_of_the_server_stays_a_miss_when_the_client_was_held_up_too() -> None:
    planned = plan(100)
    verdict = judge(held_up_in_sending(planned, 1.2), planned, steal=0.0)
    assert verdict.misses.missed == verdict.misses.due
    assert verdict.outcome is Outcome.FAILED


def test_a_client_starved_of_cpu_is_client_limited_whatever_the_misses_say() -> None:
    """It falls behind a little more every second, so latency from the schedule grows though the server is idle."""
    planned = plan(100)
    ready = ready_times(planned, 0.3)
    sent = ready * 1.05
    verdict = judge(facts(planned, ready, sent + 0.05, sent=sent, lag=0.5), planned, steal=0.0)
    assert verdict.outcome is Outcome.VOID
    assert set(verdict.reasons) == {Reason.CLIENT_LAG, Reason.CLIENT_DECIDES}
    assert verdict.growth.fails
    assert verdict.misses.missed == 0
    assert verdict.misses.ambiguous > 0
    assert all("client-limited" in sentence for sentence in verdict.sentences)


def test_chunks_a_starved_client_never_sent_are_not_held_against_the_server() -> None:
    planned = plan(50)
    ready, done = steady(planned)
    sent = ready + 0.0002
    sent[:, 15:], done[:, 15:] = np.nan, np.nan
    verdict = judge(facts(planned, ready, done, sent=sent, stalls=[(15.5, 60.0)], lag=2.0), planned, steal=0.0)
    assert verdict.outcome is Outcome.VOID
    assert verdict.misses.missed == 0
    assert not verdict.collapse.collapsed


def test_a_server_that_never_answers_fails_and_is_a_stall_outside_incidence() -> None:
    planned = plan(10)
    ready, done = steady(planned)
    verdict = judge(facts(planned, ready, np.full_like(done, np.nan)), planned, steal=0.0)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.misses.missed == verdict.misses.lost == planned.planned
    assert verdict.latency.p50 is None
    assert verdict.collapse.kind is Kind.STALL
    assert not verdict.collapse.in_incidence


def test_a_run_cut_off_before_its_end_does_not_pass() -> None:
    planned = plan(10)
    ready, done = steady(planned)
    verdict = judge(facts(planned, ready, done, t_stop=12.0), planned, steal=0.0)
    assert verdict.outcome is Outcome.UNRESOLVED
    assert verdict.reasons == (Reason.NOT_COMPLETE,)
    assert verdict.misses.missed == 0
    assert verdict.misses.due < planned.planned


@pytest.mark.parametrize(("steal", "gpu_busy", "reason"), [(0.06, None, Reason.STEAL), (0.0, True, Reason.GPU_BUSY)])
def test_a_run_beside_another_guest_is_void(steal: float, gpu_busy: bool | None, reason: Reason) -> None:
    planned = plan(10)
    ready, done = steady(planned)
    verdict = judge(facts(planned, ready, done), planned, steal=steal, gpu_busy=gpu_busy)
    assert verdict.outcome is Outcome.VOID
    assert verdict.reasons == (reason,)
