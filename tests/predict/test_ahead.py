"""The forecast while a run goes on, and the probability of a full pool."""

from __future__ import annotations

import numpy as np
import pytest

from metrobench.predict.ahead import Follower
from metrobench.predict.model import Pool, blocks_at
from metrobench.predict.odds import Foreseen, foreseen, last_named, odds
from metrobench.predict.talk import Load, Rates, crossings
from tests.predict.recorded import paper

POOL = Pool(401, 16)


def followed(until: float, pool: Pool = POOL, *, held: bool = False) -> Follower:
    """A gauge of 4 sessions of the paper's rates, two samples a second."""
    _, group, _ = paper(4, pool)
    follower = Follower(pool, held)
    for t in np.arange(0.0, until, 0.5):
        used = min(1.0, blocks_at(group, float(t), pool.block_size) / pool.usable)
        follower.take(float(t), used, 4, float((group.growth * group.frames(float(t))).sum()))
    return follower


def test_a_date_is_told_once_the_fit_is_narrow_and_it_is_near_the_truth() -> None:
    full = paper(4, POOL)[2]
    assert full is not None
    ahead = followed(30.0).ahead(30.0)
    assert ahead is not None and ahead.left is not None
    assert ahead.left == pytest.approx(full - 30.0, rel=0.1)


def test_nothing_is_told_after_a_few_samples() -> None:
    assert followed(3.0).ahead(3.0) is None


def test_a_pool_that_holds_every_session_is_never_dated() -> None:
    ahead = followed(30.0, held=True).ahead(30.0)
    assert ahead is not None and ahead.left is None


def test_odds_are_the_share_of_talk_patterns_that_fill_the_pool_in_time() -> None:
    pool, rates, share = Pool(60, 32), Rates(0.5, 6, 9), 0.5
    nothing = np.zeros(4, dtype=np.int64)
    times = crossings(pool, Load(np.zeros(4), nothing, rates, share, 0.5), range(1_000, 1_400), 200)
    before = float(np.quantile(times, 0.7))
    assert odds(pool, 4, rates, share, 0.5, 1, before).probability == pytest.approx(0.7, abs=0.08)


def test_odds_of_frames_that_are_all_alike_are_certain_but_for_the_phases() -> None:
    full = paper(4, POOL)[2]
    assert full is not None
    found = [odds(POOL, 4, Rates(1.0, 28, 28), 0.5, 1.0, 1, full + shift).probability for shift in (-3.0, 3.0)]
    assert found[0] < 0.01
    assert found[1] > 0.99


def test_the_latest_onset_leaves_time_to_name_it() -> None:
    assert last_named(5.0, 60.0, 1.0) == 61.0


def test_each_trial_is_told_by_its_own_audio() -> None:
    pool, rates, share, seeds = Pool(60, 32), Rates(0.5, 6, 9), 0.5, range(10, 30)
    nothing = np.zeros(4, dtype=np.int64)
    times = crossings(pool, Load(np.zeros(4), nothing, rates, share, 0.5), seeds, 200)
    before = float(np.sort(times)[12]) + 1e-6  # 13 of the 20 are full by then
    outcomes = [(seed, bool(time <= before)) for seed, time in zip(seeds, times, strict=True)]
    assert foreseen(pool, 4, rates, share, 0.5, before, outcomes) == Foreseen(trials=20, full=13, agree=20)
    outcomes[3] = (outcomes[3][0], not outcomes[3][1])
    assert foreseen(pool, 4, rates, share, 0.5, before, outcomes).agree == 19
