"""Change points of series whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.gate.steps import levels

SERIES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40)


@pytest.mark.parametrize("length", [4, 8, 12, 20, 60])
def test_a_constant_series_has_a_change_in_at_most_5_of_100(length: int):
    rng = np.random.default_rng(length)
    found = [len(levels(rng.normal(0.0, 0.05, length), floor=0.03)) > 1 for _ in range(1000)]
    assert np.mean(found) <= 0.05


@pytest.mark.parametrize(("before", "after"), [(10, 10), (10, 3), (3, 10)])
def test_a_step_of_6_deviations_is_found_where_it_is(before: int, after: int):
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        series = np.concatenate([rng.normal(0.0, 0.05, before), rng.normal(0.3, 0.05, after)])
        found = levels(series, floor=0.03)
        hits += len(found) == 2 and abs(found[1].first - before) <= 1
    assert hits >= 170


def test_one_odd_record_is_no_change():
    assert len(levels([1.0] * 8 + [2.0] + [1.0] * 8, floor=0.1)) == 1


def test_levels_that_come_back_are_three():
    found = levels([1.0] * 6 + [2.0] * 6 + [1.0] * 6, floor=0.05)
    assert [(level.first, level.mean) for level in found] == [(0, 1.0), (6, 2.0), (12, 1.0)]


@given(SERIES)
def test_the_levels_cover_the_series_in_order(series: list[float]):
    found = levels(series, floor=0.01)
    assert [level.first for level in found] == list(np.cumsum([0, *(level.count for level in found[:-1])]))
    assert sum(level.count for level in found) == len(series)
    for level in found:
        part = series[level.first : level.first + level.count]
        assert level.mean == pytest.approx(np.mean(part), abs=1e-6)


@given(SERIES, st.floats(-100, 100))
def test_a_series_moved_as_a_whole_changes_at_the_same_places(series: list[float], by: float):
    def places(values: list[float]) -> list[int]:
        return [level.first for level in levels([round(value, 3) for value in values], floor=0.05)]

    whole = [float(round(value)) for value in series]
    assert places(whole) == places([value + round(by) for value in whole])
