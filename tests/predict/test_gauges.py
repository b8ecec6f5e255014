"""Which samples bear a forecast; what is refused, and in which words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from metrobench.errors import NotValidError
from metrobench.predict.fit import fit
from metrobench.predict.gauges import Gauges, Growing, Standing, growing_part
from metrobench.predict.model import Pool

POOL = Pool(1001, 16)
T = np.arange(0.0, 60.0, 1.0)
EIGHT = np.full(len(T), 8.0)


def growing(start: float = 0.05, slope: float = 0.005) -> Gauges:
    return Gauges(T, start + slope * T, EIGHT, 100.0 * T)


def test_a_growing_gauge_is_taken_whole() -> None:
    part = growing_part(growing(), POOL)
    assert isinstance(part, Growing)
    assert len(part.t) == len(T)
    assert part.sessions == 8.0


def test_a_gauge_that_stands_still_is_never_full_at_this_load() -> None:
    used = np.minimum(0.31, 0.02 * T)
    part = growing_part(Gauges(T, used, EIGHT, 100.0 * T), POOL)
    assert isinstance(part, Standing)
    assert not part.full
    assert "31 %" in part.why


def test_a_windowed_gauge_that_flickers_about_its_level_is_never_full() -> None:
    rng = np.random.default_rng(1)
    used = np.minimum(0.3, 0.02 * T) + rng.integers(-4, 5, len(T)) / POOL.usable * (T > 20)
    found = fit(Gauges(T, used, EIGHT, 100.0 * T), POOL)
    assert found.time is None


def test_sessions_that_started_full_flicker_from_the_beginning_and_are_never_full() -> None:
    rng = np.random.default_rng(2)
    used = (56 + rng.integers(-4, 5, len(T))) / POOL.usable
    found = fit(Gauges(T, used, EIGHT, 100.0 * T), POOL)
    assert found.time is None
    assert "stood at 6 % for 59 s" in found.why


def test_a_full_pool_is_dated_to_when_it_filled() -> None:
    used = np.minimum(1.0, 0.05 + 0.02 * T)
    found = fit(Gauges(T, used, EIGHT, 100.0 * T), POOL)
    assert found.time == pytest.approx(48.0)
    assert found.why == "the pool is full"


def test_a_stair_of_one_age_is_not_taken_for_a_standstill() -> None:
    used = 0.01 + np.floor(T / 25.0) * 0.1 + np.clip(T % 25.0, 0, 2) * 0.05
    part = growing_part(Gauges(T, used, np.full(len(T), 100.0), 100.0 * T), Pool(1001, 16))
    assert isinstance(part, Growing)


def test_after_sessions_left_only_what_came_since_counts() -> None:
    used = np.where(T < 30, 0.05 + 0.01 * T, 0.01 * T - 0.1)
    sessions = np.where(T < 30, 8.0, 6.0)
    part = growing_part(Gauges(T, used, sessions, 100.0 * T), POOL)
    assert isinstance(part, Growing)
    assert part.since == 30.0
    assert "2 sessions left" in part.why


def test_a_gauge_that_falls_while_nobody_leaves_is_named_a_preemption() -> None:
    used = np.where(T < 40, 0.2 + 0.019 * T, 0.6 + 0.01 * (T - 40))
    part = growing_part(Gauges(T, used, EIGHT, 100.0 * T), POOL)
    assert isinstance(part, Growing)
    assert part.since == 40.0
    assert "nobody left" in part.why and "preempted" in part.why


def test_a_gauge_that_has_just_fallen_is_refused_with_the_reason() -> None:
    used = np.where(T < 57, 0.05 + 0.01 * T, 0.1)
    with pytest.raises(NotValidError, match=r"fell from 61\.0 % to 10\.0 % at 57 s"):
        growing_part(Gauges(T, used, EIGHT, 100.0 * T), POOL)


def test_blocks_that_a_window_frees_of_all_sessions_at_once_are_no_preemption() -> None:
    used = 0.1 + 0.008 * T - 0.1 * (T > 30)
    part = growing_part(Gauges(T, used, EIGHT, 100.0 * T), POOL)
    assert isinstance(part, Growing)
    assert part.since == 0.0


def test_a_gauge_that_begins_anew_is_taken_for_a_server_that_was_emptied() -> None:
    used = np.where(T < 30, 0.1 + 0.01 * T, 0.01 * (T - 29))
    part = growing_part(Gauges(T, used, None, 100.0 * T), POOL)
    assert isinstance(part, Growing)
    assert "emptied or started again" in part.why


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(NotValidError, match="5; 8 are needed"):
        growing_part(growing().until(5), POOL)


def test_stale_samples_are_refused() -> None:
    seen = growing()
    stale = replace(seen, used=np.where(T > 40, seen.used[40], seen.used), moved=np.where(T > 40, 4000.0, 100.0 * T))
    with pytest.raises(NotValidError, match="nothing moved in the engine for 19 s"):
        growing_part(stale, POOL)


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(NotValidError, match="no session holds anything"):
        growing_part(Gauges(T, np.zeros(len(T)), EIGHT, 100.0 * T), POOL)


def test_a_rise_of_a_block_or_two_is_refused() -> None:
    used = np.linspace(5, 7, 20).round() / POOL.usable
    with pytest.raises(NotValidError, match="hardly risen"):
        growing_part(Gauges(T[:20], used, EIGHT[:20], 100.0 * T[:20]), POOL)


def test_growth_that_has_slowed_is_fitted_on_its_slow_part() -> None:
    used = np.where(T < 30, 0.02 * T, 0.6 + 0.004 * (T - 30))
    found = fit(Gauges(T, used, EIGHT, 100.0 * T), POOL)
    assert found.time == pytest.approx(130.0, rel=0.03)
    assert "slowed" in found.why


def test_a_gauge_without_sessions_is_fitted_all_together() -> None:
    part = growing_part(replace(growing(), sessions=None), POOL)
    assert isinstance(part, Growing)
    assert part.sessions is None


def test_windows_that_fill_and_then_flicker_are_never_full_whatever_their_size() -> None:
    rng = np.random.default_rng(3)
    dated = 0
    for _ in range(60):
        sessions, most = int(rng.integers(2, 40)), int(rng.integers(5, 40))
        pool = Pool(int(sessions * most * rng.uniform(1.2, 3.0)) + 1, 16)
        speed = rng.uniform(0.1, 3.0)
        t = np.arange(0.0, 60.0 + rng.uniform(0.0, 60.0) + most / speed, 0.5)
        each = (
            np.minimum(most, speed * t)[:, None]
            + rng.random((len(t), sessions)) * np.where(speed * t > most, 1.5, 1)[:, None]
        )
        used = np.floor(each).sum(axis=1) / pool.usable
        found = fit(Gauges(t, used, np.full(len(t), float(sessions)), 100.0 * t), pool)
        dated += found.time is not None
    assert dated <= 1


def test_a_growing_gauge_is_not_called_steady() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        sessions, size, speed = int(rng.integers(2, 60)), int(rng.choice([16, 32])), rng.uniform(2.0, 30.0)
        t = np.arange(0.0, 20 * size / speed, 0.5)
        starts = rng.random(sessions)
        blocks = np.ceil(np.maximum(0.0, speed * (t[:, None] - starts)) / size).sum(axis=1)
        part = growing_part(
            Gauges(t, blocks / (40 * sessions), np.full(len(t), float(sessions)), t), Pool(40 * sessions + 1, size)
        )
        assert isinstance(part, Growing)
