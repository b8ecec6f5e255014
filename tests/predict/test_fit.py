"""Forecasts from gauges whose truth is known: how far off, how often the interval holds it, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pytest

from metrobench.errors import NotValidError
from metrobench.predict.fit import Fit, fit, forecasts, score
from metrobench.predict.gauges import Gauges
from metrobench.predict.model import Pool
from tests.predict.engine import Truth, simulate

RUNS = 500


@dataclass
class Told:
    """One forecast beside the truth."""

    truth: Truth
    fill: float
    fit: Fit

    @property
    def error(self) -> float:
        assert self.fit.time is not None
        return abs(self.fit.time - self.truth.full) / self.truth.full

    @property
    def straight_error(self) -> float:
        assert self.fit.straight is not None
        return abs(self.fit.straight - self.truth.full) / self.truth.full

    @property
    def held(self) -> bool:
        assert self.fit.lower is not None and self.fit.upper is not None
        return self.fit.lower <= self.truth.full <= self.fit.upper

    @property
    def width(self) -> float:
        assert self.fit.lower is not None and self.fit.upper is not None
        return (self.fit.upper - self.fit.lower) / self.truth.full


def random_run(rng: np.random.Generator, low: float, high: float, talks: bool) -> Truth:
    """A run of any size that fills its pool in 20 s to 10 min; a full session holds `low` to `high` blocks."""
    while True:
        sessions, size = int(rng.integers(2, 60)), int(rng.choice([16, 32]))
        pool = Pool(int(sessions * rng.uniform(low, high)) + 1, size)
        unit, listening = float(rng.choice([0.08, 0.5, 1.0, 2.0])), int(rng.integers(1, 26))
        speaking = listening + (int(rng.integers(0, 20)) if talks else 0)
        if 20.0 < pool.usable * size / sessions / (0.5 * (listening + speaking)) * unit < 600.0:
            return simulate(rng, sessions=sessions, pool=pool, unit=unit, listening=listening, speaking=speaking)


def told(truth: Truth, fill: float, seed: int) -> Told | None:
    try:
        found = fit(truth.at_fill(fill), truth.pool, seed)
    except NotValidError:
        return None
    return Told(truth, fill, found)


@pytest.fixture(scope="module")
def many() -> list[Told]:
    """Forecasts of runs of different N, rate, frame, block and pool, half of them with talk that varies."""
    rng = np.random.default_rng(5)
    runs = [random_run(rng, 6.0, 60.0, talks=bool(number % 2)) for number in range(RUNS)]
    found = [told(truth, fill, number) for number, truth in enumerate(runs) for fill in (0.25, 0.5)]
    return [each for each in found if each is not None]


@pytest.mark.parametrize(("fill", "limit"), [(0.25, 0.02), (0.5, 0.01)])
def test_the_median_error_is_well_below_3_percent(many: list[Told], fill: float, limit: float) -> None:
    errors = [each.error for each in many if each.fill == fill]
    assert len(errors) >= 480
    assert np.median(errors) <= limit


def test_the_interval_holds_the_truth_in_930_of_1000(many: list[Told]) -> None:
    assert np.mean([each.held for each in many]) >= 0.93


def test_the_interval_is_narrow_enough_to_be_of_use(many: list[Told]) -> None:
    widths = {fill: np.median([each.width for each in many if each.fill == fill]) for fill in (0.25, 0.5)}
    assert widths[0.25] < 0.2
    assert widths[0.5] < 0.08


def test_hardly_any_run_is_refused(many: list[Told]) -> None:
    assert len(many) >= 0.97 * 2 * RUNS


def test_known_tokens_date_it_closer_than_the_gauge_alone_and_their_interval_holds() -> None:
    rng = np.random.default_rng(9)
    runs = [random_run(rng, 6.0, 60.0, talks=bool(number % 4)) for number in range(120)]
    for fill in (0.25, 0.5):
        gauge = [each for number, truth in enumerate(runs) if (each := told(truth, fill, number)) is not None]
        exact = [each for number, truth in enumerate(runs) if (each := told(truth.counted(), fill, number)) is not None]
        assert len(exact) >= 116
        assert np.median([each.error for each in exact]) < np.median([each.error for each in gauge])
        assert np.median([each.width for each in exact]) < np.median([each.width for each in gauge])
        assert np.mean([each.held for each in exact]) >= 0.93


def test_frames_of_nearly_a_block_are_no_faster_growth_where_the_tokens_are_known() -> None:
    truth = simulate(np.random.default_rng(7), sessions=256, pool=Pool(3328, 16), unit=1.0, listening=13, speaking=16)
    gauge, exact = told(truth, 0.5, 1), told(truth.counted(), 0.5, 1)
    assert gauge is not None and exact is not None
    assert gauge.error > 0.04
    assert exact.error < 0.015


def test_tokens_that_stand_still_beside_a_growing_gauge_are_not_believed() -> None:
    truth = simulate(np.random.default_rng(3), sessions=30, pool=Pool(3001, 16), unit=0.5, listening=6, speaking=9)
    still = replace(truth, gauges=replace(truth.gauges, resident=np.zeros_like(truth.resident)))
    gauge, found = told(truth, 0.5, 1), told(still, 0.5, 1)
    assert gauge is not None and found is not None
    assert found.fit == gauge.fit


def test_after_a_fall_tokens_say_nothing_for_preempted_sessions_keep_theirs() -> None:
    t = np.arange(0.0, 60.0, 0.5)
    used = np.where(t < 40.0, 0.0247 * t, 0.5 + 0.01 * (t - 40.0))
    tokens = 8 * 400.0 * t
    pool, eight = Pool(9_001, 32), np.full(len(t), 8.0)
    assert fit(Gauges(t, used, eight, tokens, tokens), pool) == fit(Gauges(t, used, eight, tokens), pool)


def test_on_small_pools_the_blocks_date_it_where_a_straight_line_is_off() -> None:
    rng = np.random.default_rng(6)
    runs = [random_run(rng, 7.0, 14.0, talks=False) for _ in range(40)]
    found = [each for number, truth in enumerate(runs) if (each := told(truth, 0.5, number)) is not None]
    assert len(found) >= 35
    assert np.median([each.error for each in found]) <= 0.015
    assert np.median([each.error for each in found]) < 0.6 * np.median([each.straight_error for each in found])


def test_a_pool_that_is_not_full_yet_is_never_dated_to_now() -> None:
    t = np.arange(0.0, 90.0, 1.0)
    tokens = 8 * (700.0 * t - 3.3 * t**2)
    pool = Pool(9_000, 32)
    used = np.ceil(tokens / 32) / pool.usable
    kept = used < 0.97
    found = fit(Gauges(t[kept], used[kept], np.full(int(kept.sum()), 8.0)), pool)
    assert found.lower is not None and found.lower > found.made_at + 1.0


def test_the_same_seed_gives_the_same_interval() -> None:
    truth = random_run(np.random.default_rng(1), 20.0, 40.0, talks=True)
    assert fit(truth.at_fill(0.5), truth.pool, 3) == fit(truth.at_fill(0.5), truth.pool, 3)


def test_a_forecast_is_json() -> None:
    truth = random_run(np.random.default_rng(1), 20.0, 40.0, talks=True)
    found = fit(truth.at_fill(0.5), truth.pool)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Fit) == found


def test_sessions_of_many_ages_are_dated_though_their_steps_cannot_be_seen() -> None:
    rng = np.random.default_rng(2)
    truth = simulate(rng, sessions=40, pool=Pool(4001, 16), unit=1.0, listening=12, speaking=24, ages=60.0, every=1.0)
    found = fit(truth.at_fill(0.6), truth.pool)
    assert found.time == pytest.approx(truth.full, rel=0.03)


def test_a_pool_of_unknown_size_is_dated_by_its_fraction_alone() -> None:
    truth = simulate(np.random.default_rng(3), sessions=30, pool=Pool(3001, 16), unit=0.5, listening=6, speaking=9)
    found = fit(truth.at_fill(0.5), None)
    assert found.time == pytest.approx(truth.full, rel=0.03)


def test_sessions_that_come_meanwhile_are_counted_from_when_they_came() -> None:
    t = np.arange(0.0, 120.0, 1.0)
    sessions = 10.0 + np.floor(t / 12.0)
    tokens = np.array(
        [
            sum(10.0 * (now - 12.0 * max(0, n - 9)) for n in range(int(count)))
            for now, count in zip(t, sessions, strict=True)
        ]
    )
    pool = Pool(4001, 16)
    used = (tokens / 16 + 0.5 * sessions) / pool.usable
    found = fit(Gauges(t, used, sessions), pool)
    last = sessions[-1]
    left = (pool.usable * (1.0 - used[-1])) * 16 / (10.0 * last)
    assert found.time == pytest.approx(t[-1] + left, rel=0.03)
    assert "came meanwhile" in found.why


def test_what_cannot_be_forecast_at_a_fill_says_why_and_the_rest_is_forecast() -> None:
    truth = simulate(np.random.default_rng(4), sessions=6, pool=Pool(200, 32), unit=0.5, listening=6, speaking=9)
    early = truth.gauges.until(int(np.argmax(truth.gauges.used >= 0.3)))
    quarter, half, end = forecasts(early, truth.pool, (0.25, 0.5))
    assert isinstance(quarter, Fit)
    assert isinstance(half, str) and "50 %" in half
    assert isinstance(end, Fit)


def test_a_forecast_is_scored_against_the_onset_and_against_the_time_that_was_left() -> None:
    found = score(33.0, 20.0, 30.0)
    assert found.of_onset == pytest.approx(0.1)
    assert found.of_rest == pytest.approx(0.3)
    assert score(33.0, 31.0, 30.0).of_rest is None
