from __future__ import annotations

import os
from threading import Thread

import msgspec
import numpy as np
import pytest

from metrobench.doctor.check import Check, Status
from metrobench.doctor.timing import ClockReading, check_timing, judge_clock, judge_timer, measure_timer

GOOD = ClockReading("tsc", step=2e-8, cost=5e-8, backwards=0, slew=2e-5, wall_step=1e-5)


def changed(**fields: object) -> ClockReading:
    return msgspec.structs.replace(GOOD, **fields)


@pytest.mark.parametrize(
    ("reading", "status"),
    [
        (GOOD, Status.OK),
        (changed(source=None, slew=None), Status.OK),
        (changed(source="hpet", cost=2e-6), Status.WARN),
        (changed(step=2e-5), Status.WARN),
        (changed(step=4e-3), Status.FAIL),
        (changed(backwards=1), Status.FAIL),
        (changed(slew=9e-4), Status.WARN),
        (changed(slew=-9e-4), Status.WARN),
        (changed(wall_step=-2.0), Status.WARN),
    ],
)
def test_the_clock(reading: ClockReading, status: Status):
    assert judge_clock(reading).status is status


def test_a_wall_clock_that_jumped_is_told_from_one_that_did_not():
    assert "wall clock moved by -2 s" in judge_clock(changed(wall_step=-2.0)).finding
    assert "wall clock" not in judge_clock(GOOD).finding


@pytest.mark.parametrize(
    ("typical", "worst", "status"),
    [(5e-5, 2e-4, Status.OK), (5e-5, 2e-3, Status.WARN), (5e-5, 8e-3, Status.FAIL)],
)
def test_the_timer_is_judged_by_its_99th_percentile(typical: float, worst: float, status: Status):
    lateness = np.full(1000, typical)
    lateness[:20] = worst
    check = judge_timer(lateness, 1)
    assert check.status is status
    assert check.figures["max"] == worst


def test_one_late_wake_up_in_a_thousand_is_shown_and_not_held_against_it():
    lateness = np.full(1000, 5e-5)
    lateness[3] = 0.05
    check = judge_timer(lateness, 1)
    assert (check.status, "50 ms at most" in check.finding) == (Status.OK, True)


def test_a_timer_that_never_fires_fails():
    assert judge_timer(np.empty(0), 1).status is Status.FAIL


def test_wake_ups_are_never_early():
    lateness = measure_timer(0.1)
    assert len(lateness) and (lateness >= 0.0).all()


def test_both_are_read_on_this_machine_and_only_the_reading_thread_is_moved():
    ours, found = os.sched_getaffinity(0), list[Check]()
    thread = Thread(target=lambda: found.extend(check_timing(min(ours))))
    thread.start()
    thread.join(60)
    assert [check.name for check in found] == ["clock", "timer"]
    assert os.sched_getaffinity(0) == ours
    assert found[0].figures["backwards"] == 0
