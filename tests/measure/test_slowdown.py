"""A slow spell of the machine is found in the samples of its cores; noise is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.measure.slowdown import UNEVEN, WINDOW, reference_cost, uneven, worst_slowdown

TIMES = np.arange(0.0, 20.0, 0.1)


def test_an_even_machine_is_not_slow():
    costs = np.full(len(TIMES), 1e-4)
    assert worst_slowdown(TIMES, costs, 1e-4) == pytest.approx(1.0)


def test_a_spell_of_four_seconds_at_half_speed_is_seen_in_full():
    costs = np.where((TIMES >= 7.0) & (TIMES < 11.0), 2e-4, 1e-4)
    assert worst_slowdown(TIMES, costs, 1e-4) == pytest.approx(2.0)


def test_one_slow_sample_is_averaged_away():
    costs = np.where(np.arange(len(TIMES)) == 50, 2e-4, 1e-4)
    worst = worst_slowdown(TIMES, costs, 1e-4)
    assert worst is not None and worst < 1.2


def test_too_few_samples_say_nothing():
    assert reference_cost(np.full(19, 1e-4)) is None
    assert worst_slowdown(TIMES[:9], np.full(9, 1e-4), 1e-4) is None
    assert worst_slowdown(np.array([]), np.array([]), 1e-4) is None


def test_the_reference_is_no_single_lucky_sample():
    costs = np.concatenate([np.full(99, 2e-4), [1e-5]])
    assert reference_cost(costs) == pytest.approx(2e-4)


def test_runs_at_different_speeds_of_the_machine_are_uneven():
    assert uneven([133e-6, 121e-6, 110e-6, 118e-6, 105e-6, 109e-6, 101e-6])
    assert not uneven([142e-6, 138e-6, 145e-6, 138e-6, 133e-6])
    assert not uneven([]) and not uneven([1e-4])
    assert not uneven([1.0, UNEVEN]) and uneven([1.0, 1.01 * UNEVEN])


@given(
    st.lists(st.floats(1e-5, 1e-2), min_size=20, max_size=120),
    st.floats(0.1, 10.0),
)
def test_slowdown_lies_between_the_extremes_and_knows_no_unit(costs: list[float], factor: float):
    values, times = np.array(costs), 0.1 * np.arange(len(costs))
    reference = reference_cost(values)
    assert reference is not None
    worst = worst_slowdown(times, values, reference)
    if worst is None:
        assert times[-1] < WINDOW
        return
    assert values.min() / reference <= worst * (1 + 1e-9)
    assert worst <= values.max() / reference * (1 + 1e-9)
    scaled = reference_cost(values * factor)
    assert scaled is not None
    assert worst_slowdown(times, values * factor, scaled) == pytest.approx(worst)
