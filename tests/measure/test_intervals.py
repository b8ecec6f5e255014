from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.measure.intervals import clopper_pearson, fisher_exact, korn_graubard, smallest_effect


@pytest.mark.parametrize(
    ("hits", "trials", "lower", "upper"), [(0, 20, 0.0, 0.168), (14, 20, 0.457, 0.881), (20, 20, 0.832, 1.0)]
)
def test_exact_intervals_of_known_counts(hits: int, trials: int, lower: float, upper: float) -> None:
    share = clopper_pearson(hits, trials)
    assert (share.lower, share.upper) == pytest.approx((lower, upper), abs=5e-4)


def test_no_miss_seen_bounds_the_rate_at_1_percent_with_368_samples_two_sided_and_299_one_sided() -> None:
    assert clopper_pearson(0, 368).upper <= 0.01 < clopper_pearson(0, 367).upper
    assert clopper_pearson(0, 299, 0.90).upper <= 0.01 < clopper_pearson(0, 298, 0.90).upper


@pytest.mark.parametrize(("hits", "trials"), [(-1, 5), (6, 5), (0, 0)])
def test_counts_that_are_no_share_are_refused(hits: int, trials: int) -> None:
    with pytest.raises(ValueError):
        clopper_pearson(hits, trials)


def test_fisher_tells_14_of_20_and_5_of_20_from_none_of_20() -> None:
    assert fisher_exact(0, 20, 14, 20) == pytest.approx(3e-6, rel=0.2)
    assert fisher_exact(0, 20, 5, 20) == pytest.approx(0.047, abs=0.001)


def test_the_smallest_effect_that_20_trials_can_show_against_none_is_5_of_20() -> None:
    """5 of 20 gives p = .0471, the last below .05; 4 of 20 gives p = .106."""
    assert smallest_effect(0, 20, 20) == 5
    assert fisher_exact(0, 20, 4, 20) > 0.05
    assert smallest_effect(0, 2, 2) is None


def clusters(sessions: int, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(sessions), blocks), np.tile(np.arange(blocks), sessions)


def test_independent_misses_have_nearly_the_exact_interval() -> None:
    session, block = clusters(200, 60)
    hits = np.random.default_rng(8).random(session.size) < 0.05
    share, exact = korn_graubard(hits, session, block), clopper_pearson(hits.sum(), hits.size)
    assert share is not None
    assert share.upper - share.lower == pytest.approx(exact.upper - exact.lower, rel=0.35)


@pytest.mark.parametrize("by_time", [True, False])
def test_misses_that_hit_whole_blocks_or_whole_sessions_widen_the_interval(by_time: bool) -> None:
    session, block = clusters(60, 60)
    hits = (block if by_time else session) < 3
    share, exact = korn_graubard(hits, session, block), clopper_pearson(hits.sum(), hits.size)
    assert share is not None
    assert share.upper - share.lower > 5 * (exact.upper - exact.lower)
    assert share.lower <= 0.05 <= share.upper


def test_the_interval_covers_the_rate_of_a_process_that_stalls_everybody_at_times() -> None:
    """1,000 runs of 20 sessions and 60 blocks; each block misses as a whole with probability 0.1."""
    session, block = clusters(20, 60)
    rng = np.random.default_rng(9)
    shares = [korn_graubard((rng.random(60) < 0.1)[block], session, block) for _ in range(1000)]
    assert sum(share is not None and share.lower <= 0.1 <= share.upper for share in shares) >= 930


def test_no_frames_have_no_interval() -> None:
    empty = np.zeros(0, dtype=np.int64)
    assert korn_graubard(np.zeros(0, dtype=bool), empty, empty) is None


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=80),
)
def test_every_interval_is_finite_ordered_and_holds_its_share(rows: list[tuple[bool, int, int]]) -> None:
    hits, session, block = (np.array(column) for column in zip(*rows, strict=True))
    share = korn_graubard(hits.astype(bool), session, block)
    assert share is not None
    assert 0.0 <= share.lower <= share.value <= share.upper <= 1.0
