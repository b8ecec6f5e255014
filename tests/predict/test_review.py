"""A finished run: what would have been forecast at 25 and 50 %, and how far off that was."""

from __future__ import annotations

import numpy as np
import pytest

from metrobench.errors import NotValidError
from metrobench.measure.facts import TELEMETRY_FIELDS
from metrobench.measure.frames import Floats
from metrobench.policy import parse_policy
from metrobench.predict.limits import ENCODER, HOST, KV, POSITIONS, Outcome
from metrobench.predict.model import Pool
from metrobench.predict.review import Review, review
from metrobench.predict.talk import Rates
from tests.predict.recorded import MEMORY, facts_of, paper, probe_of, telemetry_of

POOL = Pool(501, 32)
RATES = Rates(1.0, 28, 28)


def columns(rows: list[dict[str, float | None]]) -> dict[str, Floats]:
    return {name: np.array([row.get(name) for row in rows], dtype=np.float64) for name in TELEMETRY_FIELDS}


def reviewed(kind: str = "stall", seconds: float = 60.0, kv: str = "unbounded") -> Review:
    _, group, full = paper(12, POOL)
    assert full is not None
    onset = None if kind == "none" else [full - 0.1, full + 1.0]
    probe = probe_of(POOL, 12, {"kind": kind, "onset": onset})
    rows = columns(telemetry_of(group, POOL, seconds))
    return review(probe, facts_of(group, seconds), rows, parse_policy(kv), RATES, 25, None, MEMORY)


def test_forecasts_at_25_and_50_percent_are_within_3_percent_of_the_onset() -> None:
    found = reviewed()
    assert [made.fill for made in found.made] == [0.25, 0.5, None]
    for made in found.made[:2]:
        assert made.score is not None and made.score.of_onset <= 0.03
        assert made.score.of_rest is not None and made.score.of_rest > made.score.of_onset


def test_the_arithmetic_of_a_run_is_exact() -> None:
    found = reviewed()
    assert found.arithmetic == paper(12, POOL)[2]
    assert found.arithmetic_score is not None and found.arithmetic_score.of_onset < 0.02


def test_a_forecast_made_at_the_onset_is_not_scored_against_the_time_left() -> None:
    last = reviewed().made[-1]
    assert last.score is not None
    assert last.score.of_rest is None


def test_a_run_that_ended_before_the_date_is_not_scored() -> None:
    found = reviewed("none", seconds=30.0)
    assert found.observed is None
    assert all(made.score is None for made in found.made)
    assert found.made[-1].fit is not None and (found.made[-1].fit.time or 0.0) > 30.0


def test_a_pool_that_never_came_to_half_is_said_so() -> None:
    found = reviewed("none", seconds=20.0)
    assert found.made[1].fit is None
    assert "never 50 % full" in found.made[1].refused


def test_a_run_too_short_to_fit_is_refused() -> None:
    with pytest.raises(NotValidError, match="does not bear a forecast: too few samples"):
        reviewed("none", seconds=4.0)


def test_a_window_that_the_pool_holds_makes_it_never() -> None:
    found = reviewed("none", seconds=40.0, kv="window:128")
    kv = next(limit for limit in found.limits if limit.name == KV)
    assert kv.outcome is Outcome.NEVER
    assert found.arithmetic is None and found.arithmetic_why.startswith("never")
    assert all(made.fit.time is None for made in found.made if made.fit is not None)


def test_an_engine_that_died_of_its_positions_does_not_score_the_pool() -> None:
    assert all(made.score is None for made in reviewed("engine-death").made)


def test_all_four_limits_are_named() -> None:
    found = {limit.name: limit for limit in reviewed().limits}
    assert list(found) == [KV, POSITIONS, ENCODER, HOST]
    assert found[POSITIONS].time == pytest.approx((4096 - 25) / 28, rel=0.05)
    assert found[HOST].time is not None and found[HOST].time > 86_400.0


def test_a_run_without_a_gauge_is_refused() -> None:
    _, group, _ = paper(12, POOL)
    probe = probe_of(POOL, 12, {"kind": "none", "onset": None})
    rows = columns([row | {"kv_usage": None} for row in telemetry_of(group, POOL, 30.0)])
    with pytest.raises(NotValidError, match="no samples of its KV pool"):
        review(probe, facts_of(group, 30.0), rows, parse_policy("unbounded"), RATES, 25, None, MEMORY)
    probe.server = {"kind": "endpoint"}
    with pytest.raises(NotValidError, match="showed nothing of its KV pool"):
        review(probe, facts_of(group, 30.0), rows, parse_policy("unbounded"), RATES, 25, None, MEMORY)
