"""How often, when, and whether two policies differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.measure.incidence import Trial, contrast, incidence, smallest_effect, survival


def struck(onset: float, kind: str = "stall") -> Trial:
    return Trial(kind, True, onset, 300.0)


def spared(watched: float = 300.0) -> Trial:
    return Trial("none", False, None, watched)


def test_the_exact_interval_of_14_in_20_and_of_none() -> None:
    some = incidence([struck(100.0 + i) for i in range(14)] + [spared()] * 6)
    none = incidence([spared()] * 20)
    assert some.share is not None and none.share is not None
    assert (some.share.lower, some.share.upper) == pytest.approx((0.457, 0.881), abs=1e-3)
    assert (none.share.lower, none.share.upper) == pytest.approx((0.0, 0.168), abs=1e-3)
    assert (some.collapsed, some.kinds, some.onset_first, some.onset_last) == (14, {"stall": 14}, 100.0, 113.0)


def test_two_policies_of_20_trials() -> None:
    none, some = incidence([spared()] * 20), incidence([struck(9.0)] * 14 + [spared()] * 6)
    found = contrast("a", none, "b", some)
    assert found is not None
    assert found.p == pytest.approx(3e-6, rel=0.3)
    assert found.smallest == (0, 5)


def test_the_smallest_effect_is_where_fishers_test_turns() -> None:
    assert smallest_effect(20, 20) == (0, 5)
    assert smallest_effect(3, 3) is None


def test_a_collapse_after_overload_is_outside_the_incidence() -> None:
    found = incidence([Trial("stall", False, 40.0, 300.0), struck(50.0), spared()])
    assert (found.collapsed, found.outside) == (1, 1)


def test_the_median_onset_counts_the_survivors() -> None:
    assert incidence([struck(10.0), struck(20.0), spared(), spared(), spared()]).onset_median is None
    assert incidence([struck(10.0), struck(20.0), spared(), spared()]).onset_median == 20.0


def test_survival_by_hand() -> None:
    curve = survival([struck(10.0), spared(15.0), struck(20.0), spared(30.0)])
    assert [(step.t, step.share) for step in curve] == [(10.0, 0.75), (20.0, pytest.approx(0.375))]


def test_no_trial_no_number() -> None:
    found = incidence([])
    assert found.share is None
    assert found.survival == ()
    assert contrast("a", found, "b", found) is None


TRIALS = st.lists(
    st.builds(
        lambda onset, watched, healthy: (
            Trial("stall", healthy, min(onset, watched), watched)
            if onset is not None
            else Trial("none", False, None, watched)
        ),
        st.none() | st.floats(0.0, 500.0),
        st.floats(1.0, 500.0),
        st.booleans(),
    ),
    max_size=30,
)


@given(TRIALS)
def test_curves_fall_and_intervals_hold_them(trials: list[Trial]) -> None:
    found = incidence(trials)
    shares = [step.share for step in found.survival]
    assert shares == sorted(shares, reverse=True)
    for step in found.survival:
        assert 0.0 <= step.share <= 1.0
        for end in (step.lower, step.upper):
            assert end is None or 0.0 <= end <= 1.0
    assert found.collapsed + found.outside <= found.trials
    if found.share is not None:
        assert found.share.lower <= found.share.value <= found.share.upper
