from __future__ import annotations

from threading import Event, Thread

import pytest

from metrobench.doctor.check import Status
from metrobench.doctor.speeds import MOST, chosen, judge_speeds, time_core
from metrobench.environment import usable_cores
from metrobench.worker.cores import layout

FAST, SLOW = [1.0e-4] * 20, [1.7e-4] * 20


def test_equal_cores_are_fine():
    assert judge_speeds({0: FAST, 1: [1.05e-4] * 20}, 0).status is Status.OK


def test_a_slow_core_is_named():
    check = judge_speeds({0: FAST, 1: SLOW}, 0)
    assert check.status is Status.WARN
    assert "core 1 takes 1.7 times" in check.finding
    assert "engine" not in check.advice


def test_a_slow_core_of_the_engine_is_said_to_be_its():
    assert judge_speeds({0: SLOW, 1: FAST}, 0).advice.startswith("core 0 is the engine's")


def test_a_core_that_changes_its_speed_is_named():
    check = judge_speeds({0: FAST, 1: FAST[:16] + SLOW[:4]}, 0)
    assert check.status is Status.WARN
    assert "core 1 varies by a factor of 1.7" in check.finding


def test_one_bad_moment_is_no_property_of_a_core():
    assert judge_speeds({0: FAST, 1: [*FAST[:19], 9e-4]}, 0).status is Status.OK


@pytest.mark.parametrize("costs", [{}, {0: []}, {0: [1e-4, 1e-4]}])
def test_too_few_samples_say_nothing(costs: dict[int, list[float]]):
    assert judge_speeds(costs, 0).status is Status.SKIPPED


def test_of_many_cores_the_engines_and_the_clients_are_among_the_timed():
    plan = layout(frozenset(range(4, 68)))
    assert len(chosen(plan)) == MOST
    assert {min(plan.engine), *plan.load} <= set(chosen(plan))


@pytest.mark.parametrize("cores", [{0}, {0, 1}, {0, 1, 2}])
def test_of_few_cores_all_are_timed(cores: set[int]):
    assert chosen(layout(frozenset(cores))) == sorted(cores)


def test_a_core_is_timed_until_told_to_stop():
    stop, costs = Event(), list[float]()
    thread = Thread(target=lambda: costs.extend(time_core(usable_cores()[0], 60.0, stop)))
    thread.start()
    stop.wait(0.3)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    assert all(cost > 0.0 for cost in costs)
