"""Who runs where."""

import os
import subprocess
import sys
import threading

import pytest

from metrobench.worker import cores
from metrobench.worker.cores import Layout, layout


@pytest.mark.parametrize(
    ("available", "engine", "front", "load"),
    [
        ({0}, 0, {0}, {0}),
        ({5}, 5, {5}, {5}),
        ({0, 1}, 0, {1}, {1}),
        ({2, 3, 7}, 2, {3, 7}, {3, 7}),
        ({0, 1, 2, 3}, 0, {1, 2}, {3}),
        (set(range(8)), 0, set(range(1, 7)), {7}),
    ],
)
def test_layout(available: set[int], engine: int, front: set[int], load: set[int]):
    assert layout(frozenset(available)) == Layout(frozenset({engine}), frozenset(front), frozenset(load))


@pytest.mark.parametrize(
    ("count", "engine", "front"),
    [(2, {0}, {1}), (5, {0}, {1, 2, 3}), (6, {0, 1, 2}, {3, 4}), (16, set(range(13)), {13, 14})],
)
def test_an_engine_on_a_gpu_gets_what_the_others_leave(count: int, engine: set[int], front: set[int]):
    plan = layout(frozenset(range(count)), gpu=True)
    assert (plan.engine, plan.front, plan.load) == (engine, front, {count - 1})


@pytest.mark.parametrize(
    ("count", "engine_alone", "load_alone"), [(1, False, False), (2, True, False), (4, True, True)]
)
def test_who_shares(count: int, engine_alone: bool, load_alone: bool):
    plan = layout(frozenset(range(count)))
    assert (plan.engine_alone, plan.load_alone) == (engine_alone, load_alone)


def test_no_core_is_an_error():
    with pytest.raises(ValueError, match="no core"):
        layout(frozenset())


def test_the_cores_of_this_process_are_the_default():
    assert layout() == layout(frozenset(os.sched_getaffinity(0)))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_all_threads_move():
    everything = frozenset(os.sched_getaffinity(0))
    one = frozenset({min(everything)})
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        cores.pin_all_threads(one)
        assert os.sched_getaffinity(thread.native_id or 0) == one
        assert os.sched_getaffinity(0) == one
    finally:
        stop.set()
        thread.join()
        cores.pin_all_threads(everything)


def test_cores_of_a_process_that_is_gone():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert cores.cores_of(gone.pid) == ()


def test_what_follows_finds_the_cores_that_were_there_before():
    before = layout()
    with pytest.raises(KeyError), cores.threads_on(before.engine):
        assert os.sched_getaffinity(0) == before.engine
        raise KeyError
    assert layout() == before
