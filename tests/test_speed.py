"""The meter samples its core, and leaves nothing behind."""

import os
import threading
import time

import pytest

from metrobench.speed import SpeedMeter


def test_the_meter_samples_its_core_and_ends():
    core = min(os.sched_getaffinity(0))
    ours = os.sched_getaffinity(0)
    with SpeedMeter(core, warm_up=True) as meter:
        deadline = time.monotonic() + 60
        begin = time.monotonic()
        while (worst := meter.worst(begin, time.monotonic())) is None and time.monotonic() < deadline:
            time.sleep(0.1)
    assert worst is not None and worst > 0.0
    assert not any(thread.name == "speed-meter" for thread in threading.enumerate())
    assert os.sched_getaffinity(0) == ours


def test_a_core_that_may_not_be_used_says_nothing():
    with SpeedMeter(4095, warm_up=False) as meter:
        assert meter.worst(0.0, time.monotonic()) is None


def test_the_mean_is_that_of_the_samples_in_between():
    meter = SpeedMeter(0, warm_up=False)
    meter._times.extend(float(second) for second in range(60))
    meter._costs.extend(1e-4 if second < 30 else 3e-4 for second in range(60))
    assert meter.mean(0.0, 29.0) == pytest.approx(1e-4)
    assert meter.mean(20.0, 39.0) == pytest.approx(2e-4)
    assert meter.mean(50.0, 59.0) is None  # too few
