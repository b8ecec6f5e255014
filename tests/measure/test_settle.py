from __future__ import annotations

import numpy as np

from metrobench.measure.settle import mser5


def test_a_series_that_starts_high_is_cut_where_it_has_settled() -> None:
    rng = np.random.default_rng(10)
    series = 1.0 + 0.1 * rng.standard_normal(1000)
    series[:200] += np.linspace(5.0, 0.5, 200)
    assert 190 <= mser5(series) <= 260


def test_a_settled_series_is_hardly_cut() -> None:
    series = np.random.default_rng(11).standard_normal(1000)
    assert mser5(series) <= 100


def test_a_short_or_constant_series_is_not_cut() -> None:
    assert mser5(np.arange(20.0)) == 0
    assert mser5(np.ones(1000)) == 0
