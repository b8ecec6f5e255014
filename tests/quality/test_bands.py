"""Intervals whose unit is the session."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.quality.bands import EDGES, Scores, band_name, bands, estimate, paired


def scores(values: list[list[float]], share: bool = True) -> Scores:
    session = np.repeat(np.arange(len(values)), [len(each) for each in values])
    return Scores(session, np.arange(len(session)), np.array([v for each in values for v in each], float), share)


TABLES = st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=8), min_size=1, max_size=8)


@given(TABLES)
def test_the_interval_holds_the_share(values: list[list[float]]) -> None:
    found = estimate(scores(values))
    assert found is not None
    assert 0.0 <= found.lower <= found.value <= found.upper <= 1.0
    assert found.answers == sum(map(len, values))
    assert found.sessions == len(values)


def test_sessions_that_stand_or_fall_as_a_whole_give_a_wider_interval() -> None:
    mixed = estimate(scores([[1.0, 0.0] * 12] * 10))
    whole = estimate(scores([[1.0] * 24, [0.0] * 24] * 5))
    assert mixed and whole
    assert whole.value == mixed.value
    assert whole.upper - whole.lower > 2 * (mixed.upper - mixed.lower)


def test_nothing_but_wrong_answers_is_not_certainly_none() -> None:
    found = estimate(scores([[0.0] * 10] * 8))
    assert found is not None
    assert 0.0 < found.upper < 0.1


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(5)
    held = 0
    for _ in range(200):
        level = np.clip(random.normal(0.7, 0.15, 12), 0.0, 1.0)
        found = estimate(scores([(random.random(20) < p).astype(float).tolist() for p in level]))
        assert found is not None
        held += found.lower <= 0.7 <= found.upper
    assert held >= 175


@given(TABLES)
def test_an_arm_loses_nothing_against_itself(values: list[list[float]]) -> None:
    found = paired(scores(values), scores(values))
    assert found is not None
    assert (found.value, found.lower, found.upper) == (0.0, 0.0, 0.0)


def test_a_constant_loss_is_found_exactly() -> None:
    random = np.random.default_rng(1)
    base = random.normal(1.0, 0.5, (8, 10)).tolist()
    found = paired(scores([[v + 1.5 for v in each] for each in base], False), scores(base, False))
    assert found is not None
    assert found.lower == pytest.approx(1.5)
    assert found.upper == pytest.approx(1.5)


def test_arms_with_other_answers_are_refused() -> None:
    with pytest.raises(ValueError, match="same answers"):
        paired(scores([[1.0], [0.0, 1.0]]), scores([[1.0, 1.0], [0.0]]))


@given(st.integers(0, 5000))
def test_every_age_has_a_band(oldest: int) -> None:
    assert any(low * 128 <= oldest < high * 128 for low, high in bands(oldest, 128))


def test_bands_are_named_by_their_ends() -> None:
    assert [band_name(low, high) for low, high in bands(1e9, 1)] == ["0-1", "1-2", "2-4", "4-8", "8+"]
    assert len(EDGES) == 6
