"""The four limits from shapes: dates, never, possible, not known; what is assumed and what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from metrobench.policy import parse_policy
from metrobench.predict.limits import ENCODER, HOST, KV, POSITIONS, Limit, Outcome, Prediction, earliest
from metrobench.predict.model import Pool
from metrobench.predict.scenario import Scenario, predict
from metrobench.profiles import load_profile
from metrobench.sizing import BLOCK

H200 = 141e9


def scenario(model: str, sessions: int, kv: str, **change: Any) -> Scenario:
    profile = load_profile(model)
    pool = Pool(profile.pool_tokens(int(H200)) // BLOCK, BLOCK)
    zero = np.zeros(sessions)
    asked = parse_policy(kv, BLOCK)
    return replace(Scenario(profile, pool, "an H200", asked, zero, zero, 0.4, beside_bytes=0.1 * H200), **change)


def limit(found: Prediction, name: str) -> Limit:
    return next(each for each in found.limits if each.name == name)


def test_all_four_limits_are_always_named() -> None:
    for model in ("minicpm-o", "moshi", "qwen3-omni", "smoke"):
        found = predict(scenario(model, 4, "unbounded"))
        assert [each.name for each in found.limits] == [KV, POSITIONS, ENCODER, HOST]


def test_unbounded_sessions_fill_the_pool_at_a_date_with_an_interval() -> None:
    found = predict(scenario("minicpm-o", 640, "unbounded"))
    kv = limit(found, KV)
    tokens = 735_000 / 640
    assert kv.outcome is Outcome.DATE
    assert kv.lower is not None and kv.time is not None and kv.upper is not None
    assert kv.lower < kv.time < kv.upper
    assert kv.time == pytest.approx(tokens / (12 + 0.4 * 19), rel=0.03)
    assert found.first == kv


def test_a_window_that_the_pool_holds_is_never_full_and_that_is_said_with_its_n() -> None:
    found = predict(scenario("minicpm-o", 640, "unbounded"))
    words = next(text for text in found.helps if "impossible" in text)
    most = int(words.rsplit(" ", 1)[1])
    assert "window:1024+16" in words
    assert limit(predict(scenario("minicpm-o", most, "window:1024+16")), KV).outcome is Outcome.NEVER
    assert limit(predict(scenario("minicpm-o", most + 1, "window:1024+16")), KV).outcome is not Outcome.NEVER


def test_a_window_that_fits_at_rest_but_not_at_its_peak_is_possible_from_a_time_on() -> None:
    kv = limit(predict(scenario("minicpm-o", 680, "window:1024+16")), KV)
    assert kv.outcome is Outcome.POSSIBLE
    assert kv.time is not None and kv.time > 20.0


def test_the_positions_of_one_request_end_whatever_the_number_of_sessions() -> None:
    few, many = (limit(predict(scenario("minicpm-o", n, "unbounded")), POSITIONS) for n in (1, 100))
    assert few.time == pytest.approx(many.time, abs=1.0)
    assert few.time == pytest.approx((40_960 - 12) / (12 + 0.4 * 19), rel=0.01)


def test_bounded_contexts_are_built_again_before_their_last_position() -> None:
    found = predict(scenario("minicpm-o", 64, "window:1024+16"))
    assert limit(found, POSITIONS).outcome is Outcome.NEVER
    assert any("stock engine ends" in text for text in found.assumptions)


def test_a_model_whose_positions_roll_never_ends_by_them() -> None:
    assert limit(predict(scenario("moshi", 4, "unbounded")), POSITIONS).outcome is Outcome.NEVER


def test_a_model_with_a_window_of_its_own_is_bounded_by_it() -> None:
    found = predict(scenario("moshi", 60, "unbounded"))
    assert limit(found, KV).outcome is Outcome.NEVER
    assert any("3,000 positions" in text for text in found.assumptions)


def test_what_has_no_formula_is_named_not_known() -> None:
    found = predict(scenario("smoke", 4, "unbounded"))
    assert limit(found, ENCODER).outcome is Outcome.UNKNOWN
    assert limit(found, HOST).outcome is Outcome.UNKNOWN


def test_other_stages_that_fit_beside_the_engine_are_no_limit() -> None:
    assert limit(predict(scenario("minicpm-o", 30, "unbounded")), ENCODER).outcome is Outcome.NEVER
    assert limit(predict(scenario("minicpm-o", 300, "unbounded")), ENCODER).outcome is Outcome.UNKNOWN


def test_the_probability_of_collapse_goes_from_0_to_1_about_the_date() -> None:
    made = scenario("minicpm-o", 16, "unbounded", pool=Pool(438, 32))
    time = limit(predict(made), KV).time or 0.0

    def chance(duration: float) -> float:
        found = predict(replace(made, duration=duration)).chance
        assert found is not None
        return found.value

    assert chance(0.9 * time) < 0.05
    assert chance(time) == pytest.approx(0.5, abs=0.15)
    assert chance(1.1 * time) > 0.95


def test_sessions_that_have_talked_already_fill_the_pool_sooner_and_late_ones_later() -> None:
    made = scenario("minicpm-o-paper", 100, "unbounded")
    plain = limit(predict(made), KV).time or 0.0
    older = limit(predict(replace(made, ages=np.full(100, 60.0))), KV).time or 0.0
    later = limit(predict(replace(made, arrivals=np.full(100, 60.0))), KV).time or 0.0
    assert older == pytest.approx(plain - 60.0, abs=2.0)
    assert later == pytest.approx(plain + 60.0, abs=2.0)


def test_a_context_closed_in_turn_is_never_full_where_the_pool_holds_it() -> None:
    assert limit(predict(scenario("minicpm-o", 300, "recycle:1024")), KV).outcome is Outcome.NEVER
    assert limit(predict(scenario("minicpm-o", 700, "recycle:1024")), KV).outcome is Outcome.DATE


def test_sessions_that_hold_more_than_the_pool_already_are_too_many_at_once() -> None:
    made = scenario("minicpm-o-paper", 100, "unbounded", ages=np.full(100, 3_000.0))
    assert limit(predict(made), KV).time == 0.0


def test_a_prediction_is_json_without_nan() -> None:
    found = predict(scenario("qwen3-omni", 64, "unbounded", duration=60.0))
    assert msgspec.json.decode(msgspec.json.encode(found))["sessions"] == 64
    assert b"NaN" not in msgspec.json.encode(found)


def test_the_earliest_limit_is_the_first_that_has_a_time() -> None:
    kv, positions = Limit(KV, Outcome.DATE, "", 60.0), Limit(POSITIONS, Outcome.DATE, "", 50.0)
    assert earliest([kv, positions, Limit(HOST, Outcome.UNKNOWN, "")]) == positions
    assert earliest([Limit(KV, Outcome.NEVER, "")]) is None
