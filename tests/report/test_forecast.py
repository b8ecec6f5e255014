"""Forecasts in words."""

import pytest

from metrobench.predict.fit import Fit
from metrobench.predict.limits import Limit, Outcome
from metrobench.records import Forecast
from metrobench.report.forecast import answer, countdown, limits, noted, probability, when


def fit(time: float | None, why: str = "") -> Fit:
    ends = (None, None) if time is None else (0.9 * time, 1.2 * time)
    return Fit(100.0, 0.431, time, *ends, time, 13.0, 40, 20.0, why)


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "never"), (0.0, "now"), (-3.0, "now"), (33.42, "33.4 s"), (192.0, "3 min 12 s"), (4 * 86_400.0, "4 days")],
)
def test_a_time_ahead_is_said_as_people_do(value: float | None, words: str) -> None:
    assert when(value) == words


def test_a_countdown_says_what_is_left_with_its_interval() -> None:
    assert countdown(fit(400.0), 100.0, 8.0) == "kv 43.1 % · 8 sessions · full in 5 min (4 min 20 s to 6 min 20 s)"


def test_a_pool_that_is_full_is_full_now_and_one_that_stands_is_never() -> None:
    assert countdown(fit(90.0), 100.0, None) == "kv 43.1 % · full now"
    words = countdown(fit(None, "the gauge has stood at 43 % for 40 s"), 100.0, 8.0)
    assert words.endswith("never full at this load: the gauge has stood at 43 % for 40 s")


def test_no_probability_is_said_to_be_certain() -> None:
    assert [probability(value) for value in (0.0, 0.62, 1.0)] == ["under 0.1 %", "62.0 %", "over 99.9 %"]


def test_the_answer_names_the_earliest_limit_and_what_is_not_known() -> None:
    found = [
        Limit("KV pool", Outcome.DATE, "full", 60.0, 55.0, 65.0),
        Limit("positions", Outcome.DATE, "", 90.0),
        Limit("host memory", Outcome.UNKNOWN, "no formula"),
    ]
    assert answer(found) == ["collapse: 1 min (55 s to 1 min 5 s), by the KV pool (host memory: not known)"]
    assert answer(found[2:]) == ["collapse: never, by the limits that are known (host memory: not known)"]
    assert answer([Limit("KV pool", Outcome.POSSIBLE, "", 60.0)]) == ["collapse: possible from 1 min, by the KV pool"]


def test_every_limit_has_a_line_of_80_columns_at_most() -> None:
    lines = limits(
        [Limit("KV pool", Outcome.NEVER, "because of " + "long reasons " * 12), Limit("x", Outcome.UNKNOWN, "")]
    )
    assert len(lines) > 2
    assert max(map(len, lines)) <= 80


def test_forecasts_of_a_record_say_what_they_were_worth_or_why_there_is_none() -> None:
    found = [
        Forecast("none", "too few samples to tell", 0.25),
        Forecast("date", "", 0.5, 6.3, 0.52, 13.6, 12.9, 14.1, 0.011, 0.0205),
        Forecast("never", "the pool holds all sessions at their peak"),
    ]
    assert noted(found) == [
        "at 25 % full: too few samples to tell",
        "at 50 % full (6.3 s): full at 13.6 s (12.9 s to 14.1 s), 1.1 % of the onset off, 2.1 % of the time then left",
        "never full at this load: the pool holds all sessions at their peak",
    ]
