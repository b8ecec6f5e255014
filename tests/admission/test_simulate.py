"""The default controller on a worker in virtual time: it settles, it holds, it takes a disturbance."""

from __future__ import annotations

import numpy as np
import pytest

from metrobench.admission.aimd import Aimd
from metrobench.admission.choice import Choice, make_door
from metrobench.admission.door import Door
from metrobench.admission.simulate import Trace, World, oscillation, overshoot, settled_after, simulate
from metrobench.admission.unlimited import Unlimited

SEEDS = (1, 2, 3)


def aimd(world: World, length: float, seed: int) -> Trace:
    return simulate(Door(Aimd(world.budget, 10_000), 10_000, paced=True), world, length, seed)


def held(trace: Trace, first: float, last: float) -> float:
    return float(np.median(trace.between(first, last)))


@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_the_capacity_and_stays_there(seed: int) -> None:
    trace = aimd(World(), 300.0, seed)
    star = held(trace, 100.0, 300.0)
    assert 0.8 * 200.0 <= star <= 1.05 * 200.0
    assert (settled_after(trace, star, 0.0, 300.0) or 0.0) < 60.0
    assert overshoot(trace, star, 0.0, 300.0) < 0.2
    assert oscillation(trace, 100.0, 300.0) < 0.2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stall_of_two_seconds_moves_it_by_one_cut_at_the_most(seed: int) -> None:
    trace = aimd(World(stall=(150.0, 2.0)), 300.0, seed)
    assert trace.p50.max() > 1.0
    assert held(trace, 200.0, 300.0) >= 0.85 * held(trace, 100.0, 150.0)
    assert oscillation(trace, 100.0, 300.0) < 0.2


@pytest.mark.parametrize("seed", SEEDS)
def test_slow_frames_are_held_under_the_rule_for_p95_without_swinging(seed: int) -> None:
    trace = aimd(World(slow=0.1), 400.0, seed)
    assert held(trace, 150.0, 400.0) < 0.7 * 200.0
    assert oscillation(trace, 200.0, 400.0) < 0.25


@pytest.mark.parametrize("seed", SEEDS)
def test_a_halved_capacity_is_followed_down_and_up_again(seed: int) -> None:
    trace = aimd(World(halved=(150.0, 350.0)), 600.0, seed)
    assert held(trace, 280.0, 350.0) == pytest.approx(95.0, rel=0.1)
    assert held(trace, 500.0, 600.0) == pytest.approx(185.0, rel=0.15)


def test_without_admission_latency_runs_away() -> None:
    trace = simulate(Door(Unlimited(), 10_000, paced=False), World(), 200.0, 1)
    assert trace.p50[-1] > 10.0 and trace.refused == 0


def test_a_fixed_limit_is_held_exactly() -> None:
    trace = simulate(make_door(Choice("static", 50), 1.0, None, 1000), World(), 100.0, 1)
    assert trace.sessions.max() == 50


@pytest.mark.parametrize("seed", SEEDS)
def test_who_was_admitted_left_by_himself_or_is_still_there(seed: int) -> None:
    trace = aimd(World(halved=(50.0, 100.0)), 150.0, seed)
    assert trace.offered == trace.admitted + trace.refused
    assert trace.admitted == trace.left + trace.sessions[-1]
