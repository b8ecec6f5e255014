from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from metrobench.admission.aimd import Aimd, Gains
from metrobench.admission.base import Code, Observation

BUDGET = 1.0
GAINS = Gains()
FAST, BETWEEN, SLOW = [0.05] * 20, [0.27] * 20, [0.5] * 20


def feed(controller: Aimd, sessions: int, *latencies: list[float], rho: float | None = None, t: float = 0.0) -> None:
    for number, each in enumerate(latencies):
        controller.observe(Observation(t + number, sessions, each, rho))


def cap(controller: Aimd) -> int:
    assert controller.cap is not None
    return controller.cap


def test_low_latency_raises_the_cap() -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 16, FAST)
    assert cap(controller) > GAINS.start


def test_three_slow_periods_cut_to_nine_tenths() -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 16, SLOW, SLOW, SLOW)
    assert cap(controller) == int(0.9 * GAINS.start)


@given(st.integers(0, 2))
def test_one_spike_in_three_periods_cuts_nothing(place: int) -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 16, *[SLOW if number == place else FAST for number in range(3)])
    assert cap(controller) >= GAINS.start


def test_between_the_limits_the_cap_stays() -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 16, *[BETWEEN] * 10)
    assert cap(controller) == GAINS.start


def test_a_slow_tail_cuts_though_the_median_is_fine() -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 16, *[[0.05] * 18 + [0.95, 0.95]] * 3)
    assert cap(controller) < GAINS.start


def test_while_more_are_open_than_a_cut_allows_there_is_no_further_cut() -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 16, *[SLOW] * 30)
    assert cap(controller) == int(0.9 * GAINS.start)


def test_once_the_surplus_has_left_slowness_cuts_again() -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 16, *[SLOW] * 3)
    feed(controller, 14, *[SLOW] * 3, t=3.0)
    assert cap(controller) == int(0.9 * 14)


def test_after_the_first_cut_the_cap_rises_by_equal_steps() -> None:
    controller = Aimd(BUDGET, 1000, Gains(start=100))
    feed(controller, 100, *[SLOW] * 3)
    found = []
    for number in range(6):
        feed(controller, 95, FAST, t=3.0 + number)
        found.append(controller._level)
    steps = [late - early for early, late in itertools.pairwise(found)]
    assert all(abs(step - 0.02 * 90) < 1e-9 for step in steps)


@given(st.integers(1, 500), st.integers(1, 40))
def test_the_cap_runs_no_further_ahead_than_was_measured(sessions: int, count: int) -> None:
    controller = Aimd(BUDGET, 10_000)
    feed(controller, sessions, *[FAST] * count)
    assert cap(controller) <= max(GAINS.start, GAINS.headroom * sessions + GAINS.spare)


def test_a_pool_that_fills_up_refuses_before_latency_shows_it() -> None:
    controller = Aimd(BUDGET, 1000)
    for number in range(5):
        controller.observe(Observation(float(number), 10, FAST, 0.5 + 0.06 * number))
    decision = controller.ask(5.0, 10)
    assert (decision.admitted, decision.code) == (False, Code.KV_PRESSURE)
    assert decision.signals.rho_slope is not None and abs(decision.signals.rho_slope - 0.06) < 1e-9


def test_nobody_joins_while_frames_take_too_long_though_the_cap_has_room() -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 5, SLOW)
    decision = controller.ask(1.0, 5)
    assert (decision.admitted, decision.code) == (False, Code.OVERLOADED)
    feed(controller, 5, FAST, FAST, t=1.0)
    assert controller.ask(3.0, 5).admitted


def test_a_full_but_steady_pool_is_no_reason_to_refuse() -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 10, *[FAST] * 5, rho=0.9)
    assert controller.ask(5.0, 10).admitted


def test_contexts_that_are_still_filling_hold_the_cap() -> None:
    steady, filling = Aimd(BUDGET, 1000), Aimd(BUDGET, 1000)
    for number in range(5):
        void = number < 3  # the pool is read all the same
        steady.observe(Observation(float(number), 16, [0.2] * 9, 0.2, void))
        filling.observe(Observation(float(number), 16, [0.2] * 9, 0.1 + 0.02 * number, void))
    assert cap(filling) == GAINS.start < cap(steady)


def test_a_refusal_names_the_signals_of_its_moment() -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 16, *[BETWEEN] * 3, rho=0.41)
    decision = controller.ask(3.0, 16)
    assert (decision.admitted, decision.code) == (False, Code.OVERLOADED)
    assert decision.signals.words() == "p50 270 ms, p95 270 ms, kv 41.0 % changing +0.00 %/s"


def test_periods_with_too_few_answers_are_put_together() -> None:
    controller = Aimd(BUDGET, 1000)
    feed(controller, 2, [0.01], [0.01])
    assert controller.ask(2.0, 1).signals.p50 is None
    feed(controller, 2, [0.01])
    assert controller.ask(3.0, 1).signals.p50 == 0.01
