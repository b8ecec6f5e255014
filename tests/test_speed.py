"""The meter samples its core, holds nobody up, and leaves nothing behind."""

import os
import subprocess
import sys
import threading
import time

import pytest

from metrobench.speed import SpeedMeter
from metrobench.timed_work import LOWEST, SAMPLE
from metrobench.worker.osproc import process_table


def own_programs() -> set[int]:
    return {pid for pid, (parent, _, _) in process_table().items() if parent == os.getpid()}


def wait_for(condition) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_the_meter_samples_its_core_and_ends():
    core, ours, before = min(os.sched_getaffinity(0)), os.sched_getaffinity(0), own_programs()
    with SpeedMeter(core, warm_up=True) as meter:
        (program,) = own_programs() - before
        begin = time.monotonic()
        assert wait_for(lambda: meter.worst(begin, time.monotonic()) is not None)
        assert os.sched_getaffinity(program) == {core}
        assert os.getpriority(os.PRIO_PROCESS, program) == LOWEST
    assert own_programs() == before
    assert os.sched_getaffinity(0) == ours


def test_what_runs_at_the_lowest_priority_holds_no_lock_of_this_process():
    threads = threading.active_count()
    with SpeedMeter(min(os.sched_getaffinity(0)), warm_up=True):
        assert threading.active_count() == threads
        assert os.getpriority(os.PRIO_PROCESS, 0) < LOWEST


def test_it_ends_with_its_command():
    code = (
        "import os, time; from metrobench.speed import SpeedMeter\n"
        "meter = SpeedMeter(min(os.sched_getaffinity(0)), warm_up=False).__enter__()\n"
        "print(meter._program.pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as command:
        program = int(command.stdout.readline())
        command.kill()
    assert wait_for(lambda: program not in {pid for pid, (_, _, state) in process_table().items() if state != "Z"})


def test_a_core_that_may_not_be_used_says_nothing():
    with SpeedMeter(4095, warm_up=False) as meter:
        assert meter.worst(0.0, time.monotonic()) is None
        assert meter.mean(0.0, time.monotonic()) is None


def test_the_mean_is_that_of_the_samples_in_between():
    meter = SpeedMeter(0, warm_up=False)
    for second in range(60):
        os.write(meter._samples, SAMPLE.pack(second, 1e-4 if second < 30 else 3e-4))
    os.write(meter._samples, SAMPLE.pack(60.0, 1.0)[:9])  # half a sample: its writer was killed
    assert meter.mean(0.0, 29.0) == pytest.approx(1e-4)
    assert meter.mean(20.0, 39.0) == pytest.approx(2e-4)
    assert meter.mean(50.0, 59.0) is None  # too few
    os.close(meter._samples)
